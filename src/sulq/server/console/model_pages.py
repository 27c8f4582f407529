"""Models: chosen, priced, learned step by step, looked at, used on rows that one pastes."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse, Response

from sulq.client.database import remote
from sulq.errors import MICRO, BudgetExceeded, NotFound, QueryNotAllowed, SulqError
from sulq.server.console.dataset_pages import DatasetFacts, facts_of
from sulq.server.console.model_form import KINDS, Wish, fields_of, labels, usable
from sulq.server.console.model_jobs import Job
from sulq.server.console.pages import rounded, with_headers
from sulq.server.console.question_form import TRUTHS
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.result_view import HALF, NARROW, WHOLE, Chart
from sulq.server.services.responses import dumped
from sulq.values.price import Price
from sulq.values.schema import Column, Schema

pages = Pages()
D = "/datasets/{name}/models"
MAX_PASTED = 500  # rows
MAX_DRAWN = 100_000  # synthetic rows of one file; `sulq sample` draws more
MAX_WORDS = 20_000  # letters about a model
# What a prediction is called and how it is said, by what a model is.
PREDICTED: dict[str, tuple[str, Callable[[Any], str]]] = {
    "regressor": ("prediction", lambda x: rounded(float(x))),
    "clusterer": ("group", lambda x: str(int(x))),
    "classifier": ("class", str),
}


# ---- choosing -------------------------------------------------------------------------------


@pages.get(D)
async def models(here: PageContext) -> Response:
    """The models one has, and the kinds one may have."""
    found = here.console.jobs.all(here.principal, here.record())
    return here.page("models.html", name=here.name, tab="models", jobs=found, kinds=KINDS)


@pages.get(D + "/new/{kind}")
async def new(here: PageContext) -> Response:
    """The form of a kind of model."""
    facts = await facts_of(here)
    if here.part("kind") not in KINDS:
        raise NotFound("there is no such kind of model.")
    return _form(here, facts, Wish.empty(here.part("kind")))


def _form(
    here: PageContext, facts: DatasetFacts, wish: Wish, problem: SulqError | None = None,
    price: Price | None = None,
) -> Response:  # fmt: skip
    kind = KINDS[wish.kind]
    return here.page(
        "model-form.html", problem, facts=facts, name=facts.name, tab="models", kind=kind,
        wish=wish, price=price, request=secrets.token_hex(16), columns=usable(facts.schema, kind),
        labels=labels(facts.schema, kind) if kind.label else [], params=dict(wish.params),
        fields=fields_of(wish.kind),
    )  # fmt: skip


async def _again(here: PageContext, problem: SulqError) -> Response:
    facts = await facts_of(here)
    wish = Wish.empty(here.form.get("kind"))
    with suppress(SulqError):
        wish = Wish.of(here.form)
    return _form(here, facts, wish, problem)


@pages.post(D + "/preview", again=_again)
async def preview(here: PageContext) -> Response:
    """The most that will be paid for it, before anything is paid."""
    facts, wish = await facts_of(here), Wish.of(here.form)
    db = await here.database()
    return _form(here, facts, wish, price=await here.run(wish.price, db))


@pages.post(D + "/learn", again=_again)
async def learn(here: PageContext) -> Response:
    """Begin; the request id makes a second click the same as the first."""
    request, name = here.request_id("learn"), here.name
    record, wish, wire = here.record(), Wish.of(here.form), here.wire()
    db = await here.database()
    price = await here.run(wish.price, db)
    if here.form.get("price") != str(price.micro):
        raise QueryNotAllowed("the price is no longer what was shown. Look at it again.")
    left = int(await here.run(lambda: db.budget.of_all * MICRO))
    if price.micro > left:
        raise BudgetExceeded(price.micro, left, name)
    here.console.jobs.start(here.principal, record, request, wish, lambda: remote(wire, name))
    return here.go(f"models/{request}")


# ---- looking --------------------------------------------------------------------------------


@pages.get(D + "/{id}")
async def model(
    here: PageContext, problem: SulqError | None = None,
    predicted: tuple[list[str], list[list[str]]] | None = None,
) -> Response:  # fmt: skip
    """A model: how far it is, or what it learned."""
    job, facts = _job(here), await facts_of(here)
    words, charts, rows, usable = "", [], None, False
    if job.state == "ready":
        from sulq.learn import from_json
        from sulq.learn.model_pictures import figures, in_rows

        found, behind = from_json(job.body["model"]), job.body.get("histogram")
        words, rows = found.summary()[:MAX_WORDS], in_rows(found)
        usable = hasattr(found, "predict") or hasattr(found, "transform")
        narrow = figures(found, behind, NARROW)
        wide = figures(found, behind, HALF if len(narrow) > 1 else WHOLE)
        charts = [Chart.of(*both) for both in zip(wide, narrow, strict=True)]
    return here.page(
        "model.html", problem, facts=facts, name=facts.name, tab="models", job=job,
        kind=KINDS[job.wish.kind], summary=words, charts=charts, rows=rows,
        pasted=here.form.raw("rows"), predicted=predicted, usable=usable,
        sample=_sample(facts.schema, job.wish.columns),
    )  # fmt: skip


def _job(here: PageContext) -> Job:
    return here.console.jobs.get(here.principal, here.record(), here.part("id"))


@pages.get(D + "/{id}/progress")
async def progress(here: PageContext) -> Response:
    """How far it is, for the script."""
    job = _job(here)
    said = {name: getattr(job, name) for name in ("state", "done", "total", "remaining_micro")}
    return with_headers(JSONResponse(said))


@pages.get(D + "/{id}/json")
async def download(here: PageContext) -> Response:
    """The model as `sulq.learn.load` reads it."""
    job = _job(here)
    if job.state != "ready":
        raise NotFound("this model is not ready.")
    name = f"{here.name}-{job.wish.kind.lower()}.json"
    return here.file(dumped(job.body["model"]), "application/json", name)


@pages.get(D + "/{id}/rows")
async def synthetic_rows(here: PageContext) -> Response:
    """Rows drawn from a model of synthetic rows, as a Parquet file that says what it is."""
    job = _job(here)
    if job.state != "ready" or job.wish.kind != "Synthesizer":
        raise NotFound("this model draws no rows, or it is not ready.")
    name = f"{here.name}-synthetic.parquet"
    return here.file(await here.run(_drawn, job), "application/vnd.apache.parquet", name)


def _drawn(job: Job) -> bytes:
    from sulq.learn import Synthesizer

    model = Synthesizer.from_json(job.body["model"])
    file = io.BytesIO()
    model.sample(min(round(model.rows_), MAX_DRAWN)).to_parquet(file)
    return file.getvalue()


# ---- using ----------------------------------------------------------------------------------


@pages.post(D + "/{id}/predict", again=model)
async def predict(here: PageContext) -> Response:
    """What the model says of rows that one pastes; they are kept nowhere, and it is free."""
    job, facts = _job(here), await facts_of(here)
    if job.state != "ready":
        return await model(here)
    found = await here.run(_predicted, facts.schema, job, here.form.raw("rows"))
    return await model(here, predicted=found)


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
    if len(rows) > MAX_PASTED:
        raise QueryNotAllowed(f"{len(rows):,} rows: want at most {MAX_PASTED}.")
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
        if text.lower() not in TRUTHS:
            raise QueryNotAllowed(f"row {i + 1}, {column.name}: want True or False.")
        return float(TRUTHS[text.lower()])
    if column.values is not None:
        return next((v for v in column.values if str(v) == text), text)
    try:
        return float(text)
    except ValueError:
        raise QueryNotAllowed(f"row {i + 1}, {column.name}: want a number.") from None


def _said(model: Any, rows: list[list[Any]]) -> tuple[list[str], list[list[str]]]:
    """What a model says of rows, and what that is called."""
    kind = type(model).__name__
    if kind in ("PCA", "LSI"):
        found = model.transform(rows)
        heads = [f"pc{i + 1}" for i in range(found.shape[1])]
        return heads, [[rounded(float(x)) for x in row] for row in found]
    if not hasattr(model, "predict_proba"):
        head, text = PREDICTED[model.estimator_type]
        return [head], [[text(x)] for x in model.predict(rows)]
    shares = model.predict_proba(rows)
    best = shares.argmax(axis=1)
    sort = "class" if model.estimator_type == "classifier" else "component"
    names = getattr(model, "classes_", range(shares.shape[1]))
    return [sort, "share"], [
        [str(names[b]), f"{float(row[b]):.0%}"] if row[b] == row[b] else ["", "a value is missing"]
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
            out.append("True")  # as a tree has it
        elif column.values is not None:
            out.append(str(column.values[0]))
        else:
            middle = (column.low + column.high) / 2
            out.append(str(int(middle)) if column.type == "integer" else f"{middle:g}")
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerows([columns, out])
    return line.getvalue().strip()
