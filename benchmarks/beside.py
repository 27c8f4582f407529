"""python -m benchmarks.beside --before TREE [word ...]: this release beside an earlier one.

Each case of benchmarks/beside_cases.py is asked of two processes in turn, one of each release, that
differ in nothing but the `sulq` that they import. Told are the least time and the least processor
time of each: what else a machine does can only add to them. A case in a new process has one of its
own every round. Time that is spent in another server (PostgreSQL, Spark) is in the time alone.

    git worktree add /tmp/before 4f8b773
    python -m benchmarks.beside --before /tmp/before             every case; half an hour
    python -m benchmarks.beside --before /tmp/before SQL counts  cases whose names have such a word
    --seconds 4    for each case and release
    --write        keep the table in RESULTS.md
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beside_cases import Case, all_cases

LEAST_ROUNDS, MOST_ROUNDS = 3, 40
ALLOWED = 1.05
TITLE = "Release 2 beside release 1"
HEAD = (
    "| case | time | processor time | before, ms | now, ms | rounds |",
    "|---|---|---|---|---|---|",
)


@dataclass(frozen=True, slots=True)
class Least:
    """The least that a release took: seconds, and seconds of processors."""

    time: float
    processor: float


class Release:
    """A process of one release, which waits to be asked."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree = tree
        self.folder = folder
        self._child: subprocess.Popen[str] | None = None

    def ask(self, case: Case, turn: int) -> tuple[float, float]:
        """Seconds, and seconds of processors."""
        if case.new_process:
            self.end()
        child = self._child = self._child or self._begun()
        assert child.stdin is not None
        assert child.stdout is not None
        print(json.dumps([case.named, turn]), file=child.stdin, flush=True)
        said = child.stdout.readline()
        if not said:
            raise RuntimeError(f"{self.tree}: {case.named}: its process ended.")
        seconds, processor = json.loads(said)
        return seconds, processor

    def end(self) -> None:
        """Let the process go."""
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.wait(120)
            self._child = None

    def _begun(self) -> subprocess.Popen[str]:
        source = (self.tree / "src").resolve()
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.beside_cases", str(self.folder)],
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout is not None
        used = child.stdout.readline().strip()
        if not Path(used).is_relative_to(source):
            raise RuntimeError(f"{source}: another sulq was imported: {used!r}")
        return child


def least(case: Case, releases: list[Release], seconds: float) -> tuple[list[Least], int]:
    """What each release takes at least, asked in turn, every other round the other way round."""
    for release in releases:
        if not case.new_process:
            release.ask(case, 0)  # warm up
    taken: list[list[tuple[float, float]]] = [[] for _ in releases]
    until = time.monotonic() + seconds * len(releases)
    for turn in range(1, MOST_ROUNDS + 1):
        order = list(zip(releases, taken, strict=True))
        for release, mine in order if turn % 2 else reversed(order):
            mine.append(release.ask(case, turn))
        if turn >= LEAST_ROUNDS and time.monotonic() > until:
            break
    found = [Least(min(x[0] for x in mine), min(x[1] for x in mine)) for mine in taken]
    return found, turn


def lines(before: Path, words: list[str], seconds: float) -> Iterator[str]:
    """A line of the table for each case."""
    chosen = [c for c in all_cases().values() if not words or any(w in c.named for w in words)]
    with tempfile.TemporaryDirectory(dir=".bench") as name, ExitStack() as stack:
        if any(case.postgres for case in chosen):
            stack.enter_context(postgres())
        for number, case in enumerate(chosen):
            # New processes for each section: what one leaves behind is not the next one's burden.
            if number == 0 or case.section != chosen[number - 1].section:
                folder = Path(name) / str(number)
                releases = [
                    Release(tree, (folder / part).resolve())
                    for part, tree in (("before", before), ("now", Path.cwd()))
                ]
                for release in releases:
                    release.folder.mkdir(parents=True)
                    stack.callback(release.end)
            (old, new), rounds = least(case, releases, seconds)
            processor = "" if case.elsewhere else f"{new.processor / old.processor:.2f}"
            yield (
                f"| {case.named} | {new.time / old.time:.2f} | {processor} "
                f"| {old.time * 1000 / case.often:.2f} | {new.time * 1000 / case.often:.2f} "
                f"| {rounds} |"
            )
            if number + 1 == len(chosen) or chosen[number + 1].section != case.section:
                for release in releases:
                    release.end()


@contextmanager
def postgres() -> Iterator[None]:
    """A PostgreSQL with the benchmark's people, which both releases ask."""
    from benchmarks.postgres import fill, running

    with running() as server:
        fill(server)
        with server.connect() as connection:
            connection.execute("CREATE TABLE elsewhere (x int)")
        os.environ["SULQ_BENCH_READER"] = server.url("reader")
        os.environ["SULQ_BENCH_OWNER"] = server.url()
        yield


def main() -> None:
    """Print the table, and keep it if told to."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the earlier release's tree")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each case and release")
    parser.add_argument("--write", action="store_true", help="keep the table in RESULTS.md")
    parser.add_argument("words", nargs="*", help="cases whose names have one of these; all")
    given = parser.parse_args()
    Path(".bench").mkdir(exist_ok=True)
    table = []
    found = lines(given.before, given.words, given.seconds)
    for line in itertools.chain(HEAD, found):
        table.append(line)
        print(line, flush=True)
    if given.write:
        keep(table)


def keep(table: list[str]) -> None:
    """Put the table in place of the last one; what is written by hand below it stays."""
    from benchmarks.__main__ import HEAD as PAGE
    from benchmarks.__main__ import RESULTS, sections

    kept = sections(RESULTS.read_text())
    _, _, by_hand = kept.get(TITLE, "").partition("\n\n\n")
    head = (
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}: `python -m benchmarks.beside`, ratios of the least time. At "
        f"most {ALLOWED} is wanted."
    )
    kept[TITLE] = "\n".join([head, "", *table, "", by_hand])
    RESULTS.write_text("\n".join([PAGE, *(f"## {t}\n\n{body}" for t, body in kept.items())]))


if __name__ == "__main__":
    main()
