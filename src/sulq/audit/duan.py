"""rule="duan": the paper's test, as it is, on the exact integer Gram matrix.

X has a row for each answered query, centred; its smallest singular value must exceed

    m * sqrt(2 ln(2m / delta)) / epsilon                                        (inequality 4)

The products of the new query with itself and with the earlier ones come from one scan, as whole
numbers; the square of the threshold is rounded up to a fraction; and whether X X^T minus that on
its diagonal is positive definite is decided without rounding. Two conditions are necessary and
cheaper, so they refuse first: Theorem 4, the norm of the new row, and Theorem 5, what is left of
it beside the earlier ones (its projection needs (X X^T)^-1, which the paper leaves out).

The theorem speaks of a Gaussian limit. docs/howto/audited.md shows what it does not see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from sulq.audit.limits import Limits, alpha_of, gaussian_within
from sulq.audit.promise import AuditPromise
from sulq.audit.total import Total, engine_query
from sulq.audit.verdicts import ALIKE, Auditor, Verdict
from sulq.engines.base import Engine
from sulq.expressions.functions import call
from sulq.expressions.node import Node, literal
from sulq.kernel.sums import batches_of, grid
from sulq.questions.check import CheckedQuery
from sulq.questions.grid import Value

BATCH = 100_000  # rows of a sample at a time
BETA = 0.05  # how often the rows may be further from the sample than is said
STEPS = 2**18  # a number's range is cut into at most this many steps for its products
FRACTION = 2**32  # the threshold is rounded up to a multiple of 1/FRACTION


def threshold2(promise: AuditPromise) -> Fraction:
    """The square of the threshold, rounded up: 2 m^2 ln(2m / delta) / epsilon^2 / (1 - known).

    Rows the attacker knows add nothing to hide behind, and the paper's rows are alike, so a
    fraction `known` of them takes the same fraction off X X^T.
    """
    m, ratio = promise.queries, 2 * promise.queries / Fraction(promise.delta)
    with localcontext() as context:
        context.prec = 50
        ln = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
    exact = 2 * m * m * (Fraction(ln) + Fraction(1, 10**40)) / Fraction(promise.epsilon) ** 2
    return Fraction(math.ceil(exact / (1 - promise.known) * FRACTION), FRACTION)


@dataclass(frozen=True)
class Row:
    """A query as whole numbers per row of the table: y, and the width of the range of y."""

    total: Total
    node: Node
    width: int


@dataclass
class Matrix:
    """X X^T as it grows: C[j][k] = n sum y_j y_k - sum y_j sum y_k for k <= j."""

    rows: list[Row]
    gram: list[list[int]]
    sums: list[int]
    alone: Elimination  # of C
    beyond: Elimination  # of C less the threshold on its diagonal

    def copy(self) -> Matrix:
        """The same, to which rows are added on trial."""
        return Matrix(
            list(self.rows), list(self.gram), list(self.sums), self.alone.copy(), self.beyond.copy()
        )

    def add(self, row: Row, sums: int, line: list[int], shifted: list[int]) -> None:
        """One more row, unless it follows exactly from those that are there.

        Once a matrix is not definite it cannot become so again.
        """
        if self.beyond.definite:
            rest = self.alone.reduced(line)
            if rest[-1] == 0:
                return
            self.alone.add(rest)
            self.beyond.add(self.beyond.reduced(shifted))
        self.gram.append(line)
        self.sums.append(sums)
        self.rows.append(row)


@dataclass(frozen=True)
class Judged:
    """Questions just judged: their place in X, and what it will be with them."""

    texts: list[str]
    place: int
    state: Matrix


def row_of(total: Total) -> Row:
    """The contribution of a row in whole steps; a missing one is 0."""
    node, member = total.node, total.member
    everyone = literal(True) if member is None else member
    if total.boolean and node.type == "boolean":
        return Row(total, call("and", everyone, node) if node.op != "literal" else everyone, 1)
    if node.op == "literal" and node.value == 1:
        return Row(total, everyone, 1)
    sure = member is None and not node.nullable
    steps = _steps(call("sub", node, _number(node.low)) if sure and node.low else node)
    low, high = (steps.low, steps.high) if sure else (min(steps.low, 0), max(steps.high, 0))
    gated = steps if member is None else call("case", member, steps, literal(None))
    return Row(total, gated, max(int(high - low), 1))


def _number(x: float) -> Node:
    return literal(int(x)) if x == int(x) and abs(x) <= 2**53 else literal(float(x))


def _steps(node: Node) -> Node:
    """Whole numbers as they are; wider ranges and fractions in steps of a power of two."""
    reach = max(abs(node.low), abs(node.high))
    if node.type != "number" and reach <= STEPS:
        return call("to_integer", node) if node.type == "boolean" else node
    scale = math.frexp(STEPS / reach)[1] - 1 if reach else 0
    return call("round", call("mul", call("to_number", node), literal(2.0**scale)))


class Duan(Auditor):
    """The auditor of rule="duan", on the rows themselves or on a public sample of their kind."""

    def __init__(
        self, promise: AuditPromise, engine: Engine, rows: int, *, sampled: bool = False
    ) -> None:
        self._engine = engine
        self._sampled = sampled
        self._state = Matrix([], [], [], Elimination(), Elimination())
        # The sample has other rows, as many as it has: its matrix stands for one of n rows.
        scale = Fraction(max(engine.rows, 1), max(rows, 1)) if sampled else Fraction(1)
        self.threshold2 = threshold2(promise) * scale
        self._judged: Judged | None = None

    @property
    def reads_rows(self) -> bool:
        """Yes, unless a public sample decides."""
        return not self._sampled

    def judge(self, totals: Sequence[Total]) -> Verdict:
        """Theorem 4, Theorem 5, inequality 4, in that order; the first that fails refuses.

        Several are rows of X together: each is tested beside those before it. What follows from
        them exactly tells nothing new, so of several it is told, and adds no row.
        """
        rows = [row_of(total) for total in totals]
        found = self._scan(rows, totals[0] if len(totals) == 1 else None)
        state = self._state.copy()
        for i, (row, (sums, products, _)) in enumerate(zip(rows, found, strict=True)):
            line = self._line(sums, products, state, rows[: i + 1])
            refused = self._tested(row, line, state, alone=len(rows) == 1)
            if refused is not None:
                return refused
            state.add(row, sums, line, self._shifted(line, row))
        self._judged = Judged([t.text for t in totals], len(self._state.rows), state)
        added = len(state.rows) - len(self._state.rows)
        return Verdict(True, exact=found[0][2] if len(found) == 1 else None, added=added)

    def _tested(self, row: Row, line: list[int], state: Matrix, *, alone: bool) -> Verdict | None:
        """Why a row may not be added to X; None if it may, or need not."""
        least = self.threshold2 * self._engine.rows * row.width**2  # of C, for this row
        if not state.beyond.definite:
            return self._refusal("correlated", "what was answered already varies too little")
        if line[-1] <= least:
            return self._refusal("low variation", f"its norm is {self._norm(line[-1], row):.4g}")
        rest = state.alone.reduced(line)[-1]
        if rest == 0 and not alone:
            return None
        if rest <= least * state.alone.last:  # what is left of it, squared, is their ratio
            left = self._norm(Fraction(rest, state.alone.last), row)
            return self._refusal("correlated", f"{ALIKE} leave {left:.4g} of it", line)
        if state.beyond.reduced(self._shifted(line, row))[-1] <= 0:
            said = f"beside {ALIKE} some direction varies too little"
            return self._refusal("correlated", said, line)
        return None

    def admit(self, totals: Sequence[Total]) -> None:
        """Add rows to X; many at once come from one scan, those just judged from none."""
        if not totals:
            return
        just = self._judged
        asked = ([total.text for total in totals], len(self._state.rows))
        if just is not None and asked == (just.texts, just.place):
            self._state = just.state
            return
        rows = [row_of(t) for t in totals]
        state = self._state.copy()
        for i, (row, (sums, products, _)) in enumerate(
            zip(rows, self._scan(rows, None), strict=True)
        ):
            line = self._line(sums, products, state, rows[: i + 1])
            state.add(row, sums, line, self._shifted(line, row))
        self._state = state

    # --- the Gram matrix ----------------------------------------------------------------

    def _scan(
        self, rows: Sequence[Row], asked: Total | None
    ) -> list[tuple[int, list[int], int | None]]:
        """For each row of X: its sum, its products with all before it and itself; one scan.

        The answer to the one question that is asked comes with it, unless this is a sample.
        """
        before = self._state.rows
        known = [*before, *rows]
        queries = [_counting(row, known[: len(before) + i + 1]) for i, row in enumerate(rows)]
        if asked is not None and not self._sampled:
            queries.append(engine_query([asked.value], asked.rows, asked.where))
        found = self._engine.sums(queries)
        exact = found.pop()[0][0] if len(found) > len(rows) else None
        return [(matrix[0][0], matrix[0][1:], exact) for matrix in found]

    def _line(
        self, sums: int, products: Sequence[int], state: Matrix, new: Sequence[Row]
    ) -> list[int]:
        """n sum y_j y_k - sum y_j sum y_k: the centred products, times n.

        `products` are with every row that was there and the new ones up to this; some of those
        may not have been added.
        """
        n = self._engine.rows
        known = [id(row) for row in (*self._state.rows, *new[:-1])]
        kept = {id(row) for row in state.rows}
        used = [p for p, row in zip(products[:-1], known, strict=True) if row in kept]
        pairs = zip([*used, products[-1]], [*state.sums, sums], strict=True)
        return [n * p - sums * s for p, s in pairs]

    def _shifted(self, line: list[int], row: Row) -> list[int]:
        """The line less the threshold, all times its denominator, so that it stays whole."""
        t, n = self.threshold2, self._engine.rows
        last = line[-1] * t.denominator - t.numerator * n * row.width**2
        return [*(x * t.denominator for x in line[:-1]), last]

    # --- how good the limits are ---------------------------------------------------------

    def limits(self, promise: AuditPromise, n: int, beta: float = BETA) -> Limits | None:
        """What the limit theorem and the sample are worth for what is answered; None: nothing is.

        It depends on the rows, unless a public sample decides.
        """
        rows, gram = self._state.rows, self._state.gram
        if not rows:
            return None
        share = np.zeros((len(rows), len(rows)))
        for j, line in enumerate(gram):
            for k, entry in enumerate(line):
                share[j, k] = share[k, j] = float(
                    Fraction(entry, self._engine.rows * rows[j].width * rows[k].width)
                )
        # The sample has other rows, as many as it has: it stands for n of them.
        stands = n / self._engine.rows
        least = math.sqrt(max(float(np.linalg.eigvalsh(share)[0]) * stands, 0.0))
        found = Limits(
            len(rows), least, math.sqrt(threshold2(promise)), gaussian_within(len(rows), least),
            promise.delta / promise.queries,
        )  # fmt: skip
        if not self._sampled:
            return found
        eigenvalue, alpha = alpha_of(self._values(), n, beta)
        return replace(found, alpha=alpha, beta=beta, eigenvalue=eigenvalue)

    def _values(self) -> list[Any]:
        """The rows of X on the public sample, in shares of their ranges."""
        table = self._engine.arrow()  # type: ignore[attr-defined]  # a sample is DuckDB's
        wanted = [Value(r.node, 0, int(r.node.low), int(r.node.high)) for r in self._state.rows]
        out: list[list[Any]] = [[] for _ in wanted]
        for batch in batches_of([table], table.column_names, BATCH, self._engine.schema):
            for values, value in zip(out, wanted, strict=True):
                values.append(grid(value, batch.evaluate(value.node)))
        pairs = zip(out, self._state.rows, strict=True)
        return [np.concatenate(values) / row.width for values, row in pairs]

    # --- words --------------------------------------------------------------------------

    def _refusal(self, kind: str, detail: str, line: Sequence[int] = ()) -> Verdict:
        """Which test failed depends on rows, so only a public sample's may be told to everyone."""
        needed = math.sqrt(self.threshold2)
        detail += f"; more than {needed:.4g} is needed"
        verdict = Verdict(False, "", kind, detail, self._alike(line))
        why = (
            "the smallest singular value of what was answered, with this question, must exceed "
            f"{needed:.4g}: it varies too little, or too much of it follows from earlier answers."
        )
        if self._sampled:
            told = verdict.told(range(1, len(self._state.rows) + 1))
            why = f"{kind}, in the public sample, where answers are counted from #1: {told}."
        return replace(verdict, why=why)

    def _norm(self, centred: Fraction | int, row: Row) -> float:
        """The length of a row of X, from an entry of C."""
        return math.sqrt(max(float(centred), 0.0) / max(self._engine.rows, 1)) / row.width

    def _alike(self, line: Sequence[int]) -> tuple[int, ...]:
        """The earlier questions that its projection is made of, the heaviest first."""
        k = min(len(self._state.rows), len(line) - 1)
        if k < 1:
            return ()
        gram = np.zeros((k, k))
        for j, above in enumerate(self._state.gram):
            gram[j, : j + 1] = gram[: j + 1, j] = [float(x) for x in above]
        weights = np.linalg.solve(gram, np.array([float(x) for x in line[:k]]))
        shares = np.abs(weights) * np.sqrt(np.diag(gram))
        return tuple(int(j) for j in np.argsort(-shares) if shares[j] > shares.max() / 10)[:5]


def _counting(row: Row, known: Sequence[Row]) -> CheckedQuery:
    """The engine's question: sum of y, then of y times each of these."""
    nodes = [row.node, *(_product(row.node, other.node) for other in known)]
    values = tuple(Value(n, 0, int(n.low), int(n.high)) for n in nodes)
    return engine_query(values)


def _product(a: Node, b: Node) -> Node:
    if a.type == "boolean" and b.type == "boolean":
        return a if a.text == b.text else call("and", a, b)
    return call("mul", a, b)


# ---- positive definite or not, in whole numbers: a row at a time ----------------------------
# Bareiss: entry (i, j) after step s is a minor of the matrix, so every division is exact and the
# s-th pivot is the determinant of the leading s x s block. A symmetric matrix is positive definite
# exactly when all of these are positive. Nothing is rounded, so the answer does not depend on the
# machine or on the engine the numbers came from.


class Elimination:
    """A symmetric matrix of integers that grows by one row at a time, while it is definite."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []  # row s of the upper triangle after s steps
        self.definite = True  # once it is not, it cannot become so again, and no row is added

    def copy(self) -> Elimination:
        """Another one, to which rows are added on trial."""
        other = Elimination()
        other._rows, other.definite = [list(row) for row in self._rows], self.definite
        return other

    @property
    def last(self) -> int:
        """The last pivot: the determinant of all of it."""
        return self._rows[-1][0] if self._rows else 1

    def reduced(self, row: Sequence[int]) -> list[int]:
        """A new row after every step: its entries, then its pivot. O(k^2) products.

        The row is its products with the earlier ones, then with itself. Nothing is changed.
        """
        left = list(row)
        before = 1
        for s, above in enumerate(self._rows):
            pivot, entry = above[0], left[s]
            for j in range(s + 1, len(left) - 1):
                left[j] = (pivot * left[j] - entry * above[j - s]) // before
            left[-1] = (pivot * left[-1] - entry * entry) // before
            before = pivot
        return left

    def add(self, reduced: Sequence[int]) -> None:
        """Add a row that was reduced."""
        self.definite = self.definite and reduced[-1] > 0
        if not self.definite:
            return
        for above, entry in zip(self._rows, reduced, strict=False):
            above.append(entry)
        self._rows.append([reduced[-1]])
