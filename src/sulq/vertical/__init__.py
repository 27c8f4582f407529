"""Mining across databases that share people but not rows (CRYPTO 04).

Two organisations hold different columns about the same people. Each answers for itself, by the
public calls of its database, here or over a wire; what the columns have to do with each other
is computed from noisy sums alone.

    blocks.py            sums over blocks of people, and what two databases' say together
    common_people.py     who is in all the databases: keys are public, so free
    covariance.py        covariances, correlations, principal components, singular vectors
    crosstabs.py         crosstab: two categories in two databases
    estimate.py          Estimate: a number with an error bar
    joint.py             how two properties go together (CRYPTO 04, section 5)
    pairwise.py          pairwise, joint, implication, three: each database is asked once
    plan.py              what each database will be asked, and its price
    publication.py       noisy tables in a file, and any Boolean function from it
    publication_file.py  reading such a file, none of which is believed
    publisher.py         publish: the tables are paid for and written
    subsets.py           the paper's own procedure: a Test on heavy random subsets
    truth.py             Boolean functions of a few properties, as truth tables
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sulq
from sulq.vertical.covariance import (
    PCA,
    SVD,
    Covariance,
    correlation,
    covariance,
    planned_correlation,
    planned_covariance,
)
from sulq.vertical.crosstabs import Crosstab, crosstab, planned_crosstab
from sulq.vertical.estimate import Estimate
from sulq.vertical.joint import Implication, Joint
from sulq.vertical.pairwise import (
    Pairwise,
    ThreeWay,
    implication,
    joint,
    pairwise,
    planned_implication,
    planned_joint,
    planned_pairs,
    planned_three,
    three,
)
from sulq.vertical.plan import Plan
from sulq.vertical.publication import Mined, Publication
from sulq.vertical.publisher import planned_publication, publish
from sulq.vertical.subsets import SubsetPlan

__all__ = [
    "PCA",
    "SVD",
    "Covariance",
    "Crosstab",
    "Estimate",
    "Implication",
    "Joint",
    "Mined",
    "Pairwise",
    "Plan",
    "Publication",
    "ThreeWay",
    "correlation",
    "covariance",
    "crosstab",
    "implication",
    "joint",
    "pairwise",
    "plan",
    "publish",
    "three",
]

_PLANNERS: dict[Any, Callable[..., Any]] = {
    implication: planned_implication,
    joint: planned_joint,
    pairwise: planned_pairs,
    crosstab: planned_crosstab,
    covariance: planned_covariance,
    correlation: planned_correlation,
    publish: planned_publication,
    three: planned_three,
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
