"""Draws why tables asked together are cheaper, for howto/together.md.

    python docs/make_together.py            a few seconds; no database is opened

Everything is computed from the closed forms of docs/proofs/residuals.md: what many tables cost at
the error they would have alone, and the error they have at the price of one query. The table on the
page is written here too.
"""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import sulq
from sulq.drawing.bars import Bar, bars
from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.svg import SHEET
from sulq.privacy.residuals import Part, diameter2, radius2
from sulq.strategies.residual_planner import Workload, best_weights, rounded

PAGE = Path(__file__).parent / "howto" / "together.md"
BEGIN, END = "<!-- figures: docs/make_together.py -->", "<!-- end of figures -->"
DOMAINS = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
SIZES = (10, 2)  # values of each column, where their number grows
MOST = 14
ALONE, TOGETHER = "each table by itself", "together"


def price(sizes: tuple[int, ...], width: int, guarantee: str) -> float:
    """What all tables of `width` columns cost together, at the mean error of one alone."""
    tables = tuple(itertools.combinations(range(len(sizes)), width))
    workload = Workload(sizes, tables, (1.0,) * len(tables))
    weights = best_weights(workload, guarantee)
    parts = [Part(part, rounded(weight) ** 2) for part, weight in weights.items()]
    return float((radius2 if guarantee == "dp" else diameter2)(parts, sizes))


def alone(columns: int, width: int, guarantee: str) -> float:
    """What they cost one by one."""
    return math.comb(columns, width) * (1.0 if guarantee == "dp" else 2.0)


def growth() -> sulq.Picture:
    """The price of all pairs, as columns are added."""
    counts = range(2, MOST + 1)
    apart = [(float(k), alone(k, 2, "beliefs")) for k in counts]
    drawn_lines, ends = [Line(apart, name=ALONE, dots=True)], []
    for size in SIZES:
        joint = [(float(k), price((size,) * k, 2, "beliefs")) for k in counts]
        drawn_lines.append(Line(joint, name=f"together, {size} values each", dots=True))
        ends.append(f"{joint[-1][1]:.0f} for columns of {size} values")
    text = (
        f"Price of all pairs of k columns at the same mean error, beliefs. At {MOST} columns "
        f"{apart[-1][1]:.0f} queries one by one; together {', '.join(ends)}."
    )
    drawn = lines(
        "growth", "Price of all pairs, in queries", text, drawn_lines,
        Axis(2, MOST, marks=[(float(k), str(k)) for k in counts if k % 2 == 0], name="columns"),
        Axis(0, 200, marks=[(float(x), str(x)) for x in (0, 50, 100, 150, 200)]),
        width=SHEET, height=320.0, caption="At the mean error of one table by itself; beliefs.",
    )  # fmt: skip
    return sulq.Picture(text, [drawn])


def errors() -> tuple[sulq.Picture, str]:
    """The error of all tables at the price of one query, and the same as a table."""
    found, rows = [], []
    for guarantee in ("dp", "beliefs"):
        std = sulq.Promise(1.0, 1e-6, 1, guarantee=guarantee).std
        for width, what in ((1, "columns"), (2, "pairs"), (3, "triples")):
            apart = std * math.sqrt(alone(len(DOMAINS), width, guarantee))
            joint = std * math.sqrt(price(DOMAINS, width, guarantee))
            name = f"all {what}, {guarantee}"
            found += [Bar(name, x, x, x, way) for x, way in ((apart, ALONE), (joint, TOGETHER))]
            rows.append(f"| {name} | {apart:.1f} | {joint:.1f} | {apart**2 / joint**2:.2f} |")
    text = "Root mean square error of a cell when one query is spent on all tables of 14 columns."
    caption = "Epsilon 1, delta 1e-6, one query in all; 14 columns of 2 to 100 values."
    drawn = bars("errors", "Error of a cell, in rows", found, width=SHEET, caption=caption)
    head = f"| tables of 14 columns | {ALONE} | {TOGETHER} | cheaper, times |\n|---|---|---|---|"
    return sulq.Picture(text, [drawn]), "\n".join([head, *rows])


def main() -> None:
    """Compute, draw, write."""
    growth().save(PAGE.with_name("together-price.svg"))
    picture, table = errors()
    picture.save(PAGE.with_name("together-error.svg"))
    text = PAGE.read_text(encoding="utf-8")
    block = f"{BEGIN}\n\n{table}\n\n{END}"
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    PAGE.write_text(marked.sub(lambda _: block, text), encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
