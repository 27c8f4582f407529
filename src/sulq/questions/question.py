"""A question checked and priced, before it is paid: its bundles, and how answers are laid out.

A bundle is what the ledger knows as one question: one price, one charge, one stored answer.
Nothing here looks at rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from sulq.privacy.noise import Law
from sulq.privacy.pricing import Tariff
from sulq.programs.library import Spec
from sulq.questions.check import CheckedQuery
from sulq.questions.discovery import Discovery
from sulq.questions.facts import Fact, merged
from sulq.questions.measurements import Combined
from sulq.questions.partitions import Axis
from sulq.questions.programs_used import programs_of
from sulq.questions.shards import KeySet
from sulq.values.answer import Answer
from sulq.values.discovered import Discovered
from sulq.values.number_text import Spread
from sulq.values.price import Price
from sulq.values.query import Query

ReadOff = Callable[[list[Answer]], list[Answer]]  # answers to many questions, from those to fewer


@dataclass(frozen=True, slots=True)
class Bundle:
    """Checked queries that are one question: asked, paid and stored together."""

    parts: tuple[tuple[CheckedQuery, Tariff], ...]
    queries: tuple[Query, ...] = ()  # the same as they were asked, for the way over a wire
    charged_as: str | None = None  # the text of an old charge for the same

    @property
    def text(self) -> str:
        """Canonical JSON: one query's own, or the list of them."""
        if self.charged_as is not None:
            return self.charged_as
        texts = [c.text for c, _ in self.parts]
        return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"

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
    def key_sets(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """The sets of keys that name their rows, by hash."""
        samples = (checked.sample for checked, _ in self.parts)
        return tuple((str(s[1]), s.values) for s in samples if isinstance(s, KeySet))

    @property
    def discoveries(self) -> int:
        """How many of them name values that nobody listed."""
        return sum(isinstance(checked.measurement, Discovery) for checked, _ in self.parts)

    @property
    def of_people(self) -> bool:
        """Are all about people, each with one row in place of the table's own?"""
        return all(checked.people is not None for checked, _ in self.parts)

    @property
    def programs(self) -> tuple[Spec, ...]:
        """The programs that they run."""
        return tuple(spec for checked, _ in self.parts for spec in programs_of(checked))

    def answers(self, noisy: list[list[list[int]]], remaining: int) -> list[Answer]:
        """Noisy integers on their grids as numbers in their own units."""
        return [
            _answer(query, tariff, sums, remaining)
            for (query, tariff), sums in zip(self.parts, noisy, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Question:
    """What will be asked and paid, and how the answers are laid out; nothing is spent yet."""

    bundles: tuple[Bundle, ...]
    lay_out: Callable[[list[list[Answer]], list[Answer]], Any]  # of bundles and facts
    facts: tuple[Fact, ...] = ()  # what is public of it: exact and free
    half_widths: tuple[float, ...] | None = None  # 95%, where other numbers are laid out than paid
    across: bool = False  # does the layout read a number off several cells, as a quantile?
    apart: bool = False  # are its bundles about different rows, each of which pays for one?
    is_ready: bool = False  # was it run over zeros, so that only the engine can fail?

    @property
    def price(self) -> Price:
        """The price; equal bundles are paid once, and what is public is free."""
        distinct = {bundle.text: bundle.price for bundle in self.bundles}
        if self.apart:
            most = max(price.micro for price in distinct.values())
            return Price(most, self.half_widths or ())
        price = sum([*distinct.values(), *(fact.price for fact in self.facts)], Price(0))
        return price if self.half_widths is None else Price(price.micro, self.half_widths)

    @property
    def checked(self) -> list[CheckedQuery]:
        """Every query that rows are read for, private or public."""
        private = [c for bundle in self.bundles for c, _ in bundle.parts]
        return [*private, *(fact.checked for fact in self.facts)]

    @property
    def programs(self) -> tuple[Spec, ...]:
        """The programs that it runs."""
        return tuple(spec for bundle in self.bundles for spec in bundle.programs)

    @property
    def numbers(self) -> int:
        """How many numbers its answer has."""
        return sum(c.numbers for c in self.checked)


@dataclass(frozen=True, slots=True)
class Unopened:
    """Periods that have not opened: no row is in their cells, as everybody knows."""

    column: str
    periods: frozenset[Any]

    def left_out(self, answer: Answer) -> Answer:
        """Rule out the cells of these periods."""
        if self.column not in answer.axes:
            return answer
        place, alone = answer.axes.index(self.column), len(answer.axes) == 1
        labels = [cell if alone else cell[place] for cell in answer.cells]
        cells = {i for i, label in enumerate(labels) if label in self.periods}
        return replace(answer, ruled_out=answer.ruled_out | cells)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Queries that are asked as one: the private part of them all, and what is public."""

    public: tuple[tuple[bool, ...], ...]  # of each query, which of its numbers are; (): none
    bundle: Bundle | None
    facts: tuple[Fact, ...]
    unopened: Unopened | None = None  # periods without rows, which are not listed

    @property
    def numbers(self) -> int:
        """How many numbers its answers have."""
        paid = () if self.bundle is None else self.bundle.parts
        return sum(c.numbers for c, _ in paid) + sum(f.checked.numbers for f in self.facts)

    def answers(self, private: list[Answer], known: list[Answer]) -> list[Answer]:
        """The answer to each query, from those to the bundle and to the facts."""
        left = min((a.remaining for a in private), default=None)
        if left is not None:  # what the charge left, whatever others have paid since
            known = [replace(a, remaining=left) for a in known]
        paid, free = iter(private), iter(known)
        answers = [
            merged(
                public,
                next(paid) if not public or not all(public) else None,
                next(free) if any(public) else None,
            )
            for public in self.public
        ]
        return answers if self.unopened is None else [self.unopened.left_out(a) for a in answers]


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """One plan for many queries: how their answers are read off its own, and how exact (95%)."""

    read_off: ReadOff
    plan: BatchPlan
    half_widths: tuple[float, ...]


def listed(plans: list[BatchPlan], shared: SharedPlan | None) -> Question:
    """A list of queries, each a question of its own, or the private ones from one shared plan."""
    bought = plans if shared is None else [shared.plan]
    bundles = tuple(p.bundle for p in bought if p.bundle)
    facts = tuple(fact for p in plans for fact in p.facts)
    more = () if shared is None else shared.plan.facts
    left = iter(() if shared is None else shared.half_widths)
    widths = tuple(next(left) if p.bundle else 0.0 for p in plans) if shared is not None else None

    def laid_out(found: list[list[Answer]], known: list[Answer]) -> list[Answer]:
        paid = found
        if shared is not None:
            own = shared.plan.answers(found[0], known[len(facts) :])
            paid = [[replace(a, noise=None)] for a in shared.read_off(own)]
        private, free = iter(paid), iter(known)
        return [
            p.answers(next(private) if p.bundle else [], [next(free) for _ in p.facts])[0]
            for p in plans
        ]

    return Question(bundles, laid_out, facts + more, widths)


def with_noise_of(origin: Hashable, bundle: Bundle, answers: list[Answer]) -> list[Answer]:
    """A bundle's answers, each knowing which noise is its own: asked again it is the same.

    `origin` stands for the database that drew it.
    """
    text = bundle.text
    return [replace(a, noise=(origin, text, i)) for i, a in enumerate(answers)]


def exact_answer(query: CheckedQuery, sums: list[list[int]], remaining: int) -> Answer:
    """Public sums, as engines add them up, in their own units."""
    mix, steps = query.mix, [r.step for r in query.releases]
    if mix is not None:
        sums = [[sum(x * y for x, y in zip(m, row, strict=True)) for m in mix] for row in sums]
    if query.measurement is not None:
        sums = query.measurement.of(sums)
    exact = [[x * step for x, step in zip(row, steps, strict=True)] for row in sums]
    return public_answer(query, exact, remaining)


def public_answer(query: CheckedQuery, exact: list[list[Fraction]], remaining: int) -> Answer:
    """Numbers without noise or price."""
    none = (0.0,) * len(query.releases)
    return _laid_out(query, exact, none, Price(0, none), remaining, lambda level: 0.0)


def released_answer(
    query: CheckedQuery, exact: list[list[Fraction]], stds: list[list[float]], spread: Spread
) -> Answer:
    """Numbers that were read off stored answers, each with its own error: free."""
    none = (0.0,) * len(query.releases)
    found = _laid_out(query, exact, none, Price(0), 0, spread)
    return replace(found, stds=tuple(map(tuple, stds)))


def spread_of(laws: Iterable[Law]) -> Spread:
    """Half-widths in standard deviations of a weighted sum of such noises: the widest of them."""
    kinds = {law for law in laws if law.std}

    def spread(level: float) -> float:
        normal = -NormalDist().inv_cdf((1 - level) / 2)
        return max([normal, *(law.half_width(level) / law.std for law in kinds)])

    return spread


def _answer(query: CheckedQuery, tariff: Tariff, noisy: list[list[Any]], remaining: int) -> Answer:
    if isinstance(query.measurement, Discovery):
        return _discovered(query.measurement, tariff, noisy, remaining)
    exact = [[x * step for x, step in zip(row, tariff.steps, strict=True)] for row in noisy]
    wider = 1.0 if query.measurement is None else query.measurement.deviation
    stds = tuple(
        law.std * float(s) * wider for law, s in zip(tariff.laws, tariff.steps, strict=True)
    )
    first = tariff.laws[0]

    def spread(level: float) -> float:
        return first.half_width(level) / first.std if first.std else 0.0

    return _laid_out(query, exact, stds, tariff.price, remaining, spread)


def _discovered(found: Discovery, tariff: Tariff, noisy: list[list[Any]], remaining: int) -> Answer:
    (law,), (step,) = tariff.laws, tariff.steps
    exact = tuple((count * step,) for _, count in noisy)
    stds, values = ((law.std * float(step),),) * len(noisy), tuple(value for value, _ in noisy)
    rows = -(-found.threshold * step.numerator // step.denominator)
    note = f"values that about {rows:,} rows or more have"
    return Discovered(
        exact, stds, values, ("count",), tariff.price, remaining,
        lambda level: law.half_width(level) / law.std, note=note, axes=found.axes,
    )  # fmt: skip


def _laid_out(
    query: CheckedQuery, exact: list[list[Fraction]], stds: tuple[float, ...], price: Price,
    remaining: int, spread: Spread,
) -> Answer:  # fmt: skip
    return Answer(
        tuple(map(tuple, exact)), (stds,) * len(exact), released_labels(query),
        tuple(r.name for r in query.releases), price, remaining, spread,
        axes=released_axes(query), ruled_out=_ruled_out(query),
        matrix=query.measurement.weights if isinstance(query.measurement, Combined) else None,
    )  # fmt: skip


def _ruled_out(query: CheckedQuery) -> frozenset[int]:
    """The cells that no row can be in, as the schema has it, or combinations within them."""
    axes = query.axes if query.measurement is None else query.axes[: query.measurement.kept]
    if not any(a.complete and None in a.labels for a in axes):
        return frozenset()
    out = ([a.complete and label is None for label in a.labels] for a in axes)
    none = [any(cell) for cell in itertools.product(*out)]
    each = query.released // len(none)
    return frozenset(i for i in range(query.released) if none[i // each])


def released_labels(query: CheckedQuery) -> tuple[Any, ...]:
    """A name for each cell, or combination of cells, of which numbers leave."""
    return cell_labels(query.axes) if query.measurement is None else query.measurement.labels


def released_axes(query: CheckedQuery) -> tuple[str, ...]:
    """What the parts of such a name are."""
    names = axis_names(query.axes)
    if query.measurement is None:
        return names
    return (*names[: query.measurement.kept], *query.measurement.axes)


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
