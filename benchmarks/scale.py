"""Part 6: from one million rows to a hundred million, in time per row and in memory."""

from __future__ import annotations

import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sulq
from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line, seconds
from benchmarks.postgres import BY_REGION, OLDEST, ranges

SIZES = (1_000_000, 10_000_000, 100_000_000)
ROUNDS = 3
CENTRES = [(0.1, 0.1), (0.3, 0.1), (0.5, 0.2), (0.7, 0.1), (0.9, 0.3)]
KINDS = ("20 counts and a group-by", "one step of k-means")


def lines() -> Iterator[Line]:
    """Time per row and memory, of processes that are asked in turn."""
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        children = {n: Child(n, folder) for n in SIZES}
        times: dict[tuple[int, str], list[float]] = {}
        for turn in range(ROUNDS + 1):
            for n, kind in itertools.product(SIZES, KINDS):
                times.setdefault((n, kind), []).append(children[n].ask(kind, turn))
        memory = {n: child.end() for n, child in children.items()}
    each = {key: statistics.median(found[1:]) / key[0] * 1e9 for key, found in times.items()}
    first, *others = SIZES
    for kind, n in itertools.product(KINDS, others):
        yield Line(f"{kind}, a row of {n // 10**6} million", each[n, kind], each[first, kind],
                   "a row of 1 million", 1.2, unit="ns")  # fmt: skip
    yield Line("most memory, 100 million rows", memory[SIZES[2]], memory[SIZES[1]],
               "10 million rows", 1.2, f"1 million: {memory[first]:.0f} MB", "MB")  # fmt: skip


class Child:
    """A process of its own with one table, which waits to be asked."""

    def __init__(self, rows: int, folder: str) -> None:
        people(rows)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale", "child", str(rows), folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, kind: str, turn: int) -> float:
        """Seconds."""
        return float(self._said(json.dumps([kind, turn])))

    def end(self) -> float:
        """The most memory it ever had, in megabytes."""
        found = float(self._said("end"))
        self._process.wait()
        return found

    def _said(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline()


def child(rows: int, folder: Path) -> None:
    for line in sys.stdin:
        if line.strip() == "end":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
            return
        kind, turn = json.loads(line)
        with sulq.open(people(rows), SCHEMA, epsilon=1.0, queries=10**7, name="people",
                       ledger=folder / f"{rows}.ledger") as db:  # fmt: skip
            print(seconds(lambda d=db, k=kind, t=turn: asked(d, k, t)), flush=True)


def asked(db: sulq.Database, kind: str, turn: int) -> None:
    """A question that was not asked before."""
    if kind == KINDS[0]:
        db.ask([sulq.Query(where=f"age between {a} and {b} and smoker")
                for a, b in ranges(turn)])  # fmt: skip
        db.sql(BY_REGION.format(OLDEST - turn))
    else:
        by = sulq.NearestCentre(["age", "income"], CENTRES)
        db.ask(sulq.Query(sulq.Sums(["age", "income"]), by=by, where=f"age < {OLDEST - turn}"))


if __name__ == "__main__":
    child(int(sys.argv[2]), Path(sys.argv[3]))
