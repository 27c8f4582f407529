"""Before anything is asked: demo, plan, schema draft, schema check, init, encode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Said, grid, note, write
from sulq.cli.options import Out, TableName, settings_from, with_queries
from sulq.cli.serve import begin
from sulq.errors import Refused, SchemaError
from sulq.settings_file import FILE, Settings
from sulq.settings_file import draft as draft_config

if TYPE_CHECKING:
    from rich.table import Table

    from sulq import DataCheck, Promise, Schema

Rows = Annotated[int, typer.Option("--rows", help="n, the rows of the table.")]
DataFile = Annotated[Path, typer.Argument(help="A Parquet, CSV or DuckDB file.")]
DataOrAddress = Annotated[
    str, typer.Argument(help="A Parquet, CSV or DuckDB file, or a postgresql:// address.")
]
SchemaFile = Annotated[Path, typer.Argument(help="A schema, as TOML.")]
DataOrFolder = Annotated[Path, typer.Argument(help="A data file, or a new folder for a server.")]
FirstOwner = Annotated[str, typer.Option("--owner", help="The first owner of a server.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]
Folder = Annotated[Path, typer.Option("--dir", help="Where the demo's files go.")]
SchemaPath = Annotated[Path | None, typer.Option("--schema", help="Default: DATA's name, .toml.")]
StoreFile = Annotated[Path, typer.Argument(help="The store to write; its name ends in .sulq.")]
StoreSchema = Annotated[str | None, typer.Option("--schema", help="Default: as sulq.toml says.")]
StoreLedger = Annotated[
    str | None, typer.Option("--ledger", help="The ledger of these rows; default: beside DATA.")
]
Against = Annotated[
    str | None, typer.Option("--data", help="Also count which values of this file fit.")
]

EPSILONS = (0.1, 0.3, 1.0, 3.0)


def demo(folder: Folder = Path(".demo")) -> None:
    """A guided tour on synthetic people: prices, answers, true values, budget.

    Example: sulq demo
    """
    from sulq.cli.demo import run

    run(folder)


# ---- plan -----------------------------------------------------------------------------------


def plan(rows: Rows, promise: dict[str, Any]) -> Said:
    """What a promise buys, before any data is opened.

    One answer is a count, or a sum of numbers between 0 and 1.

    Example: sulq plan --rows 1000000 --queries 1000 --epsilon 1
    """
    from sulq.privacy.fitting import plan_table
    from sulq.privacy.promise import Promise

    promise = with_queries(promise, rows)
    made = Promise(**promise)
    queries, epsilon = promise["queries"], promise["epsilon"]
    lives = sorted({max(1, queries // 10), queries, queries * 10})
    others = {name: promise[name] for name in ("delta", "noise", "guarantee")}
    table = plan_table(rows, lives, sorted({*EPSILONS, epsilon}), **others)
    for line in table:
        line["below_sampling"] = line["ratio"] < 1
    most, words = _most_queries(made, rows), made.explain(rows)
    body = {"rows": rows, "promise": made.to_json() | {"words": words}, "table": table}
    said = [words]
    if most is not None:
        said.append(
            f"With epsilon={epsilon:g}, up to {most:,} queries keep the noise of each below the "
            f"sampling error of {rows:,} rows." if most else
            f"With epsilon={epsilon:g}, even a single query is noisier than the sampling error."
        )  # fmt: skip
    shown = _plan_table(table, (queries, epsilon))
    return Said(body | {"most_queries_below_sampling": most}, *said, shown)


def _plan_table(lines: list[dict[str, Any]], asked: tuple[int, float]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in ("queries", "epsilon", "noise (std)", "95% within", "sampling"):
        table.add_column(name, justify="right")
    table.add_column("noise below?")
    last = None
    for line in lines:
        chosen = (line["queries"], line["epsilon"]) == asked
        if last not in (None, line["queries"]):
            table.add_section()
        last = line["queries"]
        verdict = "yes" if line["below_sampling"] else f"no, x {line['ratio']:,.3g}"
        numbers = (f"{_short(line[name])}" for name in ("std", "half_width", "sampling"))
        table.add_row(
            ">" if chosen else "", f"{line['queries']:,}", f"{line['epsilon']:g}", *numbers,
            verdict, style="bold" if chosen else None,
        )  # fmt: skip
    return table


def _short(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def _most_queries(promise: Promise, rows: int) -> int | None:
    """The largest T whose noise stays below the sampling error, where R is a plain formula."""
    per_query = promise.variance / promise.queries
    if promise.noise == "gaussian":  # R grows with T
        return max(0, int((rows / 4) / per_query * (1 - 1e-9)))
    if promise.noise == "laplace":  # R grows with T squared
        return max(0, int((rows / 4 / (per_query / promise.queries)) ** 0.5 * (1 - 1e-9)))
    return None


# ---- schema ---------------------------------------------------------------------------------


def schema_draft(
    file: DataOrAddress, out: Out = None, table: TableName = None, force: Force = False
) -> Said:
    """A first draft of a schema, from the file's metadata only.

    Bounds and categories are left blank: read off the rows they would be unpaid answers.

    Example: sulq schema draft people.parquet --out people.toml
    """
    from sulq.sources.draft import draft as text_of

    text = text_of(file, table)
    if out is None:
        return Said({"draft": text}, text.rstrip("\n"))
    _write_new(out, text, force)
    said = f"Written: {out}. Fill in bounds and categories, then: sulq schema check {out}"
    return Said({"draft": text, "out": str(out)}, said)


def schema_check(file: SchemaFile, data: Against = None, table: TableName = None) -> Said:
    """Read a schema as sulq will, and say what it allows.

    With --data also how many values of a file fit it: exact figures about private rows, for
    the owner's eyes. The exit code is 1 if more than half of a column is lost.

    Example: sulq schema check people.toml --data people.parquet
    """
    from sulq import Schema

    schema = Schema.load(file)
    if data is not None:
        schema = _bound(schema, data, table)
    found = None if data is None else check_rows(schema, data, table)
    said = said_of(schema)
    if found is None:
        return said
    names = ", ".join(c.name for c in found.bad)
    bad = [
        f"More than half of what is there, or one of two values, is lost: {names}. Mend the file "
        "or the schema."
    ]
    fits = said.body | {"data": found.to_json()}
    return Said(fits, *said.parts, f"\n{found}", notes=bad if names else (), code=int(bool(names)))


def check_rows(schema: Schema, data: str, table: str | None) -> DataCheck | None:
    """How many values fit, for the owner's eyes; None where rows are on a server."""
    from sulq import check_data
    from sulq.progress import show
    from sulq.sources.source import FILES, open_source

    source = open_source(data, table)
    if source.kind not in (*FILES, "tables"):
        return None
    return check_data(data, schema, table, show("reading"))


def warn_of_lost(schema: Path, data: str, table: str | None = None) -> None:
    """Tell the owner of columns that cannot be read as declared, before anything is asked."""
    from sulq import Schema

    found = check_rows(Schema.load(schema), data, table)
    for said in found.warnings() if found is not None else ():
        note(f"Warning: {said}")


def _bound(schema: Schema, data: str, table: str | None) -> Schema:
    from sulq.sources.draft import stored_types
    from sulq.sources.source import bind, open_source
    from sulq.sources.star_source import star_source

    if schema.star is not None:
        star_source(open_source(data, table), schema)  # are all tables there?
        return schema
    stored = stored_types(open_source(data, table))
    known = {name: kind for name, kind in stored.items() if kind is not None}
    if len(known) == len(stored):
        return bind(schema, known)
    for column in schema.columns:  # a CSV: only its header says anything
        if column.name not in stored:
            raise SchemaError(
                f"column {column.name!r} is declared but not in the source. It has: "
                f"{', '.join(list(stored)[:20])}."
            )
    return schema


def said_of(schema: Schema) -> Said:
    """A schema as a table, and what it means for questions."""
    rows = []
    for c in schema.columns:
        values = [str(v) for v in c.values or ()]
        listed = ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")
        span = f"{c.low} to {c.high}" if c.bounded else listed
        public = "key" if c.key else "yes" if c.public else ""
        rows.append((c.name, c.type, span, public, "yes" if c.nullable else ""))
    table = grid(("column", "type", "range or values", "public", "may be missing"), rows)
    body = schema.to_json() | {"cells": schema.cell_count, "digest": schema.digest}
    return Said(body, table, *_remarks(schema))


def _remarks(schema: Schema) -> list[str]:
    """What the declarations mean for questions."""
    cells = schema.cell_count
    by = ", ".join(c.name for c in schema.cell_columns)
    said = [
        f"Spending is kept apart in {cells:,} cells, by {by}."
        if by
        else "No public column lists its values, so every question is charged to everyone."
    ]
    if schema.key is None:
        said.append("No key: samples and blocks of rows cannot be asked for.")
    open_ended = [
        c.name for c in schema.columns
        if c.type in ("integer", "number", "date", "timestamp") and not c.bounded and not c.key
    ]  # fmt: skip
    if open_ended:
        said.append(
            f"No bounds: {', '.join(open_ended)}. These can be compared but not summed; declare "
            "low and high from what you know, not from the rows."
        )
    return said


# ---- init -----------------------------------------------------------------------------------


def init(
    data: DataOrFolder, promise: dict[str, Any], schema: SchemaPath = None,
    owner: FirstOwner = "owner", force: Force = False,
) -> Said:  # fmt: skip
    """Write a sulq.toml beside the data, or make a new folder for a server.

    Without --queries the promise is for as many as keep the noise below the sampling error of
    the rows that are there, or as --error wants them.

    A server's folder gets its first owner, whose key is shown once.

    Example: sulq init people.parquet --epsilon 1 --error 0.01

    Example: sulq init clinic --owner anna
    """
    from sulq.privacy.fitting import proposal
    from sulq.privacy.promise import Promise
    from sulq.sources.row_count import count_rows
    from sulq.sources.source import looks_like_data, open_source

    if not looks_like_data(data):
        return begin(data, owner)
    source = open_source(data)
    said, rows = promise["queries"] is not None, count_rows(source)
    promise = with_queries(promise, rows)
    made = Promise(**promise)
    promise["epsilon"] = made.epsilon  # refuses what cannot be kept
    declared = schema if schema is not None else data.with_name(f"{source.name}.toml")
    place = data.parent / FILE
    text = draft_config(data.name, os.path.relpath(declared, data.parent), Settings(**promise))
    _write_new(place, text, force)
    next_step = [] if declared.exists() else [f"Next: sulq schema draft {data} --out {declared}"]
    if declared.exists():
        warn_of_lost(declared, str(data))
    words = [
        f"T = {made.queries:,} queries in the table's whole life: a count is then off by up to "
        f"{made.half_width():,.0f} of {rows:,} rows (95%)."
        + ("" if said else " Say --queries or --error for another.")
    ]
    too_rough = proposal(rows, made)
    words += [f"Warning: {too_rough}"] if too_rough else []
    body = {"config": str(place), "schema": str(declared), "rows": rows, "queries": made.queries}
    return Said(body, f"Written: {place}", *words, notes=next_step)


def _write_new(path: Path, text: str, force: bool) -> None:
    if path.exists() and not force:
        raise Refused(f"{str(path)!r} is there already. Give --force to write over it.")
    write(path, text)


# ---- encode ---------------------------------------------------------------------------------


def encode(
    data: DataFile, out: StoreFile, schema: StoreSchema = None, ledger: StoreLedger = None,
    table: TableName = None,
) -> Said:  # fmt: skip
    """Write the rows to an encoded store, on which private sums are plain integer sums.

    The store holds what the rows hold, so it is as secret as they are. It goes on with their
    ledger: what was spent stays spent. Schema and ledger come from a sulq.toml beside DATA.

    Example: sulq encode people.parquet people.sulq
    """
    import sulq

    said = settings_from(data=str(data), schema=schema, ledger=ledger, table=table)
    made = sulq.encode(
        data, said.schema, out, ledger=said.ledger, table=said.table, name=said.name
    )  # fmt: skip
    body = {"store": str(out), "bytes": made.stat().st_size}
    return Said(body, f"Written: {out}. Open it like any other file; its ledger is that of {data}.")
