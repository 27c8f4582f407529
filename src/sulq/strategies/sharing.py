"""Many counts over the same few-valued columns, answered from one strategy.

A batch of counts is a matrix W over the cells of its columns. Cells that every count treats alike
are one; of those that are left, whole-number combinations are measured that make the mean variance
of W's answers smallest for the price (optimum.py). The counts are then read off by least squares,
so they agree with each other. Used when its price is lower for the same mean error.

Where too many cells differ, combinations made for ranges, prefixes or suffixes of the widest
column, or of the two widest, are measured in every cell of the others, or the cells themselves.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.domains import domain_batch
from sulq.expressions.operations import Evaluator
from sulq.expressions.program_node import has_program
from sulq.expressions.quoting import quote
from sulq.kernel.batch import Batch
from sulq.kernel.cells import cell_numbers
from sulq.privacy.one_thread import one_thread
from sulq.privacy.strategy_matrix import inverse_of
from sulq.questions.check import CheckedQuery
from sulq.questions.measurements import Combined
from sulq.questions.question import Bundle
from sulq.strategies.many_tables import is_crosstab
from sulq.strategies.optimum import best_matrix
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Bins, Query, Strategy
from sulq.values.schema import Column, Schema

FEWEST = 4  # a smaller batch is asked as it is
MAX_CELLS = 1_500
MAX_COLUMNS = 200  # of a matrix made for the batch
FINE = 2**30  # parts of one in a weight
NAMED = ("ranges", "prefixes", "suffixes")
PAIRS = (("ranges", "ranges"), ("prefixes", "prefixes"), ("suffixes", "suffixes"))
FEW_STEPS = 8  # from 0 to 1 and back, in a row of a workload

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Check = Callable[[Query], CheckedQuery]


@dataclass(frozen=True)
class SharedCounts:
    """What to ask instead, and how to get the counts back."""

    query: Query
    reach: Array  # counts x released numbers: how each count is read off them
    columns: tuple[str, ...]

    @property
    def variances(self) -> Array:
        """Of the counts, where that of a released number is 1."""
        return np.asarray((self.reach**2).sum(axis=1))

    def half_widths(self, bundle: Bundle) -> tuple[float, ...]:
        """How exact each count will be (95%)."""
        ((_, tariff),) = bundle.parts
        reach = tariff.laws[0].half_width(0.95) * float(tariff.steps[0])
        return tuple((np.sqrt(self.variances) * reach).tolist())

    def answers(self, found: list[Answer]) -> list[Answer]:
        """The counts, each with its own error."""
        (answer,) = found
        counts = self.reach @ answer.values[:, 0]
        stds = answer.stds[0][0] * np.sqrt(self.variances)
        share = Price(math.ceil(answer.price.micro / len(counts)))
        names = " x ".join(self.columns) or "all rows"
        note = f"one of {len(counts):,} counts of {names}, {answer.price} in all"
        return [
            replace(
                answer,
                exact=((Fraction(float(c)),),),
                stds=((float(s),),),
                cells=("all",),
                names=("1",),
                axes=(),
                price=share,
                note=note,
            )
            for c, s in zip(counts, stds, strict=True)
        ]


def share(
    queries: list[CheckedQuery], schema: Schema, check: Check, price: Callable[[Query], int],
    guarantee: str,
) -> SharedCounts | None:  # fmt: skip
    """A cheaper way to ask these counts with the same mean error, if there is one to try."""
    if not may_be_shared(queries):
        return None
    names = tuple(sorted(set().union(*(q.where.columns() for q in queries if q.where is not None))))
    batch = domain_batch(names, schema, MAX_CELLS)
    if batch is None:
        return None
    work = np.array([batch.true(q.where) for q in queries])
    used = work.any(axis=0)
    if not used.any():
        return None  # nothing declared can satisfy any of them
    patterns, group = distinct_columns(work[:, used])
    if patterns.shape[1] <= MAX_COLUMNS:
        by = tuple(_axis(schema[n]) for n in names)
        whole = check(Query(("1",), by=by))
        columns = np.full(whole.shape[0], -1)
        columns[_cells(whole, batch)[used]] = group
        return _made(patterns, columns, by, names, guarantee == "beliefs")
    tried = list(_by_widest(work, names, batch, schema, check))
    return min(tried, key=lambda shared: price(shared.query))


def may_be_shared(queries: Sequence[CheckedQuery]) -> bool:
    """Are they counts, enough of them, that say nothing about how they are to be asked?"""
    if len({q.text for q in queries}) < FEWEST or not all(_is_count(q) for q in queries):
        return False
    return not any(has_program(q.where) for q in queries)  # that runs on rows that are paid for


def _is_count(q: CheckedQuery) -> bool:
    """One count over private rows, everybody's."""
    return is_crosstab(q) and not q.axes and q.everyone and q.where is not None


def distinct_columns(work: NDArray[np.bool_] | Array) -> tuple[Array, Whole]:
    """The different columns of 0s and 1s of a batch, and which one each cell has."""
    packed = np.ascontiguousarray(np.packbits(work != 0, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as the cells stand
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return work[:, first[order]].astype(float), place[group]


@one_thread()
def _made(
    patterns: Array, columns: Whole, by: tuple[str | Bins, ...], names: tuple[str, ...],
    in_pairs: bool,
) -> SharedCounts:  # fmt: skip
    """Combinations made for this batch."""
    matrix = best_matrix(patterns.T @ patterns, in_pairs)
    strategy = Strategy(matrix=tuple(map(tuple, matrix.tolist())), columns=columns.tolist())
    reach = np.linalg.solve(matrix.T.astype(float), patterns.T).T
    return _with_equal_error(Query(strategy, by=by), reach, names)


def _by_widest(
    work: NDArray[np.bool_], names: tuple[str, ...], batch: Evaluator, schema: Schema, check: Check
) -> Iterator[SharedCounts]:
    """The cells by themselves, or what is made for the widest columns, within the others."""
    columns = [schema[n] for n in names]
    by = widest_last([_axis(c) for c in columns])
    for query in named_queries(Query(by=by)):
        checked = check(query)
        spread = np.zeros((len(work), checked.shape[0]))
        spread[:, _cells(checked, batch)] = work
        reach = spread if query.values == ("1",) else read_off(checked, spread)
        if reach is not None:
            yield _with_equal_error(query, reach, names)


def widest_last(parts: Sequence[str | Bins]) -> tuple[str | Bins, ...]:
    """Partitions with the columns that are cut into most pieces last."""
    return tuple(sorted(parts, key=lambda p: len(p.edges) if isinstance(p, Bins) else 0))


def named_queries(like: Query) -> Iterator[Query]:
    """The cells of a query's partition, and named strategies for the last columns that are cut."""
    assert isinstance(like.by, tuple)
    cut = [len(p.edges) - 1 for p in like.by[-2:] if isinstance(p, Bins)]
    yield replace(like, values=("1",))
    for workload in NAMED if cut and cut[-1] <= MAX_CELLS else ():
        yield replace(like, values=Strategy((workload,)))
    for workloads in PAIRS if len(cut) == 2 and math.prod(cut) <= MAX_CELLS else ():
        yield replace(like, values=Strategy(workloads))


def read_off(checked: CheckedQuery, work: Array) -> Array | None:
    """How counts of cells are read off a named strategy; None if one is of cells it leaves out."""
    found = checked.measurement
    assert isinstance(found, Combined)
    kept = found.columns >= 0  # in their order
    each = work.reshape(len(work), -1, len(found.columns))
    if each[:, :, ~kept].any():
        return None
    inverse = inverse_of(found.matrix, found.unit)
    return np.asarray(_times(each[:, :, kept], inverse).reshape(len(work), -1))


def _times(work: Array, inverse: Array) -> Array:
    """work @ inverse. A range is the difference of two prefixes: where a few steps of 1 make up
    each row, a few rows of the sums of prefixes do.
    """
    rows = work.reshape(-1, work.shape[-1])
    steps = -np.diff(rows, axis=1, append=0.0)
    if np.count_nonzero(steps) > FEW_STEPS * len(rows):
        return np.asarray(work @ inverse)
    from scipy import sparse

    prefixes = inverse.cumsum(axis=0)
    return np.asarray(sparse.csr_array(steps) @ prefixes).reshape(*work.shape[:-1], -1)


def _with_equal_error(query: Query, reach: Array, names: tuple[str, ...]) -> SharedCounts:
    """The same with the weight that makes the mean variance R."""
    weight = weight_of_equal_error(float((reach**2).sum(axis=1).mean()))
    return SharedCounts(replace(query, weights=(weight,)), reach, names)


def weight_of_equal_error(mean: float) -> Fraction:
    """The weight that makes a mean variance R that is so many times R without it."""
    return Fraction(max(math.floor(math.sqrt(mean) * FINE), 1), FINE)


def _axis(c: Column) -> str | Bins:
    if c.type == "date":
        days = range((c.high - c.low).days + 2)
        return Bins(c.name, tuple(c.low + datetime.timedelta(days=d) for d in days))
    if c.type == "integer" and c.values is None:  # every value, whatever bins are declared
        return Bins(c.name, tuple(range(c.low, c.high + 2)))
    return quote(c.name)


def _cells(query: CheckedQuery, values: Evaluator) -> NDArray[np.int64]:
    """The cell of the query's partition that each combination of values is in."""
    batch = Batch(values.raw, values.rows, values.schema)
    cells = np.zeros(batch.rows, dtype=np.int64)
    for axis in query.axes:
        cells = cells * len(axis.labels) + cell_numbers(axis, batch)
    return cells
