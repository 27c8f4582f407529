"""How a paid question becomes what the ledger stores: exact sums with the noise that was paid for.

The auditor has a policy of its own (audit/policy.py). Integers, nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sulq.engines.failures import Failure, attempt
from sulq.questions.discovery import Discovery
from sulq.questions.percentile_choice import Choice

if TYPE_CHECKING:
    from sulq.engines.base import Engine, Matrix
    from sulq.ledger import Charge
    from sulq.privacy.noise import Law, Noise
    from sulq.privacy.pricing import Tariff
    from sulq.questions.check import CheckedQuery
    from sulq.questions.question import Bundle
    from sulq.values.answer import Answer

LITTLE_NOISE = 8  # numbers, drawn sooner than a thread is begun
MUCH_NOISE = 64  # numbers, and
MANY_ROWS = 100_000  # rows, from which on noise is drawn while the rows are read

Given = TypeVar("Given")
Drawn = dict["Law", Iterator[int]]


class Reader(Protocol):
    """What a policy reads rows through, and draws its noise from: the pipeline."""

    @property
    def engine(self) -> Engine:
        """Where the rows are."""
        ...

    @property
    def noise(self) -> Noise:
        """Where the noise is drawn."""
        ...

    def sums(self, checked: Sequence[CheckedQuery], until: float | None = None) -> list[Matrix]:
        """Exact sums, by that moment if there is one."""
        ...

    def scanned(
        self, work: Callable[[], Given], questions: Sequence[str], *, paid: bool = True
    ) -> Given:
        """What this work gives that reads rows; a failure of it freezes the database."""
        ...


class Policy(Protocol):
    """How a paid question becomes what the ledger stores.

    What is written out here is so of a policy that decides nothing before rows are read.
    """

    def admit(
        self, bundle: Bundle, found: tuple[Charge, str | None] | None, request_id: str | None
    ) -> None:
        """Refuse a question that may not be paid for now. No row is read."""
        return

    def prepare(
        self, reader: Reader, groups: Sequence[Sequence[Bundle]], charges: dict[str, Charge]
    ) -> None:
        """What can be decided of paid questions before rows are timed; nothing private is read."""
        return

    def computed(
        self, reader: Reader, groups: Sequence[Sequence[Bundle]], charges: dict[str, Charge],
        until: float | None,
    ) -> dict[str, str]:  # fmt: skip
        """What is to be stored for each paid question, by its text; a group is of one order."""
        ...

    def answers(self, bundle: Bundle, stored: str, remaining: int, paid: bool) -> list[Answer]:
        """The answers that a stored text stands for."""
        ...

    def over_zeros(self, bundle: Bundle, noise: Noise) -> list[Answer]:
        """The answers if every sum were 0, computed as they are once rows are read."""
        ...


class WithNoise(Policy):
    """Every sum with noise of its own: how all questions but the auditor's are answered."""

    def computed(
        self, reader: Reader, groups: Sequence[Sequence[Bundle]], charges: dict[str, Charge],
        until: float | None,
    ) -> dict[str, str]:  # fmt: skip
        """Noisy sums as they are stored, from one scan.

        If the scan for several orders fails, each has one of its own, up to the first that fails by
        itself: what that means is decided there, and the others hear the same.
        """
        if len(groups) > 1:
            every = [bundle for group in groups for bundle in group]
            found = attempt(lambda: _noisy(reader, every, until))
            if not isinstance(found, Failure):
                return found
            if found.stopped is not None:
                raise found.stopped
        noisy: dict[str, str] = {}
        for group in groups:
            texts = [bundle.text for bundle in group]
            noisy |= reader.scanned(partial(_noisy, reader, group, until), texts)
        return noisy

    def answers(self, bundle: Bundle, stored: str, remaining: int, paid: bool) -> list[Answer]:
        """The stored integers in their own units."""
        return bundle.answers(json.loads(stored), remaining)

    def over_zeros(self, bundle: Bundle, noise: Noise) -> list[Answer]:
        """The answers if every sum were 0; a discovery names one value."""
        exact = (_one_value(c) or zeros(c) for c, _ in bundle.parts)
        return self.answers(bundle, _stored(bundle, exact, drawn([bundle], noise)), 0, True)


def noise_alone(bundles: Sequence[Bundle], noise: Noise) -> dict[str, str]:
    """What would be stored if every sum were 0."""
    return {b.text: _stored(b, (zeros(c) for c, _ in b.parts), drawn([b], noise)) for b in bundles}


def _noisy(reader: Reader, bundles: Sequence[Bundle], until: float | None) -> dict[str, str]:
    """One scan for all of them."""
    checked = [c for b in bundles for c, _ in b.parts]
    exact, noise = _at_once(lambda: reader.sums(checked, until), bundles, reader, until)
    each = iter(exact)
    return {b.text: _stored(b, each, noise) for b in bundles}


def _at_once(
    sums: Callable[[], list[Matrix]], bundles: Sequence[Bundle], reader: Reader, until: float | None
) -> tuple[list[Matrix], Drawn]:
    """Sums and noise. Much noise is drawn while the rows are read; before them if time is short,
    so that how long it takes to draw says nothing about the scan.
    """
    numbers = sum(c.drawn for b in bundles for c, _ in b.parts)
    most = MUCH_NOISE if reader.engine.rows < MANY_ROWS else LITTLE_NOISE
    if until is not None or numbers < most:
        noise = drawn(bundles, reader.noise)
        return sums(), noise
    with ThreadPoolExecutor(max_workers=1) as aside:
        later = aside.submit(drawn, bundles, reader.noise)
        return sums(), later.result()


def drawn(bundles: Sequence[Bundle], noise: Noise) -> Drawn:
    """All the noise that these need, each law's in one go."""
    needed: Counter[Law] = Counter()
    for query, tariff in (part for b in bundles for part in b.parts):
        often = Counter(map(id, tariff.laws))
        for number, law in _different(tariff).items():
            needed[law] += often[number] * query.drawn
    return {law: iter(noise.draw(law, count)) for law, count in needed.items()}


def _different(tariff: Tariff) -> dict[int, Law]:
    """A tariff's laws by identity: few objects, whose exact numbers are slow to compare."""
    return {id(law): law for law in tariff.laws}


def _stored(bundle: Bundle, exact: Iterator[Matrix], noise: Drawn) -> str:
    return json.dumps([add_noise(c, t, next(exact), noise) for c, t in bundle.parts])


def add_noise(query: CheckedQuery, tariff: Tariff, exact: Matrix, noise: Drawn) -> Matrix:
    """Integers plus integers, once, on the grid that the price was set for."""
    if query.mix is not None:
        exact = [[dot(m, row) for m in query.mix] for row in exact]
    measurement = query.measurement
    if isinstance(measurement, Choice):
        (law,) = tariff.laws
        return measurement.chosen(exact, noise[law])
    if isinstance(measurement, Discovery):
        (law,), (multiple,) = tariff.laws, tariff.multiples
        return measurement.named(exact, multiple, noise[law])
    if measurement is not None:
        exact = measurement.before_noise(exact)
    ready = {number: noise[law] for number, law in _different(tariff).items()}
    noisy = [
        [
            x * m + next(ready[id(law)])
            for x, m, law in zip(row, tariff.multiples, tariff.laws, strict=True)
        ]
        for row in exact
    ]
    return noisy if measurement is None else measurement.after_noise(noisy)


def _one_value(query: CheckedQuery) -> list[list[Any]]:
    """For a discovery the count of one value that surely reaches its threshold; else nothing."""
    found = query.measurement
    return [["", 2 * found.threshold]] if isinstance(found, Discovery) and found.drawn else []


def dot(a: Sequence[int], b: Sequence[int]) -> int:
    """The inner product, in whole numbers."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def zeros(query: CheckedQuery) -> Matrix:
    """The sums of no rows, in which no value is found."""
    if isinstance(query.measurement, Discovery):
        return []
    cells, width = query.shape
    return [[0] * width for _ in range(cells)]
