"""python -m benchmarks [section ...] [--write]: run, print ratios, keep them in RESULTS.md.

Without names every section runs. --write replaces the tables of the sections that ran.
"""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import re
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.measure import Line

RESULTS = Path(__file__).with_name("RESULTS.md")
SECTIONS = {
    "corridor": "Counts and sums",
    "statements": "SQL",
    "learning": "PCA, k-means, the perceptron",
    "learn_trees": "ID3",
    "vertical": "Across databases",
    "audit": "The auditor",
    "postgres": "PostgreSQL",
    "spark": "Spark",
    "scale": "Scale",
    "server": "The server",
    "console": "The console",
}
LIBRARIES = ("duckdb", "polars", "pyspark", "opendp", "numpy", "diffprivlib")
HEAD = """# Last figures of `make bench`

Ratios are medians measured in one run, the ways compared taken in turn.
"""


def main() -> int:
    warnings.simplefilter("ignore")
    Path(".bench").mkdir(exist_ok=True)
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")] or list(SECTIONS)
    found: dict[str, list[Line]] = {}
    for name in wanted:
        found[name] = []
        for line in importlib.import_module(f"benchmarks.{name}").lines():
            found[name].append(line)
            print(row(line), flush=True)
    if "--write" in sys.argv:
        kept = sections(RESULTS.read_text()) if RESULTS.exists() else {}
        kept |= {SECTIONS[name]: table(lines) for name, lines in found.items()}
        ordered = [f"## {title}\n\n{kept[title]}" for title in SECTIONS.values() if title in kept]
        RESULTS.write_text("\n".join([HEAD, *ordered]))
    return 0 if all(line.ok for lines in found.values() for line in lines) else 1


def row(line: Line) -> str:
    mark = "ok  " if line.ok else "OVER"
    note = f" ({line.note})" if line.note else ""
    return (
        f"{mark} {line.ratio:6.2f} of {line.against} (at most {line.most:g}): {line.what}, "
        f"{line.amounts[0]} against {line.amounts[1]}{note}"
    )


def table(found: list[Line]) -> str:
    head = [
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {', '.join(filter(None, map(installed, LIBRARIES)))}.",
        "",
        "| what | against | ratio | at most | ours | theirs | |",
        "|---|---|---|---|---|---|---|",
    ]
    body = [
        f"| {x.what} | {x.against} | {x.ratio:.3g} | {x.most:.3g} | {x.amounts[0]} "
        f"| {x.amounts[1]} | {x.note} |"
        for x in found
    ]
    return "\n".join([*head, *body, ""])


def sections(text: str) -> dict[str, str]:
    """The page's sections by title."""
    parts = re.split(r"^## (.+)\n\n", text, flags=re.MULTILINE)
    return {
        title: f"{body.strip()}\n" for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
