"""rule="duan": the paper's test on exact integers, its quick refusals, its examples."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from audit.harness import SCHEMA, audited, duan, outcome, people, total

import sulq
from sulq.audit.duan import Duan, Elimination, row_of, threshold2
from sulq.audit.promise import AuditPromise
from sulq.engines.reference import ReferenceEngine

N = 4000
TABLE = people(N)


def column(name):
    return TABLE.column(name).to_numpy(zero_copy_only=False).astype(float)


def centred(*vectors):
    x = np.array(vectors, dtype=float)
    return x - x.mean(axis=1, keepdims=True)


def smallest(*vectors):
    x = centred(*vectors)
    return math.sqrt(max(np.linalg.eigvalsh(x @ x.T)[0], 0.0))


# --- the threshold --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "m", "known"), [(1, 1e-6, 1, 0), (0.3, 1e-9, 50, 0), (2, 0.01, 7, 0.75)]
)
def test_threshold_is_the_papers_rounded_up(epsilon, delta, m, known):
    """m sqrt(2 ln(2m/delta)) / epsilon, over sqrt(1 - known); exact to 2^-32 and never below."""
    promise = AuditPromise(float(epsilon), delta, m, "duan", known=Fraction(known))
    getcontext().prec = 60
    ln = (Decimal(2 * m) / Decimal(delta)).ln()
    wanted = 2 * m * m * Fraction(ln) / Fraction(epsilon) ** 2 / (1 - Fraction(known))
    assert 0 <= threshold2(promise) - wanted <= Fraction(1, 2**31)
    paper = m * math.sqrt(2 * math.log(2 * m / delta)) / epsilon
    assert math.sqrt(threshold2(promise) * (1 - Fraction(known))) == pytest.approx(paper)


# --- the paper's examples -------------------------------------------------------------------


def test_the_papers_unsafe_queries_are_refused():
    """Identical, linearly dependent, constant, sparse, and Joe's two counts."""
    db = duan(TABLE, queries=12, epsilon=5.0)
    assert outcome(db, "c") == int(column("c").sum())
    assert outcome(db, "c") == "refused"  # identical
    assert outcome(db, "coalesce(c, false)") == "refused"  # the same in other words
    assert outcome(db, "not c") == "refused"  # 1 - c
    left = db.budget.remaining
    assert [outcome(db, p) for p in ("true", "id < 0", "id < 20")] == [4000, 0, 20]  # public
    assert db.budget.remaining == left
    assert outcome(db, "c and id < 20") == "refused"  # sparse
    assert outcome(db, "c and id <> 17") == "refused"  # Joe
    assert outcome(db, "c or id = 17") == "refused"
    assert outcome(db, "id % 2 = 0") == N // 2  # and nothing of this is left in X


def test_linearly_dependent_queries_are_refused():
    """a and b, a and not b: then a says nothing new."""
    db = duan(people(N, a=np.arange(N) % 2 == 0, b=np.arange(N) % 4 < 2), queries=4, epsilon=3.0)
    assert outcome(db, "a and b") == N // 4
    assert outcome(db, "a and not b") == N // 4
    assert outcome(db, "a") == "refused"
    assert outcome(db, "b") == N // 2


def test_sums_of_numbers_are_audited_too():
    """A number counts by its share of its range; low-order digits are the answer's own."""
    table = people(N, x=np.tile([0.0, 1.0], N // 2), age=np.tile([0, 120, 120, 0], N // 4))
    db = duan(table, queries=4, epsilon=4.0)
    assert db.sum("x").value == N / 2
    assert db.sum("age").value == 120 * N / 2
    assert outcome(db, "x > 0.5") == "refused"
    with pytest.raises(sulq.AuditRefused):
        db.sum("x", "id < 30")


def test_the_answer_has_the_dither_of_its_range():
    """The dither's standard deviation grows with what is summed."""
    db = duan(TABLE, queries=2, dither=2)
    answer = db.count("c")
    assert answer.std == 2
    assert abs(answer.value - column("c").sum()) < 30
    assert db.price(sulq.Query(("age",))).half_widths[0] == pytest.approx(2 * 120 * 1.96, rel=0.01)
    assert duan(TABLE, queries=2).count("c").std == 0


# --- exactness ------------------------------------------------------------------------------


def test_elimination_is_that_of_fractions():
    """Pivots are leading determinants, positive exactly for positive definite matrices."""
    rng = np.random.default_rng(2)
    for size in range(1, 7):
        x = rng.integers(-9, 10, (size, size + 2)).astype(object) * 10**12
        gram = x @ x.T
        elimination = Elimination()
        for i in range(size):
            reduced = elimination.reduced(list(gram[i, : i + 1]))
            assert reduced[-1] == determinant(gram[: i + 1, : i + 1])
            elimination.add(reduced)
        assert elimination.last == determinant(gram)


def determinant(matrix):
    rows = [[Fraction(x) for x in row] for row in matrix]
    found = Fraction(1)
    for i in range(len(rows)):
        found *= rows[i][i]
        for j in range(i + 1, len(rows)):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i], strict=True)]
    return found


def test_verdicts_are_those_of_singular_values():
    """Random queries, each judged beside the admitted ones: the same as an SVD in floats."""
    rng, auditor, kept = np.random.default_rng(6), _bare(), []
    least = math.sqrt(auditor.threshold2)
    a, b, c, i = column("a"), column("b"), column("c"), np.arange(N)
    verdicts = set()
    for _ in range(40):
        k = int(rng.integers(1, N))
        where, vector = [
            (f"a and id < {k}", a * (i < k)),
            (f"b or id >= {k}", np.maximum(b, i >= k)),
            (f"c xor (id < {k})", (c != (i < k)) * 1.0),
            (f"id % {2 + k % 5} = 0", (i % (2 + k % 5) == 0) * 1.0),
            (f"id < {k % 50}", (i < k % 50) * 1.0),
        ][rng.integers(5)]
        asked = total(where)
        verdict = auditor.judge([asked])
        assert verdict.ok == (smallest(*kept, vector) > least), where
        assert verdict.exact in (None, int(vector.sum()))
        verdicts.add((verdict.ok, verdict.kind))
        if verdict.ok:
            auditor.admit([asked])
            kept.append(vector)
    assert verdicts == {(True, ""), (False, "low variation"), (False, "correlated")}


def _bare(table=TABLE, threshold=None):
    promise = AuditPromise(3.0, 1e-6, 3, "duan", known=Fraction(0))
    auditor = Duan(promise, ReferenceEngine(table, sulq.Schema.load(SCHEMA)), table.num_rows)
    if threshold is not None:
        auditor.threshold2 = Fraction(threshold)
    return auditor


def test_near_the_threshold_one_unit_in_a_billion_decides():
    """lambda_min = n/4 exactly: refused at a threshold of n/4, answered at any below."""
    n = 1000
    table = people(n, a=np.arange(n) % 2 == 0, b=np.arange(n) % 4 < 2)
    asked = [total("a"), total("b")]  # orthogonal when centred: both singular values are equal
    for less, ok in ((0, False), (Fraction(1, 10**40), True)):
        auditor = _bare(table, Fraction(n, 4) - less)
        verdict = auditor.judge([asked[0]])
        assert (verdict.ok, verdict.kind) == (ok, "" if ok else "low variation")
        auditor.threshold2 = Fraction(0)
        auditor.admit(asked[:1])  # by hand: only the second is judged at the threshold
        auditor.threshold2 = Fraction(n, 4) - less
        assert auditor.judge([asked[1]]).ok == ok


def test_inequality_4_sees_what_theorems_4_and_5_do_not():
    """Many rows, each with enough left beside the others, and still a weak direction."""
    n, k = 1024, 6
    bits = [(np.arange(n) >> j) % 2 == 0 for j in range(10)]
    base = bits[9]
    rows = [base ^ (bits[j] & bits[j + 1] & bits[8]) for j in range(k)]
    schema = {f"q{j}": {"type": "boolean", "nullable": False} for j in range(k + 1)}
    table = pa.table({f"q{j}": row for j, row in enumerate([*rows, bits[7]])})
    x = centred(*rows)
    alone = x[-1] @ x[-1] - x[-1] @ x[:-1].T @ np.linalg.solve(x[:-1] @ x[:-1].T, x[:-1] @ x[-1])
    least, before = (np.linalg.svd(y, compute_uv=False)[-1] ** 2 for y in (x, x[:-1]))
    assert least < 0.95 * min(alone, before)  # Theorem 5 alone would let the last one pass
    promise = AuditPromise(1.0, 1e-6, k, "duan", known=Fraction(0))
    auditor = Duan(promise, ReferenceEngine(table, sulq.Schema.load(schema)), n)
    auditor.threshold2 = Fraction((least + min(alone, before)) / 2)
    auditor.admit([total(f"q{j}", schema) for j in range(k - 1)])
    verdict = auditor.judge([total(f"q{k - 1}", schema)])
    assert not verdict.ok
    assert "some direction" in verdict.detail
    assert auditor.judge([total(f"q{k}", schema)]).ok
    auditor.admit([total(f"q{k - 1}", schema)])  # were it answered all the same,
    assert not auditor.judge([total(f"q{k}", schema)]).ok  # nothing more would be


def test_theorem_5_has_the_right_projection():
    """What is left of a row beside the earlier ones, not the paper's X^T X x."""
    auditor = _bare(threshold=0)
    auditor.admit([total("c"), total("a or c")])
    auditor.threshold2 = Fraction(10**9)  # everything fails; the words say by how much
    auditor._state.beyond = Elimination()
    vectors = centred(column("c"), np.maximum(column("a"), column("c")))
    new = centred(column("a"))[0]
    left = new - vectors.T @ np.linalg.solve(vectors @ vectors.T, vectors @ new)
    auditor.threshold2 = Fraction(new @ new - 1)
    verdict = auditor.judge([total("a")])
    assert verdict.kind == "correlated"
    assert f"leave {np.linalg.norm(left):.4g} of it" in verdict.detail


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_engines_and_one_scan_or_many_give_the_same_matrix(engine):
    """Row by row, all at once, on every engine: the same whole numbers."""
    asked = ["a", "b", "a xor c", "region = 'north'"]
    sums = [("x", None), ("age", "b"), ("x * x", None)]
    totals = [total(w) for w in asked] + [total(w, values=(v,)) for v, w in sums]
    db = duan(TABLE, engine=engine)
    one, many = (Duan(db.promise, db._pipeline.engine, N) for _ in range(2))
    for t in totals:
        one.admit([t])
    many.admit(totals)
    assert one._state.gram == many._state.gram
    assert one._state.beyond.last == many._state.beyond.last
    assert one._state.gram == _bare_gram(totals)


def _bare_gram(totals):
    auditor = _bare()
    auditor.admit(totals)
    return auditor._state.gram


def test_products_of_numbers_keep_their_place():
    """Wide, negative and fractional ranges: the Gram matrix of the shares of the range."""
    values = [("x", 1.0), ("age", 120.0), ("x * 1000000 - 500000", 1e6), ("x - 0.5", 1.0)]
    auditor = _bare(threshold=0)
    auditor.admit([total(None, values=(v,)) for v, _ in values])
    x, age = column("x"), column("age")
    vectors = centred(x, age / 120, x, x)
    wanted = vectors @ vectors.T
    widths = [row_of(total(None, values=(v,))).width for v, _ in values]
    for j, line in enumerate(auditor._state.gram):
        for k, entry in enumerate(line):
            assert entry / N / widths[j] / widths[k] == pytest.approx(wanted[j, k], rel=1e-4)


# --- section 7.2 ----------------------------------------------------------------------------


def test_variance_bound_of_section_7_2():
    """A row shared by several databases: m answers tell it no better than variance sigma^2 / m.

    s = d1 a + Delta with a = (1, ..., 1); the best unbiased estimate of d1 has the variance
    1 / (a' Sigma^-1 a), which is at least lambda_min / m, and equals it exactly when a is an
    eigenvector of lambda_min: for independent perturbations, as noise gives.
    """
    rng = np.random.default_rng(3)
    auditor = _bare(people(20_000, seed=4))
    for where in ("a", "b", "c", "region = 'north'", "a xor b"):
        auditor.admit([total(where)])
    m, n = 5, 20_000
    sigma = np.zeros((m, m))
    for j, line in enumerate(auditor._state.gram):
        sigma[j, : j + 1] = sigma[: j + 1, j] = [x / n for x in line]
    least, ones = np.linalg.eigvalsh(sigma)[0], np.ones(m)
    best = 1 / (ones @ np.linalg.solve(sigma, ones))
    for u in [*rng.normal(size=(2000, m)), np.linalg.solve(sigma, ones)]:
        variance = u @ sigma @ u / (u @ ones) ** 2
        assert variance >= best * (1 - 1e-9)
        assert best >= least / m
    assert best > 1.01 * least / m  # strictly better than independent noise of the same size
    independent = least * np.eye(m)
    assert 1 / (ones @ np.linalg.solve(independent, ones)) == pytest.approx(least / m)


# --- a public sample ------------------------------------------------------------------------


def test_a_sample_decides_in_place_of_the_rows():
    """Large n with a small sample of its kind: the sample stands for n rows."""
    sample = people(200, seed=9)  # by itself far too few
    db = duan(TABLE, queries=4, epsilon=3.0, simulate=sample)
    assert outcome(db, "c") == int(column("c").sum())
    with pytest.raises(sulq.AuditRefused, match="low variation, in the public sample"):
        db.count("c and id < 3")
    with pytest.raises(sulq.AuditRefused, match=r"correlated, in the public sample.*#1 leave 0"):
        db.count("not c")
    asked = []

    def sampler(n):
        asked.append(n)
        return people(n, seed=5)

    drawn = duan(TABLE, queries=4, epsilon=3.0, simulate=sampler)
    assert asked == [N]
    assert outcome(drawn, "c") == int(column("c").sum())


def test_a_sample_belongs_to_duan():
    """Other rules take none, and an empty one is refused."""
    with pytest.raises(sulq.PromiseError, match="belongs to rule='duan'"):
        audited(TABLE, simulate=TABLE)
    with pytest.raises(sulq.Refused, match="no rows"):
        duan(TABLE, simulate=TABLE.slice(0, 0))
