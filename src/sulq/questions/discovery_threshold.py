"""From how many rows on a discovery names a value: by the promise, n and what is paid."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sulq.errors import QueryNotAllowed
from sulq.expressions.parse import shorten
from sulq.privacy.noise import Gaussian, Laplace
from sulq.privacy.pricing import tariff_of
from sulq.privacy.promise import Promise
from sulq.privacy.thresholds import least_count, threshold, widest, width
from sulq.questions.check import CheckedQuery
from sulq.questions.discovery import Discovery
from sulq.values.counted_rows import RowCount

HOW = (
    "Nothing was charged.\nSay how many when a new ledger begins: sulq.open(..., discoveries=10), "
    "or discoveries = 10 in sulq.toml. What was promised in this one cannot change; until then, "
    "declare the column's values, or count those you know: where={0} = '...'."
)


def ready(checked: CheckedQuery, promise: Promise, pricing: str, stored: RowCount) -> CheckedQuery:
    """The question with its threshold, as the promise and n have it; refused where none is left."""
    found = checked.measurement
    assert isinstance(found, Discovery)
    if not promise.discoveries:
        raise QueryNotAllowed(
            f"discover({shorten(found.column)!r}): this ledger was begun without a share of delta "
            f"for it, and delta is all spoken for. {HOW.format(found.column)}"
        )
    if pricing != "geometry":
        raise QueryNotAllowed(
            "discover: pricing='paper' charges each released number, and how many there will be "
            "is not known before. Open with pricing='geometry'. Nothing was charged."
        )
    chance, least = promise.share / promise.discoveries, least_count(stored.n)
    each = checked.rows_each
    if found.at_least is not None:
        checked = replace(checked, error=_error(checked, found.at_least, chance, least, promise))
    tariff = tariff_of(checked, promise, pricing)
    (law,), unit = tariff.laws, tariff.multiples[0]
    assert isinstance(law, Gaussian | Laplace)
    needed = max(threshold(law, unit, chance, least, each), (found.at_least or 0) * unit)
    made = replace(found, least=least, drawn=stored.n // least, threshold=needed)
    return replace(checked, measurement=made)


def _error(
    checked: CheckedQuery, at_least: int, chance: float, least: int, promise: Promise
) -> Fraction:
    """The 95% half-width whose noise has its threshold at so many rows."""
    wide = widest(at_least, chance, least, checked.rows_each, promise.noise)
    if wide <= 0:
        low = least - 1 + checked.rows_each
        raise QueryNotAllowed(
            f"at_least={at_least}: more than {low:,} rows are needed, or a value that one alone "
            "has would be named. Nothing was charged."
        )
    usual = tariff_of(checked, promise)
    (law,), step = usual.laws, usual.steps[0]
    assert isinstance(law, Gaussian | Laplace)
    return Fraction(law.half_width(0.95)) * step * wide / (width(law) * step)
