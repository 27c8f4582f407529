"""How far several beliefs about one row can grow at once, for the same noise.

CRYPTO 04, Definition 1 with |change| and Proposition 2. Proofs: docs/proofs/promise.md, section 8.
"""

from __future__ import annotations

import math

from sulq.errors import PromiseError


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
