"""Association rules: values that many rows have together, and what follows from them.

Counts by every column, every pair and so on up to `max_size` columns, each size asked together
(db.marginals). Sets of one size have noise that is independent of the other sizes', so that the
interval of a ratio follows from those of its counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import sulq
from sulq.learn.arrays import Column, boolean_columns
from sulq.learn.base import WELL_ABOVE, Learner
from sulq.learn.cuts import Cut
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, parameter
from sulq.learn.synthesizer import REACH, cut_of
from sulq.learn.task import NOBODY, LeftOut, Task, declared

SHOWN = 20  # rules in a summary
Item = tuple[str, Any]  # a column and its value
Items = tuple[Item, ...]


class Estimate(NamedTuple):
    """A number and the ends of the 95% interval that its noise leaves."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rule:
    """Of rows that have `given`, the share `confidence` has `then`: `lift` times that of all."""

    given: Items
    then: Item
    support: Estimate  # share of all rows that have both
    confidence: Estimate
    lift: Estimate

    def __str__(self) -> str:
        return f"{in_words(self.given)} -> {in_words((self.then,))}"


@dataclass(eq=False, repr=False)
class AssociationRules(Drawn, Learner):
    """Sets of values that at least `min_support` of the rows have, and rules between them.

    Columns are Boolean or have listed values; an item is a value, of a Boolean that it holds.
    A set is kept if its count is also four standard deviations above none: what noise could have
    made is not shown. sets_ holds the sets, counts_ and stds_ their noisy counts; `rules()` gives
    the rules that reach `min_confidence`, with intervals.
    """

    about = About(
        "rules", "Values that go together: frequent sets and rules, with intervals.",
        "--columns smoker,region --min-support 0.1 --out rules.json", "Association rules", "", True,
    )  # fmt: skip

    min_support: float = parameter(0.05, "The least share of rows.", low=0, high=1)
    min_confidence: float = parameter(0.5, "The least confidence of a rule.", low=0, high=1)
    max_size: int = parameter(
        2, "The most columns of a set.", low=1, words="Columns together", first=2, most=4
    )

    @staticmethod
    def _usable(column: Any) -> bool:
        return column.listed is not None

    def _inputs(self, X: Any) -> dict[str, Column]:
        return boolean_columns(X)

    def _questions(self, task: Task) -> list[sulq.Marginals]:
        """The tables of one column each, of two, and so on; the budget in equal parts."""
        for name in task.columns:
            if not self._usable(declared(task.db.schema, name)):
                raise sulq.QueryNotAllowed(
                    f"columns: {name!r} is neither Boolean nor a column with listed values."
                )
        sizes = range(1, min(self.max_size, len(task.columns)) + 1)
        share = None if task.budget is None else Fraction(task.budget) / len(sizes)
        where = task.complete
        return [sulq.Marginals(task.columns, k, where=where, budget=share) for k in sizes]

    def _price(self, task: Task) -> sulq.Price:
        return sum((task.db.price(asked) for asked in self._questions(task)), sulq.Price(0))

    def _fit(self, task: Task) -> None:
        db, asked = task.db, self._questions(task)
        task.check(self._price(task))
        answers = []
        with self._steps(db, len(asked)) as steps:
            for each in asked:
                found = db.marginals(task.columns, each.width, where=each.where, budget=each.budget)
                answers.append(found)
                steps.step()
        self._use(task)
        alone = answers[0]
        cuts = {name: cut_of(db, name, alone) for name in task.columns}
        total, std = total_of(alone, cuts)
        self.rows_ = max(float(total if task.complete else db.rows), 1.0)
        self.rows_std_ = std if task.complete else 0.0
        heard = [s for tables in answers for s in self._frequent(tables, cuts)]
        self.sets_ = tuple(items for items, _, _ in heard)
        self.counts_ = np.array([count for _, count, _ in heard])
        self.stds_ = np.array([std for _, _, std in heard])
        left = LeftOut(db.rows - self.rows_, self.rows_std_)
        self._leave_out(left if task.complete else NOBODY)

    def _frequent(
        self, tables: dict[tuple[str, ...], Any], cuts: dict[str, Cut]
    ) -> Iterator[tuple[Items, float, float]]:
        """The sets of some tables that have enough rows, with their counts and noise."""
        least = self.min_support * self.rows_
        for columns, table in tables.items():
            shape = [cuts[c].size for c in columns]
            counts = np.array(table["count"]).reshape(shape)
            std = float(np.max(np.array(table["count_high"]) - table["count"])) / REACH
            choices = [list(enumerate(cuts[c].values)) for c in columns]
            for cell in itertools.product(*choices):
                items = tuple((c, v) for c, (_, v) in zip(columns, cell, strict=True))
                count = float(counts[tuple(i for i, _ in cell)])
                absent = any(value is False for _, value in items)
                if not absent and count >= max(least, WELL_ABOVE * std):
                    yield items, count, std

    # --- using it -----------------------------------------------------------------------

    def rules(self) -> list[Rule]:
        """Rules with one value on the right, the most confident first."""
        self._check_fitted()
        known = {frozenset(s): (c, d) for s, c, d in zip(
            self.sets_, self.counts_.tolist(), self.stds_.tolist(), strict=True)}  # fmt: skip
        found = [
            self._rule(items, then, known)
            for items in self.sets_
            for then in items
            if len(items) > 1 and {frozenset(items) - {then}, frozenset({then})} <= known.keys()
        ]
        kept = [r for r in found if r.confidence.value >= self.min_confidence]
        return sorted(kept, key=lambda r: -r.confidence.value)

    def _rule(self, items: Items, then: Item, known: dict[Any, tuple[float, float]]) -> Rule:
        """With noises e, log(a/b) is off by e_a/a - e_b/b to first order: squares add up."""
        given = tuple(item for item in items if item != then)
        both, a, b = known[frozenset(items)], known[frozenset(given)], known[frozenset({then})]
        off = [(std / count) ** 2 for count, std in (both, a, b)]
        off.append((self.rows_std_ / self.rows_) ** 2)
        support, confidence = both[0] / self.rows_, both[0] / a[0]
        lift = confidence * self.rows_ / b[0]
        return Rule(
            given, then, estimate(support, off[0] + off[3], 1.0),
            estimate(confidence, off[0] + off[1], 1.0), estimate(lift, sum(off), math.inf),
        )  # fmt: skip

    def _words(self) -> str:
        found = self.rules()
        lines = [
            f"{len(self.sets_)} frequent sets, {len(found)} rules (95% intervals of the noise)"
        ]
        for rule in found[:SHOWN]:
            numbers = ", ".join(
                f"{name} {x.value:.3g} ({x.low:.3g} to {x.high:.3g})"
                for name, x in (("confidence", rule.confidence), ("support", rule.support),
                                ("lift", rule.lift))
            )  # fmt: skip
            lines.append(f"  {rule}: {numbers}")
        return "\n".join(lines + ["  ..."] * (len(found) > SHOWN))


def total_of(tables: dict[tuple[str, ...], Any], cuts: dict[str, Cut]) -> tuple[float, float]:
    """How many rows have a value in every column, and the noise of that: the surest table says."""
    found = []
    for (name,), table in tables.items():
        counts = np.array(table["count"])
        std = float(np.max(np.array(table["count_high"]) - counts)) / REACH
        known = counts[: len(cuts[name].values)]
        found.append((std * math.sqrt(len(known)), float(known.sum())))
    std, total = min(found)
    return total, std


def estimate(value: float, relative_variance: float, most: float) -> Estimate:
    """A positive number and its interval."""
    reach = REACH * value * math.sqrt(relative_variance)
    return Estimate(min(value, most), max(value - reach, 0.0), min(value + reach, most))


def in_words(items: Items) -> str:
    """smoker and region = north."""
    return " and ".join(c if v is True else f"{c} = {v}" for c, v in items) or "anybody"
