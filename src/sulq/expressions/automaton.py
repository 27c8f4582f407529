"""A pattern as a finite automaton, built before anything is paid, and texts walked through it.

Thompson's construction, then subsets of its places. A step through a text is one look into a
table, whatever the pattern, the letter and the state: no text is slower than another of its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sulq.expressions.columns import Array

Ranges = tuple[tuple[int, int], ...]  # of code points, both ends in
LAST = 0x10FFFF  # the last code point
MAX_STATES = 1000
MAX_CELLS = 30_000  # states times kinds of letters: what building a table takes
MAX_KINDS = 255  # a byte each
FEW = 128  # texts of which each is walked alone; more take their steps together


class TooManyStates(Exception):
    """The automaton is larger than the limit."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One letter of these ranges."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Anchor:
    """The beginning of a text, or its end."""

    begin: bool


@dataclass(frozen=True, slots=True)
class Sequel:
    """One after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of them."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """So often at least; None: as often as one likes."""

    part: Part
    least: int
    most: int | None


Part = Letter | Anchor | Sequel | Choice | Repeat


def places_of(part: Part) -> int:
    """How many places it has when its repetitions are written out."""
    if isinstance(part, Sequel | Choice):
        return 1 + sum(map(places_of, part.parts))
    if isinstance(part, Repeat):
        times = part.least + 1 if part.most is None else part.most
        return max(times, 1) * (places_of(part.part) + 1)
    return 1


class Places:
    """Thompson's automaton: places, free steps between them, letters that lead on."""

    def __init__(self) -> None:
        self.free: list[list[tuple[int, bool | None]]] = []  # where to, and at which anchor only
        self.letters: dict[int, tuple[Ranges, int]] = {}

    def new(self) -> int:
        """One more place."""
        self.free.append([])
        return len(self.free) - 1

    def add(self, part: Part, start: int) -> int:
        """The place that is reached from `start` through this part."""
        if isinstance(part, Letter):
            end = self.new()
            self.letters[start] = (part.ranges, end)
            return end
        if isinstance(part, Anchor):
            end = self.new()
            self.free[start].append((end, part.begin))
            return end
        if isinstance(part, Sequel):
            for one in part.parts:
                start = self.add(one, self._after(start))
            return start
        if isinstance(part, Choice):
            ends = [self.add(one, self._after(start)) for one in part.parts]
            end = self.new()
            for one_end in ends:
                self.free[one_end].append((end, None))
            return end
        return self._add_repeat(part, start)

    def _after(self, start: int) -> int:
        end = self.new()
        self.free[start].append((end, None))
        return end

    def _add_repeat(self, part: Repeat, start: int) -> int:
        for _ in range(part.least):
            start = self.add(part.part, self._after(start))
        if part.most is None:
            begin = self._after(start)
            end = self.add(part.part, self._after(begin))
            self.free[end].append((begin, None))
            return self._after(begin)
        leaving = [start]
        for _ in range(part.most - part.least):
            start = self.add(part.part, self._after(start))
            leaving.append(start)
        end = self.new()
        for place in leaving:
            self.free[place].append((end, None))
        return end

    def reached(self, places: int, anchors: Set[bool] = frozenset()) -> int:
        """All places (as bits) that these lead to without a letter, where these anchors hold."""
        found, todo = places, list(_bits(places))
        while todo:
            for end, anchor in self.free[todo.pop()]:
                if not found >> end & 1 and (anchor is None or anchor in anchors):
                    found |= 1 << end
                    todo.append(end)
        return found


def _bits(places: int) -> Iterator[int]:
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


@dataclass(frozen=True)
class Kinds:
    """Letters that no place tells apart."""

    starts: tuple[int, ...]  # the code points at which another kind begins,
    which: tuple[int, ...]  # and which kind that is
    leads: tuple[dict[int, int], ...]  # for each kind: place -> the place that it leads to


def _kinds(letters: dict[int, tuple[Ranges, int]]) -> Kinds:
    cuts = {0}
    for ranges, _ in letters.values():
        cuts.update(cut for low, high in ranges for cut in (low, high + 1))
    starts = sorted(cut for cut in cuts if cut <= LAST)
    leads: dict[tuple[int, ...], dict[int, int]] = {}
    which = []
    for start in starts:
        there = {
            place: end
            for place, (ranges, end) in letters.items()
            if any(low <= start <= high for low, high in ranges)
        }
        leads.setdefault(tuple(there), there)
        which.append(list(leads).index(tuple(there)))
    return Kinds(tuple(starts), tuple(which), tuple(leads.values()))


@dataclass(frozen=True)
class Automaton:
    """Every state, and where each kind of letter leads from it.

    State 0 is that the pattern was found, which nothing leaves; state 1 is the first.
    """

    kinds: Kinds
    table: tuple[tuple[int, ...], ...]  # state -> kind -> state
    ends: tuple[bool, ...]  # is the pattern found if a text ends in this state?

    @cached_property
    def _steps(self) -> Array:
        """The table in one row; states are numbered by where they begin in it."""
        return np.array(self.table, dtype=np.int64).ravel() * len(self.table[0])

    def _kinds_of(self, texts: Sequence[str]) -> Array:
        letters = np.frombuffer(
            "".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32
        )
        many = np.diff(np.array([*self.kinds.starts, LAST + 1]))
        return np.asarray(np.repeat(np.array(self.kinds.which, dtype=np.uint8), many)[letters])

    def found_in(self, texts: Sequence[str]) -> Array:
        """In which of these the pattern is found: every letter is looked at, none twice.

        Texts take their steps together, the longest first; the last few are walked one by one.
        """
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        order = np.argsort(-lengths, kind="stable")
        at, left = (np.cumsum(lengths) - lengths)[order], lengths[order]
        kinds, width = self._kinds_of(texts), len(self.table[0])
        states = np.full(len(texts), width, dtype=np.int64)
        step = 0
        while (many := int(np.searchsorted(-left, -step))) >= FEW:
            states[:many] = self._steps[states[:many] + kinds[at[:many] + step]]
            step += 1
        steps = self._steps.tolist() if many else []
        for i in range(many):
            state, start = int(states[i]), int(at[i])
            for kind in kinds[start + step : start + int(left[i])].tobytes():
                state = steps[state + kind]
            states[i] = state
        found = np.empty(len(texts), dtype=bool)
        found[order] = np.array(self.ends)[states // width]
        return found


class _Subsets:
    """States, each of them a set of places, found one after the other."""

    def __init__(self, places: Places, first: int, last: int, kinds: Kinds) -> None:
        self._places, self._kinds, self._found = places, kinds, 1 << last
        self._most = min(MAX_STATES, MAX_CELLS // len(kinds.leads))
        self._after = {end: places.reached(1 << end) for _, end in places.letters.values()}
        self._anew = places.reached(1 << first)  # a match may begin anywhere
        self._numbers: dict[tuple[int, bool], int] = {}
        self._states: list[tuple[int, bool]] = []
        self.ends = [True]
        self._number(places.reached(1 << first, {True}), True)

    def _number(self, state: int, first: bool = False) -> int:
        """Its number; the first is like no other, since only there a text begins."""
        if state & self._found and not first:
            return 0
        if (state, first) not in self._numbers:
            if len(self.ends) >= self._most:
                raise TooManyStates
            self._numbers[state, first] = len(self.ends)
            self._states.append((state, first))
            end = self._places.reached(state, {True, False} if first else {False})
            self.ends.append(bool(end & self._found))
        return self._numbers[state, first]

    def table(self) -> Iterator[tuple[int, ...]]:
        """Where each kind of letter leads from each state."""
        yield tuple(0 for _ in self._kinds.leads)
        for state, _ in self._states:  # it grows meanwhile
            if state & self._found:
                yield tuple(0 for _ in self._kinds.leads)
            else:
                yield tuple(self._step(state, leads) for leads in self._kinds.leads)

    def _step(self, state: int, leads: dict[int, int]) -> int:
        following = self._anew
        for place in _bits(state):
            if place in leads:
                following |= self._after[leads[place]]
        return self._number(following)


def automaton_of(part: Part) -> Automaton:
    """The automaton that finds the pattern anywhere in a text; TooManyStates if it is too large."""
    places = Places()
    first = places.new()
    last = places.add(part, first)
    kinds = _kinds(places.letters)
    if len(kinds.leads) > MAX_KINDS:
        raise TooManyStates
    subsets = _Subsets(places, first, last, kinds)
    return Automaton(kinds, tuple(subsets.table()), tuple(subsets.ends))
