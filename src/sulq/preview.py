"""A statement before it is paid: its price, whether it is free, how exact it will be.

No private row is read. How exact a mean or a ratio will be depends on the rows, so it is
worked out on made-up ones (see rehearsing.py), as many as the table has.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sulq.answer import with_error
from sulq.database import add_noise
from sulq.price import Price
from sulq.question import Bundle

if TYPE_CHECKING:
    from sulq import Database
    from sulq.noise import Law
    from sulq.sql import Statement

MADE_UP = 20_000  # rows enough to know the sizes of groups


@dataclass(frozen=True, slots=True)
class Preview:
    """What a statement would cost and how exact it would be."""

    price: Price
    free: bool  # asked before: its stored answer costs nothing
    widths: dict[str, float]  # 95% half-width of each number: the middle one over the groups

    def __str__(self) -> str:
        if self.free:
            return "free: asked before, the stored answer comes back"
        within = ", ".join(f"{name} {_width(w)}" for name, w in self.widths.items())
        return f"price {self.price}" + (f"; expected within about {within} (95%)" if within else "")


def _width(width: float) -> str:
    if not math.isfinite(width):
        return "unknown"
    return "+/- " + with_error(0.0, width).split("+/- ")[1]


class Previews:
    """Looks at the statements of one database before they are paid."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._made_up: Database | None = None

    def look(self, text: str) -> Preview:
        """Price one SELECT. Nothing is spent; what may not be asked is refused here."""
        statement = self._db._statement(text)
        bundle = self._db._priced(list(statement.queries))
        known = self._db._ledger.find(bundle.text)
        return Preview(bundle.price, known is not None, self._widths(statement, bundle))

    def _widths(self, statement: Statement, bundle: Bundle) -> dict[str, float]:
        """The middle half-width over the groups, were rows spread evenly over their ranges."""
        table = statement.table(bundle.answers(self._expected(bundle), 0))
        out = {}
        for name in table.numbers:
            ends = zip(table[f"{name}_low"], table[f"{name}_high"], strict=True)
            halves = [(high - low) / 2 for low, high in ends]
            known = [h for h in halves if math.isfinite(h)]
            out[name] = statistics.median(known) if known else math.nan
        return out

    def _expected(self, bundle: Bundle) -> list[list[list[int]]]:
        """The sums over made-up rows, brought to the size of the table."""
        rows = self._rows()
        sums = rows._engine.sums([query for query, _ in bundle.parts])
        share = Fraction(self._db.rows, rows.rows)
        silence: defaultdict[Law, Iterator[int]] = defaultdict(lambda: itertools.repeat(0))
        return [
            add_noise(query, tariff, [[round(x * share) for x in row] for row in exact], silence)
            for (query, tariff), exact in zip(bundle.parts, sums, strict=True)
        ]

    def _rows(self) -> Database:
        if self._made_up is None:
            from sulq.rehearsing import rehearsal

            count = min(max(self._db.rows, 1), MADE_UP)
            self._made_up = rehearsal(self._db.schema, count, name=self._db.name)
        return self._made_up

    def close(self) -> None:
        """Let go of the made-up rows."""
        if self._made_up is not None:
            self._made_up.close()
