"""sulq discover: the values of a text that enough rows have, where nobody listed them."""

from __future__ import annotations

from typing import Annotated

import typer

from sulq.cli.common import Said, looked_at, opened
from sulq.cli.options import PriceOnly
from sulq.settings_file import Settings
from sulq.values.query import Discover, Query

Column = Annotated[str, typer.Argument(help="A column of texts without declared values.")]
AtLeast = Annotated[
    int | None, typer.Option("--at-least", help="Rows a value must have; paid for accordingly.")
]
Where = Annotated[str | None, typer.Option("--where", help="A SQL predicate: rows to look at.")]


def discover(
    settings: Settings, column: Column, at_least: AtLeast = None, where: Where = None,
    price: PriceOnly = False,
) -> Said:  # fmt: skip
    """The values of a column that enough rows have, with noisy counts, the most frequent first.

    For texts whose values nobody listed. The ledger must have begun with a share of delta for it:
    discoveries = 10 in sulq.toml.

    Example: sulq discover diagnosis --at-least 200
    """
    if price:
        with looked_at(settings) as db:
            priced = db.price(Query(Discover(column, at_least), where=where))
            return Said(
                {"price_micro": priced.micro}, f"price {priced}. Nothing was spent; {db.budget}."
            )
    with opened(settings) as db:
        found = db.discover(column, at_least, where=where)
        return Said(found.to_json(), str(found))
