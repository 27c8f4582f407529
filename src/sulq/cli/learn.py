"""sulq learn: models from noisy sums, priced before they are paid, written as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sulq.cli.ask import Define, functions_in
from sulq.cli.common import Said, amount, command, confirm, looked_at, opened
from sulq.cli.options import Json, Plot, PriceOnly, Spend, Yes, keyword
from sulq.errors import MICRO, Refused, in_queries
from sulq.settings_file import Settings

if TYPE_CHECKING:
    from sulq import Database, Price
    from sulq.learn import Learner
    from sulq.learn.parameters import Parameter

Columns = Annotated[
    list[str] | None, typer.Option("--columns", help="Which columns: age,income; by default all.")
]
Label = Annotated[str | None, typer.Option("--label", help="The column to learn from the others.")]
Out = Annotated[Path | None, typer.Option("--out", help="The file for the model: model.json.")]


class Kinds(TyperGroup):
    """A command for each kind of model; learners load only when one is wanted."""

    @property
    def commands(self) -> Any:
        """The commands by name."""
        return self._made

    @commands.setter
    def commands(self, none: Any) -> None: ...

    @cached_property
    def _made(self) -> Any:
        from sulq.learn import KINDS

        made = typer.Typer()
        for kind in KINDS.values():
            about = kind.about
            text = f"{about.words}\n\nExample: sulq learn {about.command} {about.example}"
            makers: dict[str, Callable[..., Any]] = {"model": model_from(kind)}
            makers |= {} if hasattr(kind, "plot") else {"plot": lambda: None}
            command(made, about.command, learn, text=text, gathered=makers)
        group: Any = typer.main.get_command(made)
        return group.commands


def model_from(kind: type[Learner]) -> Callable[..., Callable[..., Learner]]:
    """A function whose options are the learner's parameters, from their declarations."""
    from sulq.learn.parameters import parameters_of

    def make(**params: Any) -> Callable[..., Learner]:
        return partial(kind, **params)

    own = [_option(p) for p in parameters_of(kind) if p.plain and not p.shared]
    make.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return make


def _option(p: Parameter) -> inspect.Parameter:
    name = p.name.replace("_", "-")
    flags = f"--{name}/--no-{name}" if p.kind is bool else f"--{name}"
    least = p.low if p.kind is int else None
    kind = p.kind | None if p.optional else p.kind
    return keyword(p.name, Annotated[kind, typer.Option(flags, help=p.help, min=least)], p.default)


# ---- price, pay, write ----------------------------------------------------------------------


def learn(
    settings: Settings, model: Callable[..., Any], columns: Columns = None, label: Label = None,
    budget: Spend = None, out: Out = None, price: PriceOnly = False, yes: Yes = False,
    plot: Plot = None, define: Define = None, as_json: Json = False,
) -> Said:  # fmt: skip
    """Say the price, ask whether to pay it, then fit and write the model."""
    names = [name.strip() for part in columns or () for name in part.split(",")] or None
    functions = functions_in(define)
    made = model(budget=budget)

    def seen(db: Database) -> Database:
        return db.define(*functions) if functions else db

    if price:
        with looked_at(settings) as db:
            most, left = _price(made, seen(db), names, label, plot), db.budget
        body = {"price_micro": most.micro, "price_queries": str(most.queries)}
        return Said(body, f"price at most {most}. Nothing was spent; {left}.")
    out = _checked(out, plot)
    if not yes:
        with looked_at(settings) as db:
            asked = f"price at most {_price(made, seen(db), names, label, plot)}; {db.budget}. Pay?"
        confirm(asked, yes, as_json)
    with opened(settings) as whole:
        db = seen(whole)
        before = db.budget.remaining
        made.fit(db, columns=names, label=label)
        made.save(out)
        if plot is not None and hasattr(made, "plot_price"):  # a picture that asks
            made.plot(db, _drawn_columns(names), path=plot)
        elif plot is not None:
            made.plot(plot)
        after = db.budget.remaining
    paid = int((before - after) * MICRO)
    body = {
        "kind": type(made).__name__, "out": str(out), "summary": made.summary(),
        "price_micro": paid, "remaining_micro": int(after * MICRO),
    }  # fmt: skip
    said = f"price {in_queries(paid)}" if paid else "asked before: free"
    notes = [f"Written: {out}", *([f"Drawn: {plot}"] if plot is not None else [])]
    return Said(body, made.summary(), f"{said}, {amount(after)} left", notes=notes)


def _checked(out: Path | None, plot: Path | None) -> Path:
    """Where the model goes, refused before anything is paid for."""
    from sulq import Picture

    if out is None:
        raise Refused("where to? Say --out model.json, or --price to see the price only.")
    if out.suffix.lower() != ".json" or not out.parent.is_dir() or out.is_dir():
        raise Refused(f"out={str(out)!r}, want a .json file in a folder that exists.")
    Picture.ready(plot)
    return out


def _price(
    model: Any, db: Database, columns: list[str] | None, label: str | None, plot: Path | None
) -> Price:
    price: Price = model.price(db, columns, label)
    if plot is not None and hasattr(model, "plot_price"):
        price += model.plot_price(db, _drawn_columns(columns))
    return price


def _drawn_columns(columns: list[str] | None) -> list[str]:
    if columns is None or len(columns) < 2:
        raise Refused("plot: say which --columns; the first two of them are drawn.")
    return columns[:2]
