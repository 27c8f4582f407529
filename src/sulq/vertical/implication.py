"""implication: does a property in one database make one in another more likely, and by how much?"""

from __future__ import annotations

from typing import Any

import sulq

from .joint import Implication
from .pairwise import checked_expected, planned_joint
from .plan import Plan
from .subsets import SubsetPlan, planned_test

METHODS = ("blocks", "test")


def planned_implication(
    a_db: Any, a: str, b_db: Any, b: str, *, method: str = "blocks", **options: Any
) -> Plan[Implication] | SubsetPlan:
    """What either method will ask."""
    if method not in METHODS:
        raise sulq.Refused(f"method={method!r}, want one of {', '.join(METHODS)}.")
    if method == "test":
        return planned_test(a_db, a, b_db, b, **options)
    plan = planned_joint(a_db, a, b_db, b, **options)
    p_a = checked_expected(options.get("expected", 0.5), 2)[0]
    return Plan(
        plan.parts, lambda answers, prices: plan.make(answers, prices).implication(),
        plan.blocks, (plan.error or 0.0) / p_a, f", of delta if P[a] is {p_a:g}",
    )  # fmt: skip


def implication(
    a_db: Any, a: str, b_db: Any, b: str, *, method: str = "blocks", **options: Any
) -> Implication:
    """Delta in P[b|a] = P[b] + Delta, for a in one database and b in another.

    method="blocks" asks one question a side, with the options of `joint`. method="test" is the
    paper's procedure on `subsets` random halves, or as many as its Theorem 3 wants for an
    `accuracy` with `confidence`.
    """
    return planned_implication(a_db, a, b_db, b, method=method, **options).run()
