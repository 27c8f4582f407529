"""Query -> CheckedQuery, or a refusal. Reads the schema and the promise, never a row.

After this room every number that privacy rests on is an integer or a fraction: the grid each
value is put on, the bounds it is clamped to, and the geometry of what one row can change.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions import predicate, shorten
from sulq.partition import (
    PRIME,
    Axis,
    axes_of,
    blocks_axis,
    check_seed,
    hash_numbers,
    need_key,
)
from sulq.query import Blocks, Query, Rows
from sulq.schema import Schema
from sulq.tree import Node, call
from sulq.values import Dense, Geometry, Release, Value, values_of

MAX_ANSWER = 200_000  # numbers in one answer


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A question that may be asked, with everything its price and its sum depend on."""

    text: str  # canonical
    rows: Node | None  # public predicate: who is in S
    sample: tuple[int, ...] | None  # c3, c2, c1, c0 and threshold of the block arithmetic
    where: Node | None  # private predicate: part of the values
    axes: tuple[Axis, ...]
    values: tuple[Value, ...] | Dense
    mix: tuple[tuple[int, ...], ...] | None  # releases from engine values, whole numbers
    releases: tuple[Release, ...]
    geometry: Geometry
    private_cells: bool
    ledger_cells: tuple[int, ...] | None  # None: everybody
    rows_each: int  # rows of one person that may count, each with this geometry
    error: Fraction | None

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and engine values of the exact matrix."""
        width = len(self.values) if isinstance(self.values, tuple) else len(self.releases)
        return math.prod(len(a.labels) for a in self.axes), width

    @property
    def everyone(self) -> bool:
        """Is S the whole table?"""
        return self.rows is None and self.sample is None


def check(query: Query, schema: Schema, noise: str, guarantee: str) -> CheckedQuery:
    """Check one query against the schema; the promise's kind decides grid and weights."""
    if not isinstance(query, Query):
        raise QueryNotAllowed(
            f"{shorten(repr(query))}: want a sulq.Query, such as "
            "sulq.Query(values=['1'], by='region')."
        )
    rows, cells, private = _split(query, schema)
    sample, block = _sample(query.rows, schema)
    axes = block + axes_of(query.by, schema)
    size = math.prod(len(a.labels) for a in axes)
    private_cells = any(not a.public for a in axes)
    loose = private is not None or private_cells  # 0 is a contribution of its own
    built = values_of(query, schema, noise, guarantee, loose)
    values, mix, releases, geometry = built
    if size * len(releases) > MAX_ANSWER:
        raise QueryNotAllowed(
            f"the answer would have {size:,} cells x {len(releases):,} values, at most "
            f"{MAX_ANSWER:,} numbers. Ask for fewer cells."
        )
    if query.error is not None and noise in ("binomial", "stitched"):
        raise QueryNotAllowed(
            f"error={float(query.error):g}: {noise} noise has one variance for the life of the "
            "database. Leave error out, or open with noise='gaussian' or 'laplace'."
        )
    people = isinstance(values, Dense) and values.kind == "people"
    rows_each = 1 if schema.unit is None or people else schema.unit.max_rows
    if rows_each > 1 and noise in ("binomial", "stitched"):
        # m rows may move one number by m units, which m queries of one unit do not cover.
        raise QueryNotAllowed(several_rows(noise))
    text = _canonical(query, schema, rows, private, axes, values, mix, releases, sample)
    return CheckedQuery(
        text, rows, sample, private, axes, values, mix, releases, geometry,
        private_cells, cells, rows_each, query.error,
    )  # fmt: skip


def several_rows(noise: str) -> str:
    """Why two noise kinds cannot protect a person with several rows."""
    return (
        f"unit: {noise} noise is calibrated for one row per person. Declare max_rows = 1, or open "
        "with noise='gaussian' or 'laplace'."
    )


# --- rows -------------------------------------------------------------------------------


def _split(query: Query, schema: Schema) -> tuple[Node | None, tuple[int, ...] | None, Node | None]:
    """The public part of `rows` and `where`, the ledger cells it selects, and the rest."""
    public: list[Node] = []
    if query.rows is not None and query.rows.predicate is not None:
        node = predicate(query.rows.predicate, schema)
        for name in sorted(node.columns()):
            if not schema[name].public:
                raise QueryNotAllowed(
                    f"rows={shorten(query.rows.predicate)!r} uses {name!r}, which is not public. "
                    "Put it into where=, which keeps it private."
                )
        public += _terms(node)
    private: list[Node] = []
    if query.where is not None:
        whole = predicate(query.where, schema)
        if not public and not any(schema[n].public for n in whole.columns()):
            return None, None, whole
        for term in _terms(whole):
            names = term.columns()
            open_to_all = bool(names) and all(schema[n].public for n in names)
            (public if open_to_all else private).append(term)
    rows = call("and", *public) if public else None
    return rows, _ledger_cells(public, schema), call("and", *private) if private else None


def _terms(node: Node) -> tuple[Node, ...]:
    return node.args if node.op == "and" else (node,)


def _ledger_cells(public: list[Node], schema: Schema) -> tuple[int, ...] | None:
    """Cells that satisfy every term over the cell columns; other terms select no cells."""
    names = {c.name for c in schema.cell_columns}
    usable = [t for t in public if t.columns() <= names]
    if not usable:
        return None
    from sulq.domains import true_cells

    chosen = true_cells(call("and", *usable), schema)
    return None if len(chosen) == schema.cell_count else chosen


def _sample(rows: Rows | None, schema: Schema) -> tuple[Any, tuple[Axis, ...]]:
    """A seeded sample as a threshold, seeded blocks as an axis."""
    if rows is None or (rows.seed is None and rows.rate is None and rows.count is None):
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
) -> str:  # fmt: skip
    """Equal texts have equal sums and equal noise: a repeat may return the stored answer."""
    body = {
        "values": values.text if isinstance(values, Dense) else [v.node.text for v in values],
        "mix": mix,
        "weights": [str(r.weight2) for r in releases],
        "kind": getattr(query.values, "kind", "list"),
        "by": [a.text for a in axes],
        "rows": rows.text if rows else None,
        "sample": sample,
        "where": private.text if private else None,
        "error": str(query.error) if query.error is not None else None,
        "schema": schema.digest,
    }
    return json.dumps({k: v for k, v in body.items() if v is not None}, sort_keys=True)
