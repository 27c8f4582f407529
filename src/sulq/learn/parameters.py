"""What a learner may be told, declared once: where the learner is.

From a class's fields come its constructor, what is refused before anything is asked, the options
of `sulq learn`, the fields of the console's form, and docs/reference/learners.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, get_args, get_type_hints

import sulq

PLAIN = (int, float, bool, str)  # what can be typed on a command line


@dataclass(frozen=True, slots=True)
class About:
    """A learner as people choose it."""

    command: str  # of `sulq learn`
    words: str  # what it learns, in a sentence
    example: str  # the options of an example
    title: str = ""  # in the console; empty: it is not offered there
    label: str = ""  # what it predicts: "class", "number" or nothing
    categories: bool = False  # may its columns be categories?


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: what it may be, what it is if nothing is said, and what it means."""

    name: str
    kind: type
    optional: bool  # may it be None?
    default: Any
    help: str
    low: float | None = None
    high: float | None = None  # where `low` and `high` are both given, they are left out
    above: bool = False  # is `low` itself left out?
    choices: tuple[str, ...] = ()
    shared: bool = False  # of every learner
    words: str = ""  # its name in the console's form; empty: it is not there
    first: int = 1  # what the form has at first
    most: int = 1  # what the form allows

    @property
    def plain(self) -> bool:
        """Can it be typed as a text?"""
        return self.kind in PLAIN

    @property
    def wanted(self) -> str:
        """What it may be, in words."""
        if self.choices:
            return " or ".join(map(repr, self.choices))
        if self.high is not None:
            return f"a number between {self.low:g} and {self.high:g}"
        if self.low is not None and self.above:
            return f"a number above {self.low:g}"
        return f"{self.low:g} or more" if self.low is not None else ""

    def check(self, value: Any) -> None:
        """Refuse what it may not be."""
        if not self._fits(value):
            raise sulq.Refused(f"{self.name}={value!r}, want {self.wanted}.")

    def _fits(self, value: Any) -> bool:
        if (value is None and self.optional) or not self.wanted:
            return True
        if self.choices:
            return value in self.choices
        number = Integral if self.kind is int else Real
        if isinstance(value, bool) or not isinstance(value, number) or self.low is None:
            return False
        value = float(value)
        if self.default == self.low and value == self.low:  # what it is anyway
            return True
        over = value > self.low if self.above or self.high is not None else value >= self.low
        return bool(over and (self.high is None or value < self.high))


def checked_share(name: str, value: Any) -> float:
    """A number between 0 and 1, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise sulq.Refused(f"{name}={value!r}, want a number between 0 and 1.")
    return float(value)


def checked_whole(name: str, value: Any, low: int, high: int, more: str = "") -> int:
    """A whole number from low to high, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise sulq.Refused(f"{name}={value!r}, want {low:,} to {high:,}{more}.")
    return value


def parameter(default: Any, help: str, **more: Any) -> Any:
    """A field of a learner: what it is if nothing is said, what it means, what it may be."""
    return field(default=default, metadata={"help": help, **more})


@cache
def parameters_of(learner: type) -> tuple[Parameter, ...]:
    """A learner's parameters: its own, those that all learners share, what is for arrays."""
    hints = get_type_hints(learner)
    found = [_parameter(f.name, hints[f.name], f.default, f.metadata) for f in fields(learner)]
    return tuple(sorted(found, key=lambda p: p.shared + 2 * (not p.plain)))


def _parameter(name: str, hint: Any, default: Any, more: Any) -> Parameter:
    kinds = get_args(hint) or (hint,)
    optional = type(None) in kinds
    return Parameter(name, next(k for k in kinds if k is not type(None)), optional, default, **more)
