"""sulq publish: noisy tables in a file; sulq mine: questions to such a file, offline and free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sulq.cli.common import Said, confirm, looked_at, opened
from sulq.cli.options import Json, PriceOnly, Spend, Yes
from sulq.errors import Refused
from sulq.expressions.quoting import quote
from sulq.settings_file import Settings

Attributes = Annotated[
    list[str], typer.Argument(help="Boolean columns, or 'name: predicate', each in quotes.")
]
Width = Annotated[int, typer.Option("--width", help="How many attributes stand in one table.")]
Out = Annotated[Path | None, typer.Option("--out", help="The new file, such as people.parquet.")]
Blocks = Annotated[
    int | None, typer.Option("--blocks", help="Groups of people; chosen well if left out.")
]
Subsets = Annotated[
    int | None,
    typer.Option("--subsets", help="Random halves of the people instead, as in the paper."),
]
Seed = Annotated[int, typer.Option("--seed", help="Which people are grouped together; public.")]
File = Annotated[Path, typer.Argument(help="A file that `sulq publish` wrote.")]
Functions = Annotated[
    list[str] | None, typer.Argument(help="Boolean functions, such as 'a and not b'.")
]


def publish(
    settings: Settings, attributes: Attributes, width: Width = 2, out: Out = None,
    blocks: Blocks = None, budget: Spend = None, seed: Seed = 0, subsets: Subsets = None,
    price: PriceOnly = False, yes: Yes = False, as_json: Json = False,
) -> Said:  # fmt: skip
    """Pay for noisy tables of every few attributes, and write them to a file anyone may have.

    Example: sulq publish smoker disease "old: age >= 65" --width 2 --out people-tables.parquet
    """
    from sulq import vertical

    options: dict[str, Any] = {"budget": budget, "seed": seed, "subsets": subsets}
    named = _named(attributes)
    if not price and (out is None or not out.parent.is_dir()):
        raise Refused("where to? Say --out FILE.parquet, or --price to see the price only.")
    if price or not yes:
        with looked_at(settings) as db:
            plan = vertical.plan(vertical.publish, db, named, width, blocks, **options)
            said, left = str(plan), db.budget
        if price:
            (whole,) = plan.prices
            body = {"price_micro": whole.micro, "blocks": plan.blocks}
            return Said(body, f"price {said}. Nothing was spent; {left}.")
        confirm(f"price {said}; {left}. Pay?", yes, as_json)
    assert out is not None
    with opened(settings) as db:
        made = vertical.publish(db, named, width, out, blocks, **options)
        left = db.budget
    written = {
        "out": str(out),
        "tables": [list(t) for t in made.tables],
        "blocks": made.blocks,
        "price_micro": made.price.micro,
    }
    return Said(written, f"{made}\n{left}", notes=[f"Written: {out}"])


def mine(file: File, functions: Functions = None) -> Said:
    """Ask a published file for probabilities, offline and free; or what is in it.

    Example: sulq mine people-tables.parquet "smoker and disease and not old"
    """
    from sulq.vertical import Publication

    found = Publication.load(file)
    if not functions:
        body: dict[str, Any] = {
            "attributes": found.attributes, "rows": found.rows, "width": found.width,
            "blocks": found.blocks, "tables": [list(t) for t in found.tables],
            "price_micro": found.price.micro, "promise": found.promise.to_json(),
        }  # fmt: skip
        return Said(body, str(found))
    answers = {text: found.probability(text) for text in functions}
    lines = []
    for text, answer in answers.items():
        used = ", ".join("(" + " ".join(t) + ")" for t in answer.tables)
        lines.append(f"P[{text}] = {answer}, from {len(answer.tables)} tables: {used}")
    return Said({text: answer.to_json() for text, answer in answers.items()}, *lines)


def _named(attributes: list[str]) -> dict[str, str] | list[str]:
    """Names alone, or names with predicates."""
    if not any(":" in text for text in attributes):
        return attributes
    named: dict[str, str] = {}
    for text in attributes:
        name, colon, predicate = (part.strip() for part in text.partition(":"))
        if name in named:
            raise Refused(f"{name!r} is named twice.")
        named[name] = predicate if colon else quote(name)
    return named
