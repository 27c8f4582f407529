"""Checks that others wrote and our tests run: what each came to, counted from a run.

python -m benchmarks.evidence.outside_tests estimators|schemathesis|axe
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("passed", "listed", "skipped", "failed")
Case = tuple[str, str, str]  # the test, what it came to, what it printed


def run(*arguments: str) -> list[Case]:
    """Every case of a run of pytest, with all that takes long."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments,
                   f"--junitxml={report}", "-o", "junit_logging=system-out"]  # fmt: skip
        subprocess.run(
            command, cwd=ROOT, env=os.environ | {"SULQ_SOAK": "1"}, stdout=subprocess.DEVNULL
        )
        return list(cases(report.read_text()))


def cases(report: str) -> Iterator[Case]:
    """What is in a report of pytest. What is expected to fail is listed with its reason there."""
    for case in ElementTree.fromstring(report).iter("testcase"):
        skipped = case.find("skipped")
        kind = "passed"
        if case.find("failure") is not None or case.find("error") is not None:
            kind = "failed"
        elif skipped is not None:
            kind = "listed" if skipped.get("type") == "pytest.xfail" else "skipped"
        yield case.get("name", ""), kind, (case.findtext("system-out") or "").strip()


def estimators() -> Iterator[str]:
    """scikit-learn's check_estimator, by estimator."""
    found: dict[str, Counter[str]] = {}
    for name, kind, _ in run("tests/learn/test_sklearn.py", "-k", "test_checks"):
        model = re.search(r"\[(\w+)\(", name)
        found.setdefault(model[1] if model else name, Counter())[kind] += 1
    yield f"{'':26}{''.join(f'{k:>9}' for k in KINDS)}"
    for model, counts in sorted(found.items()):
        yield f"{model:26}{''.join(f'{counts[k]:9}' for k in KINDS)}"
    total = sum(found.values(), Counter())
    yield f"{'all':26}{''.join(f'{total[k]:9}' for k in KINDS)}"


def schemathesis() -> Iterator[str]:
    """schemathesis against a server's own description, as an analyst and as the owner."""
    for name, kind, said in run("tests/server/api/test_schemathesis.py"):
        who = {"bob": "an analyst", "anna": "the owner"}[name.partition("[")[2].rstrip("]")]
        sent = re.search(r"(\d+) cases", said)
        yield f"as {who}: {kind}, {sent[1] if sent else 'no'} requests"


def axe() -> Iterator[str]:
    """axe-core on every page of the console, in Chromium."""
    for name, kind, _ in run("tests/server/console/test_looks.py", "-k", "everyone or too"):
        yield f"{kind}: {name.replace('_', ' ')}"


if __name__ == "__main__":
    WAYS = {"estimators": estimators, "schemathesis": schemathesis, "axe": axe}
    for line in WAYS[sys.argv[1]]():
        print(line, flush=True)
