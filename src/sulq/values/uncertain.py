"""Arithmetic with noisy numbers: every result knows how far the noise may have moved it.

An error is kept by where it comes from. Answers to different questions have noise of their own, so
their errors add up as squares do; the same answer twice is the same noise, so that a - a is 0
exactly. What was computed from several answers (an estimate, a table asked together with others)
may share noise with anything, so its error is added in full: too wide rather than too narrow.
Products and quotients go by their slopes (the delta method). A divisor nearer to 0 than four
standard deviations leaves nothing to say.
"""

from __future__ import annotations

import html
import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sulq.errors import Refused
from sulq.values.number_text import NOISY, Spread, receipt, with_interval

if TYPE_CHECKING:
    from sulq.values.price import Price

NOT_OURS: Any = NotImplemented  # what Python is told of other kinds of numbers
FAR = 4.0  # standard deviations that a divisor must be away from 0


@dataclass(frozen=True, slots=True)
class Own:
    """Noise that a question has for itself."""

    question: Hashable


class Linked:
    """Noise that others may have a part in; the same only as itself."""


Errors = Mapping[Hashable, float]  # by source: how far one standard deviation of it moves a number


class Arithmetic:
    """What a single noisy number can be done with, wherever it is from."""

    # numpy's numbers leave it to us what 2 * answer is.
    __array_ufunc__ = None

    @abstractmethod
    def uncertain(self) -> Uncertain:
        """The number with its errors by source."""

    def __add__(self, other: Any) -> Any:
        return _both(self, other, lambda a, b: a + b, lambda a, b: (1.0, 1.0))

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return _both(self, other, lambda a, b: a - b, lambda a, b: (1.0, -1.0))

    def __rsub__(self, other: Any) -> Any:
        return _both(other, self, lambda a, b: a - b, lambda a, b: (1.0, -1.0))

    def __mul__(self, other: Any) -> Any:
        return _both(self, other, lambda a, b: a * b, lambda a, b: (b, a), bent=True)

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __truediv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, bool) or not isinstance(power, int | float):
            return NotImplemented
        a = self.uncertain()
        if a.value < 0 and power != int(power):
            raise Refused(f"{a.value:g} ** {power:g} is no number: the noise made it negative.")
        if power < 0 and _near_zero(a):
            return _unknown(a, a)
        slope = power * a.value ** (power - 1) if power else 0.0
        return a.through(a.value**power, slope)

    def __neg__(self) -> Uncertain:
        a = self.uncertain()
        return a.through(-a.value, -1.0)

    def __pos__(self) -> Uncertain:
        return self.uncertain()

    def __abs__(self) -> Uncertain:
        a = self.uncertain()
        return a.through(abs(a.value), math.copysign(1.0, a.value))

    # Order is that of the noisy numbers, so that sorted() and max() work; whether two differ by
    # more than noise is for (a - b).interval() to say.

    def __lt__(self, other: Any) -> Any:
        return _order(self, other, lambda a, b: a < b)

    def __le__(self, other: Any) -> Any:
        return _order(self, other, lambda a, b: a <= b)

    def __gt__(self, other: Any) -> Any:
        return _order(self, other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Any:
        return _order(self, other, lambda a, b: a >= b)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.uncertain().value, digits)

    def __format__(self, spec: str) -> str:
        """The number as `spec` says, without its error; all of it without a `spec`."""
        return format(self.uncertain().value, spec) if spec else str(self)


@dataclass(frozen=True, repr=False)
class Uncertain(Arithmetic):
    """A number computed from noisy ones: `value`, `std`, `interval(level)`, `float(x)`."""

    value: float
    errors: Errors = field(default_factory=dict)
    spread: Spread = field(default=lambda level: normal(level), compare=False)
    ends: tuple[float, float] | None = None  # 95%, where they are not equally far away
    price: Price | None = None  # of the question that it answers, if it answers one
    remaining: int = 0
    note: str = ""

    def uncertain(self) -> Uncertain:
        """Itself."""
        return self

    @property
    def std(self) -> float:
        """The standard deviation of its noise; where noise may be shared, at most that."""
        own = math.hypot(*(e for s, e in self.errors.items() if not isinstance(s, Linked)))
        return own + sum(abs(e) for s, e in self.errors.items() if isinstance(s, Linked))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Low and high ends that hold the true number with probability `level`, about."""
        wide = normal(0.95)
        reach = self.spread(checked_level(level))
        if self.ends is not None:
            low, high = self.ends
            return (
                self.value - (self.value - low) * reach / wide,
                self.value + (high - self.value) * reach / wide,
            )
        return self.value - reach * self.std, self.value + reach * self.std

    def __float__(self) -> float:
        return self.value

    def through(self, value: float, slope: float) -> Uncertain:
        """A smooth function of it, with this value and slope."""
        return Uncertain(value, {s: slope * e for s, e in self.errors.items()}, self.spread)

    @property
    def said_shortly(self) -> str:
        """The number with its error: 4,213 +/- 340."""
        return with_interval(self.value, *self.interval()) if math.isfinite(self.std) else NOISY

    def __str__(self) -> str:
        sure = "exact" if not self.std and self.ends is None else "95%"
        said = f"{self.said_shortly} ({sure})"
        return said if self.price is None else f"{said}, {receipt(self)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(str(self))}</b></p>"


def checked_level(level: Any) -> float:
    """A level of confidence, or a refusal of what is none."""
    number = isinstance(level, int | float) and not isinstance(level, bool)
    if not number or not 0 < level < 1:
        raise Refused(f"level={level!r}, want a number between 0 and 1, such as 0.95.")
    return float(level)


def normal(level: float) -> float:
    """The half-width of a normal interval, in standard deviations."""
    return -NormalDist().inv_cdf((1 - level) / 2)


def _number(x: Any) -> Uncertain | None:
    """A noisy number or a plain one; None for anything else."""
    if isinstance(x, Arithmetic):
        return x.uncertain()
    if isinstance(x, bool) or not hasattr(type(x), "__float__") or hasattr(x, "__len__"):
        return None
    return Uncertain(float(x))


def _both(
    a: Any, b: Any, f: Callable[[float, float], float],
    slopes: Callable[[float, float], tuple[float, float]], bent: bool = False,
) -> Any:  # fmt: skip
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return NOT_OURS
    by_x, by_y = slopes(x.value, y.value)
    errors: dict[Hashable, float] = {s: by_x * e for s, e in x.errors.items()}
    for source, error in y.errors.items():
        errors[source] = errors.get(source, 0.0) + by_y * error
    if bent and x.errors and y.errors:  # what slopes leave out of a product
        errors[Own(object())] = x.std * y.std
    return Uncertain(f(x.value, y.value), {s: e for s, e in errors.items() if e}, _wider(x, y))


def _wider(x: Uncertain, y: Uncertain) -> Spread:
    """Half-widths of a sum in standard deviations: the widest of its parts."""
    if not y.errors or x.errors == y.errors:
        return x.spread
    if not x.errors:
        return y.spread
    one, other = x.spread, y.spread
    return lambda level: max(normal(level), one(level), other(level))


def _near_zero(x: Uncertain) -> bool:
    return bool(x.errors) and abs(x.value) < FAR * x.std


def _quotient(a: Any, b: Any) -> Any:
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return NOT_OURS
    if _near_zero(y) and x.errors != y.errors:
        return _unknown(x, y)
    return _both(x, y, lambda p, q: p / q, lambda p, q: (1 / q, -p / (q * q)))


def _unknown(x: Uncertain, y: Uncertain) -> Uncertain:
    """A quotient by what may be 0: any number at all."""
    value = x.value / y.value if y.value else math.nan
    return Uncertain(value, {Own(object()): math.inf}, _wider(x, y), note=NOISY)


def _order(a: Any, b: Any, test: Callable[[float, float], bool]) -> Any:
    x, y = _number(a), _number(b)
    return NOT_OURS if x is None or y is None else test(x.value, y.value)
