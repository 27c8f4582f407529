"""Models: chosen, priced, learned step by step, looked at, used on rows that one pastes."""

from __future__ import annotations

import csv
import io
import re
import secrets
from typing import Any

from starlette.responses import JSONResponse, Response

from sulq.console.analyst import Facts, facts_of
from sulq.console.jobs import Job
from sulq.console.learning import KINDS, Kind, Wish, kind_of, labels, usable
from sulq.console.pages import number, with_headers
from sulq.console.visits import Pages, Visit
from sulq.errors import BudgetExceeded, NotFound, QueryNotAllowed, SulqError
from sulq.price import Price
from sulq.remote.database import RemoteDatabase
from sulq.schema import Column, Schema
from sulq.server.replies import dumped, status_of

pages = Pages()
REQUEST = re.compile(r"[0-9a-f]{32}")
D = "/console/datasets/{name}/models"
MOST_PASTED = 500  # rows
MOST_WORDS = 20_000  # letters about a model
TRUE = {"true": 1.0, "yes": 1.0, "1": 1.0, "t": 1.0}
FALSE = {"false": 0.0, "no": 0.0, "0": 0.0, "f": 0.0}


# ---- choosing -------------------------------------------------------------------------------


@pages.get(D)
async def models(here: Visit) -> Response:
    """The models one has, and the kinds one may have."""
    name = here.part("name")
    found = here.desk.jobs.all(here.visitor, here.record(name))
    return here.page("models.html", name=name, tab="models", jobs=found, kinds=KINDS.values())


@pages.get(D + "/new/{kind}")
async def new(here: Visit) -> Response:
    """The form of a kind of model."""
    facts = await facts_of(here)
    if here.part("kind") not in KINDS:
        raise NotFound("there is no such kind of model.")
    return _form(here, facts, Wish.empty(kind_of(here.part("kind"))))


def _form(
    here: Visit, facts: Facts, wish: Wish, *, problem: SulqError | None = None,
    price: Price | None = None,
) -> Response:  # fmt: skip
    kind: Kind = KINDS[wish.kind]
    return here.page(
        "model-form.html", 200 if problem is None else status_of(problem), facts=facts,
        name=facts.name, tab="models", kind=kind, wish=wish, problem=problem,
        short=isinstance(problem, BudgetExceeded), price=price, request=secrets.token_hex(16),
        columns=usable(facts.schema, kind), labels=labels(facts.schema, kind) if kind.label else [],
        params=dict(wish.params),
    )  # fmt: skip


@pages.post(D + "/preview")
async def preview(here: Visit) -> Response:
    """The most it will cost, before anything is paid."""
    facts = await facts_of(here)
    wish = Wish.empty(kind_of(here.form.get("kind")))
    try:
        wish = Wish.of(here.form)
        db = await here.database(facts.name)
        price = await here.run(wish.price, db)
    except SulqError as error:
        return _form(here, facts, wish, problem=error)
    return _form(here, facts, wish, price=price)


@pages.post(D + "/learn")
async def learn(here: Visit) -> Response:
    """Begin; the request id makes a second click the same as the first."""
    name, request = here.part("name"), here.form.get("request")
    if not REQUEST.fullmatch(request):
        raise QueryNotAllowed("this form has no request id. Look at the price again, then learn.")
    record, wish = here.record(name), Wish.of(here.form)
    wire = here.wire()
    try:
        db = await here.database(name)
        now = await here.run(wish.price, db)
        if here.form.get("price") != str(now.micro):
            raise QueryNotAllowed("the price is no longer what was shown. Look at it again.")
        if now.micro > int(db_left := await here.run(lambda: db.budget.remaining * 1_000_000)):
            raise BudgetExceeded(now.micro, int(db_left), name)
        here.desk.jobs.start(
            here.visitor, record, request, wish, lambda: RemoteDatabase(wire, name)
        )
    except SulqError as error:
        return _form(here, await facts_of(here), wish, problem=error)
    return here.go(f"/console/datasets/{name}/models/{request}")


# ---- looking --------------------------------------------------------------------------------


@pages.get(D + "/{id}")
async def model(here: Visit) -> Response:
    """A model: how far it is, or what it learned."""
    job = _job(here)
    facts = await facts_of(here)
    return _shown(here, facts, job)


def _job(here: Visit) -> Job:
    return here.desk.jobs.get(here.visitor, here.record(here.part("name")), here.part("id"))


def _shown(
    here: Visit, facts: Facts, job: Job, *, pasted: str = "", problem: str = "",
    predicted: tuple[list[str], list[list[str]]] | None = None,
) -> Response:  # fmt: skip
    words, pictures = "", []
    if job.state == "ready":
        from sulq.console.pictures import figures
        from sulq.learn import from_json

        found = from_json(job.body["model"])
        words, pictures = found.summary()[:MOST_WORDS], figures(found, job.body)
    return here.page(
        "model.html", 422 if problem else 200, facts=facts, name=facts.name, tab="models", job=job,
        kind=KINDS[job.wish.kind], summary=words,
        figures=pictures, pasted=pasted, problem=problem, predicted=predicted,
        sample=_sample(facts.schema, job.wish.columns),
    )  # fmt: skip


@pages.get(D + "/{id}/progress")
async def progress(here: Visit) -> Response:
    """How far it is, for the script."""
    job = _job(here)
    return with_headers(
        JSONResponse(
            {"state": job.state, "done": job.done, "total": job.total,
             "remaining_micro": job.remaining_micro}
        )
    )  # fmt: skip


@pages.get(D + "/{id}/json")
async def download(here: Visit) -> Response:
    """The model as `sulq.learn.load` reads it."""
    job = _job(here)
    if job.state != "ready":
        raise NotFound("this model is not ready.")
    name = f"{here.part('name')}-{job.wish.kind.lower()}.json"
    return here.file(dumped(job.body["model"]), "application/json", name)


# ---- using ----------------------------------------------------------------------------------


@pages.post(D + "/{id}/predict")
async def predict(here: Visit) -> Response:
    """What the model says of rows that one pastes; they are kept nowhere, and it is free."""
    job = _job(here)
    facts = await facts_of(here)
    pasted = here.form.raw("rows")
    if job.state != "ready":
        return _shown(here, facts, job)
    try:
        predicted = await here.run(_predicted, facts.schema, job, pasted)
    except SulqError as error:
        return _shown(here, facts, job, pasted=pasted, problem=str(error))
    return _shown(here, facts, job, pasted=pasted, predicted=predicted)


def _predicted(schema: Schema, job: Job, pasted: str) -> tuple[list[str], list[list[str]]]:
    """The heading and the lines of a table: each row, and what the model says of it."""
    from sulq.learn import from_json

    model: Any = from_json(job.body["model"])
    columns = [schema.get(name) for name in model.columns_]
    if any(column is None for column in columns):
        raise QueryNotAllowed("the schema has changed since this model was learned.")
    texts = _rows(pasted, list(model.columns_))
    rows = [
        [_value(c, text, i) for c, text in zip(columns, row, strict=True)]  # type: ignore[arg-type]
        for i, row in enumerate(texts)
    ]
    heads, said = _said(model, rows)
    return [*model.columns_, *heads], [a + b for a, b in zip(texts, said, strict=True)]


def _rows(pasted: str, names: list[str]) -> list[list[str]]:
    """Rows as they were pasted: with commas, semicolons or tabs; a heading may lead."""
    lines = [line for line in pasted.splitlines() if line.strip()]
    if not lines:
        raise QueryNotAllowed("paste rows first, one a line.")
    mark = next((m for m in "\t;" if m in lines[0]), ",")
    try:
        rows = [[x.strip() for x in row] for row in csv.reader(io.StringIO("\n".join(lines)),
                delimiter=mark)]  # fmt: skip
    except csv.Error as error:
        raise QueryNotAllowed(f"the rows cannot be read: {error}.") from None
    if sorted(rows[0]) == sorted(names):
        order = [rows[0].index(name) for name in names]
        rows = [[row[i] if i < len(row) else "" for i in order] for row in rows[1:]]
    if len(rows) > MOST_PASTED:
        raise QueryNotAllowed(f"{len(rows):,} rows: want at most {MOST_PASTED}.")
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise QueryNotAllowed(
                f"row {i + 1} has {len(row)} values, want {len(names)}: {', '.join(names)[:300]}."
            )
    if not rows:
        raise QueryNotAllowed("there is a heading, but no row below it.")
    return rows


def _value(column: Column, text: str, i: int) -> Any:
    """A pasted value as its column's type."""
    if not text:
        return float("nan") if column.listed is None or column.type == "boolean" else None
    if column.type == "boolean":
        found = (TRUE | FALSE).get(text.lower())
        if found is None:
            raise QueryNotAllowed(f"row {i + 1}, {column.name}: want yes or no.")
        return found
    if column.values is not None:
        return next((v for v in column.values if str(v) == text), text)
    try:
        return float(text)
    except ValueError:
        raise QueryNotAllowed(f"row {i + 1}, {column.name}: want a number.") from None


def _said(model: Any, rows: list[list[Any]]) -> tuple[list[str], list[list[str]]]:
    """What a model says of rows, and what that is called."""
    kind = type(model).__name__
    if kind == "PCA":
        found = model.transform(rows)
        heads = [f"pc{i + 1}" for i in range(found.shape[1])]
        return heads, [[number(float(x)) for x in row] for row in found]
    if kind == "LinearRegression":
        return ["prediction"], [[number(float(x))] for x in model.predict(rows)]
    if kind == "KMeans":
        return ["group"], [[str(int(x))] for x in model.predict(rows)]
    if kind == "Perceptron":
        return ["class"], [[str(x)] for x in model.predict(rows)]
    shares = model.predict_proba(rows)
    best = shares.argmax(axis=1)
    return ["class", "share"], [
        [str(model.classes_[b]), f"{float(row[b]):.0%}"]
        for b, row in zip(best, shares, strict=True)
    ]


def _sample(schema: Schema, columns: tuple[str, ...]) -> str:
    """A row as it may be pasted, from the declarations alone."""
    out = []
    for name in columns:
        column = schema.get(name)
        if column is None:
            out.append("")
        elif column.type == "boolean":
            out.append("yes")
        elif column.values is not None:
            out.append(str(column.values[0]))
        else:
            middle = (column.low + column.high) / 2
            out.append(str(int(middle)) if column.type == "integer" else f"{middle:g}")
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerows([columns, out])
    return line.getvalue().strip()
