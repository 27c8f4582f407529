"""The owner's bounds on private values -> how rare a set of them may be.

A prior says how likely a value of a private column is, given all public columns of the row and
whatever else is private about it. It is the owner's knowledge, as ranges and categories are, and
has no default. Bounds on single values give bounds on sets of combinations: column by column, the
law within the bounds that makes the set rarest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import PromiseError
from sulq.schema import Column, Schema

KINDS = ("boolean", "category")
ROUNDED = Fraction(1, 10**9)  # how far probabilities may be from adding up to 1
MISSING = "null"  # how a missing value is called where a key must be text


@dataclass(frozen=True, slots=True)
class Bound:
    """One value of a column (None: missing or undeclared) and the ends of its probability."""

    value: Any
    low: Fraction
    high: Fraction


@dataclass(frozen=True)
class Priors:
    """For each private column that may be asked about, a bound for each of its values."""

    columns: Mapping[str, tuple[Bound, ...]]

    @classmethod
    def read(cls, given: Any, schema: Schema) -> Priors:
        """Read what the owner wrote: {"smoker": 0.3, "ill": (0.1, 0.2), "city": {"rome": 0.5}}."""
        if not isinstance(given, Mapping) or not given:
            raise PromiseError(
                "priors: say how likely each private value is, given all public columns, such as "
                'priors={"smoker": (0.2, 0.4)}. There is no default: the promise rests on them.'
            )
        return cls({column.name: _bounds(column, given[name])
                    for name in given for column in (_private(name, schema),)})  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain values, exact."""
        return {
            name: [[b.value, str(b.low), str(b.high)] for b in bounds]
            for name, bounds in self.columns.items()
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Priors:
        """What `to_json` wrote."""
        return cls({
            name: tuple(Bound(v, Fraction(low), Fraction(high)) for v, low, high in bounds)
            for name, bounds in body.items()
        })  # fmt: skip

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """How many values each of these columns has."""
        return tuple(len(self.columns[name]) for name in names)

    def rarest(self, names: Sequence[str], members: NDArray[np.bool_]) -> float:
        """The least probability of a set of combinations, the first column varying fastest."""
        found = members.astype(float).reshape(self.sizes(names)[::-1] or (1,))
        for name in names:  # the last axis is the first column
            found = _least_mean(found, self.columns[name])
        return max(0.0, float(found.reshape(-1)[0]) * (1 - 1e-12))

    def __str__(self) -> str:
        return "; ".join(
            f"{name}: " + ", ".join(_said(b) for b in bounds if b.high > 0)
            for name, bounds in self.columns.items()
        )


def domain(column: Column) -> tuple[Any, ...]:
    """Every value the column can have as declared, then a missing one where it may be."""
    missing = (None,) if column.nullable or column.type == "category" else ()
    return (*(column.listed or ()), *missing)


def _least_mean(found: NDArray[Any], bounds: tuple[Bound, ...]) -> NDArray[Any]:
    """Along the last axis: the least mean within the bounds. What is free goes to the least."""
    low = np.array([float(b.low) for b in bounds])
    room = np.array([float(b.high - b.low) for b in bounds])
    free = 1.0 - low.sum()
    order = np.argsort(found, axis=-1, kind="stable")
    rooms = room[order]
    before = np.cumsum(rooms, axis=-1) - rooms
    given = np.clip(free - before, 0.0, rooms)
    return np.asarray(found @ low + (np.take_along_axis(found, order, -1) * given).sum(axis=-1))


def _private(name: Any, schema: Schema) -> Column:
    column = schema.get(name)
    if column is None:
        raise PromiseError(f"priors: there is no column {name!r}.")
    if column.public:
        raise PromiseError(f"priors: {column.name!r} is public; everyone knows it already.")
    if column.type not in KINDS:
        raise PromiseError(
            f"priors: {column.name!r} is {column.type}; only Booleans and declared categories "
            "can be asked about under rule='classes'. Store bands of it as a category."
        )
    return column


def _bounds(column: Column, given: Any) -> tuple[Bound, ...]:
    """A bound for every value, made as narrow as the others imply."""
    values = domain(column)
    said = dict(_said_values(column, given))
    ends = {v: said.get(v, (Fraction(0), Fraction(1))) for v in values}
    lows, highs = sum(e[0] for e in ends.values()), sum(e[1] for e in ends.values())
    if lows > 1 + ROUNDED or highs < 1 - ROUNDED:
        raise PromiseError(
            f"priors: the probabilities of {column.name!r} cannot add up to 1: the low ends give "
            f"{float(lows):g}, the high ends {float(highs):g}."
        )
    # Thirteen times 1/13 is a little above 1, as floats are written.
    down, up = 1 / max(lows, Fraction(1)), 1 / min(highs, Fraction(1))
    ends = {v: (low * down, min(high * up, Fraction(1))) for v, (low, high) in ends.items()}
    lows, highs = sum(e[0] for e in ends.values()), sum(e[1] for e in ends.values())
    return tuple(
        Bound(v, max(low, 1 - (highs - high)), min(high, 1 - (lows - low)))
        for v, (low, high) in ends.items()
    )


def _said_values(column: Column, given: Any) -> Iterable[tuple[Any, tuple[Fraction, Fraction]]]:
    if not isinstance(given, Mapping):
        if column.type != "boolean":
            raise PromiseError(
                f"priors: {column.name!r} is a category: give a probability for each value, such "
                f'as {{"{(column.listed or ("a",))[0]}": 0.5, ...}}.'
            )
        yield True, _ends(column, given)
        return
    names = {_name(v, column): v for v in domain(column)}
    for key, ends in given.items():
        text = _name(key, column)
        if text not in names:
            known = ", ".join(MISSING if v is None else str(v) for v in domain(column))
            raise PromiseError(f"priors: {column.name!r} has no value {key!r}; it has {known}.")
        yield names[text], _ends(column, ends)


def _name(value: Any, column: Column) -> str:
    """A value as a TOML key would have it: true, false, null, rome, 3."""
    text = MISSING if value is None else str(value)
    return text.lower() if column.type == "boolean" else text


def _ends(column: Column, given: Any) -> tuple[Fraction, Fraction]:
    pair = given if isinstance(given, tuple | list) else (given, given)
    try:
        low, high = (_exact(x) for x in pair)
    except (TypeError, ValueError, ZeroDivisionError):
        low, high = Fraction(1), Fraction(0)
    if not 0 <= low <= high <= 1:
        raise PromiseError(
            f"priors: {column.name!r} = {given!r}, want a probability such as 0.3, or its two ends "
            "such as (0.2, 0.4)."
        )
    return low, high


def _exact(x: Any) -> Fraction:
    """A number as it was written: 0.1 is one tenth."""
    if isinstance(x, bool) or not isinstance(x, int | float | Fraction) or not math.isfinite(x):
        raise ValueError
    return Fraction(str(x)) if isinstance(x, float) else Fraction(x)


def _said(bound: Bound) -> str:
    name = MISSING if bound.value is None else str(bound.value).lower()
    low, high = f"{float(bound.low):g}", f"{float(bound.high):g}"
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"
