"""python -m benchmarks [section ...] [--write]: run, print ratios, keep them in RESULTS.md.

Without names every section runs but those that install other libraries: models, forests and
margins. --write replaces the tables of the sections that ran.
"""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import re
import sys
import tempfile
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.measure import Line

RESULTS = Path(__file__).with_name("RESULTS.md")
SECTIONS = {
    "counts": "Counts and sums",
    "statements": "SQL",
    "programs": "Programs",
    "row_functions": "Functions of a row",
    "workloads": "Workloads",
    "session": "A session",
    "strategies": "Ranges and distribution functions",
    "profiles": "Profiles of real columns",
    "discoveries": "Values nobody listed",
    "learning": "PCA, k-means, the perceptron",
    "clusters": "k-means without a start",
    "learn_trees": "ID3",
    "missing": "Missing values",
    "synthetic": "Synthetic rows",
    "vertical": "Across databases",
    "audit": "The auditor",
    "postgres": "PostgreSQL",
    "spark": "Spark",
    "scale": "Scale",
    "server": "The server",
    "console": "The console",
    "models": "Classifiers beside others",
    "forests": "Random trees over all rows or blocks",
    "margins": "LinearSVM from moments or gradients",
}
NAMED = {
    "models",
    "forests",
    "margins",
}  # run when they are asked for: they install other libraries
LIBRARIES = ("duckdb", "polars", "pyspark", "opendp", "numpy", "diffprivlib")
HEAD = """# Last figures of `make bench`

Ratios are medians measured in one run, the ways compared taken in turn.
"""


def main() -> int:
    warnings.simplefilter("ignore")
    Path(".bench").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=".bench") as folder:  # for what a whole run shares
        os.environ["SULQ_BENCH"] = str(Path(folder).resolve())
        return run()


def run() -> int:
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    wanted = wanted or [name for name in SECTIONS if name not in NAMED]
    found: dict[str, list[Line]] = {}
    notes: dict[str, str] = {}
    for name in wanted:
        found[name] = []
        module = importlib.import_module(f"benchmarks.{name}")
        for line in module.lines():
            found[name].append(line)
            print(row(line), flush=True)
        if hasattr(module, "notes"):
            notes[name] = module.notes()
    if "--write" in sys.argv:
        kept = sections(RESULTS.read_text()) if RESULTS.exists() else {}
        kept |= {SECTIONS[name]: table(lines, notes.get(name, "")) for name, lines in found.items()}
        titles = dict.fromkeys([*SECTIONS.values(), *kept])  # others were written by hand
        ordered = [f"## {title}\n\n{kept[title]}" for title in titles if title in kept]
        RESULTS.write_text("\n".join([HEAD, *ordered]))
    return 0 if all(line.ok for lines in found.values() for line in lines) else 1


def row(line: Line) -> str:
    mark = "ok  " if line.ok else "OVER"
    note = f" ({line.note})" if line.note else ""
    return (
        f"{mark} {line.ratio:6.2f} of {line.against} (at most {line.most:g}): {line.what}, "
        f"{line.amounts[0]} against {line.amounts[1]}{note}"
    )


def table(found: list[Line], notes: str = "") -> str:
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
    return "\n".join([*head, *body, "", *([notes] if notes else [])])


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
