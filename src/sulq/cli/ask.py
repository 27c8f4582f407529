"""Questions from a terminal: count, sum, mean, histogram, crosstab, SQL; prices; rehearsals.

Each question is a function of its own options. `sulq count`, `sulq price count` and `sulq estimate
count` take the same ones: the first asks it, the second says its price, the third what
earlier answers say about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sulq.cli.common import Said, command, looked_at, opened
from sulq.cli.options import WHAT, Plot
from sulq.errors import QueryNotAllowed, Refused, SchemaError
from sulq.expressions.quoting import quote
from sulq.settings_file import Settings
from sulq.values.number_text import half_width
from sulq.values.price import known_already
from sulq.values.text_file import read_text

if TYPE_CHECKING:
    from sulq import Answer, Database, Query, RowFunction, Table

Where = Annotated[str | None, typer.Argument(help="A predicate, such as 'age > 40 and smoker'.")]
WhereOption = Annotated[str | None, typer.Option("--where", help="Only rows where this is true.")]
Expression = Annotated[str, typer.Argument(help="A number per row, such as income or age * 2.")]
Column = Annotated[str, typer.Argument(help="A declared column.")]
Columns = Annotated[list[str], typer.Argument(help="Two or more declared columns.")]
Bins = Annotated[str | None, typer.Option("--bins", help="A number of bins, or edges: 0,18,65,120")]
Define = Annotated[
    Path | None,
    typer.Option("--define", help="Row functions it may call: a Python file, or .wasm."),
]
Statement = Annotated[str, typer.Argument(help="A SELECT over the table.")]
Error = Annotated[
    float | None, typer.Option("--error", help="Wanted 95% half-width; a wider one is cheaper.")
]
Rows = Annotated[
    int,
    typer.Option("--rows", help="How many rows the table has: error bars are those of so many."),
]


@dataclass(frozen=True, slots=True)
class Asking:
    """A question: how it is asked of a database, and what is priced."""

    answer: Callable[[Database], Answer | Table]
    priced: Callable[[Database], Query | str]
    is_mean: bool = False
    statement: Callable[[Database], str] | None = None  # where what is priced is more than asked


def count(where: Where = None, error: Error = None, define: Define = None) -> Asking:
    """How many rows satisfy a predicate.

    Example: sulq count "age > 40 and smoker"
    """
    where = _written_out(where, define)
    return Asking(
        lambda db: db.count(where, error=error), lambda db: _query("1", where=where, error=error)
    )


def sum_(
    expression: Expression, where: WhereOption = None, error: Error = None, define: Define = None
) -> Asking:
    """The sum of an expression, in its own units.

    Example: sulq sum income --where "region = 'north'"
    """
    expression, where = _written_out(expression, define), _written_out(where, define)
    return Asking(
        lambda db: db.sum(expression, where, error=error),
        lambda db: _query(expression, where=where, error=error),
    )


def mean(
    expression: Expression, where: WhereOption = None, error: Error = None, define: Define = None
) -> Asking:
    """The mean of an expression.

    Example: sulq mean income --where smoker
    """
    expression, where = _written_out(expression, define), _written_out(where, define)
    return Asking(
        lambda db: db.mean(expression, where, error=error),
        lambda db: db.mean_query(expression, where, None, error)[0],
        is_mean=True,
        statement=lambda db: _mean_statement(expression, where, db.name),
    )


Text = TypeVar("Text", str, str | None)


def _written_out(text: Text, define: Path | None) -> Text:
    """A text in which the functions of a Python file are written out."""
    if define is None or text is None:
        return text
    from sulq.expressions.row_function import expand

    return expand(text, *functions_in(define))


def functions_in(define: Path | None) -> Sequence[RowFunction]:
    """The functions of a row that a file defines: Python, or a module of WebAssembly."""
    if define is None:
        return ()
    from sulq.expressions.row_function import row_functions

    if define.suffix in (".wasm", ".wat"):
        from sulq.expressions.program import programs_in

        return programs_in(define)
    source = read_text(define, lambda why: Refused(f"--define {define}: cannot be read ({why})."))
    return tuple(row_functions(source, define.name).values())


def _mean_statement(expression: str, where: str | None, table: str) -> str:
    """The SELECT of a mean, which is one number."""
    only = f" where {where}" if where is not None else ""
    return f"select avg({expression}) as mean from {quote(table)}{only}"


def histogram(
    column: Column, bins: Bins = None, where: WhereOption = None, error: Error = None,
    define: Define = None,
) -> Asking:  # fmt: skip
    """Counts by a column's values, or by bins of its range.

    Example: sulq histogram age --bins 12 --plot ages.svg
    """
    edges = _bins(bins)
    column, where = _written_out(column, define), _written_out(where, define)
    return Asking(
        lambda db: db.histogram(column, edges, where, error=error),
        lambda db: _query("1", by=db.histogram_axis(column, edges), where=where, error=error),
    )


def crosstab(
    columns: Columns, where: WhereOption = None, error: Error = None, define: Define = None
) -> Asking:
    """Counts by every combination of several columns' values.

    Example: sulq crosstab region smoker
    """
    columns, where = [_written_out(c, define) for c in columns], _written_out(where, define)

    def priced(db: Database) -> Query:
        by = tuple(db.histogram_axis(c, None) for c in columns)
        return _query("1", by=by, where=where, error=error)

    return Asking(lambda db: db.crosstab(columns, where, error=error), priced)


def sql(statement: Statement, define: Define = None) -> Asking:
    """Answer one SELECT with counts, sums and means, by declared groups.

    Example: sulq sql "select region, avg(income) from people group by region"
    """
    statement = _written_out(statement, define)
    return Asking(lambda db: db.sql(statement), lambda db: statement)


QUESTIONS: dict[str, tuple[Callable[..., Asking], str]] = {  # with the help of their prices
    "count": (
        count, 'The price of a count.\n\nExample: sulq price count "age > 40" --error 500',
    ),
    "sum": (sum_, "The price of a sum.\n\nExample: sulq price sum income"),
    "mean": (
        mean, "The price of a mean. How exact it will be depends on how many rows there are.\n\n"
        "Example: sulq price mean income --where smoker",
    ),
    "histogram": (
        histogram, "The price of a histogram: the same for any number of bins.\n\n"
        "Example: sulq price histogram age --bins 100",
    ),
    "crosstab": (
        crosstab, "The price of a crosstab: the same for any number of cells.\n\n"
        "Example: sulq price crosstab region smoker",
    ),
    "sql": (
        sql, "The price of a SELECT.\n\n"
        'Example: sulq price sql "select sex, count(*) from people group by sex"',
    ),
}  # fmt: skip
UNDRAWN = ("count", "sum", "mean")  # one number


def add(app: typer.Typer, panel: str) -> None:
    """Add each question, and its price under `sulq price`."""
    price = typer.Typer(no_args_is_help=True, help="The price of a question. Nothing is spent.")
    known = typer.Typer(no_args_is_help=True, help="What earlier answers say about it. Free.")
    for name, (question, text) in QUESTIONS.items():
        makers: dict[str, Callable[..., Any]] = {"question": question}
        command(price, name, price_of, text=text, gathered=makers)
        told = (question.__doc__ or "").replace("Example: sulq", "Example: sulq estimate")
        said = f"From earlier answers alone: {told[0].lower()}{told[1:]}"
        command(known, name, estimate_of, text=said.split(" --plot")[0], gathered=makers)
        makers |= {"plot": lambda: None} if name in UNDRAWN else {}
        command(app, name, ask, panel, question.__doc__, gathered=makers)
    app.add_typer(price, name="price", rich_help_panel=panel)
    app.add_typer(known, name="estimate", rich_help_panel=panel)


def ask(settings: Settings, question: Asking, plot: Plot = None) -> Said:
    """Ask, and say whether it was free."""
    from sulq import Picture

    Picture.ready(plot)  # before anything is paid for
    with opened(settings) as db:
        before = db.budget_by_cell()
        answer: Any = question.answer(db)
        free = db.budget_by_cell() == before
    notes = ["Asked before: this is the stored answer, and nothing was charged."] if free else []
    if plot is not None:
        answer.plot(plot)
        notes.append(f"Drawn: {plot}")
    return Said(answer.to_json() | {"free": free}, str(answer), notes=notes)


def estimate_of(settings: Settings, question: Asking) -> Said:
    """What stored answers say about a question. Nothing is spent, no row is read."""
    with looked_at(settings) as db:
        query = question.statement(db) if question.statement else question.priced(db)
        found = db.estimate(query)
    return Said(found.to_json() | {"free": True}, str(found))


def price_of(settings: Settings, question: Asking) -> Said:
    """The price of a question, and how exact it would be. Nothing is spent."""
    with looked_at(settings) as db:
        query = question.priced(db)
        price, left, n = db.price(query), db.budget, max(db.rows, 1)
        known = (price if question.statement is None else db.price(question.statement(db))).estimate
    price = replace(price, _look=None)
    notes = [] if known is None else [known_already(known)]
    widths = list(price.half_widths)
    body: dict[str, Any] = {
        "price_micro": price.micro, "price_queries": str(price.queries), "half_widths": widths,
        "estimate": None if known is None else known.to_json(),
    }  # fmt: skip
    if isinstance(query, str):
        said = f"price {price}"
    elif question.is_mean:
        total = widths[-1]
        whole = len(widths) == 1 and query.where is None  # over all rows, whose number is known
        body |= {"half_widths": [total / n] if whole else [], "sum_half_width": total}
        said = f"price {price}, {_mean_width(total, n, whole)}. Nothing was spent."
        return Said(body, said, notes=notes)
    elif price.micro == 0:
        said = f"price {price}: it is public, so the answer is exact"
    else:
        said = f"price {price}, expected within {half_width(max(widths))} (95%)"
    return Said(body, f"{said}. Nothing was spent; {left}.", notes=notes)


def _mean_width(total: float, n: int, whole: bool) -> str:
    if whole:
        return f"expected within {half_width(total / n)} (95%)"
    return (
        f"expected within about {half_width(total)} / (number of rows asked about) at 95%: "
        f"{half_width(2 * total / n)} if that is half of the {n:,} rows"
    )


def _query(expression: str, *, error: float | None, **said: Any) -> Query:
    from sulq import Query

    return Query((expression,), error=error, **said)  # type: ignore[arg-type]  # checked there


def _bins(text: str | None) -> int | list[float] | None:
    """--bins 12, or --bins 0,18,65,120."""
    if text is None:
        return None
    try:
        if "," not in text:
            return int(text)
        return [float(p) if re.search("[.eE]", p) else int(p) for p in text.split(",")]
    except ValueError:
        raise QueryNotAllowed(f"bins={text!r}: want a number of bins, or edges 0,18,65.") from None


# ---- rehearsals -----------------------------------------------------------------------------


def rehearse(
    settings: Settings, statement: Statement, rows: Rows = 1000, define: Define = None
) -> Said:
    """Try a SELECT on synthetic rows made from the schema alone. Nothing is spent.

    Only the schema is read: neither the data nor the ledger need be there.

    Example: sulq rehearse --schema people.toml "select sex, count(*) from people group by sex"
    """
    with rehearsed(settings, rows) as db:
        table = db.sql(_written_out(statement, define))
    return Said(table.to_json(), str(table))


def rehearsed(settings: Settings, rows: int) -> Database:
    """Synthetic rows under the settings' promise, called as the real table is."""
    import sulq
    from sulq.sources.source import open_source

    if settings.schema is None:
        raise Refused("which schema? Give --schema FILE.toml, or run it beside a sulq.toml.")
    name = settings.name
    if name is None and settings.source is not None:
        try:
            name = open_source(settings.source).name
        except SchemaError:  # the data is elsewhere
            name = Path(settings.source).stem
    said = {n: v for n, v in settings.arguments.items() if n in (*WHAT, "pricing")}
    return sulq.rehearsal(settings.schema, rows, name=name, **said)
