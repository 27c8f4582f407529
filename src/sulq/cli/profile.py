"""sulq profile: what every column looks like, for one price; and a schema with what was found."""

from __future__ import annotations

from sulq.cli.common import Said, looked_at, opened, write
from sulq.cli.options import Out, PriceOnly, Spend
from sulq.settings_file import Settings


def profile(
    settings: Settings, budget: Spend = None, price: PriceOnly = False, out: Out = None
) -> Said:
    """Missing values, ranges, quartiles and shares of every column, noisy, in one question.

    For a table that nobody described: numbers and dates need no declared ends. With --out a
    schema with the ends that were found, marked as found. Spends one query a column unless said.

    Example: sulq profile --budget 5
    """
    if price:
        with looked_at(settings) as db:
            priced, left = db.profile_price(budget=budget), db.budget
        return Said({"price_micro": priced.micro}, f"price {priced}. Nothing was spent; {left}.")
    with opened(settings) as db:
        found = db.profile(budget=budget)
        body = found.to_json() | {"remaining": str(db.budget.remaining)}
        if out is None:
            return Said(body, str(found), f"{db.budget}")
        write(out, found.draft())
        said = f"Written: {out}, with the ends that were found. Look at them before you use them."
        return Said(body | {"out": str(out)}, str(found), f"{db.budget}", notes=[said])
