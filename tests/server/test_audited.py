"""An audited dataset over HTTP: made by its owner, asked, reviewed, attacked; pages beside it."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit.harness import PRIORS, SCHEMA, dealt, flipped, people
from server.console.page_client import PageClient, hidden, plain, text
from server.instance import made
from soak import some, times

import sulq
from sulq.audit.attacks import ATTACKS, crowd
from sulq.learn import ID3
from sulq.pipeline import Order
from sulq.server.console.schema_form import declared, packed

TERMS = {"epsilon": 1.0, "queries": 20, "mode": "audited", "independent_rows": True, "dither": 0}
CLASSES = TERMS | {"priors": {k: list(v) if isinstance(v, tuple) else v for k, v in PRIORS.items()},
                   "independent_columns": True}  # fmt: skip
DUAN = TERMS | {"rule": "duan"}
TOLD, TRIALS = times(4, 40), times(1, 20)
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """anna's server; each test makes datasets of its own, with bob invited."""
    with made(tmp_path_factory.mktemp("audited") / "instance").serving() as served:
        yield served


def create(instance, table, schema=SCHEMA, **terms):
    """Make a dataset over HTTP and invite bob; gives its name."""
    name = f"t{next(NUMBERS)}"
    table = table.replace_schema_metadata({"for": name})  # another file, whatever the rows are
    pq.write_table(table, instance.folder / "data" / f"{name}.parquet")
    body = {"name": name, "source": f"{name}.parquet", "schema": {"columns": schema}} | terms
    found = instance.call("POST", "/v1/datasets", body, "anna")
    assert found.status == 201, found.body
    assert instance.call("PUT", f"/v1/datasets/{name}/analysts/bob", None, "anna").status == 200
    return name


def connect(instance, name, who="bob"):
    return sulq.connect(instance.url, key=instance.keys[who], name=name)


@pytest.fixture(scope="module")
def asked(instance):
    """One dataset for those who only look or ask a little."""
    return create(instance, people(4000), **CLASSES | {"queries": 60})


# --- made and asked -----------------------------------------------------------------------------


def test_counts_are_exact_by_every_door(instance, asked):
    """/ask, /sql and the client give the exact count, each one of m; asked again it is free."""
    table, db = people(4000), connect(instance, asked)
    truth = sum(table["a"].to_pylist())
    before = db.budget.spent
    assert db.count("a").value == truth
    assert instance.ask("a", name=asked).json["answer"]["exact"] == [[str(truth)]]
    select = f"select count(*) as n from {asked} where a"
    found = instance.call("POST", f"/v1/datasets/{asked}/sql", {"sql": select}).json["table"]
    assert found["rows"][0]["n"] == truth
    assert db.sql(select)["n"] == [truth]
    assert db.budget.spent == before + 1
    assert "answered (exact) or refused" in str(db.promise)
    assert db.promise.priors.columns["a"][0].value is not None


def test_a_refusal_has_the_one_shape_and_counts(instance, asked):
    """403 AuditRefused, charged once, the same words again for nothing; 422 before a charge."""
    db = connect(instance, asked)
    db.count("a")
    before = db.budget.spent
    first, again = (instance.ask("a and id <> 17", name=asked) for _ in range(2))
    assert (first.status, first.error) == (403, "AuditRefused")
    assert first.json["error"]["charged"] is True
    assert again.json["error"]["charged"] is False
    assert "single out 1 row by id" in first.json["error"]["message"]
    assert again.json["error"]["message"] == first.json["error"]["message"]
    with pytest.raises(sulq.AuditRefused, match="single out 1 row by id"):
        db.count("a and id <> 17")
    assert db.budget.spent == before + 1
    for body in ({"values": ["x"]}, {"where": "x > 0.5"}):
        reply = instance.call("POST", f"/v1/datasets/{asked}/ask", {"query": body})
        assert (reply.status, reply.error) == (422, "QueryNotAllowed")
    with pytest.raises(sulq.QueryNotAllowed, match="counts only"):
        db.sum("x")
    reply = instance.call("POST", f"/v1/datasets/{asked}/estimate", {"query": {"where": "a"}})
    assert (reply.status, reply.error) == (422, "QueryNotAllowed")
    assert db.budget.spent == before + 1


def test_what_was_asked_says_its_verdict(instance, asked):
    """/answers has the sum or why it was refused; the owner's report has both, too."""
    instance.ask("b", name=asked)
    instance.ask("b and id <> 3", name=asked)
    lines = instance.call("GET", f"/v1/datasets/{asked}/answers").json["answers"]
    said = {line["question"]: line["answer"][0] for line in lines}
    assert said["count where b"]["values"] == [[sum(people(4000)["b"].to_pylist())]]
    assert "single out 1 row" in said["count where id <> 3 and b"]["refused"]
    report = instance.call("GET", f"/v1/datasets/{asked}/report?answers=true", None, "anna").json
    assert any("refused" in parts[0] for parts in report["answers"].values())
    assert report["promise"]["mode"] == "audited"


def test_m_is_one_for_everyone_and_outlives_a_restart(tmp_path):
    """m questions in all by two people, refused ones too; then 402; the same after a restart."""
    held = made(tmp_path / "instance")
    with held.serving() as instance:
        name = create(instance, people(4000), **CLASSES | {"queries": 3})
        seen = [instance.ask(w, who, name=name).status
                for w, who in (("a", "bob"), ("a and id <> 7", "anna"), ("c", "bob"))]  # fmt: skip
        assert seen == [200, 403, 200]
        spent = instance.ask("b", name=name)
        assert (spent.status, spent.error) == (402, "BudgetExceeded")
        assert "no question is left of the 3" in spent.json["error"]["message"]
        kept = instance.ask("a", name=name).json["answer"]["exact"]
    with held.serving() as instance:
        assert instance.ask("a", name=name).json["answer"]["exact"] == kept
        assert instance.ask("a and id <> 7", name=name).status == 403
        assert instance.ask("b", name=name).status == 402


def test_a_list_is_paid_whole_and_the_first_refusal_is_told(instance):
    """What could be answered of it is stored, and free when it is asked by itself."""
    name = create(instance, people(4000), **CLASSES)
    body = {"queries": [{"where": "a"}, {"where": "a and id <> 7"}, {"where": "c"}]}
    found = instance.call("POST", f"/v1/datasets/{name}/ask", body)
    assert (found.status, found.error) == (403, "AuditRefused")
    db = connect(instance, name)
    assert db.budget.spent == 3
    answers = db.ask([sulq.Query(where="a"), sulq.Query(where="c")])
    assert [a.value for a in answers] == [sum(people(4000)[c].to_pylist()) for c in "ac"]
    assert db.budget.spent == 3


def test_tables_and_models_over_http(instance):
    """Tables are judged whole by every door, and learners run through the client unchanged."""
    table = people(6000, seed=21)
    name, data = create(instance, table, **CLASSES | {"queries": 60}), table.to_pandas()
    db = connect(instance, name)
    found = db.crosstab(["a", "b"])
    exact = [((data.a == a) & (data.b == b)).sum() for a in (False, True) for b in (False, True)]
    assert found["count"] == exact
    assert db.budget.spent == 3
    body = {"query": sulq.Query(by=("a", "b")).to_json()}
    raw = instance.call("POST", f"/v1/datasets/{name}/ask", body).json["answer"]
    assert [int(row[0]) for row in raw["exact"]] == exact
    assert db.budget.spent == 3
    refused = instance.call(
        "POST", f"/v1/datasets/{name}/ask", {"query": {"by": "c", "where": "id <> 7 or a"}}
    )
    assert (refused.status, refused.error) == (403, "AuditRefused")
    tree = ID3(max_depth=1, prune=False).fit(db, columns=["a", "b"], label="c")
    assert tree.node_counts_[0].sum() == 6000
    assert db.review([sulq.Query(by=("a", "c")), "a and id <> 7"]).findings[0].ok


@pytest.mark.parametrize(
    "terms",
    [
        {"priors": None}, {"independent_rows": False}, {"priors": {"a": 2}}, {"known": 1.0},
        {"priors": {"nobody": 0.5}}, {"priors": {"id": 0.5}}, {"rule": "duan"}, {"dither": -1},
        {"mode": "noise"}, {"noise": "laplace"}, {"simulate": "../secret.parquet"},
    ],
)  # fmt: skip
def test_terms_that_cannot_be_kept_are_refused(instance, terms):
    """422 with the reason, and nothing is made."""
    name = f"t{next(NUMBERS)}"
    pq.write_table(people(50, seed=next(NUMBERS)), instance.folder / "data" / f"{name}.parquet")
    body = {"name": name, "source": f"{name}.parquet", "schema": {"columns": SCHEMA}}
    found = instance.call("POST", "/v1/datasets", body | CLASSES | terms, "anna")
    assert (found.status, instance.call("GET", f"/v1/datasets/{name}", None, "anna").status) == (
        422, 404,
    )  # fmt: skip


def test_refresh_is_refused(instance, asked):
    """Exact sums before and after a change would tell the rows that changed."""
    found = instance.call("POST", f"/v1/datasets/{asked}/refresh", {"reason": "June"}, "anna")
    assert found.status == 409
    assert "audited answers are exact" in found.json["error"]["message"]
    assert instance.ask("a", name=asked).status == 200


# --- reviewed -----------------------------------------------------------------------------------


def test_a_list_is_reviewed_beforehand(instance, asked):
    """The same findings as in the library; nothing is charged, and analysts may."""
    db = connect(instance, asked)
    before = db.budget.spent
    found = db.review(["a", sulq.Query(where="c"), "a and id <> 17", "a >", "select count(*)"
                       f" from {asked} where b"])  # fmt: skip
    assert [f.ok for f in found] == [True, True, False, False, True]
    assert found.findings[2].kind == "too few alike"
    assert sulq.audit.review(["a"], db).findings[0].ok
    assert db.budget.spent == before
    with pytest.raises(sulq.Refused, match="a list of them"):
        db.review("a")
    noisy = connect(instance, "people")
    with pytest.raises(sulq.Refused, match="mode='audited'"):
        noisy.review(["secret"])


def test_a_review_that_reads_rows_is_for_the_owner(instance, tmp_path):
    """rule="duan" judges from the rows; with a public sample it does not, and analysts may."""
    name = create(instance, people(4000), **DUAN | {"epsilon": 4.0, "queries": 4})
    body = {"queries": ["c", "not c"]}
    seen = instance.call("POST", f"/v1/datasets/{name}/review", body)
    assert (seen.status, seen.error) == (403, "NotPermitted")
    own = instance.call("POST", f"/v1/datasets/{name}/review", body, "anna").json
    assert [f["kind"] for f in own["findings"]] == ["", "correlated"]
    assert instance.ask("c", name=name).status == 200
    assert instance.ask("c", name=name).error == "AuditRefused"  # the paper refuses it again
    pq.write_table(people(1000, seed=77), instance.folder / "data" / "sample.parquet")
    terms = DUAN | {"epsilon": 6.0, "simulate": "sample.parquet"}
    sampled = create(instance, people(4000, seed=5), **terms)
    assert instance.call("POST", f"/v1/datasets/{sampled}/review", body).status == 200
    assert instance.call("DELETE", "/v1/files/sample.parquet", None, "anna").status != 200


# --- attacked -----------------------------------------------------------------------------------


def trial(instance, name, seed, **terms):
    """One attack over HTTP on one row of a fresh table: was the guess right, or who stopped it?"""
    rng, rows = np.random.default_rng(seed), 2000
    modulus = int(name.split()[-1]) if name.startswith("residue") else 2
    secrets, kinds = rng.random(rows) < 0.5, dealt(rng, rows, modulus + 2)
    table, schema = crowd(rows, secrets, kinds, rng.random(rows))
    if terms.get("rule") != "duan":
        each = {str(k): 1 / (modulus + 2) for k in range(modulus + 2)}
        terms |= {"priors": {"secret": 0.5, "kind": each}, "independent_columns": True}
    made = create(
        instance, table, schema, **TERMS | {"epsilon": 3.0, "queries": modulus + 1} | terms
    )
    db, who = connect(instance, made), int(rng.integers(0, rows))
    try:
        return ATTACKS[name](db, who) == bool(secrets[who])
    except sulq.Refused as refusal:
        return type(refusal).__name__


@pytest.mark.parametrize("name", some(ATTACKS, 4))
def test_the_attacks_fail_over_http(instance, name):
    """Refused every time by the default rule; by the paper's bare rule every secret is told."""
    stops = {"low-order digits": {"QueryNotAllowed"}, "a refusal": {True, False}}
    found = {trial(instance, name, seed) for seed in range(TRIALS)}
    assert found <= stops.get(name, {"AuditRefused"})
    control = [trial(instance, name, seed, rule="duan") for seed in range(TRIALS)]
    assert control == [True] * TRIALS


CLINIC = {
    "id": {"key": True, "type": "integer", "low": 0, "high": 10**6},
    "diabetic": {"type": "boolean", "nullable": False},
    "insulin": {"type": "boolean", "nullable": False},
}
JOINT = {
    "diabetic, insulin": {
        "true, true": [0.08, 0.12], "true, false": [0, 0.001], "false, true": [0, 0.001],
    }
}  # fmt: skip
MARGINS = {"diabetic": [0.08, 0.12], "insulin": [0.08, 0.12]}


def correlated(instance, seed, **terms):
    """insulin is diabetic for all but perhaps one: was that told, or in which words refused?"""
    rng, n = np.random.default_rng(seed), 20_000
    diabetic = rng.random(n) < 0.1
    who, secret = int(np.flatnonzero(~diabetic)[0]), bool(rng.random() < 0.5)
    insulin = diabetic.copy()
    insulin[who] = secret
    table = pa.table({"id": np.arange(n), "diabetic": diabetic, "insulin": insulin})
    name = create(instance, table, CLINIC, **TERMS | {"queries": 3} | terms)
    try:
        return (connect(instance, name).count("insulin and not diabetic").value == 1) == secret
    except sulq.AuditRefused as refusal:
        return str(refusal).split("\n")[0]


def test_joint_priors_close_the_correlated_columns_attack(instance):
    """0 of 4 told (of 40 in soak) with a true joint prior, and with margins that claim nothing."""
    for terms in ({"priors": JOINT}, {"priors": MARGINS}):
        (said,) = {correlated(instance, seed, **terms) for seed in range(TOLD)}
        assert "too rare to hide" in said


def test_control_without_them_every_secret_is_told(instance):
    """4 of 4 (40 of 40 in soak) where independence is claimed falsely and there is no dither."""
    terms = {"priors": MARGINS, "independent_columns": True}
    assert [correlated(instance, s, **terms) for s in range(TOLD)] == [True] * TOLD


def test_twins_are_answered_and_refused_alike(instance):
    """Tables that differ in one private bit: the same statuses, words, budgets and charges."""
    table, row = people(1500), 700
    seen = []
    for twin in (table, flipped(table, row)):
        name = create(instance, twin, **CLASSES | {"queries": 6, "dither": 2})
        replies = [instance.ask(w, name=name) for w in (
            "a", f"a and id <> {row}", f"c xor (id = {row} and a)", "b", "region = 'north' and a",
            "c", "a and b",
        )]  # fmt: skip
        words = [(r.status, r.json.get("error", {}).get("message", "").replace(name, "")
                  ) for r in replies]  # fmt: skip
        budget = instance.call("GET", f"/v1/datasets/{name}/budget").json
        seen.append((words, budget))
    assert seen[0] == seen[1]
    assert {status for status, _ in seen[0][0]} == {200, 402, 403}


@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_two_that_may_not_both_be_answered_never_are(instance, seed):
    """Sent at once by two people, into one batch: verdicts follow the ledger's order."""
    name = create(instance, people(4000, seed=100 + seed), **CLASSES)
    pairs = [("a", "a and id <> 7"), ("b xor (id = 9 and a)", "b"), ("c or id = 3", "c")]
    at_once = threading.Barrier(2 * len(pairs))

    def ask(where, who):
        at_once.wait()
        return instance.ask(where, who, name=name).status

    with ThreadPoolExecutor(2 * len(pairs)) as threads:
        both = [[threads.submit(ask, w, p) for w, p in zip(pair, ("anna", "bob"), strict=True)]
                for pair in pairs]  # fmt: skip
        found = [sorted(one.result() for one in pair) for pair in both]
    assert all(pair in ([200, 403], [403, 403]) for pair in found)
    assert [200, 403] in found


# --- when replies leave -------------------------------------------------------------------------


def test_answers_and_refusals_keep_one_time(instance, asked):
    """Verdicts are there before rows are timed, and nothing is stored before that time is over."""
    with made(instance.folder.parent / "timed").services() as services:
        anna = services.people.owner("anna")
        path = services.settings.folder / "data" / "timed.parquet"
        pq.write_table(people(3000, seed=8), path)
        terms = CLASSES | {"source": str(path), "schema": {"columns": SCHEMA}, "queries": 40}
        db = services.datasets.opened(services.datasets.create(anna, "timed", terms)).db
        policy, seen = db._pipeline.policy, []

        class Watch:
            def begin(self, known):
                judged = policy._verdicts._verdicts
                seen.append(("begin", sorted(v.ok for v in judged.values())))

            def end(self):
                seen.append(("end", [db._ledger.find(c.query)[1] for c in db.history()]))

        db.count("c")
        orders = [Order(db.question(sulq.Query(where=w))) for w in ("a", "c and id <> 9")]
        one, two = db.answer_all(orders, timing=Watch())
        assert (one.value > 0, type(two).__name__) == (True, "AuditRefused")
        assert seen[0] == ("begin", [False, True, True])
        assert [x is None for x in seen[1][1]] == [False, True, True]


@pytest.mark.parametrize("late", ["retry", "noise"])
def test_on_the_beat(tmp_path, late):
    """With padding, the client gets exact answers and refusals; never noise in their place."""
    terms = {"padding": True, "deadline_seconds": 0.2, "late": late, "random_delay": True}
    with made(tmp_path / "instance").serving(**terms) as instance:
        name = create(instance, people(3000), **CLASSES)
        described = instance.call("GET", f"/v1/datasets/{name}").json
        assert (described["late"], described["promise"]["rule"]) == ("retry", "classes")
        db = connect(instance, name)
        assert db.count("a").value == sum(people(3000)["a"].to_pylist())
        with pytest.raises(sulq.AuditRefused):
            db.count("a and id <> 9")


def test_measured_periods(tmp_path):
    """Padding as measured on made-up rows, for both rules: a price has its slot, answers come."""
    with made(tmp_path / "instance").serving(padding=True) as instance:
        for terms in (CLASSES, DUAN | {"queries": 2, "epsilon": 6.0}):
            name = create(instance, people(3000, seed=next(NUMBERS)), **terms)
            body = {"query": {"where": "c"}}
            price = instance.call("POST", f"/v1/datasets/{name}/price", body).json
            assert price["price_micro"] == 1_000_000
            assert price["deadline_seconds"] > 0
            assert connect(instance, name).count("c").value > 0


# --- pages --------------------------------------------------------------------------------------


def test_an_owner_makes_one_on_a_page(instance):
    """The form for terms: what is missing is said and kept; then it is made."""
    anna, name = PageClient(instance, "anna"), f"t{next(NUMBERS)}"
    pq.write_table(
        people(2000, seed=31).select(["id", "a"]), instance.folder / "data" / f"{name}.parquet"
    )
    filled = declared({"columns": {n: SCHEMA[n] for n in ("id", "a")}})
    onward = {"name": name, "source": f"{name}.parquet", "columns": "2", "rest": packed(filled)}
    offered = anna.post("/console/new/promise", onward)
    assert 'formaction="/console/new/audited"' in text(offered)
    first = anna.post("/console/new/audited", onward)
    assert "Exact counts or refusals" in plain(first)
    assert '# "a" = [0, 1]' in plain(first)
    terms = {"audited": "yes", "make": "yes", "epsilon": "1", "delta": "1e-6", "queries": "5",
             "rule": "classes", "dither": "0", "known": "0.5",
             "priors": "a = [0.2, 0.4]"}  # fmt: skip
    for wrong, said in (({}, "independent_rows=True"), ({"priors": "a ="}, "not valid TOML"),
                        ({"queries": "many"}, "queries='many': want a number")):  # fmt: skip
        missing = anna.post("/console/new/audited", onward | terms | wrong)
        assert missing.status == 422
        assert said in plain(missing)
    assert "a = [0.2, 0.4]" in plain(anna.post("/console/new/audited", onward | terms))
    assert PageClient(instance, "bob").post("/console/new/audited", onward | terms).status == 403
    done = anna.post("/console/new/audited", onward | terms | {"independent_rows": "on"})
    assert done.status == 303, plain(done)
    assert "answered (exact) or refused" in plain(anna.get(f"/console/datasets/{name}"))


def test_verdicts_and_review_have_pages(instance, asked):
    """An analyst reads each verdict with its reason, and reviews a list; every other page works."""
    bob = PageClient(instance, "bob")
    instance.ask("c", name=asked)
    instance.ask("c and id <> 11", name=asked)
    page = plain(bob.get(f"/console/datasets/{asked}/verdicts"))
    assert "count where c answered" in page
    assert "count where id <> 11 and c refused this would single out 1 row by id" in page
    found = bob.post(f"/console/datasets/{asked}/review", {"queries": "a\n\na and id <> 17\n"})
    assert "1 of 2 could be answered together under rule classes" in plain(found)
    many = bob.post(f"/console/datasets/{asked}/preview", {"kind": "sql", "sql": f"select count(*) "
                    f"from {asked} where b"})  # fmt: skip
    assert "Price" in plain(many)
    assert "if it is answered" in plain(many)
    lines = instance.call("GET", f"/v1/datasets/{asked}/answers").json["answers"]
    number = next(x["number"] for x in lines if x["question"] == "count where id <> 11 and c")
    assert "Refused by the auditor" in plain(bob.get(f"/console/datasets/{asked}/answers/{number}"))
    anna = PageClient(instance, "anna")
    for path in ("", "/ask", "/guided", "/answers", "/owner", "/people", "/timeline", "/schema",
                 "/report", "/verdicts", "/review", "/models"):  # fmt: skip
        assert anna.get(f"/console/datasets/{asked}{path}").status == 200, path


def test_a_question_is_paid_for_on_a_page(instance):
    """Priced, paid, answered; a refusal stands above the form and says that it was charged."""
    name = create(instance, people(3000, seed=3), **CLASSES)
    bob = PageClient(instance, "bob")
    for where, status in (("a", 303), ("a and id <> 5", 403)):
        asked = {"kind": "sql", "sql": f"select count(*) from {name} where {where}"}
        price = bob.post(f"/console/datasets/{name}/preview", asked)
        fields = asked | {n: hidden(price, n) for n in ("request", "price")}
        paid = bob.post(f"/console/datasets/{name}/pay", fields)
        assert paid.status == status, plain(paid)
    assert "single out 1 row by id" in plain(paid)
    assert connect(instance, name).budget.spent == 2
