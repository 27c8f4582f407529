"""The attacks that break a bare singular-value test, against both rules. Twins.

Nothing here needs luck: against rule="duan", dither=0 every guess is right, and the default
refuses. `make soak` runs a hundred trials of each, as `make bench` does.
"""

import numpy as np
import pyarrow as pa
import pytest
from audit.harness import audited, bare, duan, flipped, outcome, people, total, trial
from soak import times

import sulq
from sulq.audit.attacks import ATTACKS, crowd, refusal, residues

TRIALS, TOLD = times(6, 100), times(12, 40)
ROWS = [2_000, 20_000]
WHO_STOPS = {"low-order digits": {"QueryNotAllowed"}, "a refusal": {True, False}}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_default_rule_stops_it(name):
    """Refused every time; what is learned from a refusal alone is what was known before."""
    found = [trial(name, ROWS[i % 2], seed=i) for i in range(TRIALS)]
    assert set(found) <= WHO_STOPS.get(name, {"AuditRefused"})


@pytest.mark.parametrize("name", ATTACKS)
def test_control_it_succeeds_against_the_bare_test(name):
    """Against rule="duan", dither=0 the secret is told every time: the reason for the default."""
    found = [trial(name, ROWS[i % 2], seed=i, rule="duan", dither=0) for i in range(TRIALS)]
    assert found == [True] * TRIALS


@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 7, 11])
def test_any_modulus_is_stopped_at_the_row_that_stands_alone(modulus):
    """All questions but the last are harmless, and answered; the last one singles out a row."""
    rng = np.random.default_rng(modulus)
    n = 20_000
    table, schema = crowd(n, rng.random(n) < 0.5, rng.integers(0, modulus + 2, n), rng.random(n))
    share = dict.fromkeys(range(modulus + 2), 1 / (modulus + 2))
    terms = {"priors": {"secret": 0.5, "kind": share}, "queries": modulus + 1, "epsilon": 3.0}
    db = audited(table, schema, **terms)
    with pytest.raises(sulq.AuditRefused, match="single out 1 row by id"):
        residues(db, 7, modulus)
    assert db.budget.remaining == 0


def test_a_refusal_is_the_same_whatever_the_secret():
    """The question that tips over the bare threshold is refused for every secret by default."""
    seen = set()
    for secret in (False, True):
        bits = np.arange(2000) % 2 == 0
        bits[1500] = secret
        table, schema = crowd(2000, bits, np.arange(2000) % 4, np.zeros(2000))
        terms = {"queries": 3, "epsilon": 3.0}
        tipped = refusal(audited(table, schema, rule="duan", **terms), 1500)
        assert tipped == secret  # the control: the bare rule tells it
        db = audited(table, schema, priors={"secret": 0.5}, **terms)
        seen.add((refusal(db, 1500), str(db.history()[0].query), db.budget))
    assert len(seen) == 1


# --- columns that go together -------------------------------------------------------------------

CLINIC = {
    "id": {"key": True, "type": "integer", "low": 0, "high": 10**6},
    "diabetic": {"type": "boolean", "nullable": False},
    "insulin": {"type": "boolean", "nullable": False},
}
TRUE_MARGINS = {"diabetic": (0.08, 0.12), "insulin": (0.08, 0.12)}


def correlated(seed, **terms):
    """insulin is diabetic for all but perhaps one: was that secret told, or who stopped it?"""
    rng = np.random.default_rng(seed)
    n = 20_000
    diabetic = rng.random(n) < 0.1
    who = int(np.flatnonzero(~diabetic)[0])
    secret = bool(rng.random() < 0.5)
    insulin = diabetic.copy()
    insulin[who] = secret
    table = pa.table({"id": np.arange(n), "diabetic": diabetic, "insulin": insulin})
    db = audited(table, CLINIC, dither=0, queries=3, **{"priors": TRUE_MARGINS} | terms)
    try:
        return (round(db.count("insulin and not diabetic").value) == 1) == secret
    except sulq.AuditRefused as refusal:
        return str(refusal)


def test_correlated_columns_tell_nothing():
    """0 of 12 told (of 40 in soak): margins do not say that the rest of the table hides one."""
    found = {correlated(seed, independent_columns=False) for seed in range(TOLD)}
    (said,) = found
    assert "joint priors" in said
    assert "independent_columns=True" in said


def test_control_correlated_columns_tell_all_where_independence_is_claimed_falsely():
    """All of them: the premise is what protects, so the owner is asked for it and it is printed."""
    assert [correlated(seed, independent_columns=True) for seed in range(TOLD)] == [True] * TOLD


def test_correlated_columns_are_answered_apart():
    """One of the columns alone is as safe as its margin says; a true joint prior refuses both."""
    rare = {(True, False): (0, 0.001), (False, True): (0, 0.001), (True, True): (0.08, 0.12)}
    joint = {("diabetic", "insulin"): rare}
    assert "too rare to hide" in correlated(1, priors=joint, independent_columns=False)
    rng = np.random.default_rng(0)
    diabetic = rng.random(20_000) < 0.1
    table = pa.table({"id": np.arange(20_000), "diabetic": diabetic, "insulin": diabetic})
    for priors in (TRUE_MARGINS, joint):
        db = audited(table, CLINIC, queries=3, priors=priors, independent_columns=False)
        assert outcome(db, "insulin") == diabetic.sum()


# --- twins --------------------------------------------------------------------------------------

WHERES = [
    "a", "b", "c", "a and b", "a xor c", "not b", "region = 'north' and a", "a and id < {k}",
    "b and id <> {k}", "c or id = {k}", "id < {k}", "a xor (id = {k} and b)", "id % 2 = 0 or (id = "
    "{k} and a)", "case when id < {k} then a else b end", "region in ('north', 'east') and not c",
]  # fmt: skip


def workload(rng, n, count):
    return [WHERES[rng.integers(len(WHERES))].format(k=int(rng.integers(n))) for _ in range(count)]


def verdicts(db, wheres):
    """Everything an analyst sees but the numbers themselves."""
    out = []
    for where in wheres:
        try:
            answer = db.count(where)
            out.append((answer.stds, answer.price, answer.remaining, answer.names))
        except sulq.SulqError as error:
            out.append((type(error).__name__, str(error)))
    return out, db.budget, [(c.number, c.query, c.price) for c in db.history()]


@pytest.mark.parametrize("kind", ["classes", "simulate"])
def test_refusals_on_twins_are_identical(kind):
    """Tables that differ in one private bit, random questions: the same words, in one order."""
    rng, n = np.random.default_rng(12), 1500
    sample = people(1000, seed=77)
    terms = {"rule": "duan", "simulate": sample, "epsilon": 6.0} if kind == "simulate" else {}
    kinds = set()
    for i in range(4):
        table, row = people(n, seed=i), int(rng.integers(n))
        wheres = [w.replace("{k}", str(row)) for w in workload(rng, n, 10)] + [f"a and id = {row}"]
        twins = [audited(t, queries=11, **terms) for t in (table, flipped(table, row))]
        one, two = (verdicts(db, wheres) for db in twins)
        assert one == two
        kinds |= {seen[0] for seen in one[0]}
    assert "AuditRefused" in kinds  # some were refused,
    assert len(kinds) > 1  # and some answered


def test_control_the_bare_rule_differs_on_twins():
    """Deciding from the rows themselves, one bit of one row changes what is refused."""
    n = 2000
    db = duan(people(n), queries=3, epsilon=3.0)
    k = (
        next(
            k
            for k in range(1, n)
            if k * (n - k) > db._pipeline.policy._verdicts.auditor.threshold2 * n
        )
        - 1
    )
    where = f"id < {k} or (id = {n - 1} and a)"
    table = people(n, a=np.zeros(n, dtype=bool))
    twins = [duan(t, queries=3, epsilon=3.0) for t in (table, flipped(table, n - 1))]
    assert {outcome(t, where) == "refused" for t in twins} == {True, False}


def test_the_decision_reads_no_private_column():
    """The auditor gets public columns and nothing else, whatever is asked."""
    table = people(1500)
    asked = []

    class Watched:
        def __init__(self, groups):
            self._groups = groups

        def __call__(self, names):
            asked.append(tuple(names))
            return self._groups(names)

    auditor = bare(table)
    auditor._groups = Watched(auditor._groups)
    for where in workload(np.random.default_rng(3), 1500, 40):
        auditor.judge([total(where)])
    assert {n for names in asked for n in names} == {"id", "region"}
    with pytest.raises(sulq.QueryNotAllowed, match="not public"):
        audited(table)._pipeline.engine.groups(["id", "a"])


def test_averaging_the_dither_is_paid_for():
    """The same count in other words: each is one of m, none is fresh for free."""
    db = audited(people(1500), dither=2, queries=8)
    ways = ["a", "not not a", "a and a", "coalesce(a, false)", "a = true", "a or a", "(a)"]
    told = {db.count(where).exact for where in ways}
    assert len(told) <= db.budget.spent == len(db.history())
