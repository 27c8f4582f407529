"""A table of noisy numbers -> what a page shows: big numbers, rows with intervals, charts."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sulq.answer import Answer, Table, with_error
from sulq.console.charts import Bar, bars

MOST_ROWS, MOST_NUMBERS = 300, 900  # of a table on a page; all of them are in the file
MOST_CHARTS = 3
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.])")  # what a spreadsheet would run


@dataclass(frozen=True, slots=True)
class Number:
    """A noisy number as people read it."""

    text: str  # 12,345 +/- 105
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer, laid out."""

    by: list[str]
    names: list[str]
    rows: list[tuple[list[str], list[Number]]]
    more: int  # rows that are in the file only
    charts: list[Markup]
    note: str
    price_micro: int
    remaining_micro: int

    @property
    def single(self) -> bool:
        """Is it one row of numbers, without groups?"""
        return not self.by and len(self.rows) == 1


def body_of(found: Table | Answer) -> dict[str, Any]:
    """An answer as plain JSON, in the shape of a table."""
    table = found if isinstance(found, Table) else found.table(names=_named(found.names))
    if isinstance(found, Answer) and found.cells == ("all",):  # one number has no groups
        kept = {n: c for n, c in table.columns.items() if n not in table.by}
        table = Table(kept, (), table.price, table.remaining, table.note)
    return {"columns": list(table.columns), "by": list(table.by)} | table.to_json()


def _named(names: Sequence[str]) -> list[str]:
    return ["count" if name == "1" else name for name in names]


def numbers_of(body: Mapping[str, Any]) -> list[str]:
    """The noisy columns."""
    return [n for n in body["columns"] if n not in body["by"] and f"{n}_low" in body["columns"]]


def shown(body: Mapping[str, Any], key: str = "chart") -> Shown:
    """What the page of an answer shows."""
    by, names, rows = list(body["by"]), numbers_of(body), body["rows"]
    most = min(MOST_ROWS, max(MOST_NUMBERS // max(len(names), 1), 1))
    out = [([_label(row[b]) for b in by], [_number(row, n) for n in names]) for row in rows[:most]]
    return Shown(
        by, names, out, max(len(rows) - most, 0), _charts(body, by, names, key),
        body.get("note", ""), body["price_micro"], body["remaining_micro"],
    )  # fmt: skip


def _number(row: Mapping[str, Any], name: str) -> Number:
    value, low, high = (_real(row[n]) for n in (name, f"{name}_low", f"{name}_high"))
    reach = (high - low) / 2
    text = with_error(value, reach).replace("+/-", "±")
    digits = text.split(" ")[0].partition(".")[2]
    ends = (f"{round(x, len(digits)) + 0.0:,.{len(digits)}f}" for x in (low, high))
    return Number(text, *ends)


def _real(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _charts(body: Mapping[str, Any], by: list[str], names: list[str], key: str) -> list[Markup]:
    """One picture for each number, where there is something to compare."""
    rows = body["rows"]
    if not by or len(rows) < 2:
        return []
    out = []
    for i, name in enumerate(names[:MOST_CHARTS]):
        found = [
            Bar(", ".join(_label(row[b]) for b in by),
                *(_real(row[n]) for n in (name, f"{name}_low", f"{name}_high")))
            for row in rows
        ]  # fmt: skip
        out.append(bars(f"{key}-{i}", f"{name} by {', '.join(by)}", found))
    return out


def csv_of(body: Mapping[str, Any]) -> bytes:
    """The whole table as a file for a spreadsheet, which must not run anything in it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in body["columns"]])
    for row in body["rows"]:
        writer.writerow([_cell(row[name]) for name in body["columns"]])
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value
