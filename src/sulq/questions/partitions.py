"""How rows fall into cells: a column, bins, blocks, centres, a side, the leaves of a tree.

Cells are known before any row is read; a value nobody declared falls into '(other)'.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import PRIME
from sulq.expressions.domains import may_be_missing, reachable
from sulq.expressions.functions import call
from sulq.expressions.literals import check_equal
from sulq.expressions.node import HUGE, NUMERIC, Node, column, days, literal, seconds, tree_of
from sulq.expressions.parse import check_whole, parse, shorten
from sulq.expressions.quoting import quote
from sulq.expressions.stored_tree import dumps
from sulq.expressions.timestamps import whole_moment
from sulq.values.query import Bins, Blocks, Leaf, NearestCentre, Side
from sulq.values.schema import OTHER, Schema

DENSE = 16  # what speaks of several columns cuts [0, 1] into 2**DENSE steps
MAX_LABELS = 100_000
MAX_TREE = 200_000  # parts of all paths to all leaves of a tree
MAX_DENSE = 2_000  # columns of one kernel
DEFAULT_BINS = 20  # of a histogram
FEW = 1_000  # values an integer expression may have to be a partition
DISCOVER = (
    " Values nobody listed are named by GROUP BY {0}(discover => true), or db.discover({0!r})."
)


@dataclass(frozen=True, slots=True)
class Axis:
    """One way rows fall into cells: `labels` name them, None is '(other)'."""

    kind: str  # expression, bins, blocks, nearest, side or leaf
    labels: tuple[Any, ...]
    public: bool
    text: str  # JSON: equal where the partitions are
    node: Node | None = None
    detail: Any = None
    columns: tuple[str, ...] = ()
    points: tuple[Node, ...] = ()  # the coordinates that centres and sides speak of
    complete: bool = False  # no row is in '(other)', as the schema has it


def hash_numbers(seed: int) -> tuple[int, int, int, int]:
    """The c3, c2, c1, c0 of (c3*k^3 + c2*k^2 + c1*k + c0) mod (2^31 - 1), from a seed.

    A cubic puts any four keys into blocks independently, so sums over blocks vary as those of
    random blocks do. A line would not: keys in the order of some column make its blocks even.
    """
    digest = hashlib.sha256(f"sulq blocks {seed}".encode()).digest()
    c3, c2, c1, c0 = (int.from_bytes(digest[i : i + 8], "big") % PRIME for i in (0, 8, 16, 24))
    return c3, c2, c1, c0


def need_key(schema: Schema, what: str) -> str:
    """The key's name, or a refusal that says how to declare one."""
    if schema.key is None:
        raise QueryNotAllowed(
            f"{what} is formed by the key, and the schema declares none. Mark the row number "
            "with key = true."
        )
    return schema.key.name


def axes_of(by: Any, schema: Schema) -> tuple[Axis, ...]:
    """The axes of a query's `by`; its cells are all their combinations."""
    parts = () if by is None else by if isinstance(by, tuple) else (by,)
    axes = tuple(_axis(part, schema) for part in parts)
    if len({a.text for a in axes}) != len(axes):
        raise QueryNotAllowed("by= names the same partition twice.")
    for size in itertools.accumulate((len(a.labels) for a in axes), lambda x, y: x * y):
        if size > MAX_LABELS:
            raise QueryNotAllowed(f"by= forms {size:,} cells or more, at most {MAX_LABELS:,}.")
    return axes


def _axis(part: Any, schema: Schema) -> Axis:
    if isinstance(part, str):
        return _expression_axis(part, schema)
    makers: dict[type, Any] = {
        Bins: _bins, Blocks: blocks_axis, NearestCentre: _nearest, Side: _side, Leaf: _leaf,
    }  # fmt: skip
    maker = makers.get(type(part))
    if maker is None:
        raise QueryNotAllowed(
            f"by={shorten(repr(part))}: want a column, or sulq.Bins, NearestCentre, Side, Leaf "
            "or Blocks."
        )
    made: Axis = maker(part, schema)
    return made


def _is_public(node: Node, schema: Schema) -> bool:
    return all(schema[n].public for n in node.columns())


def _expression_axis(given: str, schema: Schema) -> Axis:
    """Cells of a column or of an expression with few values known beforehand."""
    column = schema.get(given)
    node = parse(quote(column.name) if column else given, schema)
    labels: tuple[Any, ...]
    if node.op == "column" and schema[node.value].values is not None:
        labels = (*schema[node.value].values, None)  # type: ignore[misc]
    elif node.op == "column" and schema[node.value].bins is not None:
        return _bins(Bins(node.value, schema[node.value].bins or ()), schema)
    elif node.type == "boolean":
        labels = (False, True, *([None] if node.nullable else []))
    else:
        labels = _few_labels(node, schema) or ()
    if not labels and schema.unit is not None and node.columns() == {schema.unit.column}:
        raise _of_each_person(schema.unit.column)
    if not labels:
        raise QueryNotAllowed(
            f"by={shorten(given)!r} has no list of values known beforehand. Use a category, a "
            f"Boolean, a whole number with at most {FEW:,} values, or bins: "
            "width_bucket(x, low, high, n) or floor(x / 10) in SQL, sulq.Bins(column, edges)."
            + (DISCOVER.format(node.value) if node.op == "column" and node.type == "text" else "")
        )
    if OTHER in labels and None in labels:
        raise QueryNotAllowed(
            f"by={shorten(given)!r}: {OTHER!r} is how whatever is missing is shown; give that text "
            "another name."
        )
    public, complete = _is_public(node, schema), not may_be_missing(node, schema)
    return Axis("expression", labels, public, dumps(tree_of(node)), node, complete=complete)


def _of_each_person(name: str) -> QueryNotAllowed:
    return QueryNotAllowed(
        f"by={name!r}: a group for each person would tell about one alone. Group by the person "
        f"inside, and ask about all of them outside: SELECT avg(n) FROM (SELECT {name}, count(*) "
        f"AS n FROM ... GROUP BY {name}), or db.per_person(...)."
    )


def _few_labels(node: Node, schema: Schema) -> tuple[Any, ...] | None:
    """The values a whole number, date or text can have, if the declarations say so."""
    if node.op != "column" and node.type in ("integer", "date", "text"):
        found = reachable(node, schema)
        if found is not None:
            return found if len(found) <= MAX_LABELS else None
    texts = constant_texts(node)
    if texts is not None:
        return (*sorted(texts), *([None] if node.nullable else []))
    if node.type == "integer" and node.bounded and node.high - node.low < FEW:
        whole = range(int(node.low), int(node.high) + 1)
        return (*whole, *([None] if node.nullable else []))
    return None


def constant_texts(node: Node) -> set[str] | None:
    """The texts that CASE ... THEN 'high' ELSE 'low' END names; None for other expressions."""
    if node.type != "text" or node.op not in ("case", "literal"):
        return None
    if node.op == "literal":
        return set() if node.value is None else {node.value}
    parts = [constant_texts(part) for part in (*node.args[1:-1:2], node.args[-1])]
    return None if any(p is None for p in parts) else {text for p in parts if p for text in p}


def histogram_axis(column: str, bins: Any, schema: Schema) -> str | Bins:
    """The partition a histogram of this column uses."""
    if not isinstance(column, str):
        raise QueryNotAllowed(f"column={column!r}: want a column's name.")
    declared = schema.get(column)
    if bins is None:
        few = declared is not None and declared.type == "integer" and declared.bounded
        wide = few and declared.high - declared.low >= 2 * DEFAULT_BINS  # type: ignore[union-attr]
        number = declared is not None and declared.type in ("number", "date", "timestamp")
        if declared is None or declared.bins is not None or not (wide or number):
            return column
        bins = DEFAULT_BINS
    if isinstance(bins, int) and not isinstance(bins, bool):
        return Bins(column, _equal_bins(column, bins, schema))
    if isinstance(bins, str | bool) or not isinstance(bins, Sequence):
        raise QueryNotAllowed(f"bins={bins!r}: want a number of bins or a list of edges.")
    return Bins(column, tuple(bins))


def _equal_bins(column: str, count: int, schema: Schema) -> tuple[Any, ...]:
    """Edges of so many bins over a column's declared range."""
    declared = schema.get(column)
    if declared is None or not declared.bounded:
        raise QueryNotAllowed(
            f"bins of {column!r}: its range is not declared. Give edges: bins=[0, 10, 20]."
        )
    if not 1 <= count <= 10_000:
        raise QueryNotAllowed(f"bins={count}, want 1 to 10,000.")
    low, high = declared.low, declared.high
    if declared.type == "date":
        days = [low.toordinal() + (high - low).days * i // count for i in range(count + 1)]
        return tuple(type(low).fromordinal(d) for d in dict.fromkeys(days))
    if declared.type == "timestamp":
        each = [(high - low) * i // count for i in range(count)]
        whole = [low + datetime.timedelta(e.days, e.seconds) for e in each]
        return tuple(dict.fromkeys([*whole, high]))
    if declared.type == "integer":  # whole edges, so that every bin has whole values
        edges = [low + (high + 1 - low) * i // count for i in range(count)]
        return tuple(dict.fromkeys([*edges, high]))
    return (*(low + (high - low) * i / count for i in range(count)), high)


def _bins(part: Bins, schema: Schema) -> Axis:
    column = schema.get(part.column)
    if not isinstance(part.column, str):
        raise QueryNotAllowed(f"bins of {part.column!r}: name a column or give an expression.")
    node = parse(quote(column.name) if column else part.column, schema)
    if node.type not in ("integer", "number", "date"):
        raise QueryNotAllowed(f"bins of {part.column!r}: want a number or a date.")
    try:
        moments = [_moment(e) for e in part.edges] if node.moment else None
        edges = [_edge(seconds(e), "integer") for e in moments] if moments else [
            _edge(e, node.type) for e in part.edges
        ]  # fmt: skip
    except (TypeError, ValueError, OverflowError):
        raise QueryNotAllowed(f"bins of {part.column!r}: edges must be {node.type}s.") from None
    if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)):
        raise QueryNotAllowed(f"bins of {part.column!r}: give at least two rising edges.")
    shown = [
        datetime.date.fromisoformat(e) if node.type == "date" and isinstance(e, str) else e
        for e in part.edges
    ]
    labels = (*(itertools.pairwise(moments) if moments else _bin_labels(shown, node.type)), None)
    text = dumps({"bins": tree_of(node), "edges": edges})
    within = edges[0] <= node.low and node.high <= edges[-1]
    complete = within and not may_be_missing(node, schema)
    public = _is_public(node, schema)
    return Axis("bins", labels, public, text, node, tuple(edges), complete=complete)


def _bin_labels(edges: list[Any], kind: str) -> list[tuple[Any, Any]]:
    """What is in each bin: whole numbers from-to, others from the edge up to the next."""
    pairs = list(itertools.pairwise(edges))
    if kind != "integer" or any(e != int(e) for e in edges):
        return pairs
    whole = [(int(a), int(b) - 1) for a, b in pairs]
    return [*whole[:-1], (whole[-1][0], int(edges[-1]))]


def _moment(edge: Any) -> datetime.datetime:
    """An edge of bins of a timestamp: a moment, a date, or one as text."""
    if isinstance(edge, datetime.datetime):
        return whole_moment(edge)
    if isinstance(edge, datetime.date):
        return datetime.datetime.combine(edge, datetime.time())
    return whole_moment(datetime.datetime.fromisoformat(edge))


def _edge(edge: Any, kind: str) -> float:
    if kind == "date":
        is_date = isinstance(edge, datetime.date)
        return float(days(edge if is_date else datetime.date.fromisoformat(edge)))
    if isinstance(edge, bool | str) or not math.isfinite(edge):
        raise ValueError
    return float(edge)


def check_seed(seed: Any) -> None:
    """A seed is a whole number of a sensible length."""
    if isinstance(seed, bool) or not isinstance(seed, int) or abs(seed) >= 2**256:
        raise QueryNotAllowed("seed: want a whole number below 2**256.")


def blocks_axis(part: Blocks, schema: Schema) -> Axis:
    """Blocks by hashed key."""
    key = need_key(schema, "a block")
    check_seed(part.seed)
    whole = isinstance(part.count, int) and not isinstance(part.count, bool)
    if not whole or not 1 <= part.count <= MAX_LABELS:
        raise QueryNotAllowed(
            f"Blocks: count={part.count!r}, want an integer from 1 to {MAX_LABELS:,}."
        )
    detail = (*hash_numbers(part.seed), part.count)
    text = dumps({"blocks": part.count, "seed": part.seed})
    return Axis("blocks", tuple(range(part.count)), True, text, None, detail, (key,))


def coordinates(columns: tuple[str, ...], schema: Schema, what: str) -> tuple[Node, ...]:
    """Columns, or expressions of them, that can be put on [0, 1] by their known bounds."""
    if not isinstance(columns, tuple) or not 1 <= len(columns) <= MAX_DENSE:
        raise QueryNotAllowed(f"{what}: want a list of 1 to {MAX_DENSE:,} columns.")
    points = tuple(_coordinate(name, schema, what) for name in columns)
    if len({p.text for p in points}) != len(points):
        raise QueryNotAllowed(f"{what}: a column is named twice.")
    return points


def _coordinate(name: Any, schema: Schema, what: str) -> Node:
    declared = schema.get(name) if isinstance(name, str) else None
    if declared is not None:
        node = column(declared)
    elif isinstance(name, str) and not name.isidentifier():
        node = parse(name, schema)
    else:
        raise QueryNotAllowed(f"{what}: there is no column {shorten(str(name))!r}.")
    if node.type not in NUMERIC or not node.bounded or (declared and declared.type == "category"):
        raise QueryNotAllowed(
            f"{what}: column {shorten(name)!r} is not a number with declared low and high."
        )
    if node.low == node.high:
        raise QueryNotAllowed(f"{what}: {shorten(name)!r} has one value only.")
    return node


def used_columns(points: tuple[Node, ...]) -> tuple[str, ...]:
    """The names of the columns that these coordinates read, in their order."""
    return tuple(dict.fromkeys(name for p in points for name in sorted(p.columns())))


def grid_point(value: Any, what: str, most: int = 4) -> int:
    """A coordinate as an integer number of steps 2**-DENSE."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        raise QueryNotAllowed(f"{what}: {value!r} is not a number between -{most} and {most}.")
    steps: int = round(Fraction(value) * 2**DENSE)
    return steps


def complete_word(points: tuple[Node, ...]) -> dict[str, bool]:
    """Where rows may lack a coordinate: older ledgers remember answers that filled it in."""
    return {"complete": True} if any(p.nullable for p in points) else {}


def _nearest(part: NearestCentre, schema: Schema) -> Axis:
    points = coordinates(part.columns, schema, "NearestCentre")
    if not isinstance(part.centres, tuple) or not 1 <= len(part.centres) <= 10_000:
        raise QueryNotAllowed("NearestCentre: want 1 to 10,000 centres.")
    if any(not isinstance(c, tuple) or len(c) != len(points) for c in part.centres):
        raise QueryNotAllowed(f"NearestCentre: each centre needs {len(points)} coordinates.")
    centres = tuple(tuple(grid_point(x, "NearestCentre") for x in c) for c in part.centres)
    labels = tuple(range(len(centres)))
    return _spatial("nearest", labels, points, {"centres": centres}, schema)


def _side(part: Side, schema: Schema) -> Axis:
    points = coordinates(part.columns, schema, "Side")
    if not isinstance(part.weights, tuple) or len(part.weights) != len(points):
        raise QueryNotAllowed(f"Side: want {len(points)} weights, one per column.")
    given = (*part.weights, part.bias)
    if not all(isinstance(x, int | float) and abs(x) <= HUGE for x in given):
        raise QueryNotAllowed("Side: weights and bias must be finite numbers.")
    numbers = [Fraction(x) for x in given]
    largest = max(abs(x) for x in numbers) or Fraction(1)
    grid = tuple(round(x / largest * 2**DENSE) for x in numbers)  # only the direction matters
    return _spatial("side", (False, True), points, {"weights": grid}, schema)


def _spatial(
    kind: str, labels: tuple[Any, ...], points: tuple[Node, ...], detail: dict[str, Any],
    schema: Schema,
) -> Axis:  # fmt: skip
    """Cells of points in space, by what `detail` names."""
    columns, (found,) = used_columns(points), detail.values()
    text = dumps({kind: [tree_of(p) for p in points]} | detail | complete_word(points))
    public = all(schema[c].public for c in columns)
    return Axis(kind, labels, public, text, None, found, columns, points)


def _leaf(part: Leaf, schema: Schema) -> Axis:
    tree = json.loads(part.tree)
    leaves: list[tuple[Node, ...]] = []
    try:
        _paths(tree, (), schema, leaves)
    except (TypeError, ValueError):
        raise QueryNotAllowed(
            'Leaf: a node is None, {"column", "threshold", "below", "above"} or {"column", '
            '"branches": [[value, tree], ...], "other"}.'
        ) from None
    if sum(node.size for path in leaves for node in path) > MAX_TREE:
        raise QueryNotAllowed("Leaf: the tree is too large; use fewer branches or levels.")
    public = all(_is_public(node, schema) for path in leaves for node in path)
    used = sorted({name for path in leaves for node in path for name in node.columns()})
    text = dumps({"leaf": tree})
    labels = tuple(range(len(leaves)))
    paths = tuple(call("and", *path) if path else None for path in leaves)
    return Axis("leaf", labels, public, text, None, paths, tuple(used))


def _paths(tree: Any, path: tuple[Node, ...], schema: Schema, out: list[tuple[Node, ...]]) -> None:
    """Each leaf as the conditions that lead to it; together they cover every row once."""
    if len(path) > 30 or len(out) > 10_000:
        raise QueryNotAllowed("Leaf: at most 30 levels and 10,000 leaves.")
    if tree is None:
        out.append(path)
        return
    if not isinstance(tree, dict):
        raise QueryNotAllowed("Leaf: each node is None or names a declared column.")
    name = str(tree.get("column"))
    declared = schema.get(name)
    if declared is None and name.isidentifier():
        raise QueryNotAllowed("Leaf: each node is None or names a declared column.")
    node = column(declared) if declared is not None else parse(name, schema)
    if "threshold" in tree:
        above = _sure(call("le", _literal(tree["threshold"]), node))
        _paths(tree.get("below"), (*path, call("not", above)), schema, out)
        _paths(tree.get("above"), (*path, above), schema, out)
        return
    rest: list[Node] = []
    for value, branch in tree.get("branches", ()):
        check_equal(node, _literal(value), schema)
        here = _sure(call("eq", node, _literal(value)))
        _paths(branch, (*path, here), schema, out)
        rest.append(call("not", here))
    _paths(tree.get("other"), (*path, call("and", *rest)) if rest else path, schema, out)


def _sure(test: Node) -> Node:
    return call("coalesce", test, literal(False))


def _literal(value: Any) -> Node:
    if value is None or not isinstance(value, bool | int | float | str):
        raise QueryNotAllowed(f"Leaf: {value!r} is not a constant.")
    if isinstance(value, str):
        check_whole(value)
    return literal(value)
