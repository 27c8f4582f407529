"""Draws how exact Delta is from blocks and from random halves, for howto/across-databases.md.

    python docs/make_vertical.py            about a minute; no database is opened

A million people, P[a] = 0.3, P[b] = 0.4, Delta = 0.05, and one promise (beliefs, epsilon = 1, delta
= 1e-6) spent in three ways: on one vector of B block sums a side; on m counts over random halves
a side, all of them used by regression; and on the paper's Tests of the heavy ones among the m.
Lines are formulas, points are simulations. The table on the page is written here too.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.svg import SHEET
from sulq.vertical.subsets import Heavy, heavy_subsets

PAGE = Path(__file__).parent / "howto" / "across-databases.md"
FIGURE = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- simulation: docs/make_vertical.py -->", "<!-- end of simulation -->"
N, P_A, P_B, DELTA = 1_000_000, 0.3, 0.4, 0.05
RUNS = 100
BLOCKS, HALVES, TESTS = "B blocks, one query", "m random halves, regression", "m halves, the Test"

COV = P_A * DELTA
SPREADS = (P_A * (1 - P_A), P_B * (1 - P_B))
R = sulq.Promise(1.0, 1e-6, 1).variance  # of one answer, if it is the only one


def blocks_error(count: int) -> float:
    """By the formula of docs/proofs/blocks.md."""
    a, b = (s + R * count / N for s in SPREADS)
    return math.sqrt((a * b + COV**2) / count) / P_A


def halves_error(count: int) -> float:
    """The same for m halves: each has a quarter of the variance, and m times the noise."""
    a, b = (s + 4 * count * R / N for s in SPREADS)
    return math.sqrt((a * b + COV**2) / count) / P_A


def table_of_people() -> Any:
    """How many people have both, a only, b only, neither."""
    both = P_A * (P_B + DELTA)
    return np.round(np.array([both, P_A - both, P_B - both, 1 - P_A - P_B + both]) * N).astype(int)


def simulated_blocks(count: int, rng: Any) -> float:
    """One estimate of Delta from B noisy block sums a side."""
    kinds = table_of_people()
    fell = np.stack([rng.multinomial(k, np.full(count, 1 / count)) for k in kinds])
    sizes = fell.sum(axis=0)
    sums = [fell[0] + fell[1], fell[0] + fell[2]]
    x, y = (s + rng.normal(size=count) * math.sqrt(R) for s in sums)
    x, y = x - sizes * x.sum() / N, y - sizes * y.sum() / N
    return float(x @ y / N * count / (count - 1) / P_A)


def noisy_halves(count: int, rng: Any) -> tuple[Any, Any]:
    """Counts of a and b over m random halves, under the promise for m queries."""
    fell = rng.multivariate_hypergeometric(table_of_people(), N // 2, count, method="marginals")
    sums = (fell[:, 0] + fell[:, 1], fell[:, 0] + fell[:, 2])
    a, b = (s + rng.normal(size=count) * math.sqrt(count * R) for s in sums)
    return a, b


def simulated_halves(count: int, rng: Any) -> float:
    """Regression on all of them, with the variance of the noise taken out."""
    a, b = noisy_halves(count, rng)
    x, y = a - N / 2 * P_A, b - N / 2 * P_B
    return float(x @ y / max(x @ x - count * count * R, 1.0) * (1 - P_A))


def simulated_tests(count: int, rng: Any) -> float:
    """The paper: Tests of the heavy ones, binary search."""
    a, b = noisy_halves(count, rng)
    sizes = np.full(count, N / 2)
    heavy, bias = heavy_subsets(a, sizes, P_A, N, count * R)
    return float(Heavy(sizes[heavy], bias, b[heavy], P_A, P_B).delta)


WAYS = {BLOCKS: simulated_blocks, HALVES: simulated_halves, TESTS: simulated_tests}
AT = {
    BLOCKS: (30, 100, 300, 1000, 3000, 8000, 20_000, 60_000),
    HALVES: (30, 100, 300, 1000, 3000, 8000),
    TESTS: (100, 300, 1000, 3000, 8000),
}


def points() -> list[dict[str, Any]]:
    """Root mean square errors of RUNS simulations each."""
    rng, out = np.random.default_rng(1), []
    for way, simulate in WAYS.items():
        for count in AT[way]:
            errors = [simulate(count, rng) - DELTA for _ in range(RUNS)]
            rms = float(np.sqrt(np.mean(np.square(errors))))
            out.append({"way": way, "count": count, "error": rms})
    return out


def formulas() -> list[dict[str, Any]]:
    """The formulas, to be drawn as lines."""
    counts = np.unique(np.geomspace(30, 60_000, 60).astype(int)).tolist()
    return [
        {"way": way, "count": c, "error": error(c)}
        for way, error in ((BLOCKS, blocks_error), (HALVES, halves_error))
        for c in counts
    ]


def figure(found: list[dict[str, Any]]) -> sulq.Picture:
    """Both as one picture."""

    best = min(p["error"] for p in found if p["way"] == BLOCKS)
    text = (
        f"Error of Delta against the number of blocks or halves, {N:,} people. Blocks are best at "
        f"about {round(N * math.sqrt(math.prod(SPREADS)) / R, -2):,.0f} with {best:.3f}; halves at "
        "a quarter as many, with twice the error; the paper's Test lies above."
    )
    theory = [Line(errors_of(formulas(), way), name=way) for way in (BLOCKS, HALVES)]
    simulated = [Line(errors_of(found, way), name=way, drawn=False, dots=True) for way in WAYS]
    drawn = lines(
        "error", "Error of Delta (rms)", text, [*theory, *simulated],
        Axis(30, 60_000, log=True, name="number of blocks, or of halves"),
        Axis(0.01, 0.3, log=True, marks=[(x, f"{x:g}") for x in (0.01, 0.02, 0.05, 0.1, 0.2)]),
        width=SHEET, height=380.0, caption="Lines are the formulas, points simulations.",
    )  # fmt: skip
    return sulq.Picture(text, [drawn])


def errors_of(found: list[dict[str, Any]], way: str) -> list[tuple[float, float]]:
    """The errors of one way, by how many."""
    return [(float(p["count"]), p["error"]) for p in found if p["way"] == way]


def table(found: list[dict[str, Any]]) -> str:
    """The simulations for the page."""
    at = {(p["way"], p["count"]): f"{p['error']:.3f}" for p in found}
    counts = AT[HALVES]
    rows = [
        " | ".join([f"| {way}", *(at.get((way, c), "") for c in counts)]) + " |" for way in WAYS
    ]
    head = " | ".join(f"{c:,}" for c in counts)
    return "\n".join([f"| how many | {head} |", f"|---{'|---' * len(counts)}|", *rows])


def main() -> None:
    """Simulate, draw, write."""
    found = points()
    figure(found).save(FIGURE)
    text = PAGE.read_text(encoding="utf-8")
    block = f"{BEGIN}\n\n{table(found)}\n\n{END}"
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    PAGE.write_text(marked.sub(lambda _: block, text), encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
