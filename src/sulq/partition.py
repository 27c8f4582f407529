"""How rows fall into cells: a column, bins, blocks, centres, a side, the leaves of a tree.

Cells are known before any row is read; a value nobody declared falls into 'other'.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions import parse, shorten
from sulq.query import Bins, Blocks, Leaf, NearestCentre, Side
from sulq.schema import Schema
from sulq.tree import HUGE, NUMERIC, Node, call, column, days, literal

PRIME = 2**31 - 1  # of the block arithmetic
DENSE = 16  # what speaks of several columns cuts [0, 1] into 2**DENSE steps
MAX_LABELS = 100_000
MAX_TREE = 200_000  # parts of all paths to all leaves of a tree
MAX_DENSE = 2_000  # columns of one kernel
FEW = 1_000  # values an integer expression may have to be a partition


@dataclass(frozen=True, slots=True)
class Axis:
    """One way rows fall into cells: `labels` name them, None is 'other'."""

    kind: str  # expression, bins, blocks, nearest, side or leaf
    labels: tuple[Any, ...]
    public: bool
    text: str
    node: Node | None = None
    detail: Any = None
    columns: tuple[str, ...] = ()
    points: tuple[Node, ...] = ()  # the coordinates that centres and sides speak of


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


def _expression_axis(text: str, schema: Schema) -> Axis:
    """Cells of a column or of an expression with few values known beforehand."""
    column = schema.get(text)
    node = parse(_quoted(column.name) if column else text, schema)
    labels: tuple[Any, ...]
    if node.op == "column" and schema[node.value].values is not None:
        labels = (*schema[node.value].values, None)  # type: ignore[misc]
    elif node.op == "column" and schema[node.value].bins is not None:
        return _bins(Bins(node.value, schema[node.value].bins or ()), schema)
    elif node.type == "boolean":
        labels = (False, True, *([None] if node.nullable else []))
    else:
        labels = _few_labels(node, schema) or ()
    if not labels:
        raise QueryNotAllowed(
            f"by={shorten(text)!r} has no list of values known beforehand. Use a category, a "
            f"Boolean, a whole number with at most {FEW:,} values, or bins: "
            "width_bucket(x, low, high, n) or floor(x / 10) in SQL, sulq.Bins(column, edges)."
        )
    return Axis("expression", labels, _is_public(node, schema), node.text, node)


def _few_labels(node: Node, schema: Schema) -> tuple[Any, ...] | None:
    """The values a whole number, date or text can have, if the declarations say so."""
    from sulq.domains import reachable

    if node.op != "column" and node.type in ("integer", "date", "text"):
        found = reachable(node, schema)
        if found is not None:
            return found if len(found) <= MAX_LABELS else None
    if node.type == "integer" and node.bounded and node.high - node.low < FEW:
        whole = range(int(node.low), int(node.high) + 1)
        return (*whole, *([None] if node.nullable else []))
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bins(part: Bins, schema: Schema) -> Axis:
    column = schema.get(part.column)
    if not isinstance(part.column, str):
        raise QueryNotAllowed(f"bins of {part.column!r}: name a column or give an expression.")
    node = parse(_quoted(column.name) if column else part.column, schema)
    if node.type not in ("integer", "number", "date"):
        raise QueryNotAllowed(f"bins of {part.column!r}: want a number or a date.")
    try:
        edges = [_edge(e, node.type) for e in part.edges]
    except (TypeError, ValueError, OverflowError):
        raise QueryNotAllowed(f"bins of {part.column!r}: edges must be {node.type}s.") from None
    if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)):
        raise QueryNotAllowed(f"bins of {part.column!r}: give at least two rising edges.")
    shown = [
        datetime.date.fromisoformat(e) if node.type == "date" and isinstance(e, str) else e
        for e in part.edges
    ]
    labels = (*_bin_labels(shown, node.type), None)
    text = f"(bins {node.text} {edges})"
    return Axis("bins", labels, _is_public(node, schema), text, node, tuple(edges))


def _bin_labels(edges: list[Any], kind: str) -> list[tuple[Any, Any]]:
    """What is in each bin: whole numbers from-to, others from the edge up to the next."""
    pairs = list(itertools.pairwise(edges))
    if kind != "integer" or any(e != int(e) for e in edges):
        return pairs
    whole = [(int(a), int(b) - 1) for a, b in pairs]
    return [*whole[:-1], (whole[-1][0], int(edges[-1]))]


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
    for name, value in (("seed", part.seed), ("count", part.count)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise QueryNotAllowed(f"Blocks: {name}={value!r}, want an integer.")
    check_seed(part.seed)
    if not 1 <= part.count <= MAX_LABELS:
        raise QueryNotAllowed(f"Blocks: count={part.count}, want 1 to {MAX_LABELS:,}.")
    detail = (*hash_numbers(part.seed), part.count)
    text = f"(blocks {part.seed} {part.count})"
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


def _all_public(columns: tuple[str, ...], schema: Schema) -> bool:
    return all(schema[c].public for c in columns)


def grid_point(value: Any, what: str, most: int = 4) -> int:
    """A coordinate as an integer number of steps 2**-DENSE."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        raise QueryNotAllowed(f"{what}: {value!r} is not a number between -{most} and {most}.")
    steps: int = round(Fraction(value) * 2**DENSE)
    return steps


def _nearest(part: NearestCentre, schema: Schema) -> Axis:
    points = coordinates(part.columns, schema, "NearestCentre")
    columns = used_columns(points)
    if not isinstance(part.centres, tuple) or not 1 <= len(part.centres) <= 10_000:
        raise QueryNotAllowed("NearestCentre: want 1 to 10,000 centres.")
    if any(not isinstance(c, tuple) or len(c) != len(points) for c in part.centres):
        raise QueryNotAllowed(f"NearestCentre: each centre needs {len(points)} coordinates.")
    centres = tuple(tuple(grid_point(x, "NearestCentre") for x in c) for c in part.centres)
    labels = tuple(range(len(centres)))
    text = f"(nearest {[p.text for p in points]} {centres})"
    public = _all_public(columns, schema)
    return Axis("nearest", labels, public, text, None, centres, columns, points)


def _side(part: Side, schema: Schema) -> Axis:
    points = coordinates(part.columns, schema, "Side")
    columns = used_columns(points)
    if not isinstance(part.weights, tuple) or len(part.weights) != len(points):
        raise QueryNotAllowed(f"Side: want {len(points)} weights, one per column.")
    given = (*part.weights, part.bias)
    if not all(isinstance(x, int | float) and abs(x) <= HUGE for x in given):
        raise QueryNotAllowed("Side: weights and bias must be finite numbers.")
    numbers = [Fraction(x) for x in given]
    largest = max(abs(x) for x in numbers) or Fraction(1)
    grid = tuple(round(x / largest * 2**DENSE) for x in numbers)  # only the direction matters
    text = f"(side {[p.text for p in points]} {grid})"
    public = _all_public(columns, schema)
    return Axis("side", (False, True), public, text, None, grid, columns, points)


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
    text = f"(leaf {json.dumps(tree, sort_keys=True)})"
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
        here = _sure(call("eq", node, _literal(value)))
        _paths(branch, (*path, here), schema, out)
        rest.append(call("not", here))
    _paths(tree.get("other"), (*path, call("and", *rest)) if rest else path, schema, out)


def _sure(test: Node) -> Node:
    return call("coalesce", test, literal(False))


def _literal(value: Any) -> Node:
    if value is None or not isinstance(value, bool | int | float | str):
        raise QueryNotAllowed(f"Leaf: {value!r} is not a constant.")
    return literal(value)
