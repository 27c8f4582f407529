"""The plan page: epsilon, delta, T and n move, and the error of typical questions follows."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from sulq.console.curves import error_by_queries
from sulq.console.plans import DEFAULTS, chosen, plan
from sulq.console.visits import Pages, Visit
from sulq.errors import PromiseError
from sulq.promise import GUARANTEES, NOISES
from sulq.schema import Schema

pages = Pages()
CHOICES = {"noises": NOISES, "guarantees": GUARANTEES}


@pages.get("/console/plan")
async def planning(here: Visit) -> Response:
    """For everyone: no dataset is needed to see what a promise costs."""
    return here.page("plan.html", **await planned(here, chosen(here.said)))


@pages.get("/console/plan/live")
async def live(here: Visit) -> Response:
    """The same without the rest of the page, while one moves a number."""
    return here.page("plan-shown.html", **await planned(here, chosen(here.said)))


async def planned(
    here: Visit, said: dict[str, str], schema: Schema | None = None
) -> dict[str, Any]:
    """What templates need to show a plan, or why there is none."""
    values: dict[str, Any] = {"said": said, "plan": None, "chart": "", "problem": "", **CHOICES}
    try:
        found = await here.run(lambda: plan(said) if schema is None else plan(said, schema))
    except PromiseError as error:
        return values | {"problem": str(error)}
    return values | {
        "plan": found,
        "chart": error_by_queries(found) if len(found.curve) > 1 else "",
    }


def first_choice(here: Visit) -> dict[str, str]:
    """What a new promise begins with."""
    return chosen(here.form) if here.form.has("epsilon") else dict(DEFAULTS)
