"""Questions from a terminal: count, sum, mean, histogram, crosstab, and their price."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Json, command, emit, looked_at, note, opened
from sulq.config import Settings
from sulq.errors import QueryNotAllowed

if TYPE_CHECKING:
    from sulq import Answer, Database, Price, Query, Table

PANEL = "Asking"
Where = Annotated[str | None, typer.Argument(help="A predicate, such as 'age > 40 and smoker'.")]
WhereOption = Annotated[str | None, typer.Option("--where", help="Only rows where this is true.")]
Expression = Annotated[str, typer.Argument(help="A number per row, such as income or age * 2.")]
Column = Annotated[str, typer.Argument(help="A declared column.")]
Columns = Annotated[list[str], typer.Argument(help="Two or more declared columns.")]
Bins = Annotated[str | None, typer.Option("--bins", help="A number of bins, or edges: 0,18,65,120")]
Statement = Annotated[str, typer.Argument(help="A SELECT over the table.")]
Error = Annotated[
    float | None, typer.Option("--error", help="Wanted 95% half-width; a wider one is cheaper.")
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Also draw it: out.svg or out.png.")]


def add(app: typer.Typer) -> None:
    """Add the questions to the app."""
    for function in (count, sum_, mean, histogram, crosstab, sql):
        command(app, function.__name__.rstrip("_"), panel=PANEL)(function)
    price = typer.Typer(no_args_is_help=True, help="What a question would cost. Nothing is spent.")
    priced_ones = (price_count, price_sum, price_mean, price_histogram, price_crosstab, price_sql)
    for priced in priced_ones:
        command(price, priced.__name__.removeprefix("price_"))(priced)
    app.add_typer(price, name="price", rich_help_panel=PANEL)


# ---- asking ---------------------------------------------------------------------------------


def count(
    settings: Settings, where: Where = None, error: Error = None, as_json: Json = False
) -> None:
    """How many rows satisfy a predicate.

    Example: sulq count "age > 40 and smoker"
    """
    _show(settings, as_json, lambda db: db.count(where, error=error))


def sum_(
    settings: Settings, expression: Expression, where: WhereOption = None, error: Error = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """The sum of an expression, in its own units.

    Example: sulq sum income --where "region = 'north'"
    """
    _show(settings, as_json, lambda db: db.sum(expression, where, error=error))


def mean(
    settings: Settings, expression: Expression, where: WhereOption = None, error: Error = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """The mean of an expression.

    Example: sulq mean income --where smoker
    """
    _show(settings, as_json, lambda db: db.mean(expression, where, error=error))


def histogram(
    settings: Settings, column: Column, bins: Bins = None, where: WhereOption = None,
    error: Error = None, plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Counts by a column's values, or by bins of its range.

    Example: sulq histogram age --bins 12 --plot ages.svg
    """
    edges = _bins(bins)
    _show(settings, as_json, lambda db: db.histogram(column, edges, where, error=error), plot)


def crosstab(
    settings: Settings, columns: Columns, where: WhereOption = None, error: Error = None,
    plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Counts by every combination of several columns' values.

    Example: sulq crosstab region smoker
    """
    _show(settings, as_json, lambda db: db.crosstab(columns, where, error=error), plot)


def sql(
    settings: Settings, statement: Statement, plot: Plot = None, as_json: Json = False
) -> None:  # fmt: skip
    """Answer one SELECT with counts, sums and means, by declared groups.

    Example: sulq sql "select region, avg(income) from people group by region"
    """
    _show(settings, as_json, lambda db: db.sql(statement), plot)


def _show(
    settings: Settings, as_json: bool, ask: Callable[[Database], Answer | Table],
    plot: Path | None = None,
) -> None:  # fmt: skip
    """Ask, then write the answer down, saying so if it was free."""
    if plot is not None:
        from sulq.plots import ready

        ready(plot)  # before anything is paid for
    with opened(settings) as db:
        before = db.budget_by_cell()
        answer = ask(db)
        free = db.budget_by_cell() == before
    emit(answer.to_json() | {"free": free}, str(answer), as_json)
    if free and not as_json:
        note("Asked before: this is the stored answer, and nothing was charged.")
    if plot is not None:
        answer.plot(plot)  # type: ignore[union-attr]
        note(f"Drawn: {plot}")


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


# ---- prices ---------------------------------------------------------------------------------


def price_count(
    settings: Settings, where: Where = None, error: Error = None, as_json: Json = False
) -> None:
    """The price of a count.

    Example: sulq price count "age > 40" --error 500
    """
    from sulq import Query

    _show_price(settings, as_json, lambda db: Query(("1",), where=where, error=_exact(error)))


def price_sum(
    settings: Settings, expression: Expression, where: WhereOption = None, error: Error = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """The price of a sum.

    Example: sulq price sum income
    """
    from sulq import Query

    _show_price(
        settings, as_json, lambda db: Query((expression,), where=where, error=_exact(error))
    )


def price_mean(
    settings: Settings, expression: Expression, where: WhereOption = None, error: Error = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """The price of a mean. How exact it will be depends on how many rows there are.

    Example: sulq price mean income --where smoker
    """
    with looked_at(settings) as db:
        query, public = db.mean_query(expression, where, None, error)
        price, n = db.price(query), db.rows
    total = price.half_widths[-1]
    body = _price_body(price) | {"half_widths": [], "sum_half_width": total}
    if public and where is None:
        body["half_widths"] = [total / max(n, 1)]
        said = f"expected within {_width(total / max(n, 1))} (95%)"
    else:
        said = (
            f"expected within about {_width(total)} / (number of rows asked about) at 95%: "
            f"{_width(2 * total / max(n, 1))} if that is half of the {n:,} rows"
        )
    emit(body, f"price {price}, {said}. Nothing was spent.", as_json)


def price_histogram(
    settings: Settings, column: Column, bins: Bins = None, where: WhereOption = None,
    error: Error = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The price of a histogram: the same for any number of bins.

    Example: sulq price histogram age --bins 100
    """
    from sulq import Query

    def query(db: Database) -> Query:
        by = db.histogram_axis(column, _bins(bins))
        return Query(("1",), by=by, where=where, error=_exact(error))

    _show_price(settings, as_json, query)


def price_crosstab(
    settings: Settings, columns: Columns, where: WhereOption = None, error: Error = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """The price of a crosstab: the same for any number of cells.

    Example: sulq price crosstab region smoker
    """
    from sulq import Query

    def query(db: Database) -> Query:
        by = tuple(db.histogram_axis(c, None) for c in columns)
        return Query(("1",), by=by, where=where, error=_exact(error))

    _show_price(settings, as_json, query)


def price_sql(settings: Settings, statement: Statement, as_json: Json = False) -> None:
    """The price of a SELECT.

    Example: sulq price sql "select sex, count(*) from people group by sex"
    """
    with looked_at(settings) as db:
        price, left = db.price(statement), db.budget
    emit(_price_body(price), f"price {price}. Nothing was spent; {left}.", as_json)


def _show_price(settings: Settings, as_json: bool, query: Callable[[Database], Query]) -> None:
    with looked_at(settings) as db:
        price, left = db.price(query(db)), db.budget
    said = f"price {price}, expected within {_width(max(price.half_widths))} (95%)"
    emit(_price_body(price), f"{said}. Nothing was spent; {left}.", as_json)


def _exact(error: float | None) -> Fraction | None:
    from sulq import Query

    return Query(error=error).error  # type: ignore[arg-type]  # checked there


def _price_body(price: Price) -> dict[str, Any]:
    return {
        "price_micro": price.micro,
        "price_queries": str(price.queries),
        "half_widths": list(price.half_widths),
    }


def _width(reach: float) -> str:
    from sulq.answer import with_error

    return "+/- " + with_error(0.0, reach).split("+/- ")[1]
