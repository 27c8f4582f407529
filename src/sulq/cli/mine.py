"""sulq publish: noisy tables in a file; sulq mine: questions to such a file, offline and free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sulq.cli.common import Json, Yes, command, confirm, emit, looked_at, note, opened
from sulq.config import Settings
from sulq.errors import Refused

Attributes = Annotated[
    list[str], typer.Argument(help="Boolean columns, or 'name: predicate', each in quotes.")
]
Width = Annotated[int, typer.Option("--width", help="How many attributes stand in one table.")]
Out = Annotated[Path | None, typer.Option("--out", help="The new file, such as people.parquet.")]
Blocks = Annotated[
    int | None, typer.Option("--blocks", help="Groups of people; chosen well if left out.")
]
Budget = Annotated[
    float | None, typer.Option("--budget", help="Queries to spend; by default at usual noise.")
]
Seed = Annotated[int, typer.Option("--seed", help="Which people are grouped together; public.")]
PriceOnly = Annotated[bool, typer.Option("--price", help="Only say the price. Nothing is spent.")]
File = Annotated[Path, typer.Argument(help="A file that `sulq publish` wrote.")]
Functions = Annotated[
    list[str] | None, typer.Argument(help="Boolean functions, such as 'a and not b'.")
]


def add(app: typer.Typer) -> None:
    """Add both commands to the app."""
    command(app, panel="For the owner")(publish)
    command(app, panel="Asking")(mine)


def publish(
    settings: Settings, attributes: Attributes, width: Width = 2, out: Out = None,
    blocks: Blocks = None, budget: Budget = None, seed: Seed = 0, price: PriceOnly = False,
    yes: Yes = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Pay for noisy tables of every few attributes, and write them to a file anyone may have.

    Example: sulq publish smoker disease "old: age >= 65" --width 2 --out people-tables.parquet
    """
    from sulq import vertical

    named, options = _named(attributes), {"budget": budget, "seed": seed}
    if not price and (out is None or not out.parent.is_dir()):
        raise Refused("where to? Say --out FILE.parquet, or --price to see the price only.")
    if price or not yes:
        with looked_at(settings) as db:
            plan = vertical.plan(vertical.publish, db, named, width, blocks, **options)
            said, left = str(plan), db.budget
        if price:
            (whole,) = plan.prices
            emit(
                {"price_micro": whole.micro, "blocks": plan.blocks},
                f"price {said}. Nothing was spent; {left}.",
                as_json,
            )
            return
        confirm(f"price {said}; {left}. Pay?", yes, as_json)
    assert out is not None
    with opened(settings) as db:
        made = vertical.publish(db, named, width, out, blocks, budget=budget, seed=seed)
        left = db.budget
    body = {
        "out": str(out),
        "tables": [list(t) for t in made.tables],
        "blocks": made.blocks,
        "price_micro": made.price.micro,
    }
    emit(body, f"{made}\n{left}", as_json)
    note(f"Written: {out}")


def mine(file: File, functions: Functions = None, as_json: Json = False) -> None:
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
        emit(body, str(found), as_json)
        return
    answers = {text: found.probability(text) for text in functions}
    lines = []
    for text, answer in answers.items():
        used = ", ".join("(" + " ".join(t) + ")" for t in answer.tables)
        lines.append(f"P[{text}] = {answer}, from {len(answer.tables)} tables: {used}")
    emit({text: answer.to_json() for text, answer in answers.items()}, "\n".join(lines), as_json)


def _named(attributes: list[str]) -> dict[str, str] | list[str]:
    """Names alone, or names with predicates."""
    if not any(":" in text for text in attributes):
        return attributes
    named: dict[str, str] = {}
    for text in attributes:
        name, colon, predicate = text.partition(":")
        quoted = '"' + name.strip().replace('"', '""') + '"'
        if name.strip() in named:
            raise Refused(f"{name.strip()!r} is named twice.")
        named[name.strip()] = predicate.strip() if colon else quoted
    return named
