"""make evidence: runs what others wrote, or may repeat, and writes docs/evidence, a page for each.

python -m benchmarks.evidence [PAGE ...]: only these. Each part is a command of its own, which the
page names with its date; what it says is what the page shows.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.evidence import shipped_data

ROOT = Path(__file__).resolve().parents[2]
FOLDER, PAGES = ROOT / ".bench/evidence", ROOT / "docs/evidence"
DBAPI = "dbapi-compliance==1.15.0"
SQLMAP = "sqlmap==1.10.10"
PATIENCE = 3600  # seconds for a page


@dataclass(frozen=True)
class Part:
    """A page: the command that it shows, and what is said above what the command says."""

    command: str
    about: str
    markdown: bool = False  # the command says Markdown


TESTS = "benchmarks.evidence.outside_tests"
PARTS = {
    "auditor": Part("benchmarks.evidence.auditor", """# A black-box auditor

A classifier is trained on answers about two tables that differ in one row, and attacks with the
answers it is surest of (after DP-Sniper and DP-Auditorium). It knows nothing of the noise. It
proves a lower bound of epsilon, false with a chance of one in a million; two broken variants must
be caught. That it raises no alarm is no proof: the [proofs](../proofs/) are."""),
    "dbapi": Part("benchmarks.evidence.dbapi_suite", """# DB-API 2.0

`dbapi-compliance`, the public suite for drivers, on `sulq.dbapi`. What makes or writes tables does
not apply: nobody writes through SuLQ. `test_non_idempotent_close` wants a second `close()` to
fail; ours may be called twice, as most drivers' may."""),
    "sqlalchemy": Part("benchmarks.evidence.sqlalchemy_suite", """# SQLAlchemy's suite for dialects

On `sulq://`. Nearly all of it makes tables of its own and writes rows, which no analyst may, or
selects expressions without a table; what needs more than a SELECT is skipped or counted apart."""),
    "sqlmap": Part("benchmarks.evidence.sqlmap_run", """# sqlmap

Against a server on one machine, level 2, boolean, error, union and stacked techniques, for at most
40 seconds each; `*` is where it writes. Time-based techniques are left out here:
[timing](../timing.md) has its own tests."""),
    "estimators": Part(f"{TESTS} estimators", """# scikit-learn's checks of estimators

Every check of `check_estimator` on every learner. "Listed" are checks that fail and must: two fits
that draw two noises are asked for one model, classes are declared and never read off the labels,
or no error may come from one row. `tests/learn/test_sklearn.py` names each with its reason, and
fails if one of them passes."""),
    "schemathesis": Part(f"{TESTS} schemathesis", """# schemathesis

Examples, boundaries and random requests, made from the description that a server gives of itself,
with all of its checks but one: whether a question that fits the description may be asked depends
on the columns of the table, which no description can say. No reply may be one that is not
described, none a failure of the server."""),
    "axe": Part(f"{TESTS} axe", """# axe-core

Every page of the console in Chromium, light and dark: no finding that is serious or critical, and
nothing to scroll sideways at 360 pixels."""),
    "shipped-data": Part("benchmarks.evidence.shipped_data", shipped_data.INTRO.strip(), True),
    "peers": Part("benchmarks.evidence.peers", ""),  # it writes its page itself
}  # fmt: skip


def main(wanted: Sequence[str]) -> int:
    """Run each part and write its page; how many did not run."""
    if unknown := set(wanted) - set(PARTS):
        print(f"no such page: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    return sum(not written(name) for name in wanted or PARTS)


def written(name: str) -> bool:
    """Run one part; its page is only written if it said something."""
    part = PARTS[name]
    command = [sys.executable, "-W", "ignore", "-m", *shlex.split(part.command), *arguments(name)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    said = ended.stdout.strip("\n")
    print(f"{name}: {said or f'it did not run, exit code {ended.returncode}'}", flush=True)
    if said and part.about:
        (PAGES / f"{name}.md").write_text(page(part, said), encoding="utf-8")
    return bool(said)


def page(part: Part, said: str) -> str:
    """A page: what is done, by which command and when, and what came of it."""
    when = datetime.now(UTC).date().isoformat()
    shown = said if part.markdown else f"```text\n{said}\n```"
    return f"{part.about}\n\n`python -m {part.command}`, {when}:\n\n{shown}\n"


def arguments(name: str) -> list[str]:
    """What a part is told: where what others wrote is, installed once."""
    if name == "dbapi":
        pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(FOLDER), DBAPI)
        with zipfile.ZipFile(next(FOLDER.glob("dbapi-compliance-*.zip"))) as archive:
            archive.extract("dbapi-compliance-1.15.0/dbapi20.py", FOLDER)
        return [str(FOLDER / "dbapi-compliance-1.15.0")]
    if name == "sqlmap":
        env = FOLDER / "sqlmap"
        if not (env / "bin/sqlmap").exists():
            subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
            pip("--python", str(env / "bin/python"), "install", SQLMAP)
        return [str(env / "bin/sqlmap")]
    return []


def pip(*said: str) -> None:
    """Run pip, quietly."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *said]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
