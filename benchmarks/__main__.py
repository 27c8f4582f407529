"""Run the benchmarks, print ratios, and with --write keep them in benchmarks/RESULTS.md."""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

from benchmarks import corridor, statements
from benchmarks.measure import Line

RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> int:
    warnings.simplefilter("ignore")
    Path(".bench").mkdir(exist_ok=True)
    found: list[Line] = []
    for line in itertools.chain(corridor.lines(), statements.lines()):
        found.append(line)
        print(row(line), flush=True)
    if "--write" in sys.argv:
        RESULTS.write_text(page(found))
    return 0 if all(line.ok for line in found) else 1


def row(line: Line) -> str:
    mark = "ok  " if line.ok else "OVER"
    note = f" ({line.note})" if line.note else ""
    return (
        f"{mark} {line.ratio:6.2f} of {line.against} (at most {line.most:g}): {line.what}, "
        f"{line.amounts[0]} against {line.amounts[1]}{note}"
    )


def page(found: list[Line]) -> str:
    libraries = ", ".join(f"{n} {version(n)}" for n in ("duckdb", "polars", "opendp", "numpy"))
    head = [
        "# Last figures of `make bench`",
        "",
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {libraries}. Ratios are medians measured in one run, the "
        "two ways in turn.",
        "",
        "| what | against | ratio | at most | ours | theirs | |",
        "|---|---|---|---|---|---|---|",
    ]
    body = [
        f"| {x.what} | {x.against} | {x.ratio:.2f} | {x.most:g} | {x.amounts[0]} "
        f"| {x.amounts[1]} | {x.note} |"
        for x in found
    ]
    return "\n".join([*head, *body, ""])


if __name__ == "__main__":
    sys.exit(main())
