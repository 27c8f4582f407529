"""Noisy numbers as people read them: as many digits as the error makes worth reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sulq.errors import in_queries

FEW = "too few rows"
NOISY = "too noisy to say"
Spread = Callable[[float], float]  # level -> half-width of an interval, in standard deviations


def receipt(found: Any) -> str:
    """What was paid and what is left, of anything that says so."""
    left = in_queries(found.remaining).rsplit(" ", 1)[0]
    return f"price {found.price}, {left} left" + (f" ({found.note})" if found.note else "")


def with_error(value: float, reach: float) -> str:
    """12,345 +/- 105: as many digits as the error makes worth reading."""
    if not math.isfinite(value) or not math.isfinite(reach):
        return f"{value} +/- {reach}"
    digits = _digits(reach)
    return f"{round(value, digits) + 0.0:,.{digits}f} +/- {reach:,.{digits}f}"


def too_noisy(low: float, high: float) -> str:
    """What is said instead of a number that the noise drowns."""
    reach = (high - low) / 2
    return NOISY + (f" (+/- {with_error(0.0, reach).split()[-1]})" if math.isfinite(reach) else "")


def plainly(value: float) -> str:
    """A number without error: 200,000, or 12.5."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.12g}"


def with_interval(value: float, low: float, high: float) -> str:
    """The same, or 41 (38 to 52) where the ends are not equally far away, as of a quantile."""
    reach = (high - low) / 2
    ends = (value, low, high)
    if low == value == high:
        return plainly(value)
    if not all(map(math.isfinite, ends)) or abs((low + high) / 2 - value) <= 0.01 * reach:
        return with_error(value, reach)
    digits = 0 if all(x == round(x) for x in ends) else _digits(reach)
    said = [f"{round(x, digits) + 0.0:,.{digits}f}" for x in ends]
    return f"{said[0]} ({said[1]} to {said[2]})"


def _digits(reach: float) -> int:
    """Digits after the point that are worth reading beside this error."""
    if reach <= 0 or reach >= 10:
        return 0
    return min(2 - math.floor(math.log10(reach)), 12)


def finite(value: Any) -> Any:
    """A JSON document with null for NaN and infinities, which JSON has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value


def half_width(reach: float) -> str:
    """'+/- 12.3', to as many digits as are known."""
    return "+/- " + with_error(0.0, reach).split("+/- ")[1]
