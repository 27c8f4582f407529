"""Two organisations in two processes, each with its own file and ledger; the analyst in a third.

The analyst's side has a stand-in with the calls of a Database, which sends questions and gets
noisy answers. Neither organisation's process ever sees the other's rows, nor anything that
depends on them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from vertical.data import BOOLEAN, NUMBER, properties

import sulq
from sulq import vertical

CHILD = Path(__file__).with_name("owner_process.py")
N = 3000


class WireAnswer:
    """What came back over the wire."""

    def __init__(self, body):
        self.values = np.array(body["values"])
        self.stds = body["stds"]
        self.price = sulq.Price(body["micro"])
        self.remaining = body["remaining"]

    @property
    def std(self):
        return self.stds[0][0]

    def __float__(self):
        return float(self.values[0, 0])


class Far:
    """The calls of a Database, answered by another process."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=folder,
        )  # fmt: skip
        about = self.call("about")
        self.rows, self.name = about["rows"], about["name"]
        self.schema = sulq.Schema.load(about["schema"])
        self.promise, self.pricing = sulq.Promise.from_json(about["promise"]), "geometry"

    def call(self, name, *args):
        self.process.stdin.write(json.dumps([name, args]) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        if "refused" in said:
            kind = getattr(sulq, said["kind"])
            if kind is sulq.BudgetExceeded:
                kind = sulq.Refused
            raise kind(said["refused"])
        return said["said"]

    @property
    def budget(self):
        left = Fraction(self.call("budget")["remaining"])
        total = Fraction(self.promise.queries)
        return sulq.Budget(total, total - left, left)

    def price(self, query):
        found = self.call("price", query.to_json())
        return sulq.Price(found["micro"], tuple(found["half_widths"]))

    def ask(self, queries, share=True):
        return [WireAnswer(body) for body in self.call("ask", *(q.to_json() for q in queries))]

    def sizes(self, *rows):
        return [tuple(x) for x in self.call("sizes", *(r.to_json() for r in rows))]

    def key_counts(self):
        return sulq.KeyCounts(*self.call("key_counts"))

    def heard(self):
        return (self.folder / "heard").read_text()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


@pytest.fixture
def far(tmp_path):
    """Starts organisations: far(name, columns) is a database in a process of its own."""
    started = []

    def start(name, columns, **promise):
        folder = tmp_path / name
        folder.mkdir()
        n = len(next(iter(columns.values())))
        pq.write_table(pa.table({"id": np.arange(n), **columns}), folder / "rows.parquet")
        kinds = {k: BOOLEAN if np.asarray(v).dtype == bool else NUMBER for k, v in columns.items()}
        terms = {"epsilon": 5.0, "queries": 20} | promise
        facts = {"schema": {"columns": {"id": {"key": True}, **kinds}}, "promise": terms}
        (folder / "facts.json").write_text(json.dumps(facts))
        started.append(Far(folder))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_all_of_it_works_across_processes(far, tmp_path):
    """Implication by both methods, tables, crosstabs, covariances and components; prices kept.

    The interval at 1 - 1e-9 holds the truth.
    """
    a, b = properties(N, delta=0.3)
    rng = np.random.default_rng(1)
    x = np.clip(0.4 + 0.2 * a + 0.1 * rng.normal(size=N), 0, 1)
    y = np.clip(0.4 + 0.2 * b + 0.1 * rng.normal(size=N), 0, 1)
    hospital = far("hospital", {"a": a, "x": x}, queries=40)
    insurer = far("insurer", {"b": b, "y": y}, queries=40)
    plan = vertical.plan(vertical.implication, hospital, "a", insurer, "b")
    found = vertical.implication(hospital, "a", insurer, "b", budget=1)
    assert found.price == plan.prices
    assert hospital.budget.spent == insurer.budget.spent == 1
    low, high = found.interval(1 - 1e-9)
    assert low <= b[a].mean() - b.mean() <= high
    joint = vertical.joint(hospital, "a", insurer, "b")  # the same questions again
    assert joint.delta == found.delta
    tested = vertical.implication(hospital, "a", insurer, "b", method="test", subsets=10)
    assert -1 <= tested.delta <= 1
    table = vertical.crosstab(hospital, "a", insurer, "b", blocks=100).table()
    assert len(table) == 4
    asked = [(hospital, ["x"]), (insurer, ["y"])]
    cov = vertical.covariance(asked, blocks=100)
    assert cov.values.shape == (2, 2)
    assert vertical.PCA(n_components=1, blocks=100).fit(asked).components_.shape == (1, 2)
    made = vertical.publish(hospital, {"p": "a", "q": "x > 0.5"}, 1, tmp_path / "f.parquet", 50)
    assert 0 <= made.probability("p and q") <= 1
    for side, ledger in ((hospital, insurer), (insurer, hospital)):
        files = [f for f in side.call("files") if str(tmp_path) in f]
        assert any("rows.parquet" in f or "ledger" in f for f in files)
        assert not any(str(ledger.folder) in f for f in files)


def test_what_one_side_hears_does_not_depend_on_the_others_rows(far):
    """Two insurers with quite different rows: the hospital's process gets the same bytes.

    What either refuses comes over the wire in its own words, and nobody pays.
    """
    a, b = properties(400)
    heard = []
    for name, other in (("one", b), ("two", ~b)):
        hospital = far(f"hospital-{name}", {"a": a})
        insurer = far(f"insurer-{name}", {"b": other})
        with pytest.raises(sulq.Refused, match="remaining=20 queries in"):
            vertical.joint(hospital, "a", insurer, "b", budget=21)
        with pytest.raises(sulq.QueryNotAllowed, match="nothing"):
            vertical.joint(hospital, "nothing", insurer, "b")
        assert hospital.budget.spent == insurer.budget.spent == 0
        vertical.joint(hospital, "a", insurer, "b", blocks=50)
        vertical.crosstab(hospital, "a", insurer, "b", blocks=50)
        vertical.covariance([(hospital, ["a"]), (insurer, ["b"])], blocks=50)
        heard.append(hospital.heard())
    assert heard[0] == heard[1]
    assert heard[0].count('"ask"') == 4  # one of them refused
