"""make evidence: runs what others wrote, or what anybody can repeat, and writes docs/evidence."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER, PAGE = ROOT / ".bench/evidence", ROOT / "docs/evidence/README.md"
DBAPI = "dbapi-compliance==1.15.0"
SQLMAP = "sqlmap==1.10.10"
INTRO = """# Evidence

Made by `make evidence` (`python -m benchmarks.evidence`); every number is from that run. What is
compared with other libraries is in [benchmarks/RESULTS.md](../../benchmarks/RESULTS.md), which also
says where another is closer.
"""
ABOUT = {
    "auditor": "## A black-box auditor\n\nA classifier is trained on answers about two tables that "
    "differ in one row, and attacks with the\nanswers it is surest of (after DP-Sniper and "
    "DP-Auditorium). It knows nothing of the noise. It proves\na lower bound of epsilon, false "
    "with a chance of one in a million; two broken variants must be caught.\nThat it raises no "
    "alarm is no proof: the [proofs](../proofs/) are.",
    "dbapi_suite": "## DB-API 2.0\n\n`dbapi-compliance`, the public suite for drivers, on "
    "`sulq.dbapi`. What makes or writes tables does not\napply: nobody writes through SuLQ. "
    "`test_non_idempotent_close` wants a second `close()` to fail; ours\nmay be called twice, as "
    "most drivers' may.",
    "sqlmap_run": "## sqlmap\n\nAgainst a server on one machine, level 2, boolean, error, union "
    "and stacked techniques, for at most 40\nseconds each; `*` is where it writes. Time-based "
    "techniques are left out here: [timing](../timing.md) has\nits own tests.",
}  # fmt: skip


def main() -> int:
    """Run each part and write the page; 1 if a part did not run."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    parts, failed = [INTRO], 0
    for name, about in ABOUT.items():
        more = arguments(name)
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.evidence.{name}", *more]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
        said = ended.stdout.strip() or f"it did not run: exit code {ended.returncode}"
        failed += not ended.stdout.strip()
        when = datetime.now(UTC).date().isoformat()
        shown = f"python -m benchmarks.evidence.{name}"
        parts.append(f"{about}\n\n`{shown}`, {when}:\n\n```text\n{said}\n```\n")
        print(f"{name}: {said}", flush=True)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return failed


def arguments(name: str) -> list[str]:
    """What a part is told: where what others wrote is, installed once."""
    if name == "dbapi_suite":
        pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(FOLDER), DBAPI)
        with zipfile.ZipFile(next(FOLDER.glob("dbapi-compliance-*.zip"))) as archive:
            archive.extract("dbapi-compliance-1.15.0/dbapi20.py", FOLDER)
        return [str(FOLDER / "dbapi-compliance-1.15.0")]
    if name == "sqlmap_run":
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
    sys.exit(main())
