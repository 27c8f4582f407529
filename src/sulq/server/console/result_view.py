"""A table of noisy numbers -> what a page shows: big numbers, rows, matrices, charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sulq.drawing.bars import Bar, bars, left_out
from sulq.drawing.column_charts import (
    Stretches,
    columns,
    line_over,
    over_names,
    standing,
    stretches,
)
from sulq.drawing.picture import Picture
from sulq.drawing.svg import SHEET, Figure
from sulq.errors import NotFound
from sulq.preview import table_of
from sulq.values.answer import Answer
from sulq.values.number_text import NOISY, too_noisy, with_interval
from sulq.values.safe_text import csv_text
from sulq.values.table import Table

MAX_ROWS, MAX_NUMBERS = 300, 600  # of a table on a page; all of them are in the file
MAX_CELLS = 1200  # of matrices
MAX_CHARTS, MAX_BARS, MAX_COLUMNS = 3, 60, 130  # on a page; more are a line
MAX_POINTS = 400  # of a line
FEW = 20  # rows of a table beside others
WHOLE, HALF, NARROW = 1040.0, 505.0, 320.0  # units of a chart alone, beside another, on a phone
TALL = 20  # rows after which a table scrolls by itself
SHADES = 8
LEAST = 17.0  # units of a column with a name below it
OTHER = "(other)"
LARGE = 10_000.0  # an error of which three figures are read
NO_NAME = re.compile(r"[^a-z0-9]+")
CHARTS = {
    "matrix": "Table", "columns": "Columns", "bars": "Bars", "line": "Line", "table": "Table only"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """A noisy number as people read it."""

    text: str  # 12,345 ± 105
    low: str
    high: str

    @property
    def short(self) -> str:
        """The same, without the error of what the noise drowns."""
        return NOISY if self.text.startswith(NOISY) else self.text

    @property
    def parts(self) -> tuple[str, str]:
        """The number, and how sure it is."""
        first, _, rest = self.text.partition(" ")
        return ("", NOISY) if self.text.startswith(NOISY) else (first, rest)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure at the widths of a desk and of a phone."""

    wide: Figure
    narrow: Figure

    @classmethod
    def of(cls, wide: Figure, narrow: Figure) -> Chart:
        """Both, so that letters are as large on a phone."""
        return cls(wide, replace(narrow, key=f"{narrow.key}-narrow"))


@dataclass(frozen=True, slots=True)
class Matrix:
    """One number by two labels; cells are shaded from 0 to SHADES."""

    key: str
    name: str
    heads: list[str]
    rows: list[tuple[str, list[tuple[Number, int] | None]]]
    more: int  # rows that are in the file only

    @property
    def each(self) -> str:
        """What the noise may do to a number, where that is the same for all; "" otherwise."""
        found = {cell[0].parts[1] for _, cells in self.rows for cell in cells if cell is not None}
        return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer, laid out."""

    by: list[str]
    names: list[str]
    rows: list[tuple[list[str], list[Number]]]
    more: int  # rows that are in the file only
    charts: list[Chart]
    matrices: list[Matrix]
    kinds: list[str]  # of charts that it can have,
    kind: str  # and the one it has
    note: str
    price_micro: int
    remaining_micro: int
    small: bool = False  # does it stand beside others?

    @property
    def single(self) -> bool:
        """Is it one row of numbers, without groups?"""
        return not self.by and len(self.rows) == 1

    @property
    def tall(self) -> bool:
        """Does its table scroll by itself?"""
        return len(self.rows) > TALL

    @property
    def weight(self) -> int:
        """About how many bytes it takes on a page."""
        drawn = sum(len(f.__html__()) for c in self.charts for f in (c.wide, c.narrow))
        cells = sum(len(cells) for m in self.matrices for _, cells in m.rows)
        return drawn + 70 * cells + 130 * len(self.rows) * (len(self.names) + 1)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Kinds of charts and what they are called: beside a table of two labels, a list of all."""
        names = CHARTS | ({"table": "List"} if "matrix" in self.kinds else {})
        return [(kind, names[kind]) for kind in self.kinds]

    @property
    def explained(self) -> list[str]:
        """A sentence for each thing in it that looks odd to whoever sees it first."""
        said = {OTHER: "(other): missing, or a value that was not declared."}
        found = [words for label, words in said.items() if label in self._labels]
        return found + ["Noise can take a small number below 0."] * self._below

    @property
    def _labels(self) -> set[str]:
        across = {head for m in self.matrices for head in m.heads}
        down = {label for m in self.matrices for label, _ in m.rows}
        return across | down | {label for labels, _ in self.rows for label in labels}

    @property
    def _below(self) -> bool:
        """Is a count among these numbers that is below 0?"""
        counts = [i for i, name in enumerate(self.names) if name.startswith("count")]
        found = [numbers[i] for _, numbers in self.rows for i in counts]
        cells = [m.rows for m in self.matrices if m.name.startswith("count")]
        found += [cell[0] for rows in cells for _, line in rows for cell in line if cell]
        return any(number.text.startswith("-") for number in found)


def body_of(found: Table | Answer) -> dict[str, Any]:
    """An answer as plain JSON, in the shape of a table."""
    table = table_of(found)
    if isinstance(found, Answer) and found.cells == ("all",):  # one number has no groups
        kept = {n: c for n, c in table.columns.items() if n not in table.by}
        table = replace(table, columns=kept, by=())
    return {"columns": list(table.columns), "by": list(table.by)} | table.to_json()


def numbers_of(body: Mapping[str, Any]) -> list[str]:
    """The noisy columns."""
    return [n for n in body["columns"] if n not in body["by"] and f"{n}_low" in body["columns"]]


def shown(
    body: Mapping[str, Any], key: str = "chart", kind: str = "", *, small: bool = False
) -> Shown:
    """What the page of an answer shows; `small` where answers stand beside each other."""
    by, names, rows = list(body["by"]), numbers_of(body), body["rows"]
    kinds = kinds_of(body)
    kind = kind if kind in kinds else (kinds or ["table"])[0]
    most = min(MAX_ROWS, max(MAX_NUMBERS // max(len(names), 1), 1))
    if kind == "matrix":
        most = 0
    elif small:
        most = min(most, FEW)
    out = [
        ([_label(row[b]) for b in by], [_number(body, i, n) for n in names])
        for i, row in enumerate(rows[:most])
    ]  # fmt: skip
    width = HALF if small or len(names) > 1 else WHOLE
    drawn = 0 if kind in ("matrix", "table") else min(len(names), MAX_CHARTS)
    if len(rows) > MAX_BARS:
        drawn = min(drawn, 2 if kind == "bars" else 1)
    charts = [
        Chart.of(*(_figure(body, i, kind, f"{key}-{i}", w) for w in (width, NARROW)))
        for i in range(drawn)
    ]
    matrices = [
        _matrix(body, f"{key}-{i}", name, MAX_CELLS // len(names))
        for i, name in enumerate(names if kind == "matrix" else ())
    ]
    return Shown(
        by, names, out, max(len(rows) - most, 0), charts, matrices, kinds, kind,
        body.get("note", ""), body["price_micro"], body["remaining_micro"], small,
    )  # fmt: skip


# ---- numbers ----------------------------------------------------------------------------------


def _is_vague(body: Mapping[str, Any], row: int, name: str) -> bool:
    """Is this number too noisy to say anything?"""
    marks = body.get("too_noisy", {}).get(name)
    return bool(marks and marks[row])


def _number(body: Mapping[str, Any], i: int, name: str) -> Number:
    row = body["rows"][i]
    value, low, high = _rounded(*(_real(row[n]) for n in (name, f"{name}_low", f"{name}_high")))
    text = with_interval(value, low, high).replace("+/-", "±")
    if _is_vague(body, i, name):
        return Number(too_noisy(low, high).replace("+/-", "±"), "", "")
    digits = len(text.split(" ")[0].partition(".")[2])
    if " ± " in text:  # so that the ends are as far away as is said
        value, reach = round(value, digits), round((high - low) / 2, digits)
        low, high = value - reach, value + reach
    return Number(text, *(f"{round(x, digits) + 0.0:,.{digits}f}" for x in (low, high)))


def _rounded(value: float, low: float, high: float) -> tuple[float, float, float]:
    """Large numbers to the third figure of their error; the files have every digit."""
    reach = (high - low) / 2
    if not LARGE <= reach < math.inf:
        return value, low, high
    digits = 2 - math.floor(math.log10(reach))
    middle = round(value, digits)
    if abs((low + high) / 2 - value) <= 0.01 * reach:
        reach = round(reach, digits)
        return middle, middle - reach, middle + reach
    return middle, round(low, digits), round(high, digits)


def _real(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# ---- a table of two labels --------------------------------------------------------------------


def _matrix(body: Mapping[str, Any], key: str, name: str, most: int) -> Matrix:
    """One line for each first label, one column for each second."""
    down, across = body["by"]
    heads = list(dict.fromkeys(_label(row[across]) for row in body["rows"]))
    lines: dict[str, list[tuple[Number, int] | None]] = {}
    ends = [v for row in body["rows"] if (v := _real(row[name])) == v]
    for i, row in enumerate(body["rows"]):
        line = lines.setdefault(_label(row[down]), [None] * len(heads))
        shade = 0 if _is_vague(body, i, name) else _shade(_real(row[name]), ends)
        line[heads.index(_label(row[across]))] = (_number(body, i, name), shade)
    kept = max(most // max(len(heads), 1), 1)
    return Matrix(key, name, heads, list(lines.items())[:kept], max(len(lines) - kept, 0))


def _shade(value: float, ends: Sequence[float]) -> int:
    """How dark a cell is, from 0; numbers that are all alike are told apart from their least."""
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    base = low if low > high / 2 else 0.0
    if not value > base:
        return 0
    return round(SHADES * (value - base) / (high - base))


# ---- charts -----------------------------------------------------------------------------------


def kinds_of(body: Mapping[str, Any]) -> list[str]:
    """The charts that an answer can have, the best first."""
    by, rows = body["by"], body["rows"]
    if not by or len(rows) < 2 or not numbers_of(body):
        return []
    if len(by) == 2:
        return ["matrix", "bars", "table"]
    if len(by) == 1 and stretches([row[by[0]] for row in rows]) is not None:
        some = ["columns"] if len(rows) <= MAX_COLUMNS else []
        return [*some, "line", "bars", "table"]
    return ["bars", "columns", "table"] if len(rows) <= MAX_BARS else ["bars", "table"]


def _figure(body: Mapping[str, Any], number: int, kind: str, key: str, width: float) -> Figure:
    """One number of an answer as one kind of chart."""
    by, name = list(body["by"]), numbers_of(body)[number]
    found, vague = _bars(body, name)
    title = f"{name} by {', '.join(by)}"
    lines = "The band is the 95% interval" if kind == "line" else "Lines are 95% intervals"
    caption = " ".join(filter(None, (f"{lines} of the noise.", left_out(vague))))
    if kind not in ("columns", "line"):
        return bars(key, title, found, width=width, caption=caption)
    axis = stretches([bar.label for bar in found])
    if axis is None and len(found) * LEAST > width:
        return bars(key, title, found, width=width, caption=caption)
    draw = line_over if kind == "line" else columns
    placed, marks = _placed(found, axis, width)
    if len(placed) > MAX_POINTS:
        step = math.ceil(len(placed) / MAX_POINTS)
        placed, caption = placed[::step], f"{caption} One of {step} is drawn."
    return draw(
        key, title, placed, marks=marks, across=by[0], up=name, width=width, caption=caption,
        height=min(0.62 * width, 300.0),
    )  # fmt: skip


def _placed(found: list[Bar], axis: Stretches | None, width: float) -> tuple[Any, Any]:
    if axis is None:
        return over_names(found)
    return standing(found, axis), axis.marks(int(width / 120))


def _bars(body: Mapping[str, Any], name: str) -> tuple[list[Bar], list[Bar]]:
    """Each number as a bar, and those that the noise drowns."""
    by = list(body["by"])
    first, second = (by[:1], by[1:]) if len(by) == 2 else (by, [])
    found: list[Bar] = []
    vague: list[Bar] = []
    for i, row in enumerate(body["rows"]):
        bar = Bar(
            ", ".join(_label(row[b]) for b in first), _real(row[name]), _real(row[f"{name}_low"]),
            _real(row[f"{name}_high"]), "".join(_label(row[b]) for b in second),
            said=_number(body, i, name).text,
        )  # fmt: skip
        (vague if _is_vague(body, i, name) else found).append(bar)
    return found, vague


def picture_of(body: Mapping[str, Any], kind: str, title: str) -> Picture:
    """The charts of an answer as one drawing for a file; a matrix is drawn as bars."""
    kinds = [k for k in kinds_of(body) if k not in ("matrix", "table")]
    if not kinds:
        raise NotFound("this answer has no chart: it is one number.")
    kind = kind if kind in kinds else kinds[0]
    found = [
        _figure(body, i, kind, f"chart-{i}", 1.4 * SHEET) for i in range(len(numbers_of(body)))
    ]
    return Picture(title, found)


# ---- files ------------------------------------------------------------------------------------


def file_name(dataset: str, words: str, ending: str) -> str:
    """What a file is called: after its dataset and its question."""
    plain = NO_NAME.sub("-", words.lower().removeprefix("select ")).strip("-")
    return f"{dataset}-{plain[:80].strip('-')}.{ending}" if plain else f"{dataset}.{ending}"


def csv_of(body: Mapping[str, Any]) -> bytes:
    """The whole table as a file for a spreadsheet, which must not run anything in it."""
    notes = body.get("notes", [])
    lines = [[*body["columns"], *["note"][: len(notes)]]]
    lines += [
        [*(row[name] for name in body["columns"]), *notes[i : i + 1]]
        for i, row in enumerate(body["rows"])
    ]
    return csv_text(lines, "\r\n").encode()
