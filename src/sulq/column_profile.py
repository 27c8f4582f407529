"""What each column looks like, for one stated price: missing values, range, quartiles, shares.

Made for tables that nobody described: a number without declared ends is looked at on a scale of
sizes on both sides of 0, ten to a decade, a date by years. All columns are one question of the
ledger and one scan. What is found is noisy, paid for, and may be used: `Profile.draft` writes a
schema with the ends that were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from sulq.drawing.bars import Bar, bars
from sulq.drawing.picture import Picture
from sulq.errors import QueryNotAllowed
from sulq.expressions.quoting import quote
from sulq.privacy.one_thread import one_thread
from sulq.profile_cells import EACH, Scale, edges_of
from sulq.profile_curve import likely, rising
from sulq.profile_draft import Draft
from sulq.profile_shapes import shapes_of
from sulq.queryable import Asked
from sulq.questions.question import Question
from sulq.questions.star_tables import is_of
from sulq.sql.quantiles import Counts
from sulq.values.answer import Answer
from sulq.values.per_person import PerPerson
from sulq.values.price import Price
from sulq.values.query import Bins, Query, Strategy
from sulq.values.schema import OTHER, Column, Schema, plain
from sulq.values.star import TABLE

QUARTILES = (0.25, 0.5, 0.75)
TELLING = 0.01  # of the values: bins with less are left out of the words
CLEAR = 1.5  # standard deviations of noise up to which rows beyond an end are not missed
MAX_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Share:
    """A share of all rows with the ends of its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Between:
    """A quantile's best estimate, and where it lies, at 95%: the ends of whole cells."""

    low: Any
    high: Any
    value: Any = None

    def __str__(self) -> str:
        return f"{_said(self.value)} ({_said(self.low)} to {_said(self.high)})"


@dataclass(frozen=True, slots=True)
class Bin:
    """A bin that a profile can tell apart, `low` to below `high`, and its share of the values."""

    low: Any
    high: Any
    share: Share

    @property
    def label(self) -> str:
        """What it is called."""
        return f"{_said(self.low)} to {_said(self.high)}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        share = {"share": self.share.value, "low_share": self.share.low}
        ends = {"low": plain(self.low), "high": plain(self.high)}
        return ends | share | {"high_share": self.share.high}


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What was found of one column."""

    name: str
    type: str
    missing: Share | None  # None: it was not asked
    range: tuple[Any, Any] | None = None  # holds all but a few rows; None: too few rows to say
    quartiles: tuple[Between, ...] = ()
    shares: dict[Any, Share] = field(default_factory=dict)  # of declared values
    bins: tuple[Bin, ...] = ()  # between the ends of the range

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        ends = None if self.range is None else [plain(x) for x in self.range]
        return {
            "name": self.name, "type": self.type, "range": ends,
            "missing": None if self.missing is None else self.missing.to_json(),
            "quartiles": [[plain(q.low), plain(q.high)] for q in self.quartiles],
            "quartile_values": [plain(q.value) for q in self.quartiles],
            "shares": [{"value": v, **s.to_json()} for v, s in self.shares.items()],
            "bins": [b.to_json() for b in self.bins],
        }  # fmt: skip

    def __str__(self) -> str:
        said = [] if self.missing is None else [f"missing {self.missing}"]
        if self.range is not None:
            said.append(f"range {_said(self.range[0])} to {_said(self.range[1])}")
        if self.quartiles:
            said.append("quartiles " + "; ".join(map(str, self.quartiles)))
        said += [f"{_said(value)}: {share}" for value, share in self.shares.items()]
        full = [f"{b.label}: {b.share.value:.0%}" for b in self.bins if b.share.value >= TELLING]
        said += [", ".join(["bins " + full[0], *full[1:]])] if full else []
        return f"{self.name} ({self.type}): " + (", ".join(said) or "nothing is known")

    def plot(self, path: str | Path | None = None) -> Picture:
        """The bins, or the shares of declared values; saved as SVG or PNG if a path is given."""
        Picture.ready(path)
        named = [(b.label, b.share) for b in self.bins] or [
            (_said(value), share) for value, share in self.shares.items()
        ]
        if not named:
            raise QueryNotAllowed(f"plot: the profile of {self.name} has no bins and no shares.")
        drawn = [Bar(label, share.value, share.low, share.high) for label, share in named]
        picture = Picture(str(self), [bars("profile", self.name, drawn, share=True)])
        return picture if path is None else picture.save(path)


@dataclass(frozen=True)
class Profile:
    """What was found of every column, and what it cost."""

    rows: int
    columns: tuple[ColumnProfile, ...]
    price: Price
    schema: Schema = field(repr=False)
    rows_each: dict[str, ColumnProfile] = field(default_factory=dict)  # of a person, by table

    def __getitem__(self, name: str) -> ColumnProfile:
        return next(c for c in self.columns if c.name == name)

    @property
    def rows_per_person(self) -> ColumnProfile | None:
        """How many rows a person has, where [unit] says whose rows are whose; of one table."""
        return next(iter(self.rows_each.values()), None)

    def __str__(self) -> str:
        head = (
            f"{self.rows:,} rows, {len(self.columns)} columns, price {self.price}. 95% intervals."
        )
        return "\n".join([head, *map(str, (*self.columns, *self.rows_each.values()))])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        columns = [c.to_json() for c in self.columns]
        each = [c.to_json() for c in self.rows_each.values()]
        said = {"rows_per_person": each} if each else {}
        return {"rows": self.rows, "price_micro": self.price.micro, "columns": columns} | said

    def draft(self) -> str:
        """A schema as TOML: what was declared, and the ends that were found where none were."""
        ends = {c.name: c.range for c in self.columns if c.range is not None}
        most = {
            name: (c.quartiles[-1].high, c.range[1])
            for name, c in self.rows_each.items() if c.quartiles and c.range is not None
        }  # fmt: skip
        return Draft(self.schema, ends, most).text(self.price)


def profile(db: Asked, *, budget: Any = None) -> Profile:
    """Missing share, range, quartiles and shares of every column, from one question.

    It spends `budget` queries, by default one for each column asked. Over HTTP too.
    """
    plan = ProfilePlan(db, budget)
    return plan.read(db.answer(plan.question))


def profile_price(db: Asked, *, budget: Any = None) -> Price:
    """What `profile` would cost. Nothing is spent."""
    return ProfilePlan(db, budget).question.price


class ProfilePlan:
    """What is asked about the columns of one table."""

    def __init__(self, db: Asked, budget: Any = None) -> None:
        names = _names_of_rows(db.schema)
        columns = [c for c in db.schema.columns if not c.key and c.name not in names]
        if not columns:
            raise QueryNotAllowed("profile: there is no column but the key.")
        if len(columns) > MAX_COLUMNS:
            raise QueryNotAllowed(
                f"profile: {len(columns):,} columns, at most {MAX_COLUMNS:,} at a time."
            )
        self._db = db
        strategic = db.promise.noise == "gaussian" and db.pricing == "geometry"
        self._looks = [_look(c, strategic) for c in columns]
        if db.schema.star is not None:
            for look in self._looks:
                look.where = is_of(db.schema.star.home(look.column.name) or db.schema.star.people)
        self._each = _rows_of_each(db.schema, strategic)
        self.question = self._priced(None)
        asked = len(columns) + len(self._each)
        wanted = Fraction(asked) if budget is None else _positive(budget)
        if db.promise.noise in ("gaussian", "laplace"):
            self.question = self._within(wanted)
        elif budget is not None:
            raise QueryNotAllowed(
                f"budget={budget!r}: {db.promise.noise} noise has one width; leave it out."
            )

    def _priced(self, error: float | None) -> Question:
        looks = (*self._looks, *self._each.values())
        return self._db.question([look.query(error) for look in looks], together=True)

    def _within(self, wanted: Fraction) -> Question:
        """As exact as so many queries pay for, and no dearer: prices are rounded up."""
        whole = self.question.price.queries
        if not whole:
            return self.question  # all of it is public
        root = 1 if self._db.promise.noise == "laplace" else 2
        error = self._db.promise.half_width() * float(whole / wanted) ** (1 / root)
        found = self._priced(error)
        while found.price.queries > wanted:
            error *= 1.001
            found = self._priced(error)
        return found

    def read(self, answers: list[Answer]) -> Profile:
        """What the answers say."""
        looks = (*self._looks, *self._each.values())
        sizes = {
            of: self._db.rows if of == Query() else self._db.rows_of(of)
            for of in {look.of for look in looks}
        }
        with one_thread():  # of small matrices, many
            found = [
                look.read(answer, sizes[look.of])
                for look, answer in zip(looks, answers, strict=True)
            ]
        columns, each = found[: len(self._looks)], found[len(self._looks) :]
        rows = dict(zip(self._each, each, strict=True))
        return Profile(self._db.rows, tuple(columns), self.question.price, self._db.schema, rows)


# ---- kinds of columns ---------------------------------------------------------------------------


class _Look:
    """What is asked about one column, and of which rows: all, those of a table, or people."""

    where: str | None = None
    people: PerPerson | None = None

    def __init__(self, column: Column) -> None:
        self.column = column

    @property
    def of(self) -> Query:
        """The rows alone, whose number is public."""
        return Query(where=self.where, per_person=self.people)

    def query(self, error: Any) -> Query:
        """The question."""
        raise NotImplementedError

    def read(self, answer: Answer, rows: int) -> ColumnProfile:
        """What its answer says of so many rows."""
        raise NotImplementedError


class _Listed(_Look):
    """A column whose declared values are counted."""

    def query(self, error: Any) -> Query:
        return replace(self.of, by=(quote(self.column.name),), error=error)

    def read(self, answer: Answer, rows: int) -> ColumnProfile:
        reach = answer.spread(0.95)
        shares = {
            cell: _share(float(value[0]), reach * std[0], rows)
            for cell, value, std in zip(answer.cells, answer.values, answer.stds, strict=True)
        }
        missing = shares.pop(None, None)
        return ColumnProfile(self.column.name, self.column.type, missing, shares=shares)


class _Text(_Look):
    """A text: only whether it is there can be asked without knowing its words."""

    def query(self, error: Any) -> Query:
        missing = f"{quote(self.column.name)} is null"
        where = missing if self.where is None else f"{missing} AND {self.where}"
        return Query(where=where, error=error)

    def read(self, answer: Answer, rows: int) -> ColumnProfile:
        off = answer.spread(0.95) * answer.stds[0][0]
        return ColumnProfile(
            self.column.name, self.column.type, _share(float(answer.values[0, 0]), off, rows)
        )


class _Scale(_Look):
    """A number or a date, by cells that hold every value there can be."""

    def __init__(self, column: Column, edges: Sequence[Any], strategic: bool) -> None:
        super().__init__(column)
        self.scale = Scale(column, tuple(edges))
        self.strategic = strategic

    def query(self, error: Any) -> Query:
        values = Strategy(("prefixes",)) if self.strategic else ("1",)
        by = (Bins(quote(self.column.name), self.scale.edges),)
        return replace(self.of, values=values, by=by, error=error)

    def read(self, answer: Answer, rows: int) -> ColumnProfile:
        import numpy as np

        cells = len(self.scale.edges) - 1
        matrix = np.eye(cells) if answer.matrix is None else np.asarray(answer.matrix, float)
        released = answer.values.reshape(1, -1)[:, :cells]
        moved = _moved(matrix.tobytes(), cells)
        counts = Counts(released @ moved.T, moved, answer.stds[0][0], answer.spread)
        there, noise = float(counts.total[0]), counts.noise(0.0)
        off = answer.spread(0.95) * float(noise[-1])
        missing = None if not self.column.nullable else _share(rows - there, off, rows)
        name, kind = self.column.name, self.column.type
        if counts.few()[0]:
            return ColumnProfile(name, kind, missing)
        fitted = below = rising(matrix, released[0], rows)
        ends = self.scale.range(below, CLEAR * float(noise.max()))
        if self.scale.by_size and answer.matrix is not None:  # plain cells: two heaps look like one
            fitted = likely(shapes_of(self.scale.edges, matrix), released[0], counts.std, rows)
        quartiles = self._quartiles(counts, fitted)
        found = tuple(self._bins(counts, fitted, quartiles, ends))
        return ColumnProfile(name, kind, missing, ends, quartiles, bins=found)

    def _quartiles(self, counts: Counts, below: Any) -> tuple[Between, ...]:
        """Each with the ends of its interval; near 0, ends finer than quartiles are left out."""
        found = [self.scale.at(below, q) for q in QUARTILES]
        kept = self.scale.told_apart(found[0], found[-1])
        quartiles = []
        for q, value in zip(QUARTILES, found, strict=True):
            first, last = (int(x[0]) for x in counts.cells(q))
            low = max(e for e in kept if e <= self.scale.edges[first])
            high = min(e for e in kept if e >= self.scale.edges[last + 1])
            quartiles.append(Between(low, high, min(max(value, low), high)))
        return tuple(quartiles)

    def _bins(
        self, counts: Counts, below: Any, quartiles: tuple[Between, ...], ends: tuple[Any, Any]
    ) -> Iterator[Bin]:
        """The share of the values in each, as fitted, and the interval of what was counted."""
        kept = self.scale.bins(below, quartiles[-1].value - quartiles[0].value, ends)
        whole, total = max(float(below[-1]), 1.0), max(float(counts.total[0]), 1.0)
        reach = counts.spread(0.95) * counts.std
        for i, j in pairwise(kept):
            fitted = float(below[j] - below[i]) / whole
            seen = float(counts.sums[0, j] - counts.sums[0, i]) / total
            moved = counts.moved[j] - counts.moved[i] - min(max(seen, 0.0), 1.0) * counts.moved[-1]
            off = reach * float((moved**2).sum()) ** 0.5 / total
            ends_of = (fitted, min(seen - off, fitted), max(seen + off, fitted))
            share = Share(*(min(max(x, 0.0), 1.0) for x in ends_of))
            yield Bin(self.scale.edges[i], self.scale.edges[j], share)


class _RowsEach(_Scale):
    """How many rows each person has, of people who have some."""

    def __init__(self, said: str, where: str | None, strategic: bool) -> None:
        super().__init__(Column("rows", "integer", 0, EACH[-1], nullable=False), EACH, strategic)
        self._said = said
        self.people = PerPerson((("rows", f"least(count(*), {EACH[-1]})"),), where)

    def read(self, answer: Answer, rows: int) -> ColumnProfile:
        return replace(super().read(answer, rows), name=self._said)


@lru_cache(maxsize=4)
def _moved(matrix: bytes, cells: int) -> Any:
    """How the counts below each edge are read off the answers to a matrix."""
    import numpy as np

    inverse = np.linalg.inv(np.frombuffer(matrix).reshape(cells, cells))
    return np.pad(inverse.cumsum(axis=0), [(1, 0), (0, 0)])


def _rows_of_each(schema: Schema, strategic: bool) -> dict[str, _RowsEach]:
    """What is asked about how many rows a person has: of the table, or of each one with events."""
    if schema.unit is None or (schema.star is None and schema.unit.max_rows == 1):
        return {}
    if schema.star is None:
        return {"": _RowsEach("rows per person", None, strategic)}
    events = [t for t in schema.star.tables if t.max_rows is not None]
    return {t.name: _RowsEach(f"{t.name} per person", is_of(t), strategic) for t in events}


def _names_of_rows(schema: Schema) -> set[str]:
    """Columns that say whose row it is and which: they are public, and tell nothing else."""
    names = set() if schema.unit is None else {schema.unit.column, TABLE}
    tables = () if schema.star is None else schema.star.tables
    return names | {schema.star.stacked(t, t.key) for t in tables if schema.star is not None}


def _look(column: Column, strategic: bool) -> _Look:
    if column.listed is not None:
        return _Listed(column)
    if column.type == "text":
        return _Text(column)
    return _Scale(column, edges_of(column, fine=strategic), strategic)


# ---- words --------------------------------------------------------------------------------------


def _share(count: float, off: float, rows: int) -> Share:
    ends = (count / max(rows, 1), (count - off) / max(rows, 1), (count + off) / max(rows, 1))
    return Share(*(min(max(x, 0.0), 1.0) for x in ends))


def _positive(budget: Any) -> Fraction:
    try:
        found = Fraction(str(budget)) if isinstance(budget, float) else Fraction(budget)
    except (TypeError, ValueError, ZeroDivisionError):
        found = Fraction(0)
    if found <= 0 or isinstance(budget, bool):
        raise QueryNotAllowed(f"budget={budget!r}: want a number of queries above 0.")
    return found


def _said(value: Any) -> str:
    if value is None:
        return OTHER
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,g}" if isinstance(value, int | float) else str(value)
