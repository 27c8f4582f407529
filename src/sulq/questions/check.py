"""Query -> CheckedQuery, or a refusal. Reads the schema and the promise, never a row.

From here on every number that privacy rests on is an integer or a fraction: the grid each
value is put on, the bounds it is clamped to, and the geometry of what one row can change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import PRIME
from sulq.expressions.domains import true_cells
from sulq.expressions.functions import call
from sulq.expressions.node import Node, tree_of
from sulq.expressions.normal_form import by_terms, folded, split
from sulq.expressions.parse import parse, predicate, shorten
from sulq.expressions.stored_tree import dumps
from sulq.privacy.geometry import Geometry, Release
from sulq.privacy.pricing import Priced
from sulq.questions.contributions import MAX_RELEASES, Dense, exact_root, values_of
from sulq.questions.discovery import Discovery, discovery
from sulq.questions.grid import Value
from sulq.questions.measurements import Measurement, measured
from sulq.questions.partitions import (
    Axis,
    axes_of,
    blocks_axis,
    check_seed,
    hash_numbers,
    need_key,
)
from sulq.questions.people_view import PeopleRows, people_view
from sulq.questions.percentile_choice import Choice, choice
from sulq.questions.residual import projected
from sulq.questions.running_rows import RunningRows, cells_of, plain_query, running_rows
from sulq.questions.shards import (
    KeySet,
    in_shards,
    key_set,
    numbers_in,
    shard_ranges,
    shards_of,
    shards_with,
)
from sulq.questions.star_tables import in_tables, of_one_table
from sulq.values.query import (
    Blocks,
    Discover,
    Mean,
    Percentile,
    Query,
    Residual,
    Rows,
    Running,
    Strategy,
    Terms,
)
from sulq.values.schema import Schema

FORM = 3  # of stored questions: one for all that mean the same, with expressions as JSON
OLDER_FORM = 1  # the same JSON, from before questions that mean the same were one


@dataclass(frozen=True, slots=True)
class CheckedQuery(Priced):
    """A question that may be asked, with everything its price and its sum depend on."""

    text: str  # canonical
    rows: Node | None  # public predicate: who is in S
    # c3, c2, c1, c0 of the block arithmetic, then a threshold, or both ends of each stretch;
    # or a KeySet
    sample: tuple[Any, ...] | None
    where: Node | None  # private predicate: part of the values
    axes: tuple[Axis, ...]
    values: tuple[Value, ...] | Dense
    mix: tuple[tuple[int, ...], ...] | None  # releases from engine values, whole numbers
    ledger_cells: tuple[int, ...] | None  # None: everybody
    measurement: Measurement | None = None  # what leaves in place of the cells' sums
    people: PeopleRows | None = None  # whose rows these are: one for each person; None: the table's

    @property
    def released(self) -> int:
        """Of how many cells, or combinations of them, numbers leave."""
        return self.shape[0] if self.measurement is None else self.measurement.numbers

    @property
    def drawn(self) -> int:
        """How many cells, or combinations of them, have noise of their own."""
        return self.shape[0] if self.measurement is None else self.measurement.drawn

    @property
    def numbers(self) -> int:
        """How many numbers leave."""
        return self.released * len(self.releases)

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and engine values of the exact matrix."""
        width = len(self.values) if isinstance(self.values, tuple) else len(self.releases)
        return math.prod(len(a.labels) for a in self.axes), width

    @property
    def about(self) -> Any:
        """Which rows its functions read: equal for questions about the same ones."""
        return None if self.people is None else ("people", self.people.rows)

    @property
    def everyone(self) -> bool:
        """Is S the whole table?"""
        return self.rows is None and self.sample is None


def check(
    query: Query, schema: Schema, noise: str, guarantee: str, older: bool = False
) -> CheckedQuery:
    """Check one query against the schema; the promise's kind decides grid and weights.

    `older` reads it as it was before questions had one form, to find what was paid for then.
    """
    if not isinstance(query, Query):
        raise QueryNotAllowed(
            f"{shorten(repr(query))}: want a sulq.Query, such as "
            "sulq.Query(values=['1'], by='region')."
        )
    base = schema
    query, people, schema = _of_people(of_one_table(query, schema), schema)
    running = query.values if isinstance(query.values, Running) else None
    if running is not None:
        query = plain_query(query, schema)
    if isinstance(query.values, Terms) and not query.values.groups and not older:
        query = replace(query, values=query.values.sums)
    summed, terms = (None, []) if older else _summed(query, schema)
    rows, private = _split(query, schema, terms, older)
    schema = in_tables(schema, rows)
    named = key_set(query.rows, schema)
    cells = _ledger_cells(rows, _shards(query.rows, named, schema), schema)
    sample, block = (named, ()) if named is not None else _sample(query.rows, schema)
    axes = block + axes_of(query.by, schema)
    size = math.prod(len(a.labels) for a in axes)
    private_cells = any(not a.public for a in axes)
    loose = private is not None or private_cells  # 0 is a contribution of its own
    built = values_of(query, schema, noise, guarantee, loose, summed, older)
    values, mix, releases, geometry = built
    measurement = _measurement(query, axes, schema, loose, noise, guarantee)
    private_cells |= isinstance(measurement, Discovery)  # which value a row has
    if running is not None:
        measurement, releases = running_rows(running, schema, rows, axes, releases, geometry)
        geometry, cells = measurement.geometry, cells_of(measurement, cells, schema)
    elif measurement is not None:
        releases, geometry = _of_whole(measurement, releases[0].weight2)
    if size * len(releases) > MAX_RELEASES:
        raise QueryNotAllowed(
            f"the answer would have {size:,} cells x {len(releases):,} values, at most "
            f"{MAX_RELEASES:,} numbers. Ask for fewer cells."
        )
    _check_error(query.error, noise)
    distinct = isinstance(values, Dense) and values.kind == "people"
    rows_each = 1 if schema.unit is None or distinct else schema.unit.max_rows
    periods_each = 1 if distinct else _periods_each(cells, axes, measurement, schema)
    _check_several(rows_each, periods_each, noise, measurement)
    said = None if measurement is None else measurement.said
    text = _canonical(
        query, base, rows, private, axes, values, mix, releases, sample, said, older, people
    )
    return CheckedQuery(
        text, rows, sample, private, axes, values, mix, cells, measurement,
        None if people is None else people.of(text), releases=releases,
        geometry=geometry, private_cells=private_cells, rows_each=rows_each,
        periods_each=periods_each, error=query.error,
        share=measurement.share if isinstance(measurement, Choice) else None,
    )  # fmt: skip


def _check_error(error: Fraction | None, noise: str) -> None:
    """Two noise kinds have one variance."""
    if error is not None and noise in ("binomial", "stitched"):
        raise QueryNotAllowed(
            f"error={float(error):g}: {noise} noise has one variance for the life of the "
            "database. Leave error out, or open with noise='gaussian' or 'laplace'."
        )


def _of_people(query: Query, schema: Schema) -> tuple[Query, PeopleRows | None, Schema]:
    """The question in terms of the rows that it is about, and their columns."""
    if query.per_person is None:
        return query, None, schema
    if isinstance(query.values, Discover | Running):
        raise QueryNotAllowed(f"{query.values.kind}: it is about the table's own rows only.")
    view = people_view(query.per_person, schema)
    return view.spelled(query), view.people, view.stored


def _measurement(
    query: Query, axes: tuple[Axis, ...], schema: Schema, loose: bool, noise: str, guarantee: str
) -> Measurement | None:
    """What leaves in place of the cells' sums, if something else does."""
    if isinstance(query.values, Strategy):
        return measured(query.values, axes, noise, guarantee)
    if isinstance(query.values, Residual):
        return projected(axes, not loose, query.error, noise)
    if isinstance(query.values, Discover):
        return discovery(query, schema, noise, axes)
    return choice(query, axes, noise) if isinstance(query.values, Percentile) else None


def _of_whole(measurement: Measurement, weight2: Fraction) -> tuple[tuple[Release, ...], Geometry]:
    """The number that leaves for each combination, and how far one row can move them all."""
    unit, g = Fraction(measurement.unit), measurement.geometry
    weight = exact_root(weight2)
    release = Release("count", 1 / unit, unit, weight2, measurement.least_variance)
    return (release,), replace(
        g, radius2=g.radius2 * weight2, diameter2=g.diameter2 * weight2,
        radius1=g.radius1 * weight, diameter1=g.diameter1 * weight,
    )  # fmt: skip


def _periods_each(
    cells: tuple[int, ...] | None, axes: tuple[Axis, ...], measurement: Measurement | None,
    schema: Schema,
) -> int:  # fmt: skip
    """Of how many periods a person's rows may add up in the same numbers."""
    if schema.unit is None or schema.unit.max_periods is None:
        return 1
    if measurement is None and any(_is_period(a, schema) for a in axes):
        return 1  # the numbers of one period are not those of another
    if isinstance(measurement, RunningRows):  # the rows of earlier periods are in these answers too
        return min(schema.unit.max_periods, measurement.stream.horizon)
    return max(1, min(schema.unit.max_periods, schema.cell_count if cells is None else len(cells)))


def _is_period(axis: Axis, schema: Schema) -> bool:
    """Is each of its cells one period? One bin may have several of them."""
    node = axis.node if axis.kind == "expression" else None
    return node is not None and node.op == "column" and node.value == schema.period


def _check_several(
    rows_each: int, periods_each: int, noise: str, measurement: Measurement | None
) -> None:
    """Refuse what cannot be asked of people with several rows."""
    if max(rows_each, periods_each) > 1 and noise in ("binomial", "stitched"):
        # m rows may move one number by m units, which m queries of one unit do not cover.
        raise QueryNotAllowed(several_rows(noise))
    if periods_each > 1 and isinstance(measurement, Discovery):
        raise QueryNotAllowed("discover: of people in several periods, one period at a time.")


def several_rows(noise: str) -> str:
    """Why two noise kinds cannot protect a person with several rows."""
    return (
        f"unit: {noise} noise is calibrated for one row per person. Declare max_rows = 1, or open "
        "with noise='gaussian' or 'laplace'."
    )


# --- rows -------------------------------------------------------------------------------


def _summed(query: Query, schema: Schema) -> tuple[Node | None, list[Node]]:
    """What a lone sum adds up, and for which rows: a sum of 0s and 1s is a count of rows."""
    if not isinstance(query.values, tuple) or len(query.values) != 1:
        return None, []
    found, condition = folded(parse(query.values[0], schema))
    return found, [] if condition is None else [condition]


def _split(
    query: Query, schema: Schema, terms: list[Node], older: bool
) -> tuple[Node | None, Node | None]:
    """The public rows that `rows`, `where` and the values speak of, and what is private of it."""
    if query.rows is not None and query.rows.predicate is not None:
        node = predicate(query.rows.predicate, schema)
        for name in sorted(node.columns()):
            if not schema[name].public:
                raise QueryNotAllowed(
                    f"rows={shorten(query.rows.predicate)!r} uses {name!r}, which is not public. "
                    "Put it into where=, which keeps it private."
                )
        terms.append(node)
    if query.where is not None:
        terms.append(predicate(query.where, schema))
    if not terms:
        return None, None
    if older:
        return by_terms(terms, schema)
    found = split(call("and", *terms), schema)
    return found.rows, found.where


def _shards(rows: Rows | None, named: KeySet | None, schema: Schema) -> frozenset[int] | None:
    """The shards that rows are chosen by, or that the keys that name them are in."""
    if named is not None:
        return shards_with(named, schema)
    shards = shards_of(rows, schema)
    return None if shards is None else numbers_in(shards)


def _ledger_cells(
    rows: Node | None, shards: frozenset[int] | None, schema: Schema
) -> tuple[int, ...] | None:
    """Cells that satisfy every term over the cell columns; other terms select no cells."""
    names = {c.name for c in schema.cell_columns if c is not schema.shards}
    parts = () if rows is None else rows.args if rows.op == "and" else (rows,)
    usable = [t for t in parts if t.columns() <= names]
    if not usable and shards is None:
        return None
    chosen: Sequence[int] = range(schema.cell_count)
    if usable:
        chosen = true_cells(call("and", *usable), schema)
    if shards is not None:
        chosen = in_shards(chosen, shards, schema)
    return None if len(chosen) == schema.cell_count else tuple(chosen)


def _sample(rows: Rows | None, schema: Schema) -> tuple[Any, tuple[Axis, ...]]:
    """A seeded sample as a threshold, seeded blocks as an axis."""
    if rows is None:
        return None, ()
    shards = shards_of(rows, schema)
    if shards is not None:
        return shard_ranges(shards, schema), ()
    if rows.seed is None and rows.rate is None and rows.count is None:
        return None, ()
    if isinstance(rows.seed, bool) or not isinstance(rows.seed, int):
        raise QueryNotAllowed(f"Rows: seed={rows.seed!r}, want an integer for sample and blocks.")
    if rows.count is not None and rows.rate is not None:
        raise QueryNotAllowed("rows: a sample or blocks, not both.")
    if rows.count is not None:
        return None, (blocks_axis(Blocks(rows.seed, rows.count), schema),)
    need_key(schema, "a sample")
    check_seed(rows.seed)
    if not isinstance(rows.rate, Fraction) or rows.rate > 1:
        raise QueryNotAllowed(f"Rows.sample: rate={rows.rate}, want 0 < rate <= 1.")
    return (*hash_numbers(rows.seed), int(rows.rate * PRIME)), ()


# --- the canonical text -----------------------------------------------------------------


def _canonical(
    query: Query, schema: Schema, rows: Node | None, private: Node | None,
    axes: tuple[Axis, ...], values: tuple[Value, ...] | Dense,
    mix: tuple[tuple[int, ...], ...] | None, releases: tuple[Release, ...], sample: Any,
    measured: Any, older: bool, people: PeopleRows | None,
) -> str:  # fmt: skip
    """Equal texts have equal sums and equal noise: a repeat may return the stored answer."""
    body = {
        "values": values.tree if isinstance(values, Dense) else [tree_of(v.node) for v in values],
        "mix": mix,
        "weights": [str(r.weight2) for r in releases],
        "kind": getattr(query.values, "kind", "list") if older else _kind(query),
        "form": OLDER_FORM if older else FORM,
        "rows": tree_of(rows) if rows else None,
        "sample": sample,
        "where": tree_of(private) if private else None,
        "error": str(query.error) if query.error is not None else None,
        "schema": schema.digest,
        "strategy": measured,
    }
    # Partitions may be long, so they are not read and written once more; "by" sorts first.
    by = ",".join(a.text for a in axes)
    if people is not None:
        body["per_person"] = people.of(by + dumps(body)).tree()
    rest = dumps({k: v for k, v in body.items() if v is not None})
    return f'{{"by":[{by}],{rest[1:]}'


def _kind(query: Query) -> str:
    """What the values are; a mean is one count and one sum, whichever way it was asked."""
    values = query.values
    if isinstance(values, Terms):
        lone = not values.sums and len(values.groups) == 1 and len(values.groups[0]) == 2
        return Mean.kind if lone and not values.counted else Terms.kind
    return getattr(values, "kind", "list")
