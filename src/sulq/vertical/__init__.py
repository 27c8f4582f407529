"""Mining across databases that share people but not rows (CRYPTO 04).

Two organisations hold different columns about the same people. Each answers for itself, by the
public calls of its database, here or over a wire; what the columns have to do with each other
is worked out from noisy sums alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sulq

from .estimate import Estimate
from .implication import implication, planned_implication
from .joint import Implication, Joint
from .moments import PCA, Covariance, correlation, covariance, planned_covariance
from .pairwise import Pairwise, joint, pairwise, planned_joint, planned_pairs
from .plan import Plan
from .publication import Mined, Publication
from .publishing import planned_publication, publish
from .subsets import SubsetPlan
from .tables import Crosstab, crosstab, planned_crosstab

__all__ = [
    "PCA",
    "Covariance",
    "Crosstab",
    "Estimate",
    "Implication",
    "Joint",
    "Mined",
    "Pairwise",
    "Plan",
    "Publication",
    "correlation",
    "covariance",
    "crosstab",
    "implication",
    "joint",
    "pairwise",
    "plan",
    "publish",
]

_PLANNERS: dict[Any, Callable[..., Any]] = {
    implication: planned_implication,
    joint: planned_joint,
    pairwise: planned_pairs,
    crosstab: planned_crosstab,
    covariance: planned_covariance,
    correlation: planned_covariance,
    publish: planned_publication,
}


def plan(function: Callable[..., Any], *args: Any, **options: Any) -> Plan[Any] | SubsetPlan:
    """What a function of this module would ask, with its `.prices` and the error to expect.

    plan(implication, a_db, "smoker", b_db, "claimed") takes what the function takes, publish's
    path left out. Nothing is spent.
    """
    planner = _PLANNERS.get(function)
    if planner is None:
        names = ", ".join(f.__name__ for f in _PLANNERS)
        raise sulq.Refused(f"{function!r} has no plan; want one of {names}.")
    made: Plan[Any] | SubsetPlan = planner(*args, **options)
    return made
