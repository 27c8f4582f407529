"""Truth tables and classes: which rows every question so far treats alike.

Private values are numbered by combination, the first column varying fastest, as in
`domains.domain_batch`. Tables are kept as bits, because there may be one for every row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.audit.total import Total
from sulq.expressions.columns import Vector
from sulq.expressions.domains import domain_batch
from sulq.expressions.operations import Evaluator
from sulq.kernel.sums import grid
from sulq.values.schema import Schema

CHUNK = 2**20  # truth values worked out at a time
MAX_VALUES = 2**14  # combinations of private values that questions may tell apart

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tables:
    """The truth tables of one question; number 0 is the one that is false throughout.

    A table that is true throughout counts as 0 too: what it adds to an answer is public.
    """

    private: tuple[str, ...]
    wide: int  # combinations of the private columns
    each: Ints  # for every public part, the number of its table
    distinct: NDArray[np.uint8]  # tables x bits

    def __getitem__(self, number: int) -> Bools:
        bits = np.unpackbits(self.distinct[number], count=self.wide)
        return bits.astype(bool)

    @property
    def public(self) -> bool:
        """Is every table constant? Then the answer is known from public columns."""
        return not self.each.any()


@dataclass(frozen=True)
class Parts:
    """Every combination of public columns there is, and how many rows have it."""

    names: tuple[str, ...]
    columns: Mapping[str, Vector]
    counts: Ints

    def tables(self, total: Total, schema: Schema) -> Tables:
        """The truth tables of a question, one for each part."""
        private = total.named(schema, public=False)
        values = domain_batch(private, schema, MAX_VALUES)
        assert values is not None
        if is_mixed(total, schema):
            bits = self._crossed(total, values, schema)
        else:
            bits = _bits(_true(total, values)[None, :])
        distinct, each = np.unique(bits, axis=0, return_inverse=True)
        numbers = np.where(distinct.any(axis=1), np.arange(len(distinct)) + 1, 0)
        nothing = np.zeros((1, bits.shape[1]), dtype=np.uint8)
        chosen = Evaluator(self.columns, len(self.counts), schema).true(total.rows)
        each = np.where(chosen, numbers[each.reshape(-1)], 0)
        return Tables(private, values.rows, each, np.concatenate([nothing, distinct]))

    def _crossed(self, total: Total, values: Evaluator, schema: Schema) -> NDArray[np.uint8]:
        """A table for each part where public and private columns meet, some parts at a time."""
        wide, count = values.rows, len(self.counts)
        step, out, used = max(1, CHUNK // wide), [], total.columns()
        for start in range(0, count, step):
            some = min(step, count - start)
            raw = {
                name: Vector(*(np.repeat(x[start : start + some], wide) for x in vector))
                for name, vector in self.columns.items()
                if name in used
            } | {
                name: Vector(*(np.tile(x, some) for x in vector))
                for name, vector in values.raw.items()
            }  # fmt: skip
            found = _true(total, Evaluator(raw, some * wide, schema))
            out.append(_bits(found.reshape(some, wide)))
        return np.concatenate(out) if out else _bits(np.zeros((0, wide), dtype=bool))


def is_mixed(total: Total, schema: Schema) -> bool:
    """Do public and private columns meet beyond a public predicate that lets rows in?"""
    nodes = [n for n in (total.where, total.node) if n is not None]
    return any(schema[c].public for n in nodes for c in n.columns())


def _true(total: Total, batch: Evaluator) -> Bools:
    """Where a row that the public predicate lets in counts."""
    value = total.value
    counts = grid(value, batch.evaluate(value.node)) == 1
    return np.asarray(batch.true(total.where) & counts, dtype=bool)


def _bits(tables: Bools) -> NDArray[np.uint8]:
    """Tables as bits, those true throughout as false throughout."""
    constant = np.all(tables, axis=1, keepdims=True)
    return np.packbits(tables & ~constant, axis=1)


@dataclass(frozen=True)
class Partition:
    """The class of each public part, and what the tables of a class tell apart.

    `atoms[c]` numbers the combinations of private values: two that no answered question tells
    apart, for the rows of class c, have the same number.
    """

    parts: Parts
    labels: Ints
    private: tuple[str, ...]
    atoms: tuple[Ints, ...]

    @classmethod
    def of(cls, parts: Parts) -> Partition:
        """Nothing asked yet: all rows are one class."""
        one = np.zeros(1, dtype=np.int64)
        return cls(parts, np.zeros(len(parts.counts), dtype=np.int64), (), (one,))

    def split(self, tables: Tables, sizes: Mapping[str, int]) -> Split:
        """The classes with one more question."""
        pairs = self.labels * len(tables.distinct) + tables.each
        kept, labels = np.unique(pairs, return_inverse=True)
        return Split(self, tables, dict(sizes), kept, labels.reshape(-1).astype(np.int64))


@dataclass(frozen=True)
class Split:
    """A partition with one more question, its atoms worked out class by class when needed."""

    before: Partition
    tables: Tables
    sizes_of: Mapping[str, int]  # how many values each private column has
    kept: Ints  # class before x table, for each class now
    labels: Ints

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each class has."""
        found = np.zeros(len(self.kept), dtype=np.int64)
        np.add.at(found, self.labels, self.before.parts.counts)
        return found

    @cached_property
    def private(self) -> tuple[str, ...]:
        """The private columns of everything asked."""
        return tuple(sorted({*self.before.private, *self.tables.private}))

    @cached_property
    def _here(self) -> Ints:
        return _places(self.private, self.before.private, self.sizes_of)

    @cached_property
    def _there(self) -> Ints:
        return _places(self.private, self.tables.private, self.sizes_of)

    def _origin(self, number: int) -> tuple[int, int]:
        return divmod(int(self.kept[number]), len(self.tables.distinct))

    def is_told(self, number: int) -> bool:
        """Do the answers tell anything private about the rows of this class?"""
        old, table = self._origin(number)
        return table > 0 or bool(self.before.atoms[old].any())

    def atoms(self, number: int) -> Ints:
        """What the tables of a class tell apart."""
        old, table = self._origin(number)
        told = self.before.atoms[old][self._here] * 2 + self.tables[table][self._there]
        return np.unique(told, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def done(self) -> Partition:
        """This question is answered too."""
        atoms: Any = (self.atoms(c) for c in range(len(self.kept)))
        return Partition(self.before.parts, self.labels, self.private, tuple(atoms))


def _places(wide: tuple[str, ...], narrow: tuple[str, ...], sizes: Mapping[str, int]) -> Ints:
    """For each combination of the wide columns, its number among those of the narrow ones."""
    count = math.prod(sizes[n] for n in wide)
    if not narrow:
        return np.zeros(count, dtype=np.int64)
    each = np.unravel_index(np.arange(count), [sizes[n] for n in wide], order="F")
    chosen = tuple(each[wide.index(n)] for n in narrow)
    return np.ravel_multi_index(chosen, [sizes[n] for n in narrow], order="F").astype(np.int64)
