"""A form's fields -> a model to learn: which kind, from which columns, for how much."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sulq
from sulq.console.forms import Form
from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.price import Price
from sulq.schema import Column, Schema

MOST_COLUMNS = 200
BINS = 12  # each way, of the histogram behind centres


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model as the form shows it."""

    name: str
    title: str
    words: str
    label: str  # what is predicted: "", "class" or "number"
    params: tuple[tuple[str, str, int, int], ...]  # name, words, a first value, the most
    categories: bool = False  # may its columns be categories?


KINDS = {
    kind.name: kind
    for kind in (
        Kind("PCA", "Principal components", "The few directions in which rows differ most.", "",
             (("n_components", "Components", 2, 50),)),
        Kind("KMeans", "k-means", "Groups of rows that are near each other.", "",
             (("n_clusters", "Groups", 3, 50), ("max_iter", "Steps", 5, 30))),
        Kind("ID3", "Decision tree (ID3)", "Questions that lead to a class.", "class",
             (("max_depth", "Levels", 3, 10), ("bins", "Bins of a number", 4, 50)), True),
        Kind("NaiveBayes", "Naive Bayes", "A class from each column by itself.", "class", (), True),
        Kind("Perceptron", "Perceptron", "A threshold between classes.", "class",
             (("max_iter", "Rounds", 20, 200),)),
        Kind("LinearRegression", "Linear regression", "A number from others.", "number", ()),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """What someone wants to learn."""

    kind: str
    columns: tuple[str, ...]
    label: str
    params: tuple[tuple[str, int], ...]
    budget: str  # in queries, as it was typed; "" is what the questions cost by themselves
    drawn: bool = False  # a noisy histogram behind the centres, too?

    @classmethod
    def of(cls, form: Form) -> Wish:
        """The wish that a form holds, checked as far as a form can be."""
        kind = kind_of(form.get("kind"))
        params = tuple(
            (name, _whole(form.get(name), words, first, most))
            for name, words, first, most in kind.params
        )
        columns = tuple(dict.fromkeys(form.all("columns")))[: MOST_COLUMNS + 1]
        drawn = kind.name == "KMeans" and form.has("drawn") and len(columns) > 1
        label = form.get("label") if kind.label else ""
        return cls(kind.name, columns, label, params, form.get("budget"), drawn)

    @classmethod
    def empty(cls, kind: Kind) -> Wish:
        """A form as it is at first."""
        params = tuple((n, first) for n, _, first, _ in kind.params)
        return cls(kind.name, (), "", params, "", kind.name == "KMeans")

    @classmethod
    def from_json(cls, text: str) -> Wish:
        """The inverse of to_json."""
        said = json.loads(text)
        said |= {"columns": tuple(said["columns"])}
        said |= {"params": tuple((n, v) for n, v in said["params"])}
        return cls(**said)

    def to_json(self) -> str:
        """As it is kept beside its model."""
        names = ("kind", "columns", "label", "params", "budget", "drawn")
        return json.dumps({name: getattr(self, name) for name in names})

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The same as hidden fields of the form that pays."""
        said = [("kind", self.kind), ("label", self.label), ("budget", self.budget)]
        said += [("columns", name) for name in self.columns]
        said += [(name, str(value)) for name, value in self.params]
        return [*said, ("drawn", "on")] if self.drawn else said

    @property
    def words(self) -> str:
        """A line for a list."""
        of = f" of {self.label}" if self.label else ""
        return f"{KINDS[self.kind].title}{of} from {', '.join(self.columns)}"

    # ---- as a model -----------------------------------------------------------------------

    def model(self) -> Any:
        """The learner, which has learned nothing yet."""
        from sulq import learn

        return getattr(learn, self.kind)(**dict(self.params), budget=self._budget())

    def price(self, db: Database) -> Price:
        """The most that learning will charge. Nothing is spent."""
        self.check(db.schema)
        model = self.model()
        price: Price = model.price(db, columns=list(self.columns), label=self.label or None)
        if self.drawn:
            price += model.plot_price(db, list(self.columns[:2]), bins=BINS)
        return price

    def check(self, schema: Schema) -> None:
        """Refuse what the form should not have let through."""
        kind = KINDS[self.kind]
        if not self.columns:
            raise QueryNotAllowed("choose the columns to learn from.")
        if len(self.columns) > MOST_COLUMNS:
            raise QueryNotAllowed(f"choose at most {MOST_COLUMNS} columns.")
        allowed = {c.name for c in usable(schema, kind)}
        for name in self.columns:
            if name not in allowed:
                raise QueryNotAllowed(f"{name[:60]!r} is no column to learn from here.")
        if kind.label and self.label not in {c.name for c in labels(schema, kind)}:
            raise QueryNotAllowed("choose what is to be predicted.")
        if self.label in self.columns:
            raise QueryNotAllowed(
                f"{self.label!r} is to be predicted, so it cannot be learned from."
            )

    def _budget(self) -> float | None:
        if not self.budget:
            return None
        try:
            budget = float(self.budget.replace(",", ""))
        except ValueError:
            budget = 0.0
        if not 0 < budget < 1e9:
            raise QueryNotAllowed(f"{self.budget[:60]!r} is no number of queries to spend.")
        return budget


def kind_of(name: str) -> Kind:
    """The kind of this name, or a refusal."""
    if name not in KINDS:
        raise QueryNotAllowed(f"kind={name[:60]!r}: want one of {', '.join(KINDS)}.")
    return KINDS[name]


def usable(schema: Schema, kind: Kind) -> list[Column]:
    """The columns that a kind of model can learn from."""
    return [
        c for c in schema.columns
        if not c.key and (c.type == "boolean" or _number(c) or (kind.categories and c.listed))
    ]  # fmt: skip


def labels(schema: Schema, kind: Kind) -> list[Column]:
    """The columns that a kind of model can predict."""
    if kind.label == "number":
        return [c for c in schema.columns if not c.key and (_number(c) or c.type == "boolean")]
    return [c for c in schema.columns if not c.key and c.listed is not None]


def _number(column: Column) -> bool:
    return column.type in ("integer", "number") and column.bounded


def _whole(text: str, words: str, first: int, most: int) -> int:
    if not text:
        return first
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:6]) <= most:
        raise QueryNotAllowed(f"{words}: want a whole number from 1 to {most}, not {text[:60]!r}.")
    return int(text)


def histogram(db: Database, model: Any) -> dict[str, Any]:
    """Noisy counts by a model's first two columns, to draw its centres over: asks, and pays."""
    names = model.columns_[:2]
    answer = db.ask(sulq.Query(by=tuple(db.histogram_axis(n, BINS) for n in names)))
    spans = [
        [_span(a), _span(b), float(row[0])]
        for (a, b), row in zip(answer.cells, answer.values, strict=True)
        if a is not None and b is not None
    ]
    return {"columns": list(names), "cells": spans}


def _span(cell: Any) -> list[float]:
    """Where a cell begins and ends in a drawing: whole numbers 0 to 24 reach up to 25."""
    if isinstance(cell, tuple):
        whole = all(isinstance(x, int) for x in cell)
        return [float(cell[0]), float(cell[1]) + whole]
    return [float(cell) - 0.5, float(cell) + 0.5]
