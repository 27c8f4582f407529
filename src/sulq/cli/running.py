"""sulq running: totals so far at every period, where rows arrive by periods."""

from __future__ import annotations

from typing import Annotated

import typer

from sulq.cli.common import Said, looked_at, opened
from sulq.cli.options import PriceOnly
from sulq.settings_file import Settings

Summed = Annotated[str, typer.Argument(help="'count(*)' or 'sum(...)' of an expression.")]
Where = Annotated[str | None, typer.Option("--where", help="A SQL predicate: rows to add up.")]
Start = Annotated[
    str | None, typer.Option("--start", help="The first period. Default: the first declared.")
]
Horizon = Annotated[
    int | None, typer.Option("--horizon", help="For how many periods. Default: all declared.")
]


def running(
    settings: Settings, summed: Summed = "count(*)", where: Where = None, start: Start = None,
    horizon: Horizon = None, price: PriceOnly = False,
) -> Said:  # fmt: skip
    """Totals so far at every period that has rows: each period pays once, up to the horizon.

    Asked again after `sulq append`, the older totals stay as they are and the new ones are free:
    a period that opens has paid for its part then.

    Example: sulq running --where sick --horizon 24
    """
    said = {"where": where, "start": start, "horizon": horizon}
    if price:
        with looked_at(settings) as db:
            priced = db.running_price(summed, **said)  # type: ignore[arg-type]
            return Said(
                {"price_micro": priced.micro}, f"price {priced}. Nothing was spent; {db.budget}."
            )
    with opened(settings) as db:
        found = db.running(summed, **said).table()  # type: ignore[arg-type]
        return Said(found.to_json(), str(found))
