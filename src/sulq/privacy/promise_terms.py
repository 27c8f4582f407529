"""Are the terms of a promise what they must be? Each is given back as it is kept, or refused."""

from __future__ import annotations

import math
import numbers
import operator
from contextlib import suppress
from fractions import Fraction

from sulq.errors import PromiseError

MAX_DISCOVERIES = 10_000
OF_DELTA = 10  # a share that is not said is this part of delta


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse what is none of these."""
    if not isinstance(value, str) or value not in allowed:
        raise PromiseError(f"{name}={value!r}: one of {', '.join(map(repr, allowed))} is needed.")


def real(name: str, value: object, needed: str) -> float:
    """A number, or a refusal that names it."""
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        with suppress(OverflowError):
            if not math.isnan(number := float(value)):
                return number
    raise PromiseError(f"{name}={value!r}: {needed} is needed.")


def delta_of(value: object, noise: str, discoveries: object) -> float:
    """Delta, 0 where neither the noise nor a discovery needs any."""
    delta = real("delta", value, "a number between 0 and 1")
    if noise == "laplace" and discoveries == 0 and 0 <= delta < 1:
        return 0.0
    if not 0 < delta < 1:
        only = "; only noise='laplace' without discoveries can promise delta=0"
        raise PromiseError(
            f"delta={value!r}: a number between 0 and 1 is needed{'' if delta else only}."
        )
    return delta


def whole_number(name: str, value: object) -> int:
    """A positive whole number, or a refusal that names it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise PromiseError(f"{name}={value!r}: a positive whole number is needed.")
    return operator.index(value)


def positive(name: str, value: object) -> Fraction:
    """A positive exact number."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value <= 0:
        raise PromiseError(f"{name}={value!r}: a positive int or Fraction is needed.")
    return Fraction(value)


def share_of(discoveries: object, share: object, delta: float, noise: str, group: str) -> float:
    """The share of delta that is set aside for discoveries of values; 0 without any."""
    if discoveries == 0 and share in (0, None):
        return 0.0
    count = whole_number("discoveries", discoveries)
    if count > MAX_DISCOVERIES:
        raise PromiseError(f"discoveries={count:,}: at most {MAX_DISCOVERIES:,}.")
    if noise not in ("gaussian", "laplace") or group:
        raise PromiseError(
            f"discoveries={count}: they need noise='gaussian' or 'laplace' and a table that is in "
            "no group. Leave discoveries out."
        )
    whole = noise == "laplace"  # which needs no delta for anything else
    unsaid = delta if whole else delta / OF_DELTA
    aside = unsaid if share in (0, None) else real("share", share, "part of delta")
    if not 0 < aside <= delta or (aside == delta and not whole) or aside / count > 1 / 4:
        raise PromiseError(
            f"share={share!r}: part of delta={delta:g} is needed, more than 0"
            f"{'' if whole else ' and less than all of it'}; at most 1/4 for each discovery."
        )
    return aside


# ---- how far several beliefs about one row can grow at once --------------------------------
# CRYPTO 04, Definition 1 with |change| and Proposition 2. Proofs: docs/proofs/promise.md, section
# 8.


def chances(facts: int | None, values: int | None) -> int:
    """How many ways there are for one of the beliefs to move too far: what delta is shared by.

    None and None: one fact, one way. `facts`: so many, both ways. `values`: every fact about a row
    that has one of so many values, which is every ordered pair of them.
    """
    for name, given in (("facts", facts), ("values", values)):
        if given is not None and (type(given) is not int or given < 1):
            raise PromiseError(f"{name}={given!r}: a positive whole number is needed.")
    if facts is not None and values is not None:
        raise PromiseError("facts= or values=: so many facts, or every fact about so many values.")
    if values is not None:
        return max(values * (values - 1), 1)
    return 1 if facts is None else 2 * facts


def growth(spent: float, delta: float, ways: int) -> float:
    """How far confidence grows in any of so many ways, except with probability delta for all.

    `spent` is T/R. The moment bound min over s >= 1 of (s + 1) spent/2 + L/s, L = ln(ways/delta):
    at s = sqrt(2L/spent) if that is at least 1, else at s = 1.
    """
    r, ln = spent / 2, math.log(ways) - math.log(delta)
    return r + 2 * math.sqrt(r * ln) if ln >= r else 2 * r + ln
