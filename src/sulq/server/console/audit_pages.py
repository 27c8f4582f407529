"""Audited datasets: made by an owner, their verdicts, and a list of questions reviewed."""

from __future__ import annotations

import tomllib
from typing import Any

from starlette.responses import Response

from sulq.audit.promise import RULES
from sulq.errors import PromiseError, SulqError
from sulq.server.console import schema_form as schemas
from sulq.server.console.dataset_form import STEPS, carried
from sulq.server.console.dataset_pages import LISTED, facts_of
from sulq.server.console.forms import Form, number_of
from sulq.server.console.request_context import PageContext, Pages
from sulq.values.schema import Schema

pages = Pages()
D = "/datasets/{name}"
DEFAULTS = {
    "epsilon": "1", "delta": "0.000001", "queries": "20", "rule": "classes", "dither": "2",
    "known": "0.5", "simulate": "",
}  # fmt: skip
NUMBERS = ("epsilon", "delta", "dither", "known")
TICKS = ("independent_rows", "independent_columns")


# ---- making one -----------------------------------------------------------------------------


async def _terms(here: PageContext, problem: SulqError | None = None) -> Response:
    """Step 3 in another way: the owner's terms of an audited table."""
    filled, form = schemas.typed(here.form), here.form
    begun = form.has("audited")  # were these fields on the page that was sent?
    said = {n: form.get(n, default) if begun else default for n, default in DEFAULTS.items()}
    found = schemas.check(filled).schema
    priors = form.raw("priors") if begun else _example(found)
    return here.page(
        "new-audited.html", problem, carried=carried(here), filled=filled, step=2, steps=STEPS,
        rest=schemas.packed(filled), said=said, priors=priors, rules=RULES,
        ticked={n: form.has(n) for n in TICKS},
    )  # fmt: skip


def _example(schema: Schema | None) -> str:
    """A line for each column that may have a prior, to fill in: there is no default."""
    lines = []
    for column in schema.columns if schema is not None else ():
        if not column.public and column.type in ("boolean", "category"):
            listed = ", ".join(f'"{v}" = [0, 1]' for v in (column.listed or ())[:3])
            said = "[0, 1]" if column.type == "boolean" else f"{{ {listed} }}"
            lines.append(f'# "{column.name}" = {said}')
    return "\n".join(lines)


@pages.post("/new/audited", again=_terms)
async def audited(here: PageContext) -> Response:
    """The terms, looked at; or the dataset is made."""
    here.console.services.access.whole_owner(here.principal)
    said, form = carried(here), here.form
    if not form.has("make"):
        return await _terms(here)
    body: dict[str, Any] = {n: said[n] for n in ("name", "source", "description")}
    body |= {"schema": schemas.said(schemas.typed(form)), "mode": "audited"}
    body |= {"table": said["table"]} if said["table"] else {}
    body |= _said(form)
    await here.send("POST", "/v1/datasets", body)
    return here.go(f"/console/datasets/{said['name']}/people", done="made")


def _said(form: Form) -> dict[str, Any]:
    """The terms as the API takes them."""
    found: dict[str, Any] = {n: number_of(n, form.get(n)) for n in NUMBERS}
    found["queries"] = int(number_of("queries", form.get("queries")))
    found["rule"] = form.get("rule")
    found |= {n: form.has(n) for n in TICKS}
    try:
        priors = tomllib.loads(form.raw("priors"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PromiseError(f"priors: not valid TOML: {str(error)[:200]}.") from None
    found |= {"priors": priors} if priors else {}
    return found | ({"simulate": form.get("simulate")} if form.get("simulate") else {})


# ---- looking at one -------------------------------------------------------------------------


@pages.get(D + "/verdicts")
async def verdicts(here: PageContext) -> Response:
    """One's own questions, each answered or refused, and why."""
    facts = await facts_of(here)
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = await here.get(f"{here.at('answers')}?after={after}&limit={LISTED}")
        found, after = (found + page["answers"])[-LISTED:], page["next"]
    return here.page(
        "verdicts.html", name=facts.name, tab="overview", facts=facts,
        charges=[(c, (c["answer"] or [None])[0]) for c in reversed(found)], most=LISTED,
    )  # fmt: skip


@pages.get(D + "/review")
async def review(here: PageContext, problem: SulqError | None = None) -> Response:
    """A list of questions to review, and what was found of it."""
    return await _reviewed(here, problem, None)


@pages.post(D + "/review", again=review)
async def reviewed(here: PageContext) -> Response:
    """Which of the list could be answered together; nothing is charged."""
    queries = [line.strip() for line in here.form.raw("queries").splitlines() if line.strip()]
    found = await here.send("POST", here.at("review"), {"queries": queries})
    return await _reviewed(here, None, found)


async def _reviewed(
    here: PageContext, problem: SulqError | None, found: dict[str, Any] | None
) -> Response:
    facts = await facts_of(here)
    return here.page(
        "review.html", problem, name=facts.name, tab="overview", facts=facts, found=found,
        queries=here.form.raw("queries"),
    )  # fmt: skip
