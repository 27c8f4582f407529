"""Regular expressions of a safe subset: what RE2 reads, and every engine answers alike.

Letters and digits, escaped signs, `.`, classes such as [a-z0-9_] and [^,], \\d \\w \\s and their
opposites (ASCII), anchors ^ and $, groups, alternatives, and the repetitions * + ? {2} {2,} {2,5}.
No backreferences, no looking around, no flags: a match takes time in proportion to the text, and
at worst to the pattern's pieces with its repetitions written out, so these are counted and few.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sulq.errors import QueryNotAllowed

MAX_PATTERN = 200  # characters
MAX_REPEATS = 100  # that may be counted
MAX_GROUPS = 10  # within one another
MAX_PIECES = 120  # once counted repetitions are written out:
CLASS, OPPOSITE = 3, 4  # what a class counts at least, and one of all other characters
BEYOND_ASCII = 3  # what a character counts that takes several bytes
SIGNS = frozenset(r"\.^$|?*+()[]{}-/")  # that may be escaped,
CLASSES = frozenset("dDwWsS")  # and letters that stand for classes
ONWARD = "docs/reference/functions.md says what a pattern may hold."


@lru_cache(maxsize=256)
def check_pattern(pattern: str) -> str:
    """The pattern, or a refusal that says where it leaves the subset, or that it is too large.

    RE2 reads it here, before anything is paid: a pattern that it refuses would fail the scan.
    """
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise _refused(f"wants a pattern of 1 to {MAX_PATTERN} characters")
    if not pattern.isprintable():
        raise _refused("wants printable characters")
    pieces = pieces_of(pattern)
    if pieces > MAX_PIECES:
        raise _refused(
            f"{pattern!r} has {pieces:,} pieces with its repetitions written out, and may have "
            f"{MAX_PIECES} (a letter counts 1, a class {CLASS} or more). Nothing was charged. "
            "Count to less, write + or * for {2,50}, or ask for several patterns with AND or OR"
        )
    try:
        matcher(pattern)([""])
    except Exception:  # Arrow's, in RE2's words
        raise _refused(f"{pattern!r} is too large when its repetitions are written out") from None
    return pattern


def pieces_of(pattern: str) -> int:
    """How many pieces it has when its repetitions are written out; refused outside the subset.

    Where RE2 has too many states to keep, each letter of a text takes time in proportion to this.
    """
    return _Checker(pattern).alternatives(0)


def _refused(why: str) -> QueryNotAllowed:
    return QueryNotAllowed(f"regexp_matches: {why}. {ONWARD}")


class _Checker:
    """Walks over a pattern once, from left to right, and counts its pieces."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._repetitions = 0  # seen so far

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

    def alternatives(self, depth: int) -> int:
        """One or several, up to the end or to the bracket that closes them."""
        if depth > MAX_GROUPS:
            raise self._fail(f"more than {MAX_GROUPS} groups within one another")
        pieces = 0
        while self._next and self._next != ")":
            if self._next == "|":
                self._at += 1
                pieces += 1
            else:
                pieces += self._repeated(depth)
        if self._next and not depth:
            raise self._fail("a bracket that nothing opened")
        return pieces

    def _repeated(self, depth: int) -> int:
        """One piece, and how often it may come."""
        anchor = self._next in ("^", "$")
        before = self._repetitions
        pieces = self._piece(depth)
        if self._next not in ("*", "+", "?", "{") or not self._next:
            return pieces
        if anchor:
            raise self._fail("an anchor does not repeat")
        nested = self._repetitions > before
        self._repetitions += 1
        if self._take() != "{":
            pieces += 1
        elif nested:
            raise self._fail(
                "a group that holds a repetition is not counted (nothing was charged); write "
                "(a{2}b){3} as a{2}ba{2}ba{2}b, or as (a{2}b)+: this"
            )
        else:
            pieces = self._counted(pieces)
        if self._next in ("*", "+", "?", "{") and self._next:
            raise self._fail("one repetition after another; put a group around the first")
        return pieces

    def _counted(self, pieces: int) -> int:
        """Pieces written out as often as they may come, and 1 for each that may be missing."""
        least = self._number()
        most = least
        if self._next == ",":
            self._at += 1
            most = least + 1 if self._next == "}" else self._number()
        if self._take() != "}" or most < least:
            raise self._fail("wants {2}, {2,} or {2,5}")
        return max(most, 1) * pieces + most - least

    def _number(self) -> int:
        digits = ""
        while self._next.isascii() and self._next.isdigit():
            digits += self._take()
        if not digits or int(digits) > MAX_REPEATS:
            raise self._fail(f"wants a number up to {MAX_REPEATS}")
        return int(digits)

    def _piece(self, depth: int) -> int:
        sign = self._take()
        if sign == "(":
            if self._next == "?":
                self._at += 1
                if self._take() != ":":
                    raise self._fail("only (...) and (?:...) are groups here")
            pieces = self.alternatives(depth + 1)
            if self._take() != ")":
                raise self._fail("a group that is not closed")
            return pieces + 1
        if sign == "[":
            return self._set()
        if sign == "\\":
            if not self._escaped():
                return 1
            return OPPOSITE if self._pattern[self._at - 1].isupper() else CLASS
        if sign in ("*", "+", "?", "{", "}", "]"):
            self._at -= 1
            raise self._fail(f"a {sign} that stands for nothing; write \\{sign}")
        return CLASS if sign == "." else _weight(sign)

    def _escaped(self) -> bool:
        """Does what is escaped stand for several characters?"""
        sign = self._take()
        if sign not in SIGNS | CLASSES:
            raise self._fail(f"\\{sign} is not in the subset")
        return sign in CLASSES

    def _set(self) -> int:
        """[abc], [a-z], [^,]: as many pieces as characters and ranges, or a few at least."""
        least, pieces = CLASS, 0
        if self._next == "^":
            self._at += 1
            least = OPPOSITE
        if self._next == "]":
            raise self._fail("a class without characters")
        while self._next != "]":
            first = self._one()
            pieces += _weight(first)
            if self._next == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._one()
                if first is None or last is None or last < first:
                    raise self._fail("a range that is none")
                pieces += _weight(last) - 1
        self._at += 1
        return max(least, pieces)

    def _one(self) -> str | None:
        """A character of a class; None: a class of its own."""
        sign = self._take()
        if sign == "[":
            raise self._fail("a [ in a class; write \\[")
        if sign != "\\":
            return sign
        return None if self._escaped() else self._pattern[self._at - 1]


def _weight(sign: str | None) -> int:
    """What a character counts; None: a class within a class."""
    if sign is None:
        return OPPOSITE
    return 1 if sign.isascii() else BEYOND_ASCII


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[list[str]], list[bool]]:
    """Which of some texts a pattern is found in, by RE2: in time linear in the text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def found(texts: list[str]) -> list[bool]:
        matched: list[bool] = pc.match_substring_regex(
            pa.array(texts, pa.string()), pattern
        ).to_pylist()
        return matched

    return found
