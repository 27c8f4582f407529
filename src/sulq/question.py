"""A question checked and priced, before it is paid: its bundles, and how answers are laid out.

A bundle is what the ledger knows as one question: one price, one charge, one stored answer.
Nothing here looks at rows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sulq.answer import Answer
from sulq.check import CheckedQuery
from sulq.partition import Axis
from sulq.price import Price, Tariff
from sulq.query import Query


@dataclass(frozen=True, slots=True)
class Bundle:
    """Checked queries that are one question: asked, paid and stored together."""

    parts: tuple[tuple[CheckedQuery, Tariff], ...]
    queries: tuple[Query, ...] = ()  # the same as they were asked, for the way over a wire

    @property
    def text(self) -> str:
        """Canonical: one query's own text, or the list of them."""
        texts = [c.text for c, _ in self.parts]
        return texts[0] if len(texts) == 1 else json.dumps(texts)

    @property
    def price(self) -> Price:
        """The price of them all."""
        return sum((t.price for _, t in self.parts), Price(0))

    @property
    def cells(self) -> tuple[int, ...] | None:
        """Every ledger cell that one of them concerns; None is everybody."""
        chosen: set[int] = set()
        for checked, _ in self.parts:
            if checked.ledger_cells is None:
                return None
            chosen |= set(checked.ledger_cells)
        return tuple(sorted(chosen))

    @property
    def work(self) -> Work:
        """How much work it is, from the question alone."""
        sizes = [(c.shape[0], len(c.releases)) for c, _ in self.parts]
        return Work(
            sum(len(c.text) for c, _ in self.parts),
            sum(values for _, values in sizes),
            sum(cells * values for cells, values in sizes),
        )

    def answers(self, noisy: list[list[list[int]]], remaining: int) -> list[Answer]:
        """Noisy integers on their grids as numbers in their own units."""
        return [
            _answer(query, tariff, sums, remaining)
            for (query, tariff), sums in zip(self.parts, noisy, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Work:
    """How much work a question is: what every row takes, and what its answer takes."""

    letters: int  # of its canonical text: expressions, centres and edges are all in it
    values: int  # numbers that every row adds to
    numbers: int  # noisy numbers in the answer

    def __add__(self, other: Work) -> Work:
        return Work(
            self.letters + other.letters, self.values + other.values, self.numbers + other.numbers
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What will be asked and paid, and how the answers are laid out; nothing is spent yet."""

    bundles: tuple[Bundle, ...]
    lay_out: Callable[[list[list[Answer]]], Any]

    @property
    def price(self) -> Price:
        """What it costs; equal bundles are paid once."""
        distinct = {bundle.text: bundle.price for bundle in self.bundles}
        return sum(distinct.values(), Price(0))

    @property
    def work(self) -> Work:
        """How much work it is, from the question alone."""
        return sum((bundle.work for bundle in self.bundles), Work(0, 0, 0))


def _answer(query: CheckedQuery, tariff: Tariff, noisy: list[list[int]], remaining: int) -> Answer:
    exact = tuple(
        tuple(x * step for x, step in zip(row, tariff.steps, strict=True)) for row in noisy
    )
    stds = tuple(law.std * float(s) for law, s in zip(tariff.laws, tariff.steps, strict=True))
    first = tariff.laws[0]
    return Answer(
        exact,
        (stds,) * len(exact),
        cell_labels(query.axes),
        tuple(r.name for r in query.releases),
        tariff.price,
        remaining,
        lambda level: first.half_width(level) / first.std if first.std else 0.0,
        axes=axis_names(query.axes),
    )


def axis_names(axes: tuple[Axis, ...]) -> tuple[str, ...]:
    """A name for each axis: its column's, or what kind of partition it is."""
    names: list[str] = []
    for axis in axes:
        plain = axis.node.value if axis.node is not None and axis.node.op == "column" else axis.kind
        count = sum(n.split(" ")[0] == plain for n in names)
        names.append(f"{plain} {count + 1}" if count else str(plain))
    return tuple(names)


def cell_labels(axes: tuple[Axis, ...]) -> tuple[Any, ...]:
    """Each cell's name: a label, a tuple of them for several axes, 'all' without any."""
    if not axes:
        return ("all",)
    if len(axes) == 1:
        return axes[0].labels
    return tuple(itertools.product(*(a.labels for a in axes)))
