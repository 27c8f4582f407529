"""A decision tree in words, and drawn with a bar of class shares per leaf: from left to right, or
where there is no room for that as lines below each other, each as far in as it is deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, pairwise

from sulq.drawing.style import series
from sulq.drawing.svg import Figure, Svg, box, label, legend, line, shortened

LEVEL, LEAF, SHARES, WORDS = 130.0, 40.0, 90.0, 180.0  # units: a level, a leaf, its bar, its words
BRANCH, NAME = 17, 22  # letters that there is room for
STEP, ROW, SMALL = 18.0, 38.0, 74.0  # units of a tree in lines: a level, a line, a bar
LETTER = 7.0  # units, at most


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it is shown."""

    branch: str  # how one comes here; empty for the root
    name: str  # the column that splits it, or the class that is predicted
    rows: str = ""  # what the class rests on; empty for a node that is split
    shares: tuple[float, ...] = ()  # of the classes, in a leaf
    below: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Every node, each before those below it."""
        yield self
        for child in self.below:
            yield from child.walk()

    @property
    def leaves(self) -> int:
        """How many ends there are."""
        return sum(not node.below for node in self.walk())

    @property
    def text(self) -> str:
        """The tree in words, a line per node."""
        return "\n".join(_lines(self, "", ""))


def _lines(node: Node, first: str, rest: str) -> Iterator[str]:
    way, rows = f"{node.branch}: " * bool(node.branch), f" ({node.rows})" * bool(node.rows)
    yield f"{first}{way}{node.name}{rows}"
    for child in node.below[:-1]:
        yield from _lines(child, f"{rest}|-- ", f"{rest}|   ")
    for child in node.below[-1:]:
        yield from _lines(child, f"{rest}`-- ", f"{rest}    ")


def tree(
    key: str, root: Node, classes: Sequence[str], words: str, room: float | None = None
) -> Figure:
    """The tree drawn; in lines, if there is room for so many units only."""
    splits = sum(1 for node in root.walk() if node.below)
    title = f"A tree with {splits} splits and {root.leaves} leaves"
    width = LEVEL * _depth(root) + SHARES + WORDS
    in_lines = room is not None and room < width
    width = room if room is not None and in_lines else width
    marks, top = legend(list(classes), [series(i) for i in range(len(classes))], 0.0, width)
    caption = f"{title}. Bars show the share of each class in a leaf."
    if in_lines:
        lines = count()
        _draw_line(root, 0, lines, top, width, marks)
        height = top + ROW * next(lines) + 4
    else:
        _draw(root, 0, count(), top, marks)
        height = top + LEAF * root.leaves + 8
    return Figure(key, title, words, width, height, tuple(marks), caption, not in_lines)


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.below), default=0)


def _draw(node: Node, level: int, line_of: Iterator[int], top: float, marks: list[Svg]) -> float:
    """Leaves one below the other; a split in the middle of what is below it. Gives its place."""
    x = LEVEL * level
    if node.below:
        ends = [_draw(child, level + 1, line_of, top, marks) for child in node.below]
        y = (ends[0] + ends[-1]) / 2
        marks.append(label(shortened(node.name, BRANCH), x + 4, y + 15, kind="strong-text"))
        marks.append(line(f"M{x + LEVEL:.6g} {ends[0]:.6g}V{ends[-1]:.6g}", "axis"))
    else:
        y = top + LEAF * (next(line_of) + 0.5)
        marks += _leaf(node, x + LEVEL, y)
    marks.append(line(f"M{x:.6g} {y:.6g}h{LEVEL:g}", "axis"))
    if node.branch:
        marks.append(label(shortened(node.branch, BRANCH), x + 4, y - 5, kind="soft-text"))
    return y


def _draw_line(
    node: Node, level: int, line_of: Iterator[int], top: float, width: float, marks: list[Svg]
) -> float:
    """A node and those below it, each on a line of its own. Gives its place."""
    x, y = STEP * level, top + ROW * (next(line_of) + 0.5)
    end = width - SMALL - 8 if node.shares else width
    room = int((end - x) / LETTER)
    if node.branch:
        marks.append(label(shortened(node.branch, room), x, y - 3, kind="soft-text"))
    kind = "strong-text" if node.below else ""
    said = f"{node.name}, {node.rows}".replace("+/-", "±") if node.rows else node.name
    if len(said) > room:  # a number keeps its figures, and its error is in the words
        said = said.partition(" ±")[0]
    marks.append(label(shortened(said, room), x, y + 12, kind=kind))
    marks += _bar(node, width - SMALL, y - 2, SMALL)
    last = y
    for child in node.below:
        last = _draw_line(child, level + 1, line_of, top, width, marks)
        marks.append(line(f"M{x + 4:.6g} {last:.6g}h{STEP - 8:g}", "axis"))
    if node.below:
        marks.append(line(f"M{x + 4:.6g} {y + 17:.6g}V{last:.6g}", "axis"))
    return y


def _bar(node: Node, x: float, y: float, width: float) -> Iterator[Svg]:
    """The shares of the classes in a leaf."""
    edges = [x + width * end for end in accumulate(node.shares, initial=0.0)]
    for i, (left, right) in enumerate(pairwise(edges)):
        yield box(series(i), left, y - 9, max(right - left, 0.0), 18.0)


def _leaf(node: Node, x: float, y: float) -> Iterator[Svg]:
    yield from _bar(node, x, y, SHARES)
    yield label(shortened(node.name, NAME), x + SHARES + 6, y - 2)
    yield label(node.rows.replace("+/-", "±"), x + SHARES + 6, y + 13, kind="soft-text")
