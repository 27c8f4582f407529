"""One question, one canonical form: what means the same is paid once, what differs is paid twice.

A predicate is drawn as a small tree and written down twice, each time in another spelling, then
asked in two ways: Python, SQL, HTTP or a form. Noise is silent, so the answers are exact and are
compared with the predicate's truth on the rows, missing values included.
"""

import random
import zipfile
from fractions import Fraction
from itertools import count as numbers_from
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from attacks.harness import Silent, opened
from server.instance import made
from soak import times

import sulq
from sulq import Bins, Mean, Query, Rows, Sums
from sulq.expressions import normal_form as normal
from sulq.expressions.parse import predicate
from sulq.kernel.batch import Batch
from sulq.server.console.question_form import FilledForm
from sulq.values.query import Terms
from sulq.values.schema import Schema

SCHEMA = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south", "east"], "public": True},
    "b": {"type": "boolean"},
    "c": {"type": "boolean", "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "hours": {"type": "integer", "low": 0, "high": 5000},
    "income": {"type": "number", "low": 0, "high": 1000},
    "sex": {"values": ["F", "M", "X"]},
}
FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
NEG = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
STEP = {">": (">=", 1), "<": ("<=", -1), ">=": (">", -1), "<=": ("<", 1)}
WHOLE = ("age", "hours")
PAIRS = times(170, 520)


def table(n=400, seed=3):
    """Rows with missing values, values at both ends, and some that were not declared."""
    rng = random.Random(seed)

    def maybe(draw):
        return [None if rng.random() < 0.15 else draw() for _ in range(n)]

    return pa.table(
        {
            "id": list(range(n)),
            "region": pa.array(maybe(lambda: rng.choice(["north", "south", "east", "mars"]))),
            "b": pa.array(maybe(lambda: rng.random() < 0.5)),
            "c": pa.array([rng.random() < 0.4 for _ in range(n)]),
            "age": pa.array([rng.choice([0, 120, rng.randrange(121)]) for _ in range(n)]),
            "hours": pa.array(maybe(lambda: rng.randrange(5001))),
            "income": pa.array(maybe(lambda: rng.choice([0.0, 1000.0, rng.randrange(1001) * 1.0]))),
            "sex": pa.array(maybe(lambda: rng.choice(["F", "M", "X", "?"]))),
        }
    )


# ---- predicates as trees, written in many ways ----------------------------------------------


def drawn(rng, depth=2):
    """A predicate: ("is", column), ("cmp", column, sign, constant), ("in", ...), and, or, not."""
    if depth == 0 or rng.random() < 0.3:
        kind = rng.choice(["is", "cmp", "cmp", "range", "in"])
        if kind == "is":
            return "is", rng.choice("bc")
        if kind == "in":
            return "in", "sex", tuple(rng.sample(["F", "M", "X"], rng.choice([1, 2])))
        column = rng.choice(["age", "hours", "income"])
        top = {"age": 110, "hours": 4900, "income": 990}[column]
        low = rng.randrange(2, top)
        if kind == "range":
            return "range", column, low, rng.randrange(low + 1, top + 1)
        return "cmp", column, rng.choice(["<", "<=", ">", ">="]), low
    kind = rng.choice(["and", "or", "and", "or", "not"])
    if kind == "not":
        return "not", drawn(rng, depth - 1)
    return kind, drawn(rng, depth - 1), drawn(rng, depth - 1)


def written(rng, tree, *, under_not=False):
    """One spelling of a tree; under NOT only those that are missing where it is missing."""
    kind = tree[0]
    if kind == "is":
        b = tree[1]
        forms = [
            b,
            f"{b} = 1",
            f"{b} = true",
            f"not not {b}",
            f"not ({b} = false)",
            f"{b} <> false",
        ]
        forms += [] if under_not else [f"{b} is true", f"coalesce({b}, false)"]
        return f"({rng.choice(forms)})"
    if kind == "cmp":
        return f"({_compared(rng, *tree[1:])})"
    if kind == "range":
        x, low, high = tree[1:]
        forms = [f"{x} between {low} and {high}", f"{x} >= {low} and {high} >= {x}",
                 f"not ({x} < {low} or {x} > {high})"]  # fmt: skip
        if x in WHOLE:
            forms.append(f"{x} > {low - 1} and {x} < {high + 1}")
        return f"({rng.choice(forms)})"
    if kind == "in":
        x, values = tree[1:]
        values = rng.sample(values, len(values))
        quoted = [f"'{v}'" for v in values]
        forms = [f"{x} in ({', '.join(quoted)})", " or ".join(f"{x} = {q}" for q in quoted),
                 "not (" + " and ".join(f"{q} <> {x}" for q in quoted) + ")"]  # fmt: skip
        return f"({rng.choice(forms)})"
    if kind == "not":
        return f"(not {written(rng, tree[1], under_not=True)})"
    parts = [tree[1], tree[2]]
    rng.shuffle(parts)
    if rng.random() < 0.3:  # de Morgan holds for missing values too
        other = {"and": "or", "or": "and"}[kind]
        inner = f" {other} ".join(f"(not {written(rng, p, under_not=True)})" for p in parts)
        return f"(not ({inner}))"
    return "(" + f" {kind} ".join(written(rng, p, under_not=under_not) for p in parts) + ")"


def _compared(rng, x, sign, constant):
    forms = [f"{x} {sign} {constant}", f"{constant} {FLIP[sign]} {x}",
             f"not {x} {NEG[sign]} {constant}", f'"{x}" {sign} {constant}.0']  # fmt: skip
    if x in WHOLE:
        other, step = STEP[sign]
        forms.append(f"{x} {other} {constant + step}")
    return rng.choice(forms)


# ---- ways to ask -----------------------------------------------------------------------------


def counts(p):
    """Ways to count the rows where a predicate holds."""
    return [
        lambda db: db.count(p),
        lambda db: db.sum(p),
        lambda db: db.sum(f"case when {p} then 1 else 0 end"),
        lambda db: db.ask(Query(["1"], where=p)),
        lambda db: db.ask([Query([p])])[0],
        lambda db: db.ask(Query(Terms((p,)))),
        lambda db: db.ask(Query.from_json(Query(where=p).to_json())),
        lambda db: db.sql(f"select count(*) from t where {p}"),
        lambda db: db.sql(f"SELECT COUNT(*) AS n FROM t AS x WHERE {p}"),
        lambda db: db.sql(f"select count(*) filter (where {p}) as n from t"),
        lambda db: db.sql(f"select count_if({p}) as n from t"),
        lambda db: db.sql(f"select sum(case when {p} then 1 end) as n from t"),
        lambda db: db.sql(f"select count(case when {p} then 1 end) as n from t"),
        lambda db: db.sql(f"with s as (select * from t where {p}) select count(*) from s"),
    ]


def sums(p):
    """Ways to sum a column over the rows where a predicate holds."""
    return [
        lambda db: db.sum("income", p),
        lambda db: db.ask(Query(["income"], where=p)),
        lambda db: db.sum(f"case when {p} then income end"),
        lambda db: db.sql(f"select sum(income) from t where {p}"),
        lambda db: db.sql(f"select sum(t.income) filter (where {p}) as s from t"),
        lambda db: db.sql(f"select sum(case when {p} then income end) as s from t"),
    ]


def means(p):
    """Ways to average a column over the rows where a predicate holds."""
    return [
        lambda db: db.mean("income", p),
        lambda db: db.sql(f"select avg(income) from t where {p}"),
        lambda db: db.sql(f"select mean(income) as m from t where {p}"),
        lambda db: db.sql(f"select avg(INCOME) filter (where {p}) as m from t"),
    ]


def histograms(p):
    """Ways to count by a private column."""
    return [
        lambda db: db.histogram("sex", where=p),
        lambda db: db.crosstab(["sex"], p),
        lambda db: db.ask(Query(by=("sex",), where=p)),
        lambda db: db.sql(f"select sex, count(*) from t where {p} group by sex"),
        lambda db: db.sql(f"select count(*) filter (where {p}) as n, sex as s from t group by 2"),
    ]


def crosstabs(p):
    """Ways to count by two columns."""
    return [
        lambda db: db.crosstab(["region", "sex"], p),
        lambda db: db.sql(f"select region, sex, count(*) from t where {p} group by region, sex"),
        lambda db: db.ask(Query(by=["region", "sex"], where=p)),
    ]


KINDS = {"count": counts, "sum": sums, "mean": means, "histogram": histograms, "tab": crosstabs}


def numbers(found):
    """The numbers of an answer or a table, whatever it calls them."""
    if isinstance(found, sulq.Answer):
        return [float(x) for i, row in enumerate(found.exact) if i not in found.ruled_out
                for x in row]  # fmt: skip
    return [x for name in found.numbers for x in found[name]]


def paid(db, ask):
    """What a question costs, and its numbers."""
    before = db.budget.spent
    found = ask(db)
    return db.budget.spent - before, numbers(found)


@pytest.fixture(scope="module")
def db():
    return opened(table(), SCHEMA, Silent(), queries=10**6, name="t")


@pytest.fixture(scope="module")
def rows():
    declared, drawn_rows = Schema.load(SCHEMA), table()
    return Batch({n: drawn_rows[n] for n in drawn_rows.column_names}, len(drawn_rows), declared)


def pairs(rng, schema):
    """Predicates that no one has asked about yet, each in two spellings, with the tree."""
    seen = set()
    while True:
        tree = drawn(rng)
        one, two = written(rng, tree), written(rng, tree)
        split = normal.split(predicate(one, schema), schema)
        if split.where is None or split in seen:
            continue
        seen.add(split)
        yield tree, one, two


def test_equivalent_questions_are_paid_once(db, rows):
    """170 pairs (520 in soak) in two spellings and ways: the second is free and gives the same."""
    rng = random.Random(11)
    source = pairs(rng, db.schema)
    for i in range(PAIRS):
        _, one, two = next(source)
        kind = rng.choice(["count", "count", "count", *KINDS])
        first, second = rng.choice(KINDS[kind](one)), rng.choice(KINDS[kind](two))
        price, found = paid(db, first)
        again, same = paid(db, second)
        assert price > 0, (i, kind, one)
        assert again == 0, (i, kind, one, two)
        if None not in (*found, *same):  # NULL in SQL: too noisy to say
            assert found == pytest.approx(same, abs=1e-6, nan_ok=True), (i, kind, one, two)
        if kind == "count":
            assert found == [rows.true(predicate(two, db.schema)).sum()], (one, two)
        rows._known.clear()


def changed(rng, tree):
    """The tree with one thing changed, so that it is true of other rows."""
    kind = tree[0]
    if kind == "is":
        return "is", {"b": "c", "c": "b"}[tree[1]]
    if kind == "cmp":
        _, x, sign, constant = tree
        return rng.choice([("cmp", x, sign, constant + 2), ("cmp", x, NEG[sign], constant)])
    if kind == "range":
        return (*tree[:2], tree[2] - 1, tree[3])
    if kind == "in":
        kept = {"F", "M", "X"} - set(tree[2])
        return "in", "sex", tuple(sorted(kept))
    if kind == "not":
        return rng.choice([tree[1], ("not", changed(rng, tree[1]))])
    at = rng.choice([1, 2])
    inner = changed(rng, tree[at])
    return (kind, inner, tree[2]) if at == 1 else (kind, tree[1], inner)


def every_row():
    """Rows enough to tell predicates apart: each combination of what matters, and missing ones."""
    rng = np.random.default_rng(5)
    n = 20_000
    missing = {c: rng.random(n) < 0.1 for c in ("b", "hours", "income", "sex")}

    def known(name, values):
        return pa.array(values, mask=missing.get(name))

    return {
        "b": known("b", rng.random(n) < 0.5),
        "c": pa.array(rng.random(n) < 0.5),
        "age": pa.array(rng.integers(0, 121, n)),
        "hours": known("hours", rng.integers(0, 5001, n)),
        "income": known("income", rng.integers(0, 1001, n) * 1.0),
        "sex": known("sex", rng.choice(np.array(["F", "M", "X"], dtype=object), n)),
    }


def test_questions_that_differ_in_one_thing_are_paid_twice(db):
    """As many pairs of predicates true of different rows: each has its own price and sum."""
    rng = random.Random(12)
    many = every_row()
    batch = Batch(many, len(many["c"]), db.schema)
    source = pairs(rng, db.schema)
    asked = {c.query for c in db.history()}  # by the other test
    seen, done = set(), 0
    while done < PAIRS:
        tree, one, _ = next(source)
        two = written(rng, changed(rng, tree))
        truths = [batch.true(predicate(p, db.schema)) for p in (one, two)]
        batch._known.clear()
        forms = [normal.truth(predicate(p, db.schema), db.schema).text for p in (one, two)]
        if (truths[0] == truths[1]).all():  # the change was swallowed: a or (a and x)
            continue
        assert forms[0] != forms[1], (one, two)
        if not seen.isdisjoint(forms) or {"b:0", "b:1"} & set(forms):
            continue
        seen |= set(forms)
        for p in (one, two):
            text = db.question(Query(where=p)).bundles[0].text
            price, _ = paid(db, rng.choice(counts(p)))
            assert (price == 0) == (text in asked), (one, two)
            asked.add(text)
        done += 1
    assert asked == {c.query for c in db.history()}


FRESH = numbers_from(1)


def over(values=("1",), more="hours > {}", **said):
    """A query over the rows where `more` holds of a constant."""
    return lambda k: Query(values, where=more.format(k), **said)


DIFFERENT = [
    (over(), over(error=50)),
    (over(error=50), over(error=51)),
    (over(["income"]), over(["hours"])),
    (over(["income"]), over(Mean("income"))),
    (over(Mean("b")), over(Mean("coalesce(b, false)"))),
    (over(Mean("b or not b or age > 3")), over(Mean("b is not null or age > 3"))),
    (over(by="sex"), over(by="b")),
    (over(by="b"), over(by="coalesce(b, false)")),
    (over(by=Bins("age", [0, 50, 120])), over(by=Bins("age", [0, 51, 120]))),
    (over(rows=Rows.sample(1, 0.5)), over(rows=Rows.sample(2, 0.5))),
    (over(rows=Rows.blocks(1, 5)), over(rows=Rows.blocks(1, 6))),
    (over(), over(more="hours > {} and region = 'north'")),
    (over(more="hours > {} or b"), over(more="hours > {} or b is not false")),
    (over(more="hours > {} and not b"), over(more="hours > {} and b is not true")),
    (over(more="hours <> {}"), over(more="hours <> {} or hours is null")),
    (over(more="income > {}"), over(more="income >= {}")),
    (over(Sums(["age"])), over(Sums(["age"]), weights=[1, 2])),
    (over(["income", "age"]), over(["income"])),
]


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_every_part_of_a_question_counts(db, number):
    """Error, values, groups, samples, and where something is missing: each makes another."""
    first, second = DIFFERENT[number]
    for _ in range(3):
        k = 5 * next(FRESH) + 1  # 900 at most
        texts = [db.question(q(k)).bundles[0].text for q in (first, second)]
        before = len(db.history())
        for q in (first, second):
            db.ask(q(k))
        asked_before = {c.query for c in db.history()[:before]}
        assert texts[0] != texts[1]
        new = [t for t in texts if t not in asked_before]
        assert [c.query for c in db.history()[before:]] == new


# ---- other doors ----------------------------------------------------------------------------


def form(p):
    """A guided form with these conditions: (column, test, value)."""
    fields = [("kind", "count")]
    for i, parts in enumerate(p):
        fields += [(f"{name}{i}", value) for name, value in zip("cov", parts, strict=True)]
    return FilledForm(tuple(fields))


FORMS = [
    ([("b", "eq", "yes")], "b"),
    ([("b", "ne", "no")], "b = 1"),
    ([("age", "gt", "40")], "age >= 41"),
    ([("age", "ge", "20"), ("age", "le", "30")], "age between 20 and 30"),
    ([("sex", "ne", "F")], "sex in ('X', 'M')"),
    ([("income", "known", "")], "income is not null"),
    ([("region", "eq", "north"), ("b", "eq", "no")], "not (b or region <> 'north')"),
]


@pytest.mark.parametrize(("fields", "p"), FORMS, ids=lambda x: str(x)[:30])
def test_a_form_asks_what_sql_asks(fields, p):
    """What a guided form asks, a SELECT and a call ask for nothing more."""
    db = opened(table(), SCHEMA, Silent(), queries=1000, name="t")
    price, found = paid(db, lambda db: db.answer(db.question(form(fields).question(db))))
    assert price > 0
    for again in counts(p):
        assert paid(db, again) == (0, found)


HTTP = [
    ("secret", "secret = true", "not (secret <> true)"),
    ("age > 40", "age >= 41", "not age <= 40"),
    ("age between 20 and 30", "age >= 20 and age < 31", "30 >= age and not age < 20"),
    ("income > 5 and secret", "secret and income > 5.0", "not (not secret or income <= 5)"),
]


def test_http_asks_what_python_asks(tmp_path):
    """A query in JSON, a list of one, a SELECT and the client pay once for one question."""
    with made(tmp_path / "instance", queries=1000).serving() as instance:
        there = sulq.connect(instance.url, key=instance.keys["bob"], name="people")
        for spellings in HTTP:
            spent = []
            for way in ways_over_http(instance, there, *spellings):
                before = there.budget.spent
                way()
                spent.append(there.budget.spent - before)
            assert spent == [1, 0, 0, 0, 0, 0], spellings


def ways_over_http(instance, there, one, two, three):
    """The same count in JSON, in a list, as SQL and by the client."""
    at = "/v1/datasets/people/"
    sql = f"select count(*) from people where {two}"
    return [
        lambda: instance.call("POST", at + "ask", {"query": {"where": one}}),
        lambda: instance.call("POST", at + "ask", {"query": {"values": [two]}}),
        lambda: instance.call("POST", at + "ask", {"queries": [{"where": three}]}),
        lambda: instance.call("POST", at + "sql", {"sql": sql}),
        lambda: there.count(three),
        lambda: there.sql(f"select count_if({one}) as n from people"),
    ]


# ---- a ledger from before -------------------------------------------------------------------

BEFORE = Path(__file__).parents[1] / "fixtures" / "first_form.zip"
EARLIER = {
    "people": {
        "id": {"type": "integer", "key": True},
        "region": {"values": ["north", "south"], "public": True},
        "smoker": {"type": "boolean"},
        "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
        "income": {"type": "number", "low": 0, "high": 1000},
    }
}


@pytest.fixture
def before(tmp_path):
    """A ledger that version 0.1 wrote (make.py in the archive), and what it answered then."""
    import json

    with zipfile.ZipFile(BEFORE) as archive:
        archive.extractall(tmp_path)
    kept = json.loads((tmp_path / "before.json").read_text(encoding="utf-8"))
    with sulq.open(
        tmp_path / "people.csv", EARLIER["people"], epsilon=1.0, delta=1e-6, queries=100,
        ledger=tmp_path / "before.ledger", name="people",
    ) as db:  # fmt: skip
        assert db.budget.spent == Fraction(kept["spent"])
        yield db, kept["answers"]


SAME = {
    "smoker": lambda db: db.count("smoker"),
    "age between": lambda db: db.sum("age between 20 and 30"),
    "sql avg": lambda db: db.sql(
        "select region, count(*), avg(age) from people group by region"
    ),
    "sql sums": lambda db: db.sql(
        "select sum(income), sum(age), count(*) from people where smoker"
    ),
    "mean": lambda db: db.mean("income", "smoker"),
    "sample": lambda db: db.count("smoker", rows=Rows.sample(3, 0.5)),
    "histogram": lambda db: db.histogram("smoker"),
}  # fmt: skip


def _told(body, marks=None):
    """The numbers of a stored answer or table, but for those that are too noisy to say."""
    if "rows" in body:
        vague = (marks or body).get("too_noisy", {})
        return [
            x
            for i, row in enumerate(body["rows"])
            for name, x in row.items()
            if isinstance(x, float) and not (name in vague and vague[name][i])
        ]
    return body["exact"]


def test_what_was_paid_for_before_is_free(before):
    """Every question of an old ledger costs nothing and gives its old numbers.

    But for sums of several columns: those leave rows with missing values out since, so they are
    other questions.
    """
    db, then = before
    for name, ask in SAME.items():
        spent = db.budget.spent
        now = ask(db).to_json()
        assert _told(now) == _told(then[name], now), name
        assert db.budget.spent == spent, name
    assert db.verify() > 0


def test_where_two_old_charges_became_one_question_the_first_answer_stands(before):
    """Other spellings find the first of the old charges; what is new is charged."""
    db, then = before
    spent = db.budget.spent
    first = Fraction(then["smoker"]["exact"][0][0])
    assert first != Fraction(then["smoker = true"]["exact"][0][0])
    for p in ("smoker = true", "smoker", "smoker is true", "not (smoker = false)"):
        assert db.count(p).exact[0][0] == first
    (found,) = db.sql("select count(*) as n from people where age >= 20 and age < 31")["n"]
    assert found == float(Fraction(then["age between"]["exact"][0][0]))
    assert db.budget.spent == spent
    db.count("age > 77")
    assert db.budget.spent == spent + 1
