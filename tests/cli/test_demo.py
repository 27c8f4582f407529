"""`sulq demo` runs every time, reads well, and touches nothing that is not its own."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from sulq.cli import app


def demo(folder, width=80):
    result = CliRunner().invoke(app, ["demo", "--dir", str(folder)], env={"COLUMNS": str(width)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The demo's page and folder, after a second run in the same place."""
    folder = tmp_path_factory.mktemp("demo") / "people"
    assert demo(folder).exit_code == 0
    result = demo(folder)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


def test_it_shows_what_it_should(shown):
    """The promise in words, prices before, answers after, true values, budget, refusals."""
    _, page = shown
    for text in (
        "73.1%", "known before asking", "shown only because this table is synthetic",
        "999 of 1,000 queries", "nothing was charged", "BudgetExceeded", "QueryNotAllowed",
        "100 numbers in", "report.md", "sulq schema draft", "docs/tutorial.md",
        'db = sulq.connect("http://127.0.0.1:',
    ):  # fmt: skip
        assert text in " ".join(page.split())


def test_only_the_asked_region_pays(shown):
    """The demo's question about one region is charged to that region alone."""
    _, page = shown
    spent = dict(re.findall(r"^ +(north|south|east|west) +(\d+ +\d+)", page, re.MULTILINE))
    assert {name: x.split() for name, x in spent.items()} == {
        "north": ["7", "8"], "south": ["7", "7"], "east": ["7", "7"], "west": ["7", "7"],
    }  # fmt: skip


def test_it_fits_the_page_and_has_no_colour_codes(shown):
    """Piped into a file, the demo is plain text of at most 80 columns."""
    _, page = shown
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= 80


def test_answers_are_near_the_true_values(shown):
    """Each answer within five half-widths of the truth. False alarm: far below 1e-9."""
    _, page = shown
    pattern = r"answer  ([\d,.-]+) \+/- ([\d,.]+) \(95%\)\s+true +([\d,.]+)"
    found = [[float(x.replace(",", "")) for x in f] for f in re.findall(pattern, page)]
    assert len(found) == 5
    assert "(public, exact)" in page
    assert "0 queries: known already, 200,000 (public, exact)\n" in page
    assert all(abs(answer - true) < 5 * width for answer, width, true in found)


def test_its_folder_can_be_used_afterwards(shown):
    """The commands it suggests work there."""
    folder, _ = shown
    result = CliRunner().invoke(app, ["budget", "--json", "--config", str(folder / "sulq.toml")])
    assert json.loads(result.stdout)["total_micro"] == 1_000_000_000
    assert (folder / "report.md").read_text().startswith("# Privacy report")
    assert (folder / "ages.svg").read_text().startswith("<svg")


def test_in_a_terminal_it_goes_on_serving_until_stopped(tmp_path):
    """Someone watches: the address is printed and answers, and Ctrl-C ends it well."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [Path(sys.executable).with_name("sulq"), "demo", "--dir", tmp_path / "people"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        page = ""
        while "--data http" not in page:
            page += os.read(ours, 65536).decode(errors="replace")
        url = re.search(r"--data (http://127\.0\.0\.1:\d+)/people", page)[1]
        assert json.loads(urlopen(f"{url}/v1/health").read())["status"] == "ok"
        links = re.findall(rf"(owner|analyst) +({url}/console/enter/[\w-]{{43}})", page)
        assert [who for who, _ in links] == ["owner", "analyst"]
        for _, link in links:  # a button, so that looking does not use it up
            assert b"This link signs you in once" in urlopen(link).read()
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def test_it_leaves_other_peoples_files_alone(tmp_path):
    """A folder with anything else in it is refused, and nothing in it changes."""
    (tmp_path / "people.parquet").write_text("mine")
    result = demo(tmp_path)
    assert result.exit_code == 2
    assert "not the demo's" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["people.parquet"]
    assert (tmp_path / "people.parquet").read_text() == "mine"


def test_commands_are_not_broken_at_80_columns(monkeypatch, capsys):
    """What is to be copied stands on one line, however narrow the terminal."""
    from sulq.cli.demo import Screen

    monkeypatch.setenv("COLUMNS", "80")
    line = f"export SULQ_KEY=sulq_{'x' * 80}"
    Screen().code(line)
    assert capsys.readouterr().out == f"  {line}\n"
