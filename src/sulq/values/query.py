"""Questions as plain values: Query, Rows, partitions and values, each with a JSON form.

A query is (rows S, partition c, values v); its answer is, for every cell of the partition,
the sum of the values over the rows of S in that cell. Nothing here looks at data.

The partitions and values that speak of several columns at once (NearestCentre, Side, Sums,
Products) see each column scaled to [0, 1] by its declared bounds, and leave out a row with a
missing value in one of them: it adds nothing anywhere, not even to a count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.values.per_person import PerPerson
from sulq.values.plain_values import (
    MAX_DEPTH,
    Plain,
    as_rows,
    as_texts,
    freeze,
    positive,
    to_plain,
)
from sulq.values.row_sets import keys_in, stretches

Number = int | float | Fraction
MAX_DENOMINATOR = 10_000  # of a percentile's share


# --- partitions -------------------------------------------------------------------------


@dataclass(frozen=True)
class Bins(Plain):
    """Cells [e0, e1), [e1, e2), ..., the last one closed; outside and missing are '(other)'."""

    kind = "bins"
    column: str
    edges: tuple[Any, ...]


@dataclass(frozen=True)
class NearestCentre(Plain):
    """One cell per centre: the rows nearest to it. Ties go to the first, missing values nowhere."""

    kind = "nearest"
    columns: tuple[str, ...]
    centres: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Side(Plain):
    """Two cells: False, and True where weights . x + bias > 0; missing values are in neither."""

    kind = "side"
    columns: tuple[str, ...]
    weights: tuple[float, ...]
    bias: float = 0.0


@dataclass(frozen=True)
class Leaf(Plain):
    """One cell per leaf of a tree, numbered from left to right.

    A tree is None (a leaf), {"column": c, "threshold": t, "below": tree, "above": tree} for
    numbers (below: c < t or missing), or {"column": c, "branches": [[value, tree], ...],
    "other": tree} for categories and Booleans.
    """

    kind = "leaf"
    tree: str  # as JSON text, so that the value can be hashed

    def __init__(self, tree: str | Mapping[str, Any] | None) -> None:
        try:
            given = json.loads(tree) if isinstance(tree, str) else tree
            text = json.dumps(given, sort_keys=True, default=to_plain)
        except (TypeError, ValueError, RecursionError):
            raise QueryNotAllowed("Leaf: give a tree of dicts and lists, or its JSON.") from None
        object.__setattr__(self, "tree", text)

    def to_json(self) -> dict[str, Any]:
        """This value as plain JSON."""
        return {"kind": self.kind, "tree": json.loads(self.tree)}


@dataclass(frozen=True)
class Blocks(Plain):
    """Disjoint blocks of rows by hashed key. Public, so a row pays for one block only."""

    kind = "blocks"
    seed: int
    count: int


Partition = Bins | NearestCentre | Side | Leaf | Blocks


# --- values -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean(Plain):
    """The count of rows where the expression is known, and its sum about mid-range.

    With weights (a, b) the contribution is (a, b*(g - 1/2)) for g in [0, 1]: squared radius
    a^2 + b^2/4, squared distance between two rows at most b^2.
    """

    kind = "mean"
    expression: str


@dataclass(frozen=True)
class People(Plain):
    """How many different people have a row here: COUNT(DISTINCT person) of a declared unit."""

    kind = "people"


@dataclass(frozen=True)
class Terms(Plain):
    """What a SQL statement needs: plain sums, and groups of sums about mid-range.

    `sums` are expressions. Each group is a predicate that says where its expressions are all
    known, then those expressions: it gives the count of such rows and, for each expression,
    the sum about the middle of its range. `counted` keeps every count as exact as a plain one;
    the counts of the groups in `uncounted`, by their places, do not leave: they are known.
    """

    kind = "terms"
    sums: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    counted: bool = True
    uncounted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "uncounted", freeze(self.uncounted))
        groups = self.groups if isinstance(self.groups, Sequence) else (None,)
        object.__setattr__(self, "sums", as_texts(self.sums, "sums"))
        object.__setattr__(self, "groups", tuple(as_texts(g, "groups") for g in groups))
        if not all(self.groups):
            raise QueryNotAllowed("groups: each begins with a predicate, such as 'true'.")


@dataclass(frozen=True)
class Sums(Plain):
    """The count of rows and the sum of y, the columns centred at `centre`, |y| <= row_norm.

    Contribution (a, b*y) with weights (a, b). Without row_norm the bound is that of the box.
    A row with a missing value in one of the columns is left out, of the count too.
    """

    kind = "sums"
    columns: tuple[str, ...]
    centre: float = 0.5
    row_norm: float | None = None


@dataclass(frozen=True)
class Products(Plain):
    """The count of rows, sums of y and of the symmetric products y_i*y_j, i <= j, |y| <= row_norm.

    Contribution (c, w*y, sym(y y^T)); off-diagonal products count twice in the geometry, so they
    come with half the variance. `mean_weight` w = 0 leaves the sums of y out, `count_weight`
    c = 0 the count. A row with a missing value in one of the columns is left out of all three:
    where that may be, ask for the count too.
    """

    kind = "products"
    columns: tuple[str, ...]
    centre: float = 0.5
    row_norm: float | None = None
    mean_weight: float = 0.0
    count_weight: float = 0.0


@dataclass(frozen=True)
class Strategy(Plain):
    """Combinations of the counts of `by`'s cells, from which many sums of cells are read well.

    `workload` names what they are good for, for each of the last columns of `by`: "ranges",
    "prefixes" or "suffixes" of its cells, "cdf" for prefixes where it is known how many rows there
    are in all, or the "cells" themselves; the cells of the columns before are kept apart. Or
    `matrix` gives whole numbers, one row for each combination, and `columns` says for every cell
    which column it counts in (-1: in none).
    """

    kind = "strategy"
    workload: tuple[str, ...] | None = None
    matrix: tuple[tuple[int, ...], ...] | None = None
    columns: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.workload, str):
            object.__setattr__(self, "workload", (self.workload,))
        elif self.workload is not None:
            object.__setattr__(self, "workload", as_texts(self.workload, "workload"))
        object.__setattr__(self, "matrix", as_rows(self.matrix))
        object.__setattr__(self, "columns", freeze(self.columns))


@dataclass(frozen=True)
class Residual(Plain):
    """What the columns of `by` say together beyond what fewer of them say.

    The count of every cell but the last ones, less that of the last cell of its column, in all
    columns at once. `sulq.Marginals` asks for these; tables of counts are put together from them.
    """

    kind = "residual"


@dataclass(frozen=True)
class Percentile(Plain):
    """A value that `share` of the rows lies below, chosen among the cells of `by`.

    The cells of the last `over` columns of `by`, in their order, are chosen from; those of the
    columns before are groups. What leaves is the place of the value's cell, and of one on either
    side of it. `PERCENTILE_DISC` asks for these.
    """

    kind = "percentile"
    share: Fraction
    over: int = 1

    def __post_init__(self) -> None:
        share = positive(self.share, "share")
        if share >= 1 or share.denominator > MAX_DENOMINATOR:
            raise QueryNotAllowed(f"share={self.share}: between 0 and 1, with at most 4 digits.")
        object.__setattr__(self, "share", share)


@dataclass(frozen=True)
class Discover(Plain):
    """The values of a text that nobody listed: those that enough rows have, with noisy counts.

    How many are enough follows from the noise; with `at_least`, so many rows, and the noise that
    needs is paid for. The promise must have set a share of delta aside: discoveries=... of
    `sulq.open`.
    """

    kind = "discover"
    column: str
    at_least: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise QueryNotAllowed(f"column={self.column!r}: want the name of a column of texts.")
        most = self.at_least
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise QueryNotAllowed(f"at_least={most!r}: want a whole number of rows.")


@dataclass(frozen=True)
class Running(Plain):
    """Totals so far of a sum, at every period that has rows: `db.running` asks for these.

    `start` is the first period, the first one declared unless given, and `horizon` how many
    periods the totals may go on for, all that are declared unless given. `span` is the ledger's:
    which of their strategy answers are asked for at once.
    """

    kind = "running"
    expression: str = "1"
    over: str | None = None
    start: Any = None
    horizon: int | None = None
    span: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise QueryNotAllowed(
                f"running: {self.expression!r}, want a count or a sum such as 'sum(age)'."
            )
        for name in ("horizon", "over"):
            kinds: Any = (int, "a number of periods") if name == "horizon" else (str, "a column")
            given = getattr(self, name)
            if given is not None and (isinstance(given, bool) or not isinstance(given, kinds[0])):
                raise QueryNotAllowed(f"running: {name}={given!r}, want {kinds[1]}.")
        object.__setattr__(self, "span", freeze(self.span))


_KNOWN = (
    Mean | People | Terms | Sums | Products | Strategy | Residual | Percentile | Discover | Running
)
Values = tuple[str, ...] | _KNOWN


# --- rows -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows(Plain):
    """A public set of rows: who is in it is no secret, so the others pay nothing."""

    kind = "rows"
    predicate: str | None = None
    seed: int | None = None
    rate: Fraction | None = None
    count: int | None = None
    shards: tuple[int, ...] | None = None  # first and one behind the last of each stretch, in order
    named: tuple[Any, ...] | None = None  # by their keys

    @classmethod
    def where(cls, public_predicate: str) -> Rows:
        """Rows chosen by a predicate over public columns."""
        return cls(predicate=public_predicate)

    @classmethod
    def sample(cls, seed: int, rate: Number) -> Rows:
        """A seeded sample of about `rate` of the rows, chosen by hashed key."""
        return cls(seed=seed, rate=positive(rate, "rate"))

    @classmethod
    def blocks(cls, seed: int, count: int) -> Rows:
        """All rows, split into `count` disjoint blocks; the answer has one cell per block."""
        return cls(seed=seed, count=count)

    @classmethod
    def shard(cls, which: int | Iterable[int]) -> Rows:
        """Whole shards of the rows, by number: one, a range, or several. Only they pay.

        The schema says how many there are: shards = 1000 of its key. Any part of them is as good a
        sample of the rows as a seeded one.
        """
        return cls(shards=stretches(which))

    @classmethod
    def keys(cls, given: Any) -> Rows:
        """The rows with these keys: a list, an array, or a file with one on each line.

        Joined with the table, however many. Charged to everyone, or to the shards they are in.
        """
        return cls(named=keys_in(given))


# --- the query --------------------------------------------------------------------------


@dataclass(frozen=True)
class Query(Plain):
    """A grouped vector sum. `error` is the wanted 95% half-width, paid for accordingly."""

    kind = "query"
    values: Values = ("1",)
    by: str | Partition | tuple[str | Partition, ...] | None = None
    where: str | None = None
    rows: Rows | None = None
    error: Fraction | None = None
    weights: tuple[Fraction, ...] | None = None
    per_person: PerPerson | None = None  # one row for each person in place of the table's own

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            object.__setattr__(self, "values", (self.values,))
        elif not isinstance(self.values, _KNOWN):
            values = freeze(self.values)
            if not isinstance(values, tuple) or not all(isinstance(v, str | int) for v in values):
                raise QueryNotAllowed(
                    f"values={self.values!r}: give a list of SQL expressions such as ['1', 'age'], "
                    "or sulq.Mean, Sums, Products or Strategy."
                )
            object.__setattr__(self, "values", tuple(str(v) for v in values))
        if self.by is not None and not isinstance(self.by, str | Plain):
            if not isinstance(self.by, Sequence):
                raise QueryNotAllowed(
                    f"by={self.by!r}: give a column, a partition or a list of them."
                )
            object.__setattr__(self, "by", tuple(self.by))
        if isinstance(self.where, bool) or not isinstance(self.where, str | None):
            raise QueryNotAllowed(f"where={self.where!r}: give a SQL predicate as text.")
        if self.rows is not None and not isinstance(self.rows, Rows):
            raise QueryNotAllowed(
                f"rows={self.rows!r}: use sulq.Rows.where(...), .sample, .shard, .keys or .blocks."
            )
        if not isinstance(self.per_person, PerPerson | None):
            raise QueryNotAllowed(f"per_person={self.per_person!r}: give a sulq.PerPerson.")
        if self.error is not None:
            object.__setattr__(self, "error", positive(self.error, "error"))
        if self.weights is not None:
            if isinstance(self.weights, str) or not isinstance(self.weights, Sequence):
                raise QueryNotAllowed(f"weights={self.weights!r}: give a list of numbers.")
            weights = tuple(positive(w, "weights") for w in self.weights)
            object.__setattr__(self, "weights", weights)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Query:
        """Read the JSON form back; anything unknown is refused."""
        if not isinstance(body, Mapping):
            raise QueryNotAllowed('a query in JSON is an object, such as {"where": "smoker"}.')
        if body.get("kind", "query") != "query":
            raise QueryNotAllowed(f"kind={str(body['kind'])[:60]!r}: want a query here.")
        made = _from_plain(dict(body) | {"kind": "query"})
        assert isinstance(made, cls)
        return made


_PARTITIONS = (Bins, NearestCentre, Side, Leaf, Blocks)
_VALUES = (Mean, People, Terms, Sums, Products, Strategy, Residual, Percentile, Discover, Running)
KINDS: dict[str, type[Any]] = {c.kind: c for c in (*_PARTITIONS, *_VALUES, Rows, PerPerson, Query)}


def _from_plain(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise QueryNotAllowed(f"JSON nested more than {MAX_DEPTH} deep.")
    if isinstance(value, list):
        return tuple(_from_plain(v, depth + 1) for v in value)
    if not isinstance(value, dict):
        return value
    body = dict(value)
    kind = body.pop("kind", None)
    made = KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise QueryNotAllowed(f"kind={str(kind)[:60]!r}, want one of {', '.join(KINDS)}.")
    known = {f.name for f in fields(made)}
    for name in sorted(set(body) - known, key=str):
        raise QueryNotAllowed(f"{kind} has no {name!r}; it has {', '.join(sorted(known))}.")
    if made is Leaf:
        return Leaf(body.get("tree"))
    try:
        if made is Rows and "rate" in body:
            body["rate"] = positive(body["rate"], "rate")
        return made(**{k: _from_plain(v, depth + 1) for k, v in body.items()})
    except (TypeError, AttributeError):
        raise QueryNotAllowed(f"{kind}: {', '.join(sorted(known))} do not fit together.") from None
