"""A decision tree in words, and drawn from left to right with a bar of class shares per leaf.

Everything shown was paid for already.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sulq

from .cuts import OTHER, Cut

INK, GREY = "#333333", "#8a8a8a"
COLUMN, LINE = 150, 30  # pixels from a level to the next, and from a leaf to the next
BAR, WORDS = 110, 220  # pixels of a bar of class shares, and of the words beside it
LONG = 20  # letters of a name that there is room for
TOO_FEW = "too few rows"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """One node as it is shown."""

    number: int
    level: int
    branch: str  # how one comes here; empty for the root
    name: str  # the column that splits it, or the class that is predicted
    rows: str  # what the class rests on; empty for a node that is split
    below: tuple[Seen, ...]

    def walk(self) -> Iterator[Seen]:
        """Every node, each before those below it."""
        yield self
        for child in self.below:
            yield from child.walk()


def seen(model: Any, number: int = 0, level: int = 0, branch: str = "") -> Seen:
    """A fitted tree as it is shown."""
    column = int(model.node_columns_[number])
    if column < 0:
        name, rows = _leaf(model, number)
        return Seen(number, level, branch, name, rows, ())
    cut = Cut(*model.cuts_[column])
    children = model.node_children_[number, : cut.size].tolist()
    below = tuple(
        seen(model, child, level + 1, label)
        for child, label in zip(children, cut.labels, strict=True)
    )
    # Mostly nobody is there, and whoever is gets what the split node says.
    shown = tuple(n for n in below if (n.branch, n.rows) != (OTHER, TOO_FEW))
    return Seen(number, level, branch, cut.column, "", shown)


def _leaf(model: Any, number: int) -> tuple[str, str]:
    """The class predicted, and the rows it was learned from, with their 95% error."""
    shares, counts = model.node_shares_[number], model.node_counts_[number]
    error = 1.96 * float(model.node_stds_[number]) * math.sqrt(len(counts))
    name = str(model.classes_[shares.argmax()])
    if counts.sum() <= error:
        return name, TOO_FEW
    return name, f"{shares.max():.0%} of {counts.sum():,.0f} +/- {error:,.0f}"


def text(root: Seen) -> str:
    """The tree in words, a line per node."""
    return "\n".join(_lines(root, "", ""))


def _lines(node: Seen, first: str, rest: str) -> Iterator[str]:
    way, rows = f"{node.branch}: " * bool(node.branch), f" ({node.rows})" * bool(node.rows)
    yield f"{first}{way}{node.name}{rows}"
    for child in node.below[:-1]:
        yield from _lines(child, f"{rest}|-- ", f"{rest}|   ")
    for child in node.below[-1:]:
        yield from _lines(child, f"{rest}`-- ", f"{rest}    ")


# --- drawn ---------------------------------------------------------------------------------


def picture(model: Any) -> sulq.Picture:
    """The tree drawn, and in words."""
    root = seen(model)

    def draw(alt: Any) -> Any:
        return _Drawing(alt, model, root).chart()

    return sulq.Picture(text(root), draw)


class _Drawing:
    """Marks at pixels: a line per node, the branch above it, the column below it."""

    def __init__(self, alt: Any, model: Any, root: Seen) -> None:
        self.alt = alt
        self.model = model
        self.nodes = list(root.walk())
        self.leaves = [node for node in self.nodes if not node.below]
        self.place = _places(root, itertools.count())
        self.width = (max(n.level for n in self.nodes) + 1) * COLUMN + BAR + WORDS

    def chart(self) -> Any:
        layers = [*self.lines(), *self.names(), *self.bars()]
        splits = len(self.nodes) - len(self.leaves)
        title = f"{type(self.model).__name__}: {splits} splits, {len(self.leaves)} leaves"
        return self.alt.layer(*layers).properties(
            title=title, width=self.width, height=len(self.leaves) * LINE
        )

    def marks(self, rows: list[Row]) -> Any:
        """A chart whose x is in pixels and whose y is in lines."""
        alt = self.alt
        across = alt.Scale(domain=[0, self.width], nice=False)
        down = alt.Scale(domain=[len(self.leaves) - 0.5, -0.5], nice=False)
        return alt.Chart(alt.Data(values=rows)).encode(
            x=alt.X("x:Q", scale=across, axis=None), y=alt.Y("y:Q", scale=down, axis=None)
        )

    def lines(self) -> Iterator[Any]:
        """A line along every node, and one down from the first to the last below it."""
        along = [{"x": x, "x2": x + COLUMN, "y": y} for _, x, y in self.placed(self.nodes)]
        down = [
            {"x": x + COLUMN, "y": self.place[n.below[0].number],
             "y2": self.place[n.below[-1].number]}
            for n, x, _ in self.placed(self.nodes) if n.below
        ]  # fmt: skip
        yield self.marks(along).mark_rule(color=GREY).encode(x2="x2:Q")
        yield self.marks(down).mark_rule(color=GREY).encode(y2="y2:Q")

    def names(self) -> Iterator[Any]:
        """The branch that leads to a node, the column that splits it."""
        above = [{"x": x, "y": y, "t": _short(n.branch)} for n, x, y in self.placed(self.nodes)]
        below = [
            {"x": x, "y": y, "t": _short(n.name)} for n, x, y in self.placed(self.nodes) if n.below
        ]
        written = {"align": "left", "dx": 4, "fontSize": 12}
        yield self.marks(above).mark_text(**written, dy=-7, color=GREY).encode(text="t:N")
        yield (self.marks(below).mark_text(**written, dy=9, color=INK, fontWeight="bold")).encode(
            text="t:N"
        )

    def bars(self) -> Iterator[Any]:
        """Each leaf's class shares, and what they rest on."""
        classes = [str(c) for c in self.model.classes_]
        rows, words = [], []
        for node, x, y in self.placed(self.leaves):
            start = x + COLUMN
            shares = self.model.node_shares_[node.number].tolist()
            ends = [start + BAR * end for end in itertools.accumulate(shares, initial=0.0)]
            rows += [
                {"x": a, "x2": b, "y": y - 0.28, "y2": y + 0.28, "class": c, "share": s}
                for (a, b), c, s in zip(itertools.pairwise(ends), classes, shares, strict=True)
            ]
            words.append({"x": start + BAR, "y": y, "t": f"{_short(node.name)}, {node.rows}"})
        colour = self.alt.Color("class:N", sort=classes, scale=self.alt.Scale(domain=classes))
        yield self.marks(rows).mark_rect().encode(x2="x2:Q", y2="y2:Q", color=colour)
        yield (
            self.marks(words)
            .mark_text(align="left", dx=6, fontSize=12, color=INK)
            .encode(text="t:N")
        )

    def placed(self, nodes: list[Seen]) -> Iterator[tuple[Seen, int, float]]:
        """Nodes with the pixel they begin at and their line."""
        return ((n, n.level * COLUMN, self.place[n.number]) for n in nodes)


def _places(node: Seen, line: Iterator[int]) -> dict[int, float]:
    """Leaves one below the other; a split in the middle of what is below it."""
    if not node.below:
        return {node.number: float(next(line))}
    found: dict[int, float] = {}
    for child in node.below:
        found |= _places(child, line)
    found[node.number] = (found[node.below[0].number] + found[node.below[-1].number]) / 2
    return found


def _short(name: str) -> str:
    return name if len(name) <= LONG else name[: LONG - 3] + "..."
