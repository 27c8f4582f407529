"""Tables of an audited database: several numbers that are paid, judged and stored as one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sulq.audit.table_basis import Table, Weights
from sulq.errors import MICRO
from sulq.questions.question import Bundle, released_answer, spread_of
from sulq.values.answer import Answer
from sulq.values.price import Price
from sulq.values.query import Query


@dataclass(frozen=True, slots=True)
class TableBundle(Bundle):
    """Questions of one number each, from which the numbers of the tables are read."""

    tables: tuple[Table, ...] = ()
    places: Mapping[Query, int] = field(default_factory=dict)  # of a question among the parts

    @property
    def price(self) -> Price:
        """One query for each number that is judged; the half-widths of what is laid out."""
        micro = sum(tariff.price.micro for _, tariff in self.parts)
        stds = self._stds()
        spread = spread_of(tariff.laws[0] for _, tariff in self.parts)(0.95)
        each = (max(row[i] for row in table) for table in stds for i in range(len(table[0])))
        return Price(micro, tuple(spread * std for std in each))

    def answers(self, noisy: list[list[list[int]]], remaining: int) -> list[Answer]:
        """Each table, from the sums of the parts on their grids."""
        exact = [
            x[0][0] * tariff.steps[0] for x, (_, tariff) in zip(noisy, self.parts, strict=True)
        ]
        read = [
            [[self._read(number, exact) for number in row] for row in table.numbers]
            for table in self.tables
        ]
        return self.laid_out(read, remaining)

    def laid_out(self, exact: Sequence[list[list[Fraction]]], remaining: int) -> list[Answer]:
        """Each table with its numbers, their errors and its part of the price."""
        spread = spread_of(tariff.laws[0] for _, tariff in self.parts)
        out = []
        for table, numbers, stds, micro in zip(
            self.tables, exact, self._stds(), self._prices(), strict=True
        ):
            made = released_answer(table.checked, numbers, stds, spread)
            widest = tuple(spread(0.95) * max(row[i] for row in stds) for i in range(len(stds[0])))
            out.append(replace(made, price=Price(micro, widest), remaining=remaining))
        return out

    def _read(self, number: Weights, exact: Sequence[Fraction]) -> Fraction:
        return sum((w * exact[self.places[q]] for q, w in number.items()), Fraction(0))

    def _stds(self) -> list[list[list[float]]]:
        """How far dithers can move each number: what is read off several has more."""
        each = [tariff.laws[0].std * float(tariff.steps[0]) for _, tariff in self.parts]

        def of(number: Weights) -> float:
            found: dict[int, Fraction] = {}
            for query, weight in number.items():
                place = self.places[query]
                found[place] = found.get(place, Fraction(0)) + weight
            return math.sqrt(sum((float(w) * each[i]) ** 2 for i, w in found.items()))

        return [[[of(number) for number in row] for row in t.numbers] for t in self.tables]

    def _prices(self) -> list[int]:
        """What each table adds to the price: what no table before it needs."""
        seen: set[int] = set()
        out = []
        for table in self.tables:
            new = {self.places[q] for row in table.numbers for n in row for q in n} - seen
            seen |= new
            out.append(sum(self.parts[i][1].price.micro for i in new))
        assert sum(out) % MICRO == 0
        return out
