"""The plan page: epsilon, delta, T and n move, and the error of typical questions follows.

Every number is the product's own: the promise's words, and the price and error that a question
would really have. No row is known here, so n is what the owner says it is.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from starlette.responses import Response

from sulq.drawing.lines import Axis, lines
from sulq.drawing.lines import Line as Drawn
from sulq.drawing.svg import Figure
from sulq.errors import MICRO, PromiseError, SulqError
from sulq.expressions.quoting import quote
from sulq.privacy.fitting import fitting_queries
from sulq.privacy.pricing import tariff_of
from sulq.privacy.promise import GUARANTEES, NOISES, SAYS_LITTLE, Promise
from sulq.questions.check import check
from sulq.server.console.forms import Form, number_of
from sulq.server.console.pages import queries as in_words
from sulq.server.console.question_form import countable
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.result_view import NARROW, Chart
from sulq.values.price import Price
from sulq.values.query import Query
from sulq.values.schema import Column, Schema

pages = Pages()
BESIDE = 640.0  # units of a chart beside the fields

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
MAX_ROWS = 10**12
STEPS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)  # of T, for the curve
SLOW = ("binomial", "stitched")  # seconds of work, so one at a time
_TURN = threading.Lock()
MAX_SLOW = 1000
VERDICTS = (  # by how much wider the noise is than the chance that picked these rows
    (0.5, "Good: the noise is small beside the chance that picked these rows."),
    (1, "Fair: the noise is of the size of the chance that picked these rows."),
    (5, "Rough: the noise is larger than the chance that picked these rows. Fewer queries, a "
        "larger epsilon or more rows would help."),
    (math.inf, "Too noisy for most questions: fewer queries, a larger epsilon or more rows are "
               "needed."),
)  # fmt: skip
FINE = 100  # one part in so many, as "within 1%"


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """One typical question: its price, how far off it is, and what that means for n rows."""

    question: str
    price: str
    within: str
    means: str


@dataclass(frozen=True, slots=True)
class PromisePlan:
    """What a promise comes to."""

    promise: Promise
    rows: int
    words: list[str]
    lines: list[ErrorLine]
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
        return next(text for most, text in VERDICTS if ratio <= most)

    @property
    def suits(self) -> str:
        """How many queries would suit the rows, where these do not."""
        said = self.promise.to_json()
        terms = {name: said[name] for name in ("epsilon", "delta", "noise", "guarantee")}
        fits = None if self.good else fitting_queries(self.rows, **terms)
        return "" if not fits else f"{in_words(fits * MICRO)} would suit so many rows."

    @property
    def good(self) -> bool:
        """Is the noise no larger than chance?"""
        return self.count <= self.sampling


# ---- the page -------------------------------------------------------------------------------


@pages.get("/plan")
async def planning(here: PageContext) -> Response:
    """For everyone: no dataset is needed to see what a promise buys."""
    return here.page("plan.html", **await planned(here, chosen(here.said)))


@pages.get("/plan/live")
async def live(here: PageContext) -> Response:
    """The same without the rest of the page, while one moves a number."""
    return here.page("plan-shown.html", **await planned(here, chosen(here.said)))


async def planned(
    here: PageContext, said: dict[str, str], schema: Schema | None = None
) -> dict[str, Any]:
    """What templates need to show a plan, or why there is none."""
    values: dict[str, Any] = {
        "said": said, "plan": None, "chart": "", "no_plan": "", "noises": NOISES,
        "guarantees": GUARANTEES,
    }  # fmt: skip
    try:
        found = await here.run(plan, said, schema or EXAMPLE)
    except PromiseError as error:
        return values | {"no_plan": str(error)}
    drawn = (error_by_queries(found, width) for width in (BESIDE, NARROW))
    return values | {"plan": found, "chart": Chart.of(*drawn) if len(found.curve) > 1 else ""}


def error_by_queries(found: PromisePlan, width: float = BESIDE) -> Figure:
    """The error of one count as T grows, beside the sampling error; both axes by tens."""
    errors = [w for _, w in found.curve] + [found.sampling]
    low = math.floor(math.log10(max(min(errors), 1e-9)))
    high = max(math.ceil(math.log10(max(errors))), low + 1)
    first, last = found.curve[0][0], found.curve[-1][0]
    words = (
        f"With T = {found.promise.queries:,} a count is within {short(found.count)} rows (95%); "
        f"chance alone moves a count over {found.rows:,} rows by {short(found.sampling)}. "
        + "; ".join(f"T = {t:,.0f}: {short(w)}" for t, w in found.curve)
        + "."
    )
    return lines(
        "error", "Error of a count, by T", words, [Drawn(found.curve)],
        Axis(first, max(last, 10 * first), log=True, name="T, how many queries are promised"),
        Axis(10.0**low, 10.0**high, log=True, name="error of a count, rows"),
        dot=(float(found.promise.queries), found.count), level=found.sampling,
        width=width, height=240.0,
    )  # fmt: skip


def chosen(form: Form) -> dict[str, str]:
    """What is filled in, or what stands there at first."""
    return {name: form.get(name, value) for name, value in DEFAULTS.items()}


# ---- its numbers ----------------------------------------------------------------------------


def plan(said: Mapping[str, str], schema: Schema = EXAMPLE) -> PromisePlan:
    """What these choices come to, or PromiseError."""
    rows = _whole("n (rows)", said["rows"], MAX_ROWS)
    promise = promise_of(said)
    if promise.noise not in SLOW:
        return _planned(promise, rows, schema)
    if promise.queries > MAX_SLOW:
        raise PromiseError(
            f"T={promise.queries:,}: noise={promise.noise!r} takes long to compute, so this page "
            f"shows it up to {MAX_SLOW:,}. `sulq plan` shows it for any T."
        )
    if not _TURN.acquire(blocking=False):
        raise PromiseError(f"noise={promise.noise!r}: another plan is being computed. Try again.")
    try:
        return _planned(promise, rows, schema)
    finally:
        _TURN.release()


def _planned(promise: Promise, rows: int, schema: Schema) -> PromisePlan:
    return PromisePlan(
        promise, rows, promise.explain(rows).splitlines(), list(_lines(promise, rows, schema)),
        _curve(promise),
        1.96 * math.sqrt(rows) / 2, _warning(promise),
    )  # fmt: skip


def promise_of(said: Mapping[str, str]) -> Promise:
    """The promise that is filled in, or PromiseError."""
    values: dict[str, Any] = {
        "epsilon": number_of("epsilon", said["epsilon"]),
        "delta": number_of("delta", said["delta"]),
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


def _whole(name: str, text: str, most: int) -> int:
    plain = text.replace(",", "").replace("_", "").replace(" ", "")
    if not (plain.isascii() and plain.isdecimal() and len(plain) < 20 and 1 <= int(plain) <= most):
        raise PromiseError(f"{name}={text[:40]!r}: want a whole number from 1 to {most:,}.")
    return int(plain)


# ---- typical questions ----------------------------------------------------------------------


def _lines(promise: Promise, rows: int, schema: Schema) -> Iterator[ErrorLine]:
    number = next(iter(countable(schema)), None)
    groups = [c for c in schema.columns if c.type == "category"]
    group = next((c for c in groups if not c.is_cell), groups[0] if groups else None)
    with suppress(SulqError):  # such noise does not answer such questions
        yield _count(promise, rows, schema)
    if number is not None:
        with suppress(SulqError):
            yield _mean(promise, rows, schema, number)
    if group is not None and group.values:
        with suppress(SulqError):
            yield _histogram(promise, rows, schema, group)
    with suppress(SulqError):
        yield _fine(promise, rows, schema)


def _count(promise: Promise, rows: int, schema: Schema) -> ErrorLine:
    price = _priced(Query(), promise, schema)
    (width,) = price.half_widths
    means = f"± {short(100 * width / rows)} percentage points of all rows"
    return ErrorLine(
        "How many rows have some property", in_words(price.micro), f"± {short(width)} rows", means
    )


def _mean(promise: Promise, rows: int, schema: Schema, column: Column) -> ErrorLine:
    """A sum over all rows, divided by n."""
    price = _priced(Query((quote(column.name),)), promise, schema)
    off = price.half_widths[0] / rows
    asked = f"The mean of {column.name}, from {short(column.low)} to {short(column.high)}"
    means = f"± {short(10 * off)} over a tenth of the rows"
    return ErrorLine(asked, in_words(price.micro), f"± {short(off)}", means)


def _histogram(promise: Promise, rows: int, schema: Schema, column: Column) -> ErrorLine:
    price = _priced(Query(by=column.name), promise, schema)
    bars, width = len(column.values or ()), price.half_widths[0]
    return ErrorLine(
        f"A histogram of {column.name}, {bars} bars", in_words(price.micro),
        f"± {short(width)} rows each",
        f"± {short(100 * width * bars / rows)}% of a bar of middling height",
    )  # fmt: skip


def _fine(promise: Promise, rows: int, schema: Schema) -> ErrorLine:
    """The price of an error that one names, and how often T pays for it."""
    wanted = max(Fraction(rows, FINE), Fraction(1))
    price = _priced(Query(error=wanted), promise, schema)
    many = promise.queries * MICRO // max(price.micro, 1)
    often = f"{many:,} of these in all" if many else "T does not reach"
    rough = short(float(wanted))
    return ErrorLine(
        f"A count within {rough} rows, 1% of all", in_words(price.micro), f"± {rough} rows", often
    )


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
