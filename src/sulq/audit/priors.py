"""The owner's bounds on private values -> how rare a set of them may be.

A prior says how likely a value of a private column is, given all public columns of the row. It is
the owner's knowledge, as ranges and categories are, and has no default. Where several private
columns are asked about, what counts is how likely their combinations are. The owner may bound those
(a joint prior), or declare that a prior holds whatever the row's other private values are: then it
is, column by column, the law within the bounds that makes a set rarest. Otherwise columns may go
together in any way, and a set is as rare as the margins allow: where `insulin` tells `diabetic`,
`insulin and not diabetic` may be one row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import PromiseError
from sulq.values.schema import Column, Schema

KINDS = ("boolean", "category")
ROUNDED = Fraction(1, 10**9)  # how far probabilities may be from adding up to 1
MAX_COMBINATIONS = 2**10  # that one joint prior may bound
MISSING = "null"  # how a missing value is called where a key must be text


@dataclass(frozen=True, slots=True)
class Bound:
    """One value of a column (None: missing or undeclared) and the ends of its probability."""

    value: Any  # of a joint prior: a tuple of them
    low: Fraction
    high: Fraction

    def to_json(self) -> list[Any]:
        """Plain values, exact."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return [value, str(self.low), str(self.high)]

    @classmethod
    def from_json(cls, body: Sequence[Any]) -> Bound:
        """What `to_json` wrote."""
        value, low, high = body
        return cls(
            tuple(value) if isinstance(value, list) else value, Fraction(low), Fraction(high)
        )


@dataclass(frozen=True, slots=True)
class Joint:
    """Some columns, and a bound for each combination of their values, the first varying fastest."""

    names: tuple[str, ...]
    bounds: tuple[Bound, ...]

    @property
    def ends(self) -> Ends:
        """The low ends, and the high ones."""
        low, high = np.array([(float(b.low), float(b.high)) for b in self.bounds]).T
        return low, high


@dataclass(frozen=True)
class Priors:
    """For each private column that may be asked about, a bound for each of its values.

    `joints` bound combinations. `independent`: each prior holds whatever the others' values are.
    """

    columns: Mapping[str, tuple[Bound, ...]]
    joints: tuple[Joint, ...] = ()
    independent: bool = False

    @classmethod
    def read(cls, given: Any, schema: Schema, independent: bool = False) -> Priors:
        """Read what the owner wrote: {"smoker": 0.3, "ill": (0.1, 0.2), "city": {"rome": 0.5}}.

        A joint prior has several names, and bounds combinations of their values:
        {("insulin", "diabetic"): {(True, True): 0.06, (True, False): (0.01, 0.02), ...}}.
        """
        if not isinstance(given, Mapping) or not given:
            raise PromiseError(
                "priors: say how likely each private value is, given all public columns, such as "
                'priors={"smoker": (0.2, 0.4)}. There is no default: the promise rests on them.'
            )
        singles, joints = {}, []
        for key, said in given.items():
            columns = tuple(_private(name, schema) for name in _names(key, schema))
            if len(columns) == 1:
                singles[columns[0].name] = _bounds(columns[0].name, domain(columns[0]),
                                                   _said_values(columns[0], said))  # fmt: skip
            else:
                joints.append(_joint(columns, said))
        used = [name for joint in joints for name in joint.names] + list(singles)
        for name in used:
            if used.count(name) > 1:
                raise PromiseError(f"priors: {name!r} is in two of them. Give one prior of each.")
        margins = {name: _margin(joint, name, schema) for joint in joints for name in joint.names}
        # One prior alone is independent of all others.
        return cls(margins | singles, tuple(joints), independent or len(given) == 1)

    def to_json(self) -> dict[str, Any]:
        """Plain values, exact."""
        return {name: [b.to_json() for b in bounds] for name, bounds in self.columns.items()}

    def joints_json(self) -> list[Any]:
        """The joint priors as plain values."""
        return [[list(j.names), [b.to_json() for b in j.bounds]] for j in self.joints]

    @classmethod
    def from_json(
        cls, body: Mapping[str, Any], joints: Sequence[Any] = (), independent: bool = True
    ) -> Priors:
        """What `to_json` and `joints_json` wrote; before joints, independence went unsaid."""
        columns = {name: tuple(map(Bound.from_json, bounds)) for name, bounds in body.items()}
        read = tuple(Joint(tuple(n), tuple(map(Bound.from_json, bounds))) for n, bounds in joints)
        return cls(columns, read, independent)

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """How many values each of these columns has."""
        return tuple(len(self.columns[name]) for name in names)

    def rarest(self, names: Sequence[str], members: NDArray[np.bool_]) -> float:
        """The least probability of a set of combinations, the first column varying fastest."""
        parts = self._parts(names)
        table = self._by_part(names, members, parts)
        if len(parts) > 1 and not self.independent:
            return least_probability(table, [part.ends for part in parts])
        found = table.astype(float)
        for part in parts:  # the first axis is the first part that is left
            found = _least_mean(np.moveaxis(found, 0, -1), part.bounds)
        return max(0.0, float(found) * (1 - 1e-12))

    def width(self, names: Iterable[str]) -> int:
        """How many combinations the priors of these columns tell apart."""
        return math.prod(len(part.bounds) for part in self._parts(tuple(names)))

    def _parts(self, names: Sequence[str]) -> list[Joint]:
        """The priors that speak of these columns, one for each that stands alone."""
        joined = [joint for joint in self.joints if set(joint.names) & set(names)]
        known = {name for joint in joined for name in joint.names}
        alone = [Joint((name,), self.columns[name]) for name in names if name not in known]
        return joined + alone

    def _by_part(
        self, names: Sequence[str], members: NDArray[np.bool_], parts: Sequence[Joint]
    ) -> NDArray[np.bool_]:
        """The set with an axis for each part, whatever its columns that nobody asked about are."""
        order = [name for part in parts for name in part.names]
        table = members.reshape(self.sizes(names)[::-1]).T  # an axis for each column asked about
        asked = [name for name in order if name in names]
        table = table.transpose([list(names).index(name) for name in asked])
        table = table.reshape([len(self.columns[n]) if n in names else 1 for n in order])
        table = np.broadcast_to(table, self.sizes(order))
        return table.reshape([len(part.bounds) for part in parts], order="F")

    def __str__(self) -> str:
        return "; ".join(
            f"{' and '.join(part.names)}: " + ", ".join(_said(b) for b in part.bounds if b.high > 0)
            for part in self._parts(tuple(self.columns))
        )

    @property
    def premise(self) -> str:
        """What is taken for granted of columns together, in words; nothing of a prior alone."""
        if len(self._parts(tuple(self.columns))) < 2:
            return ""
        if self.independent:
            return (
                "Each prior holds whatever the row's other private values are, as the owner "
                "declared: none of them makes a value rarer than its prior says."
            )
        return "Private columns may go together in any way that these priors allow."


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


def _names(key: Any, schema: Schema) -> tuple[Any, ...]:
    """The columns of a prior: one, a tuple, or as TOML has it "insulin, diabetic"."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, str) and schema.get(key) is None and "," in key:
        return tuple(name.strip() for name in key.split(","))
    return (key,)


def _joint(columns: tuple[Column, ...], given: Any) -> Joint:
    """A bound for each combination of several columns' values."""
    names = tuple(column.name for column in columns)
    sizes = [len(domain(column)) for column in columns]
    if not isinstance(given, Mapping) or math.prod(sizes) > MAX_COMBINATIONS:
        raise PromiseError(
            f"priors: {', '.join(names)} together want a probability for each combination of "
            f"values, at most {MAX_COMBINATIONS:,}, such as {{(True, False): 0.1, ...}}."
        )
    values = [v[::-1] for v in itertools.product(*(domain(c) for c in columns[::-1]))]
    return Joint(names, _bounds(" and ".join(names), values, _said_combinations(columns, given)))


def _said_combinations(
    columns: tuple[Column, ...], given: Mapping[Any, Any]
) -> Iterable[tuple[Any, tuple[Fraction, Fraction]]]:
    for key, ends in given.items():
        parts = key if isinstance(key, tuple) else [part.strip() for part in str(key).split(",")]
        if len(parts) != len(columns):
            want = ", ".join(column.name for column in columns)
            raise PromiseError(f"priors: {key!r} is no combination of {want}.")
        yield (
            tuple(_value(column, part) for column, part in zip(columns, parts, strict=True)),
            _ends(" and ".join(c.name for c in columns), ends),
        )


def _margin(joint: Joint, name: str, schema: Schema) -> tuple[Bound, ...]:
    """What a joint prior says of one of its columns."""
    at, none = joint.names.index(name), Fraction(0)
    lows = sum((b.low for b in joint.bounds), none)
    out = []
    for value in domain(schema[name]):
        inside = [b for b in joint.bounds if b.value[at] == value]  # None equals nothing else
        low, high = sum((b.low for b in inside), none), sum((b.high for b in inside), none)
        out.append(Bound(value, low, min(high, 1 - (lows - low))))
    return tuple(out)


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


def _bounds(
    name: str, values: Sequence[Any], given: Iterable[tuple[Any, tuple[Fraction, Fraction]]]
) -> tuple[Bound, ...]:
    """A bound for every value, made as narrow as the others imply."""
    said = dict(given)
    ends = {v: said.get(v, (Fraction(0), Fraction(1))) for v in values}
    lows, highs = sum(e[0] for e in ends.values()), sum(e[1] for e in ends.values())
    if lows > 1 + ROUNDED or highs < 1 - ROUNDED:
        raise PromiseError(
            f"priors: the probabilities of {name!r} cannot add up to 1: the low ends give "
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
        yield True, _ends(column.name, given)
        return
    for key, ends in given.items():
        yield _value(column, key), _ends(column.name, ends)


def _value(column: Column, key: Any) -> Any:
    """The declared value that a key stands for."""
    names = {_name(v, column): v for v in domain(column)}
    text = _name(key, column)
    if text not in names:
        known = ", ".join(MISSING if v is None else str(v) for v in domain(column))
        raise PromiseError(f"priors: {column.name!r} has no value {key!r}; it has {known}.")
    return names[text]


def _name(value: Any, column: Column) -> str:
    """A value as a TOML key would have it: true, false, null, rome, 3."""
    text = MISSING if value is None else str(value)
    return text.lower() if column.type == "boolean" else text


def _ends(name: str, given: Any) -> tuple[Fraction, Fraction]:
    pair = given if isinstance(given, tuple | list) else (given, given)
    try:
        low, high = (exact(x) for x in pair)
    except (TypeError, ValueError, ZeroDivisionError):
        low, high = Fraction(1), Fraction(0)
    if not 0 <= low <= high <= 1:
        raise PromiseError(
            f"priors: {name!r} = {given!r}, want a probability such as 0.3, or its two ends "
            "such as (0.2, 0.4)."
        )
    return low, high


def exact(x: Any) -> Fraction:
    """A number as it was written: 0.1 is one tenth. ValueError if it is none."""
    if isinstance(x, bool) or not isinstance(x, int | float | Fraction) or not math.isfinite(x):
        raise ValueError
    return Fraction(str(x)) if isinstance(x, float) else Fraction(x)


def _said(bound: Bound) -> str:
    values = bound.value if isinstance(bound.value, tuple) else (bound.value,)
    name = "/".join(MISSING if v is None else str(v).lower() for v in values)
    low, high = f"{float(bound.low):g}", f"{float(bound.high):g}"
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"


# ---- the least probability of a set, whatever goes with whatever (Frechet) ------------------
# Of each part of a row the owner bounds how likely its values are. The parts may depend on each
# other in any way. If numbers u satisfy, for every combination x, sum over parts g of u[g, x_g] at
# most 1 where x is in the set and at most 0 elsewhere, then the set has at least the probability
#
#     sum over g and v of u[g, v] * (low[g, v] if u[g, v] > 0 else high[g, v]),
#
# and the best such u gives the least probability there can be (linear programming duality). The u
# found in floats is checked against every combination, so that rounding can only lower the bound.

ROUNDING = 1e-9  # subtracted from what floats gave

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]  # low and high, one for each value


def least_probability(members: NDArray[np.bool_], ends: Sequence[Ends]) -> float:
    """How rare the set may be; `members` has an axis for each part, one place for each value."""
    kept = [i for i in range(len(ends)) if not _constant(members, i)]
    dropped = tuple(i for i in range(len(ends)) if i not in kept)
    inside = np.asarray(members.any(axis=dropped)) if dropped else members
    if inside.all():
        return 1.0
    if not inside.any():
        return 0.0
    low, high = (np.concatenate([ends[i][k] for i in kept]) for k in (0, 1))
    u = _best(inside, low, high)
    parts = np.split(u, np.cumsum(inside.shape)[:-1])
    reach = sum(np.ix_(*parts))  # the sum of u over the parts of every combination
    excess = float((reach - inside).max())
    bound = float(np.where(u > 0, u * low, u * high).sum()) - max(excess, 0.0)
    return max(0.0, bound - ROUNDING)


def _constant(members: NDArray[np.bool_], axis: int) -> bool:
    """Does this part say nothing about who is in the set?"""
    return bool((members == members.take([0], axis=axis)).all())


def _best(
    inside: NDArray[np.bool_], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The u of the largest bound; all zeros, which is always allowed, if none was found."""
    from scipy import sparse
    from scipy.optimize import linprog

    places = np.indices(inside.shape).reshape(inside.ndim, -1)
    starts = np.cumsum([0, *inside.shape[:-1]])
    columns = (places + starts[:, None]).T.reshape(-1)
    rows = np.repeat(np.arange(inside.size), inside.ndim)
    picks = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (inside.size, len(low)))
    found = linprog(
        np.concatenate([-low, high]),
        sparse.hstack([picks, -picks]),
        inside.reshape(-1).astype(float),
    )
    if found.x is None:
        return np.zeros(len(low))
    return np.asarray(found.x[: len(low)] - found.x[len(low) :])
