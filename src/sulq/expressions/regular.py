"""Regular expressions of a safe subset: what RE2 reads, and every engine answers alike.

Letters and digits, escaped signs, `.`, classes such as [a-z0-9_] and [^,], \\d \\w \\s and their
opposites (ASCII), anchors ^ and $, groups, alternatives, and the repetitions * + ? {2} {2,} {2,5}.
No backreferences, no looking around, no flags. The whole automaton of a pattern is built before
anything is paid, and refused if it is large: a letter of a text is then one look into a table,
whatever the pattern and the letter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sulq.errors import QueryNotAllowed
from sulq.expressions.automaton import (
    LAST,
    MAX_CELLS,
    MAX_STATES,
    Anchor,
    Automaton,
    Choice,
    Letter,
    Part,
    Ranges,
    Repeat,
    Sequel,
    TooManyStates,
    automaton_of,
    places_of,
)
from sulq.expressions.columns import Array

MAX_PATTERN = 200  # characters
MAX_REPEATS = 100  # that may be counted
MAX_GROUPS = 10  # within one another
MAX_PLACES = 600  # once counted repetitions are written out
SIGNS = frozenset(r"\.^$|?*+()[]{}-/")  # that may be escaped,
CLASSES: dict[str, Ranges] = {  # and letters that stand for classes, as RE2 has them
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 10), (12, 13), (32, 32)),
}
ANY: Ranges = ((0, 9), (11, LAST))  # . is not the end of a line
ONWARD = "docs/reference/functions.md says what a pattern may hold."


def check_pattern(pattern: str) -> str:
    """The pattern, or a refusal that says where it leaves the subset, or that it is too large."""
    automaton(pattern)
    return pattern


@lru_cache(maxsize=256)
def automaton(pattern: str) -> Automaton:
    """All of a pattern's states, from the pattern alone; refused as `check_pattern` says."""
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise _refused(f"wants a pattern of 1 to {MAX_PATTERN} characters")
    if not pattern.isprintable():
        raise _refused("wants printable characters")
    part = _Reader(pattern).alternatives(0)
    places = places_of(part)
    if places > MAX_PLACES:
        raise _refused(
            f"{pattern!r} has {places:,} places with its repetitions written out, and may have "
            f"{MAX_PLACES}. Nothing was charged. Count to less, or write + or * for {{2,50}}"
        )
    try:
        return automaton_of(part)
    except TooManyStates:
        raise _refused(
            f"{pattern!r} needs more than {MAX_STATES:,} states, or {MAX_CELLS:,} times the kinds "
            "of letters it tells apart, to be found in one walk through a text. Nothing was "
            "charged. Let it begin with ^, count to less, write + or * for {2,50}, or ask for "
            "several patterns with AND or OR"
        ) from None


def matcher(pattern: str) -> Callable[[list[str]], Array]:
    """Which of some texts a pattern is found in: the same time for every letter of each."""
    return automaton(pattern).found_in


def _refused(why: str) -> QueryNotAllowed:
    return QueryNotAllowed(f"regexp_matches: {why}. {ONWARD}")


class _Reader:
    """Walks over a pattern once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _fail(self, why: str) -> QueryNotAllowed:
        return _refused(f"{self._pattern!r}: {why} at place {self._at + 1}")

    def _take(self) -> str:
        found = self._next
        if not found:
            raise self._fail("something is missing")
        self._at += 1
        return found

    def alternatives(self, depth: int) -> Part:
        """One or several, up to the end or to the bracket that closes them."""
        if depth > MAX_GROUPS:
            raise self._fail(f"more than {MAX_GROUPS} groups within one another")
        choices: list[list[Part]] = [[]]
        while self._next and self._next != ")":
            if self._next == "|":
                self._at += 1
                choices.append([])
            else:
                choices[-1].append(self._repeated(depth))
        if self._next and not depth:
            raise self._fail("a bracket that nothing opened")
        parts = tuple(Sequel(tuple(one)) for one in choices)
        return parts[0] if len(parts) == 1 else Choice(parts)

    def _repeated(self, depth: int) -> Part:
        """One piece, and how often it may come."""
        part = self._piece(depth)
        if self._next not in ("*", "+", "?", "{") or not self._next:
            return part
        if isinstance(part, Anchor):
            raise self._fail("an anchor does not repeat")
        sign = self._take()
        if sign == "{":
            part = self._counted(part)
        else:
            part = Repeat(part, int(sign == "+"), 1 if sign == "?" else None)
        if self._next in ("*", "+", "?", "{") and self._next:
            raise self._fail("one repetition after another; put a group around the first")
        return part

    def _counted(self, part: Part) -> Part:
        """{2}, {2,} or {2,5}."""
        least = self._number()
        most: int | None = least
        if self._next == ",":
            self._at += 1
            most = None if self._next == "}" else self._number()
        if self._take() != "}" or (most is not None and most < least):
            raise self._fail("wants {2}, {2,} or {2,5}")
        return Repeat(part, least, most)

    def _number(self) -> int:
        digits = ""
        while self._next.isascii() and self._next.isdigit():
            digits += self._take()
        if not digits or int(digits) > MAX_REPEATS:
            raise self._fail(f"wants a number up to {MAX_REPEATS}")
        return int(digits)

    def _piece(self, depth: int) -> Part:
        sign = self._take()
        if sign == "(":
            if self._next == "?":
                self._at += 1
                if self._take() != ":":
                    raise self._fail("only (...) and (?:...) are groups here")
            part = self.alternatives(depth + 1)
            if self._take() != ")":
                raise self._fail("a group that is not closed")
            return part
        if sign == "[":
            return self._set()
        if sign == "\\":
            return Letter(self._escaped())
        if sign in ("*", "+", "?", "{", "}", "]"):
            self._at -= 1
            raise self._fail(f"a {sign} that stands for nothing; write \\{sign}")
        if sign in ("^", "$"):
            return Anchor(sign == "^")
        return Letter(ANY if sign == "." else _one(sign))

    def _escaped(self) -> Ranges:
        """What is escaped: a sign, or a class."""
        sign = self._take()
        if sign in SIGNS:
            return _one(sign)
        if sign.lower() not in CLASSES:
            raise self._fail(f"\\{sign} is not in the subset")
        ranges = CLASSES[sign.lower()]
        return _opposite(ranges) if sign.isupper() else ranges

    def _set(self) -> Letter:
        """[abc], [a-z], [^,]."""
        opposite = self._next == "^"
        self._at += opposite
        if self._next == "]":
            raise self._fail("a class without characters")
        ranges: list[tuple[int, int]] = []
        while self._next != "]":
            first = self._member()
            if self._next == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._member()
                if not _is_one(first) or not _is_one(last) or last < first:
                    raise self._fail("a range that is none")
                first = ((first[0][0], last[0][0]),)
            ranges += first
        self._at += 1
        return Letter(_opposite(tuple(ranges)) if opposite else tuple(ranges))

    def _member(self) -> Ranges:
        sign = self._take()
        if sign == "[":
            raise self._fail("a [ in a class; write \\[")
        return self._escaped() if sign == "\\" else _one(sign)


def _one(sign: str) -> Ranges:
    return ((ord(sign), ord(sign)),)


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _opposite(ranges: Ranges) -> Ranges:
    """All other characters."""
    found, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, LAST)) if start <= LAST else tuple(found)
