"""Running totals in the ledger: which strategy answers are paid for, and what new periods reserve.

Each answer of a stream is charged once, in stretches that follow on one another, whatever rows were
appended between them. A period that opens pays for every stream that goes on, in the transaction
that opens it: what its rows will move, up to the horizon. Later answers are then drawn free.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, func, or_, select, text

from sulq.errors import QueryNotAllowed
from sulq.ledger.chain import CHARGES, DECISION, ENTRIES, RUNNING
from sulq.ledger.open_periods import schema_of
from sulq.ledger.types import Request
from sulq.privacy.toeplitz import column_size
from sulq.strategies.running_totals import OF, stretch_text
from sulq.values.schema import Schema

# The rows began to be what they are here, or were refreshed; appends leave streams going on.
SINCE = (
    select(func.max(ENTRIES.c.number))
    .where(text(DECISION), or_(ENTRIES.c.kind == "open", ENTRIES.c.kind == "refresh"))
    .scalar_subquery()
)
_bodies = (
    select(ENTRIES.c.body)
    .join(CHARGES, ENTRIES.c.number == CHARGES.c.number)
    .where(CHARGES.c.kind == "running", CHARGES.c.epoch == SINCE)
    .order_by(CHARGES.c.number)
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Strategy answers from one period of a stream to before another."""

    stream: str  # canonical
    first: int
    last: int
    price: int = 0  # micro-queries
    cells: tuple[int, ...] | None = None


def is_running(query: str) -> bool:
    """Is it a stretch of running totals?"""
    return query.startswith(RUNNING)


def stretch_of(query: str, price: int = 0, cells: Sequence[int] | None = None) -> Stretch:
    """The stretch that a stored text stands for."""
    span = json.loads(query)["running"]
    stream = query[query.index(OF) + len(OF) : -1]
    chosen = None if cells is None else tuple(cells)
    return Stretch(stream, span["from"], span["to"], price, chosen)


def stretches(connection: Connection) -> dict[str, list[Stretch]]:
    """What is paid for of every stream of the present rows, in order."""
    found: dict[str, list[Stretch]] = {}
    for (body,) in connection.execute(_bodies):
        fields = json.loads(body)
        stretch = stretch_of(fields["query"], fields["price"], fields["cells"])
        found.setdefault(stretch.stream, []).append(stretch)
    return found


def check_follow_on(connection: Connection, requests: Iterable[Request]) -> None:
    """Refuse a stretch that does not begin where its stream ends: rows before it have not paid."""
    asked = [stretch_of(r.query) for r in requests if is_running(r.query)]
    if not asked:
        return
    ends = {stream: parts[-1].last for stream, parts in stretches(connection).items()}
    for stretch in asked:
        if stretch.first != ends.get(stretch.stream, 0):
            raise QueryNotAllowed(
                "running: these totals have gone on meanwhile. Nothing was charged.\nAsk again."
            )
        ends[stretch.stream] = stretch.last


def reserved(connection: Connection, new: Mapping[str, Any]) -> list[Request]:
    """What new periods pay for the streams that go on: each from where it ends to the last."""
    schema = schema_of(new)
    listed = list(schema[str(schema.period)].listed or ())
    opened = [listed.index(p) for p in new["periods"]]
    found = []
    for stream, parts in stretches(connection).items():
        said = json.loads(stream)["strategy"]["running"]
        start, horizon, known = said["start"], said["horizon"], parts[-1].last
        # One that could not pay when it opened is among them: its rows are in later answers too.
        places = [i - start for i in opened if known <= i - start < horizon]
        if not places:
            continue
        first, last = min(places), max(places) + 1
        share = column_size(horizon, first) / column_size(horizon, parts[0].first)
        price = math.ceil(Fraction(parts[0].price) * share)
        periods = {listed[start + place] for place in places}
        cells = _like(schema, parts[0].cells, periods)
        found.append(Request(stretch_text(stream, known, last), price, cells))
    return found


def _like(schema: Schema, cells: tuple[int, ...] | None, periods: set[Any]) -> tuple[int, ...]:
    """The cells of these periods that are, but for the period, among those."""
    at = [c.name for c in schema.cell_columns].index(str(schema.period))
    every = schema.cells

    def rest(cell: tuple[Any, ...]) -> tuple[Any, ...]:
        return cell[:at] + cell[at + 1 :]

    wanted = {rest(every[i]) for i in (range(len(every)) if cells is None else cells)}
    return tuple(i for i, c in enumerate(every) if c[at] in periods and rest(c) in wanted)
