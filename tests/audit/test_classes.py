"""rule="classes": what is answered, what is refused and why, and that it keeps what it says."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from audit.harness import REGIONS, SCHEMA, admitted, audited, bare, outcome, people, total

import sulq
from sulq.audit import classes

N = 20_000
TABLE = people(N)


@pytest.fixture
def db():
    return audited(TABLE)


def exact(mask):
    return int(np.sum(mask))


def column(name):
    return TABLE.column(name).to_numpy(zero_copy_only=False)


# --- the paper's examples ----------------------------------------------------------------


def test_useful_all_the_same(db):
    """A private Boolean, a conjunction of two, one within each of four public regions."""
    a, b, region = column("a"), column("b"), column("region")
    assert outcome(db, "a") == exact(a)
    assert outcome(db, "a and b") == exact(a & b)
    for name in REGIONS:
        assert outcome(db, f"a and region = '{name}'") == exact(a & (region == name))
    assert db.budget.spent == 6


def test_sparse_and_differencing_questions_are_refused(db):
    """What singles out few rows is refused, also with what was answered before."""
    assert outcome(db, "a") != "refused"
    assert outcome(db, "a and id <> 17") == "refused"
    assert outcome(db, "a or id = 17") == "refused"
    assert outcome(db, "a and id < 20") == "refused"
    assert outcome(db, "a xor (id = 3 and b)") == "refused"
    assert outcome(db, "b") != "refused"  # a refused one leaves no trace
    assert db.budget.spent == 6


def test_an_identical_question_returns_its_stored_answer():
    """The same dither too, and nothing more is charged."""
    db = audited(TABLE, dither=2)
    first = db.count("a and b")
    again = [db.count("a and b"), db.count("b and a"), db.ask(sulq.Query(where="a and (b)"))]
    assert {x.exact for x in again} == {first.exact}
    assert db.budget.spent == 1


def test_a_rare_value_needs_a_large_crowd():
    """What decides is how rare a value may be given the priors, not how often it occurs."""
    assert outcome(audited(TABLE, priors={"a": 0.3}), "a") != "refused"
    assert outcome(audited(TABLE, priors={"a": 0.0005}), "a") == "refused"
    assert outcome(audited(TABLE, priors={"a": (0.0, 0.5)}), "a") == "refused"


@pytest.mark.parametrize(("rows", "answered"), [(691, False), (692, True)])
def test_the_size_is_exactly_k_unknown_rows(rows, answered):
    """346 rows at p = 0.1, half of them known: 692, and not one fewer."""
    db = audited(people(rows), queries=1, priors={"a": 0.1})
    assert (outcome(db, "a") != "refused") == answered


def test_known_rows_are_taken_off_in_each_class():
    """The more rows an attacker knows, the more a class needs."""
    for known, least in ((0, 81), (0.5, 162), (0.9, 810)):
        for rows in (least - 1, least):
            db = audited(people(rows), queries=1, priors={"a": 0.5}, known=known)
            assert (outcome(db, "a") == "refused") == (rows < least)


def test_delta_is_split_over_m():
    """With more questions to come, more rows are needed."""
    sizes = [_least_rows(queries=m) for m in (1, 10, 1000)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


def _least_rows(**terms):
    few, many = 1, 2000
    while many - few > 1:
        middle = (few + many) // 2
        auditor = bare(people(middle), priors={"a": 0.5}, known=0, **terms)
        few, many = (few, middle) if auditor.judge([total("a")]).ok else (middle, many)
    return many


# --- reasons ------------------------------------------------------------------------------


def test_a_refusal_speaks_of_public_things(db):
    """It names columns and numbers of rows that everybody may know, and that it counts."""
    with pytest.raises(sulq.AuditRefused, match="would single out 3 rows by id") as refusal:
        db.count("a and id < 3")
    assert "counts as one of the 20 questions" in str(refusal.value)
    assert refusal.value.charged
    with pytest.raises(sulq.AuditRefused, match="would single out 3 rows by id") as again:
        db.count("a and id < 3")
    assert not again.value.charged
    with pytest.raises(sulq.AuditRefused, match="the table has 50 rows"):
        audited(people(50)).count("a")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda db: db.sum("x"), "low-order digits"),
        (lambda db: db.sum("a"), "low-order digits"),
        (lambda db: db.ask(sulq.Query(("x * 2",))), "low-order digits"),
        (lambda db: db.mean("x"), "low-order digits"),
        (lambda db: db.mean("x", "a"), "a count, sums"),
        (lambda db: db.count("x > 0.5"), "Booleans and declared categories only"),
        (lambda db: db.count("age > 40"), "Booleans and declared categories only"),
        (lambda db: db.count("city = 'rome'"), "has no prior"),
        (lambda db: db.histogram("city"), "has no prior"),
        (lambda db: db.crosstab(["a", "age"]), "Booleans and declared categories only"),
        (lambda db: db.count("a", error=3), "one dither"),
        (lambda db: db.count("a", rows=sulq.Rows.sample(1, 0.5)), "not a sample"),
        (lambda db: db.count("a", rows=sulq.Rows.blocks(1, 2)), "not a sample"),
        (lambda db: db.count("a", rows=sulq.Rows.keys([1, 2])), "not a sample"),
        (lambda db: db.histogram("a", rows=sulq.Rows.keys([1, 2])), "not a sample"),
        (lambda db: db.sql("select count_if(a), sum(x) from frame"), "low-order digits"),
        (lambda db: db.project(None), "own columns only"),
    ],
)
def test_what_no_truth_table_can_be_made_of_is_refused_for_nothing(db, ask, said):
    """It is no audited question, and nothing is charged."""
    with pytest.raises(sulq.QueryNotAllowed, match=said):
        ask(db)
    assert db.budget.spent == 0


def test_too_many_combinations_are_refused_before_anything_is_paid(monkeypatch):
    """Values and truth tables are bounded."""
    monkeypatch.setattr(classes, "MAX_VALUES", 3)
    db = audited(TABLE)
    assert outcome(db, "a") != "refused"
    with pytest.raises(sulq.QueryNotAllowed, match="4 combinations"):
        db.count("b")
    monkeypatch.setattr(classes, "MAX_TRUTHS", 1000)
    with pytest.raises(sulq.QueryNotAllowed, match="too many"):
        db.count("case when id < 10000 then a else not a end")
    assert db.budget.spent == 1


# --- what is public -----------------------------------------------------------------------


def test_public_questions_are_answered_and_leave_no_trace(db):
    """Their answers are known from public columns, so they split no class."""
    assert outcome(db, "id < 3") == 3
    assert outcome(db, "a or not a") == N
    assert outcome(db, "region = 'north' and id < 1000") >= 0
    assert outcome(db, "a") == exact(column("a"))


def test_values_of_a_category(db):
    """A prior may name some values; the rest share what is left."""
    db = audited(TABLE, priors={"city": {"rome": 0.25, "oslo": 0.25, "lima": 0.25}})
    city = column("city")
    assert outcome(db, "city = 'rome'") == exact(city == "rome")
    assert outcome(db, "city in ('oslo', 'lima')") == exact((city == "oslo") | (city == "lima"))
    assert outcome(db, "city is null") == exact(city == "bonn")  # what nobody declared
    never = audited(TABLE, priors={"city": {"rome": 0.5, "oslo": 0.25, "lima": 0.25}})
    assert outcome(never, "city = 'rome'") != "refused"
    assert outcome(never, "city is null") == "refused"  # it may not occur, so it hides nobody


def test_a_missing_value_is_a_value_of_its_own():
    """A nullable Boolean has three; each can be asked about if its prior says it occurs."""
    bits = pa.array([None, True, False, True] * (N // 4))
    schema = SCHEMA | {"a": {"type": "boolean"}}
    table = people(N, a=bits)
    db = audited(table, schema, priors={"a": {"true": 0.5, "null": 0.25}})
    assert outcome(db, "a") == N // 2
    assert outcome(db, "a is null") == N // 4
    assert outcome(db, "not a") == N // 4
    silent = audited(table, schema, priors={"a": 0.5})
    assert outcome(silent, "a") == N // 2  # false or missing, together, are likely enough
    assert outcome(silent, "not a") == "refused"


def test_boolean_values_count_like_predicates(db):
    """A sum of a Boolean is a count; so is a CASE of 0 and 1."""
    wanted = exact(column("a") & column("b"))
    assert db.ask(sulq.Query(("a",), where="b")).value == wanted
    assert db.ask(sulq.Query(("case when a and b then 1 else 0 end",))).value == wanted
    assert db.mean("a").value == exact(column("a")) / N


def test_sql_of_one_number(db):
    """A SELECT of one count is the same question, at the same price."""
    table = db.sql("select count(*) as smokers from frame where a and region = 'north'")
    wanted = exact(column("a") & (column("region") == "north"))
    assert table["smokers"] == [wanted]
    assert db.price("select count(*) from frame where b").queries == 1


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_engines_decide_alike(engine):
    """Verdicts and answers are the same on every engine."""
    asked = ["a", "a and id < 10000", "b xor (id >= 15000)", "a and b and region = 'east'",
             "a and id % 7 = 3", "b and id < 6000", "c and id between 100 and 3000"]  # fmt: skip
    table = people(N, region=pa.array([*REGIONS, None] * (N // 5)))
    db = audited(table, engine=engine)
    found = ["refused" if outcome(db, w) == "refused" else "answered" for w in asked]
    yes, no = "answered", "refused"
    assert found == [yes, yes, yes, no, no, yes, yes]


# --- against a slow and plain version -----------------------------------------------------

WHERES = [
    "a", "b", "a and b", "a xor b", "not a or b", "a and id < {k}", "a or id = {k}",
    "b and id <> {k}", "region = 'north' and a", "case when id < {k} then a else b end",
    "a xor (id >= {k})",
    "case when region = 'south' then not a else a end", "b and region <> 'north'", "id < {k}",
    "(a and id < {k}) or (b and id >= {k})",
]  # fmt: skip
PAIRS = list(itertools.product([False, True], repeat=2))


def plain_truth(where, row, a, b):
    """One truth value, by Python's own reading of the predicate."""
    text = where.replace("<>", "!=").replace(" xor ", " ^ ").replace("id = ", "id == ")
    text = text.replace("region = ", "region == ")
    if text.startswith("case"):
        test, then, other = text[10:-4].replace(" then ", "|").replace(" else ", "|").split("|")
        text = f"({then}) if ({test}) else ({other})"
    return bool(eval(text, {"id": row[0], "region": row[1], "a": a, "b": b}))


def plain_classes(wheres, rows):
    """The size of every class that is not constant, by its tables, one row at a time."""
    sizes = {}
    for row in rows:
        tables = []
        for where in wheres:
            table = tuple(plain_truth(where, row, a, b) for a, b in PAIRS)
            tables.append((False,) * 4 if all(table) else table)
        if any(any(t) for t in tables):
            sizes[tuple(tables)] = sizes.get(tuple(tables), 0) + 1
    return sizes


def small(n):
    return people(n, region=["north" if i % 3 else "south" for i in range(n)])


def drawn(rng, n, count):
    return [WHERES[rng.integers(len(WHERES))].format(k=int(rng.integers(n))) for _ in range(count)]


def test_classes_are_those_of_a_row_by_row_count():
    """100 random questions: the same classes and sizes as a plain loop over rows finds."""
    rng, n = np.random.default_rng(8), 40
    rows = [(i, "north" if i % 3 else "south") for i in range(n)]
    for _ in range(20):
        auditor, asked = bare(small(n), priors={"a": 0.5, "b": 0.5}), drawn(rng, n, 5)
        auditor.admit([total(w) for w in asked])
        split = auditor._state
        found = sorted(
            int(split.parts.counts[split.labels == c].sum())
            for c, atoms in enumerate(split.atoms)
            if atoms.any()
        )
        assert found == sorted(plain_classes(asked, rows).values()), asked


# --- the promise itself, by exact counting --------------------------------------------------

EPSILON, DELTA, M = 1.0, 0.9, 2


def leak(wheres, rows, laws):
    """The largest divergence of all answers when one row goes from one value to another."""
    if not wheres:
        return 0.0
    truth = np.array([[[plain_truth(w, r, a, b) for a, b in PAIRS] for r in rows] for w in wheres])
    worst = 0.0
    for who in range(len(rows)):
        others = [i for i in range(len(rows)) if i != who]
        law = {(0,) * len(wheres): 1.0}
        for i in others:
            new = {}
            for key, p in law.items():
                for v in range(4):
                    to = tuple(np.add(key, truth[:, i, v]))
                    new[to] = new.get(to, 0.0) + p * laws[i][v]
            law = new
        seen = [
            {tuple(np.add(key, truth[:, who, v])): p for key, p in law.items()} for v in range(4)
        ]
        for one, two in itertools.permutations(seen, 2):
            stick = sum(max(0.0, p - math.exp(EPSILON) * two.get(k, 0.0)) for k, p in one.items())
            worst = max(worst, stick)
    return worst


def workloads(n=8, count=60):
    """Random questions asked of small tables: those answered, the rows and a law for each row."""
    rng = np.random.default_rng(5)
    rows = [(i, "north" if i % 3 else "south") for i in range(n)]
    terms = {"epsilon": EPSILON, "delta": DELTA, "queries": M, "known": 0}
    for _ in range(count):
        auditor = bare(small(n), priors={"a": (0.4, 0.6), "b": 0.5}, **terms)
        asked = admitted(auditor, drawn(rng, n, M))
        p = rng.choice([0.4, 0.6], n)
        laws = [[(1 - q) / 2, (1 - q) / 2, q / 2, q / 2] for q in p]
        yield asked, rows, laws


def test_what_is_answered_keeps_epsilon_and_delta():
    """Exactly counted, for 60 random workloads: no row's value shows beyond (epsilon, delta/m)."""
    found = [(leak(*w), len(w[0])) for w in workloads()]
    assert max(x for x, _ in found) <= DELTA / M
    assert sum(count for _, count in found) > 60  # most of them were answered


def test_control_one_row_fewer_is_caught(monkeypatch):
    """With K - 1 instead of K the same count finds a row that shows."""
    right = classes.smallest_crowd
    monkeypatch.setattr(classes, "smallest_crowd", lambda *a: (right(*a) or 10**9) - 1)
    assert max(leak(*w) for w in workloads()) > DELTA / M
