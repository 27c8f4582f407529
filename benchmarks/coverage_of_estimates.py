"""How often 95% intervals of estimates from stored answers hold the truth, on real data sets.

    python -m benchmarks.coverage_of_estimates FOLDER [RUNS [NAME ...]]

FOLDER is what `benchmarks/coverage.py export` wrote. In every run the same questions are stored
with fresh noise: histograms of both columns, a table of them, counts that overlap, means, tables
asked together. Then others are estimated, SELECTs among them. Rows are read once.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.coverage import AGAIN, COLUMNS, LEAST, TIMES
from sulq import Bins, Query
from sulq.ledger.known_answers import _measured
from sulq.policies import add_noise, drawn
from sulq.strategies import estimates
from sulq.strategies.linear_form import form_of

CUTS = 6  # bins of each column
LISTED = 50  # whole numbers up to so many are told apart one by one


def edges(low: float, high: float, kind: str) -> tuple[float, ...]:
    """Finer towards the low end, where most columns have their rows."""
    found = [low + (high - low) * (i / CUTS) ** 2 for i in range(CUTS + 1)]
    return tuple(dict.fromkeys(round(e) if kind == "integer" else round(e, 6) for e in found))


def stored(columns: dict[str, Any], cuts: dict[str, Any]) -> list[Any]:
    """What was asked before."""
    x, y = columns
    by = {c: Bins(c, cuts[c]) for c in columns}
    middle = {c: cuts[c][len(cuts[c]) // 2] for c in columns}
    return [
        Query(by=by[x]), Query(by=(by[x], by[y])), Query(by=by[y], where=f"{x} >= {middle[x]}"),
        Query(where=f"{x} >= {middle[x]} or {y} >= {middle[y]}"),
        f"select count(*), avg({x}) from t where {y} >= {middle[y]}",
        f"select avg({x}), avg({y}) from t", Query((x,), by=by[y]),
        [Query(by=by[x]), Query(by=by[y]), Query(by=(by[x], by[y]))],
    ]  # fmt: skip


def asked(columns: dict[str, Any], cuts: dict[str, Any]) -> dict[str, Any]:
    """What is estimated: numbers by name."""
    x, y = columns
    a, b = (cuts[c][2] for c in columns)
    middle = cuts[y][len(cuts[y]) // 2]
    return {
        "count": Query(where=f"{x} < {a}"),
        "both": Query(where=f"{x} >= {a} and {y} >= {b}"),
        "missing": Query(where=f"{x} is null"),
        "sum": Query((x,), where=f"{y} >= {middle}"),
        "sum of all": Query((x,)),
        "mean": f"select avg({x}) as m from t where {y} >= {middle}",
        "share": f"select avg({x} >= {a}) as m from t where {y} >= {b}",
        "count of all known": f"select count({x}) as m from t",
    }


def coverage(name: str, lists: dict[str, list[Any]], guarantee: str, runs: int) -> dict[str, Any]:
    """For each number: how often its interval held the truth, and its median width."""
    columns = {
        c: ("number" if high - low > LISTED else kind, low, high)
        for c, (kind, low, high) in COLUMNS[name].items()
    }
    schema = {c: {"type": k, "low": low, "high": high} for c, (k, low, high) in columns.items()}
    arrays = {
        c: pa.array([None if v is None else (int(v) if columns[c][0] == "integer" else v)
                     for v in values]) for c, values in lists.items()
    }  # fmt: skip
    cuts = {c: edges(low, high, kind) for c, (kind, low, high) in columns.items()}
    settings: dict[str, Any] = {"epsilon": 1.0, "queries": 100, "ledger": ":memory:", "name": "t"}
    db = sulq.open(pa.table(arrays), schema, guarantee=guarantee, **settings)
    bundles = [b for q in stored(columns, cuts) for b in db.question(q).bundles]
    parts = [part for bundle in bundles for part in bundle.parts]
    forms = [form_of(query, tariff, db.schema) for query, tariff in parts]
    exact = db._pipeline.sums([query for query, _ in parts])
    wanted = {key: db.question(q) for key, q in asked(columns, cuts).items()}
    silent = sulq.open(pa.table(arrays), schema, guarantee=guarantee, **settings)
    silent._pipeline.noise = _Silence()
    truth = {key: _number(silent.answer(question)) for key, question in wanted.items()}
    held, widths = dict.fromkeys(wanted, 0), {key: [] for key in wanted}
    restore = estimates._related, estimates._forms, estimates.least_squares
    keep()
    for _ in range(runs):
        noise = drawn(bundles, db._pipeline.noise)
        each = zip(parts, exact, strict=True)
        noisy = [add_noise(query, tariff, sums, noise) for (query, tariff), sums in each]
        known = [_measured(f, n) for f, n in zip(forms, noisy, strict=True) if f is not None]
        db._estimator._answers.measured = lambda analyst, known=known: known  # type: ignore[method-assign]
        for key, question in wanted.items():
            low, high = _ends(db.estimated(question))
            held[key] += low <= truth[key] <= high
            widths[key].append(high - low)
    estimates._related, estimates._forms, estimates.least_squares = restore
    return {k: (held[k] / runs, float(np.median(widths[k])), truth[k]) for k in wanted}


class Kept:
    """What an estimate is read off with: the same in every run, since only the noise is new."""

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}
        self._related, self._forms = estimates._related, estimates._forms
        self._least_squares = estimates.least_squares

    def related(self, asked: Any, known: Any, told: Any, schema: Any) -> Any:
        """Which stored answers are used, by their place."""
        key = ("related", asked.query.text, told)
        if key not in self._found:
            used = self._related(asked, known, told, schema)
            places = {id(m): i for i, m in enumerate(known)}
            self._found[key] = used and [places[id(m)] for m in used]
        return self._found[key] and [known[i] for i in self._found[key]]

    def forms(self, asked: Any, used: Any, public: Any, counts: Any, told: Any, schema: Any) -> Any:
        """Their forms."""
        key = ("forms", asked.query.text, told, len(used))
        if key not in self._found:
            self._found[key] = self._forms(asked, used, public, counts, told, schema)
        return self._found[key]

    def least_squares(self, noisy: Any, numbers: Any, *forms: Any) -> Any:
        """Estimates are an affine function of the numbers."""
        key = (noisy.shape, noisy.data.tobytes(), noisy.indices.tobytes(), forms[-2].tobytes())
        if key not in self._found:
            self._found[key] = self._least_squares(noisy, np.zeros_like(numbers), *forms)
        if self._found[key] is None:
            return None
        base, reach = self._found[key]
        return base + reach.T @ numbers, reach


def keep() -> None:
    """Compute what does not change once."""
    kept = Kept()
    estimates._related, estimates._forms = kept.related, kept.forms
    estimates.least_squares = kept.least_squares


def _ends(found: Any) -> tuple[float, float]:
    if isinstance(found, sulq.Answer):
        low, high = found.interval()
        return float(low), float(high)
    return found["m_low"][0], found["m_high"][0]


class _Silence:
    def draw(self, law: Any, count: int) -> list[int]:
        return [0] * count


def _number(found: Any) -> float:
    return found.value if isinstance(found, sulq.Answer) else float(found["m"][0])


def measured(name: str, lists: dict[str, list[Any]], guarantee: str, runs: int) -> dict[str, Any]:
    """The same, with more runs where one was below LEAST; chance alone would do that."""
    found = coverage(name, lists, guarantee, runs)
    below = [key for key, (held, *_) in found.items() if held < LEAST]
    more = coverage(name, lists, guarantee, TIMES * runs) if below else {}
    for key in below:
        print(f"<!-- {name}, {guarantee}: {key} {found[key][0]:.1%}, then {more[key][0]:.1%} -->")
        if more[key][0] < AGAIN:
            print(f"<!-- {name}, {guarantee}: {key} is below {AGAIN:.0%} -->")
    return found | {key: more[key] for key in below}


def main() -> int:
    folder, runs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400
    warnings.simplefilter("ignore")
    least = 1.0
    print("| data | estimate | truth | beliefs: held | width | dp: held | width |\n|" + "---|" * 7)
    for name in sys.argv[3:] or COLUMNS:
        lists = json.loads((folder / f"{name}.json").read_text())
        both = [measured(name, lists, guarantee, runs) for guarantee in ("beliefs", "dp")]
        for key in both[0]:
            cells = [f"{b[key][0]:.1%} | {b[key][1]:.4g}" for b in both]
            least = min(least, *(b[key][0] for b in both))
            print(f"| {name} | {key} | {both[0][key][2]:.5g} | {' | '.join(cells)} |", flush=True)
    print(f"\nThe least of all: {least:.1%} of {runs} runs.")
    return 0 if least >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
