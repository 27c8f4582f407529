"""Running totals as a measurement: strategy answers of periods, each over all periods so far.

A row is in one period, which is public, and moves the answers of its own period and of all later
ones up to the horizon. Its period pays for the whole of that when it is first asked about; what the
later answers add to is paid for then. So a stretch of answers is priced by the column of its first
period, and charged to the periods of the stretch alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.node import Node
from sulq.expressions.parse import parse, shorten
from sulq.privacy.geometry import Geometry, Release
from sulq.privacy.toeplitz import (
    MAX_HORIZON,
    UNIT,
    column_length,
    column_size,
    combined,
    deviations,
)
from sulq.questions.measurements import Measurement
from sulq.questions.partitions import Axis
from sulq.values.query import Query, Running
from sulq.values.schema import Schema

FINE = 24  # bits of a sum's largest value: with those of the weights, noise fits beside them
_CALL = re.compile(r"\s*(count|sum)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


def summed(text: Any) -> str:
    """What a count or a sum adds up, row by row."""
    found = _CALL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise QueryNotAllowed(
            f"running: {shorten(repr(text))}, want 'count(*)' or 'sum(...)' of an expression. "
            "Nothing was charged.\nA mean so far is one running sum over another."
        )
    name, inside = found[1].lower(), found[2].strip()
    if name == "sum":
        return inside
    return "1" if inside == "*" else f"case when ({inside}) is null then 0 else 1 end"


@dataclass(frozen=True, slots=True)
class Stream:
    """Where running totals begin, and for how many periods they may go on."""

    column: str  # of the periods
    periods: tuple[Any, ...]  # from the first one on, as many as the horizon
    start: int  # the place of the first among all that are declared

    @property
    def horizon(self) -> int:
        """How many periods the totals may go on for."""
        return len(self.periods)

    def reached(self, opened: Any) -> int:
        """How many of them there are up to the last that has rows; 0 if the first has none."""
        known = set(opened)
        if self.periods[0] not in known:
            return 0
        return max(i for i, period in enumerate(self.periods) if period in known) + 1


def stream_of(asked: Running, schema: Schema) -> Stream:
    """The periods that totals are over, or a refusal."""
    period = schema.period
    over = schema.get(period or "" if asked.over is None else asked.over)
    if period is None or over is None or over.name != period:
        raise QueryNotAllowed(
            f"running: over={asked.over!r}, want the column of [period], by which rows arrive"
            + (f": {period!r}." if period else "; the schema declares none.")
            + " Nothing was charged."
        )
    every = tuple(over.listed or ())
    start = 0 if asked.start is None else _place(asked.start, every)
    horizon = len(every) - start if asked.horizon is None else asked.horizon
    if not 1 <= horizon <= min(len(every) - start, MAX_HORIZON):
        raise QueryNotAllowed(
            f"running: horizon={horizon:,} periods, want 1 to "
            f"{min(len(every) - start, MAX_HORIZON):,}: so many are declared from the first one "
            f"on, and at most {MAX_HORIZON:,}. Nothing was charged."
        )
    return Stream(period, every[start : start + horizon], start)


def _place(start: Any, every: tuple[Any, ...]) -> int:
    for i, period in enumerate(every):
        if period == start or str(period) == str(start):
            return i
    raise QueryNotAllowed(
        f"running: start={start!r} is none of the declared periods. Nothing was charged."
    )


@dataclass(frozen=True, slots=True)
class RunningRows(Measurement):
    """The strategy answers of a stretch of periods."""

    stream: Stream
    first: int  # of the stretch
    last: int  # one behind it
    geometry: Geometry = field()
    places: tuple[int, ...]  # the cell of each period of the stream
    unit: int = UNIT

    @property
    def numbers(self) -> int:
        """One for each period."""
        return self.last - self.first

    @property
    def labels(self) -> tuple[Any, ...]:
        """The periods."""
        return self.stream.periods[self.first : self.last]

    @property
    def axes(self) -> tuple[str, ...]:
        """What they are."""
        return (self.stream.column,)

    @property
    def said(self) -> Any:
        """The same for every stretch: the ledger says which it is."""
        return {"running": {"start": self.stream.start, "horizon": self.stream.horizon}}

    def of(self, exact: list[list[int]]) -> list[list[int]]:
        """Exact, and the same work whatever the sums are."""
        sums = [exact[place][0] for place in self.places]
        return [[y] for y in combined(self.stream.horizon, sums, self.first, self.last)]


def plain_query(query: Query, schema: Schema) -> Query:
    """The sum of each period by itself, which totals so far are of; refuse what cannot be."""
    asked = query.values
    assert isinstance(asked, Running)
    stream = stream_of(asked, schema)
    if query.by is not None or query.rows is not None or query.weights is not None:
        raise QueryNotAllowed(
            "running: it has where= and error=, and no by=, rows= or weights=. Nothing was charged."
        )
    error = query.error
    if error is not None:  # of the last total: that of a strategy answer is so much smaller
        error = error / Fraction(deviations(stream.horizon)[-1])
    value, bits = asked.expression, _bits_behind(asked.expression, schema)
    if bits:
        value = f"round(({value}) * {2.0**bits!r})"
    return replace(query, values=(value,), by=stream.column, error=error)


def _bits_behind(expression: str, schema: Schema) -> int:
    """How many bits behind the point are summed; fewer than none of whole numbers that are wide."""
    node = parse(expression, schema)
    if node.type not in ("integer", "number") or not node.bounded:
        return 0
    bits = FINE - math.frexp(max(-node.low, node.high))[1]
    return max(min(bits, 0 if node.type == "integer" else 1000), -1000)


def running_rows(
    asked: Running, schema: Schema, rows: Node | None, axes: tuple[Axis, ...],
    releases: tuple[Release, ...], geometry: Geometry,
) -> tuple[RunningRows, tuple[Release, ...]]:  # fmt: skip
    """The measurement and the number that leaves for each period."""
    stream = stream_of(asked, schema)
    if rows is not None and stream.column in rows.columns():
        raise QueryNotAllowed(
            f"running: totals go over all of {stream.column!r} from the first on, so where= may "
            "not choose among them. Nothing was charged.\nSay start=... and horizon=... instead."
        )
    first, last = asked.span or (0, 1)
    if not 0 <= first < last <= stream.horizon:
        raise QueryNotAllowed("running: no period within the horizon is left to be asked about.")
    (release,) = releases
    size, length = column_size(stream.horizon, first), column_length(stream.horizon, first)
    if first == 0:
        size = Fraction(1)  # it is no longer than that, and a price of 0.999993 helps nobody
    moved = Geometry(
        geometry.radius2 * size, geometry.diameter2 * size, geometry.radius1 * length,
        geometry.diameter1 * length, stream.horizon - first, whole=True,
    )  # fmt: skip
    labels = axes[0].labels
    places = tuple(labels.index(period) for period in stream.periods)
    step = release.step / Fraction(2) ** _bits_behind(asked.expression, schema)
    leaves = Release("total", step / UNIT, release.unit * UNIT, release.weight2)
    return RunningRows(stream, first, last, moved, places), (leaves,)


def cells_of(
    measurement: RunningRows, cells: tuple[int, ...] | None, schema: Schema
) -> tuple[int, ...]:
    """Of these ledger cells, those of the periods of the stretch."""
    names = [c.name for c in schema.cell_columns]
    at, wanted = names.index(measurement.stream.column), set(measurement.labels)
    chosen = range(schema.cell_count) if cells is None else cells
    return tuple(i for i in chosen if schema.cells[i][at] in wanted)
