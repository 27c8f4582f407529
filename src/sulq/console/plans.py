"""A promise while one moves it: epsilon, delta, T, n -> the error of typical questions.

Every number is the product's own: the promise's words, and the price and error that a question
would really have. No row is known here, so n is what the owner says it is.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sulq.check import check
from sulq.console.forms import Form
from sulq.console.questions import quoted
from sulq.errors import MICRO, PromiseError, SulqError
from sulq.price import Price, tariff_of
from sulq.promise import SAYS_LITTLE, Promise
from sulq.query import Query
from sulq.schema import Column, Schema

# What questions are about where the owner's own schema is not known yet.
EXAMPLE = Schema.load(
    {
        "smoker": {"type": "boolean"},
        "age": {"type": "integer", "low": 0, "high": 100, "nullable": False},
        "region": {"values": ["north", "south", "east", "west"]},
    }
)
DEFAULTS = {
    "epsilon": "1", "delta": "0.000001", "queries": "1000", "rows": "20000", "noise": "gaussian",
    "guarantee": "beliefs",
}  # fmt: skip
MOST_ROWS = 10**12
STEPS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)  # of T, for the curve
SLOW = ("binomial", "stitched")  # seconds of work, so one at a time
_TURN = threading.Lock()
MOST_SLOW = 1000
FINE = 100  # one part in so many, as "within 1%"


@dataclass(frozen=True, slots=True)
class Line:
    """One typical question: its price, how far off it is, and what that means for n rows."""

    question: str
    price: str
    within: str
    means: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a promise comes to."""

    promise: Promise
    rows: int
    words: list[str]
    lines: list[Line]
    curve: list[tuple[float, float]]  # T and the 95% half-width of a count
    sampling: float  # 95% half-width of a count's sampling error
    warning: str

    @property
    def count(self) -> float:
        """The 95% half-width of a count."""
        return self.promise.half_width()

    @property
    def verdict(self) -> str:
        """Whether noise or chance decides how exact an answer is."""
        ratio = self.count / self.sampling
        if ratio < 0.5:
            return "Good: the noise is small beside the chance that picked these rows."
        if ratio <= 1:
            return "Fair: the noise is of the size of the chance that picked these rows."
        if ratio <= 5:
            return (
                "Rough: the noise is larger than the chance that picked these rows. Fewer queries, "
                "a larger epsilon or more rows would help."
            )
        return (
            "Too noisy for most questions: fewer queries, a larger epsilon or more rows are needed."
        )

    @property
    def good(self) -> bool:
        """Is the noise no larger than chance?"""
        return self.count <= self.sampling


def chosen(form: Form, defaults: Mapping[str, str] = DEFAULTS) -> dict[str, str]:
    """What is filled in, or what stands there at first."""
    return {name: form.get(name, value) for name, value in defaults.items()}


def plan(said: Mapping[str, str], schema: Schema = EXAMPLE) -> Plan:
    """What these choices come to, or PromiseError."""
    rows = _whole("n (rows)", said["rows"], MOST_ROWS)
    promise = promise_of(said)
    if promise.noise not in SLOW:
        return _planned(promise, rows, schema)
    if promise.queries > MOST_SLOW:
        raise PromiseError(
            f"T={promise.queries:,}: noise={promise.noise!r} takes long to work out, so this page "
            f"shows it up to {MOST_SLOW:,}. `sulq plan` shows it for any T."
        )
    if not _TURN.acquire(blocking=False):
        raise PromiseError(f"noise={promise.noise!r}: another plan is being worked out. Try again.")
    try:
        return _planned(promise, rows, schema)
    finally:
        _TURN.release()


def _planned(promise: Promise, rows: int, schema: Schema) -> Plan:
    return Plan(
        promise, rows, promise.explain(rows).splitlines(), list(_lines(promise, rows, schema)),
        _curve(promise),
        1.96 * math.sqrt(rows) / 2, _warning(promise),
    )  # fmt: skip


def promise_of(said: Mapping[str, str]) -> Promise:
    """The promise that is filled in, or PromiseError."""
    values: dict[str, Any] = {
        "epsilon": _number("epsilon", said["epsilon"]), "delta": _number("delta", said["delta"]),
        "queries": _whole("T (queries)", said["queries"], 10**12),
        "noise": said["noise"], "guarantee": said["guarantee"],
    }  # fmt: skip
    return _promise(**values)


@lru_cache(maxsize=256)
def _promise(**values: Any) -> Promise:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said on the page instead
        return Promise(**values)


def _warning(promise: Promise) -> str:
    if promise.epsilon <= SAYS_LITTLE:
        return ""
    return f"An epsilon of {promise.epsilon:g} promises little. Up to {SAYS_LITTLE:g} is usual."


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PromiseError(f"{name}={text[:40]!r}: want a number.") from None


def _whole(name: str, text: str, most: int) -> int:
    plain = text.replace(",", "").replace("_", "").replace(" ", "")
    if not (plain.isascii() and plain.isdecimal() and len(plain) < 20 and 1 <= int(plain) <= most):
        raise PromiseError(f"{name}={text[:40]!r}: want a whole number from 1 to {most:,}.")
    return int(plain)


# ---- typical questions ----------------------------------------------------------------------

Maker = Callable[[Promise, int, Schema], Iterator[Line]]


def _lines(promise: Promise, rows: int, schema: Schema) -> Iterator[Line]:
    number = next((c for c in schema.columns if _summed(c)), None)
    groups = [c for c in schema.columns if c.type == "category"]
    group = next((c for c in groups if not c.is_cell), groups[0] if groups else None)
    makers = [_count, _mean_of(number), _histogram_of(group), _fine]
    for make in makers:
        with suppress(SulqError):  # such noise does not answer such questions
            yield from make(promise, rows, schema)


def _count(promise: Promise, rows: int, schema: Schema) -> Iterator[Line]:
    price = _priced(Query(), promise, schema)
    (width,) = price.half_widths
    yield Line("How many rows have some property", str(price), f"± {short(width)} rows",
               f"± {short(100 * width / rows)} percentage points of all rows")  # fmt: skip


def _mean_of(column: Column | None) -> Maker:
    """A sum over all rows, divided by n."""

    def make(promise: Promise, rows: int, schema: Schema) -> Iterator[Line]:
        if column is None:
            return
        price = _priced(Query((quoted(column.name),)), promise, schema)
        off = price.half_widths[0] / rows
        ends = f"from {short(column.low)} to {short(column.high)}"
        yield Line(f"The mean of {column.name}, {ends}", str(price), f"± {short(off)}",
                   f"± {short(10 * off)} over a tenth of the rows")  # fmt: skip

    return make


def _histogram_of(column: Column | None) -> Maker:
    def make(promise: Promise, rows: int, schema: Schema) -> Iterator[Line]:
        if column is None or not column.values:
            return
        price = _priced(Query(by=column.name), promise, schema)
        bars, width = len(column.values), price.half_widths[0]
        yield Line(
            f"A histogram of {column.name}, {bars} bars", str(price), f"± {short(width)} rows each",
            f"± {short(100 * width * bars / rows)}% of a bar of middling height",
        )  # fmt: skip

    return make


def _fine(promise: Promise, rows: int, schema: Schema) -> Iterator[Line]:
    """What an error one names costs, and how often T pays for it."""
    wanted = max(Fraction(rows, FINE), Fraction(1))
    price = _priced(Query(error=wanted), promise, schema)
    many = promise.queries * MICRO // max(price.micro, 1)
    often = f"{many:,} of these in all" if many else "T does not reach"
    rough = short(float(wanted))
    yield Line(f"A count within {rough} rows, 1% of all", str(price), f"± {rough} rows", often)


def _summed(column: Column) -> bool:
    return column.type in ("integer", "number") and column.bounded and not column.key


def _priced(query: Query, promise: Promise, schema: Schema) -> Price:
    return tariff_of(check(query, schema, promise.noise, promise.guarantee), promise).price


def _curve(promise: Promise) -> list[tuple[float, float]]:
    """How the error of a count grows with T, around the T that is chosen."""
    found = []
    for step in (1,) if promise.noise in SLOW else STEPS:
        queries = max(1, round(promise.queries * step))
        try:
            other = _promise(
                epsilon=promise.epsilon, delta=promise.delta, queries=queries,
                noise=promise.noise, guarantee=promise.guarantee,
            )  # fmt: skip
            found.append((float(queries), other.half_width()))
        except SulqError:
            continue
    return sorted(set(found))


def short(x: float) -> str:
    """Three figures, with thousands apart."""
    if x != 0 and (abs(x) >= 1e15 or abs(x) < 1e-4):
        return f"{x:.2e}"
    digits = 3 if abs(x) < 1000 else max(3, math.floor(math.log10(abs(x))) + 1)
    return f"{float(f'{x:.{digits}g}'):,.10g}"
