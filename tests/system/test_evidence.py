"""What writes docs/evidence: questions are answered, errors measured, and better ones named."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))
from benchmarks.evidence import __main__ as evidence
from benchmarks.evidence import outside_tests, peers, peers_page, shipped_data
from benchmarks.evidence.peer_errors import FEATURES, NUMBERS, Truth

ROOT = Path(__file__).resolve().parents[2]
ROWS = 1000


def answering():
    path = ROOT / "benchmarks/peers/answering.py"
    spec = importlib.util.spec_from_file_location("answering", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Made-up rows in the files of the comparison."""
    folder, rng = tmp_path_factory.mktemp("peers"), np.random.default_rng(3)
    cuts = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
    diamonds = {"price": rng.integers(300, 19_000, ROWS), "cut": rng.choice(cuts, ROWS)}
    fair = {c: rng.integers(0, 3, ROWS) for c in ("a", "b", "c")}
    some = {c: rng.random(ROWS) for c in NUMBERS} | {
        c: rng.integers(0, 5, ROWS) for c in FEATURES[6:]
    }
    some |= {"price": some["carat"] * 0.8, "dear": (some["carat"] > 0.5).astype(int)}
    for name, table in (("diamonds", diamonds), ("fair", fair), ("train", some), ("test", some)):
        lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([",".join(table), *lines]))
    return folder


def test_our_script_answers_what_the_others_are_asked(folder):
    """As many numbers as are wanted, near the exact ones; a model that predicts; a wrong name."""
    script = ROOT / "benchmarks/peers/ask_sulq.py"
    ours, truth = (
        peers.Asked([sys.executable, str(script), str(folder)], "sulq", folder),
        Truth(folder),
    )
    assert len(ours.questions) == 15
    for name, off in (("count", 30), ("group", 30)):
        errors = truth.errors(name, ours.ask(name)["values"])
        assert len(errors) == np.size(truth.exact[name])
        assert max(map(abs, errors)) < off  # twenty standard deviations
    assert truth.errors("line", ours.ask("line")["values"])[0] < 5000
    assert ours.ask("nothing") == {"failed": "KeyError: 'nothing'"}
    ours.close()


def test_libraries_are_asked_in_turn(folder):
    """One that took its seconds is asked once; one that ended says so; first times are left out."""
    body = "import sys, json\nprint('[\"count\"]', flush=True)\nfor _ in sys.stdin:\n    {}"
    reply = "print(json.dumps({'seconds': %s, 'values': [5.0]}), flush=True)"
    both = {
        name: peers.Asked([sys.executable, "-c", body.format(way)], name, folder)
        for name, way in (("quick", reply % 0.001), ("slow", reply % 99), ("gone", "break"))
    }
    said = peers.asked_in_turn(both, "count", runs=4, seconds=3)
    assert {name: len(lines) for name, lines in said.items()} == {"quick": 4, "slow": 1, "gone": 1}
    truth = Truth(folder)
    assert len(peers.summary(truth, "count", said["quick"])["seconds"]) == 3
    assert peers.summary(truth, "count", said["slow"])["seconds"] == [99]
    assert peers.summary(truth, "count", said["gone"]) == {"failed": "it ended"}
    for library in both.values():
        library.close()


def test_measures_of_models_are_none_for_the_exact_ones(folder):
    """Exact components, centres and predictions are off by nothing; others by more."""
    truth = Truth(folder)
    rows, test = truth._rows, truth.test
    exact = np.linalg.svd(rows - rows.mean(0), full_matrices=False)[2][:2]
    assert truth.errors("pca", exact.ravel().tolist())[0] == pytest.approx(0, abs=1e-9)
    assert truth.errors("pca", np.eye(7)[-2:].ravel().tolist())[0] > 0.1
    truth._inertia = truth.inertia(rows[:4])  # in place of exact k-means, which takes seconds
    assert truth.errors("kmeans", rows[:4].ravel().tolist())[0] == pytest.approx(0)
    assert truth.errors("kmeans", [0.0] * 28)[0] > 0
    assert truth.errors("tree", test["dear"].tolist()) == [0]
    assert truth.errors("additive", test["dear"].tolist()) == [0]
    assert truth.errors("line", (test["price"] + 0.01).tolist()) == [pytest.approx(200)]


def test_the_page_names_who_is_better():
    """Closer beyond chance, or quicker; what failed and what did not install."""

    def said(scale, seconds):
        return {
            "errors": [[scale * (-1) ** i * (1 + i / 100)] for i in range(20)],
            "seconds": [seconds],
        }

    found = {
        "questions": {"count": {"when": "2026-01-02", "load": 1.0, "found": {
            "sulq": said(2.0, 0.02), "opendp": said(1.0, 0.5), "diffprivlib": said(2.0, 0.001),
            "qrlew": said(9.0, 0.5), "tumult": {"failed": "ValueError: no"}}}},
        "versions": {"opendp": "opendp 1"}, "not installed": {"mbi": "no such wheel"},
        "exact": {}, "machine": "2 cores",
    }  # fmt: skip
    text = "\n".join(
        [peers_page.conditions(found), peers_page.section("count", found), peers_page.where(found),
         peers_page.not_asked(found)]
    )  # fmt: skip
    assert "- a count: OpenDP, 0.5 of our error" in text
    assert "- a count: diffprivlib, 0.05 of our time" in text
    assert text.count("of our error") == 1
    assert "| 4.5 | further |" in text
    assert "failed: ValueError: no" in text
    assert "mbi (private-pgm): pip did not install it: no such wheel" in text


def test_rho_is_the_largest_that_keeps_the_promise():
    """More than the plain conversion allows, less than Gaussian noise itself would."""
    rho, log = answering().rho(1, 1e-6), math.log(1e6)
    plain = (math.sqrt(log + 1) - math.sqrt(log)) ** 2
    assert plain < rho < 1.5 * plain


def test_errors_on_shipped_tables(tmp_path, monkeypatch):
    """The exact numbers are DuckDB's over bounded values, NULL is none, groups are matched."""
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "copy (select i % 3 as g, case when i % 2 = 0 then i end as x from range(2000) t(i)) "
        f"to '{path}'"
    )
    ours = shipped_data.Shipped("none", {
        "g": shipped_data.values(0, 1, 2), "x": shipped_data.number(0, 100, nullable=True),
    }, ("select count(*) from t where x > 10", "select g, avg(x) from t group by g"))  # fmt: skip
    monkeypatch.setitem(shipped_data.SETS, "t", ours)
    assert shipped_data.exact(path, "t", "select max(x), min(x) from t") == {(100,): 0.0}
    text = shipped_data.section(path, "t", 2)
    assert re.search(r"2,000 rows, T = \d+, 2 runs", text)
    assert re.search(r"where x > 10` \| 994 \| [\d.]+ \| [\d.]+ \| \d of 2 \| 1 \|", text)
    assert re.search(r"group by g` \| 3 numbers \| .* \| \d of 6 \| 2 \|", text)


def test_reports_of_pytest_are_counted():
    """Passed, failed, expected to fail with a reason, left out; and what was printed."""
    report = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>
    <testcase name="c"><skipped type="pytest.xfail"/></testcase><testcase name="d">
    <skipped type="pytest.skip"/></testcase><testcase name="e"><system-out>9 cases</system-out>
    </testcase></testsuite></testsuites>"""
    assert list(outside_tests.cases(report)) == [
        ("a", "passed", ""), ("b", "failed", ""), ("c", "listed", ""), ("d", "skipped", ""),
        ("e", "passed", "9 cases"),
    ]  # fmt: skip


def test_a_page_shows_its_command_its_date_and_what_was_said():
    text = evidence.page(evidence.Part("benchmarks.evidence.thing x", "# Thing"), "3 of 4")
    assert re.fullmatch(
        r"# Thing\n\n`python -m benchmarks.evidence.thing x`, \d{4}-\d\d-\d\d:\n\n"
        r"```text\n3 of 4\n```\n",
        text,
    )


def test_unknown_pages_are_refused(capsys):
    assert evidence.main(["peer"]) == 2
    assert "there are auditor, dbapi" in capsys.readouterr().out


@pytest.mark.parametrize("name", evidence.PARTS)
def test_every_page_is_there_with_its_command_and_date(name):
    """As make evidence wrote it, with the words of the code, and listed in the README."""
    text = (ROOT / f"docs/evidence/{name}.md").read_text(encoding="utf-8")
    part = evidence.PARTS[name]
    assert f"`python -m {part.command}`" in text
    assert re.search(r"20\d\d-\d\d-\d\d", text)
    assert text.startswith(part.about or peers_page.INTRO)
    assert f"({name}.md)" in (ROOT / "docs/evidence/README.md").read_text(encoding="utf-8")
