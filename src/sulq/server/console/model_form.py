"""A form's fields -> a model to learn: which kind, from which columns, for how much."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import sulq
from sulq import learn
from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.learn.model_pictures import counted
from sulq.learn.parameters import About, Parameter, parameters_of
from sulq.server.console.forms import Form
from sulq.values.price import Price
from sulq.values.schema import Column, Schema

MAX_COLUMNS = 200
BINS = 12  # each way, of the histogram behind centres


KINDS = {name: kind.about for name, kind in learn.KINDS.items() if kind.about.title}


def fields_of(kind: str) -> list[Parameter]:
    """The parameters that the form of a kind of model asks for."""
    return [p for p in parameters_of(learn.KINDS[kind]) if p.words]


@dataclass(frozen=True, slots=True)
class Wish:
    """What someone wants to learn."""

    kind: str
    columns: tuple[str, ...]
    label: str
    params: tuple[tuple[str, int], ...]
    budget: str  # in queries, as it was typed; "" is the price of the questions by themselves
    drawn: bool = False  # a noisy histogram behind the centres, too?

    @classmethod
    def of(cls, form: Form) -> Wish:
        """The wish that a form holds, checked as far as a form can be."""
        name = form.get("kind")
        kind = kind_of(name)
        params = tuple((p.name, _whole(form.get(p.name), p)) for p in fields_of(name))
        columns = tuple(dict.fromkeys(form.all("columns")))[: MAX_COLUMNS + 1]
        drawn = name == "KMeans" and form.has("drawn") and len(columns) > 1
        label = form.get("label") if kind.label else ""
        return cls(name, columns, label, params, form.get("budget"), drawn)

    @classmethod
    def empty(cls, kind: str) -> Wish:
        """A form as it is at first."""
        kind_of(kind)
        params = tuple((p.name, p.first) for p in fields_of(kind))
        return cls(kind, (), "", params, "", kind == "KMeans")

    @classmethod
    def from_json(cls, text: str) -> Wish:
        """The inverse of to_json."""
        said = json.loads(text)
        said |= {"columns": tuple(said["columns"])}
        said |= {"params": tuple((n, v) for n, v in said["params"])}
        return cls(**said)

    def to_json(self) -> str:
        """As it is kept beside its model."""
        return json.dumps(asdict(self))

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
        kind: Any = learn.KINDS[self.kind]
        return kind(**dict(self.params), budget=self._budget())

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
        if len(self.columns) > MAX_COLUMNS:
            raise QueryNotAllowed(f"choose at most {MAX_COLUMNS} columns.")
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


def kind_of(name: str) -> About:
    """The kind of this name, or a refusal."""
    if name not in KINDS:
        raise QueryNotAllowed(f"kind={name[:60]!r}: want one of {', '.join(KINDS)}.")
    return KINDS[name]


def usable(schema: Schema, kind: About) -> list[Column]:
    """The columns that a kind of model can learn from."""
    return [
        c for c in schema.columns
        if not c.key and (c.type == "boolean" or _number(c) or (kind.categories and c.listed))
    ]  # fmt: skip


def labels(schema: Schema, kind: About) -> list[Column]:
    """The columns that a kind of model can predict."""
    if kind.label == "number":
        return [c for c in schema.columns if not c.key and (_number(c) or c.type == "boolean")]
    return [c for c in schema.columns if not c.key and c.listed is not None]


def _number(column: Column) -> bool:
    return column.type in ("integer", "number") and column.bounded


def _whole(text: str, p: Parameter) -> int:
    if not text:
        return p.first
    whole = text.isascii() and text.isdecimal()
    if not whole or len(text) > 9 or not (p.low or 0) <= int(text) <= p.most:
        raise QueryNotAllowed(
            f"{p.words}: want a whole number from {p.low} to {p.most}, not {text[:60]!r}."
        )
    return int(text)


def histogram(db: Database, model: Any) -> dict[str, Any]:
    """Noisy counts by a model's first two columns, to draw its centres over: asks, and pays."""
    names = model.columns_[:2]
    query = sulq.Query(by=tuple(db.histogram_axis(name, BINS) for name in names))
    return counted(db, names, query)
