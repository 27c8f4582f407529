"""sulq shell, driven as a person drives it: through a pseudo-terminal."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pexpect
import pyarrow.parquet as pq
import pytest

from sulq.cli import demo_data
from sulq.cli.line_editing import completer
from sulq.cli.shell import split

COMMAND = [sys.executable, "-c", "from sulq.cli import app; app()", "shell"]
CONFIG = """\
source = "people.parquet"
schema = "people.toml"
epsilon = 1.0
queries = 1000
"""
BY_REGION = "select region, count(*) as people from people where smoker group by region;"
FRESH, ONE_SPENT = "people, 1,000 left> ", "people, 999 left> "


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a sulq.toml, and a home of its own."""
    pq.write_table(demo_data.people(3000), tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(demo_data.SCHEMA)
    (tmp_path / "sulq.toml").write_text(CONFIG)
    (tmp_path / "home").mkdir()
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    # Bracketed paste and colours would put escape codes between the words we wait for.
    (place / "inputrc").write_text("set enable-bracketed-paste off\n")
    extra = {"TERM": "dumb", "NO_COLOR": "1", "INPUTRC": str(place / "inputrc")}
    return kept | extra | {"HOME": str(place / "home")}


class Terminal:
    """Types lines and waits for what the shell says."""

    def __init__(self, place: Path, *options: str) -> None:
        self.child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], *options], cwd=str(place), env=environment(place),
            encoding="utf-8", timeout=60, dimensions=(50, 250),
        )  # fmt: skip

    def wait(self, *texts: str) -> str:
        """Wait for these texts in this order; give all that came before the last."""
        said = ""
        for text in texts:
            self.child.expect_exact(text)
            said += self.child.before + text
        return said

    def type(self, line: str) -> None:
        self.child.sendline(line)

    def ended(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.wait()
        self.child.close()
        return self.child.exitstatus


@pytest.fixture
def terminal(place: Path):
    opened = []

    def start(*options: str) -> Terminal:
        opened.append(Terminal(place, *options))
        return opened[-1]

    yield start
    for one in opened:
        if one.child.isalive():
            one.child.kill(signal.SIGKILL)
            one.child.wait()  # however long a busy machine takes to end it
        one.child.close()


def ledger_of(place: Path) -> Path:
    return place / "people.parquet.ledger"


def piped(place: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], input=text, text=True, capture_output=True, cwd=place,
        env=environment(place), timeout=120, check=False,
    )  # fmt: skip


# --- at the prompt ----------------------------------------------------------------------


def test_the_price_is_shown_and_asked_before_anything_is_paid(terminal, place):
    """Promise, price and expected error come first; only y begins the ledger and answers."""
    shell = terminal()
    greeting = shell.wait(FRESH)
    assert "3,000 rows" in greeting
    assert "at most 73.1% sure" in greeting
    shell.type(BY_REGION)
    asked = shell.wait("Pay? [y/N] ")
    assert re.search(r"Price 1 query; expected within about people \+/- 33\d \(95%\)", asked)
    assert "1,000 left." in asked
    assert not ledger_of(place).exists()  # not even begun
    shell.type("y")
    answer = shell.wait("Price 1 query, 999 left", ONE_SPENT)
    for region in ("north", "south", "east", "west", "(other)"):
        assert region in answer
    assert "people (95%)" in answer
    assert ledger_of(place).exists()


def test_no_spends_nothing(terminal, place):
    """n, or an empty line, or Ctrl-C at the question: nothing is spent, the prompt goes on."""
    shell = terminal()
    shell.wait(FRESH)
    for refusal in ("n", "", "what?"):
        shell.type(BY_REGION)
        shell.wait("Pay? [y/N] ")
        shell.type(refusal)
        shell.wait("Nothing was spent.", FRESH)
    shell.type(BY_REGION)
    shell.wait("Pay? [y/N] ")
    shell.child.sendintr()
    shell.wait("Nothing was spent.", FRESH)
    assert not ledger_of(place).exists()


def test_a_repeated_question_is_free_and_says_so(terminal):
    """The same statement, spelled differently, is not asked about again."""
    shell = terminal()
    shell.wait(FRESH)
    shell.type("select count(*) from people where age > 40;")
    shell.wait("Pay? [y/N] ")
    shell.type("y")
    shell.wait("Price 1 query, 999 left", ONE_SPENT)
    shell.type("SELECT COUNT(*) FROM people WHERE 40 < age;")
    said = shell.wait("Asked before: free, 999 left", ONE_SPENT)
    assert "Pay?" not in said


def test_ctrl_c_cancels_the_line_and_ctrl_d_leaves(terminal):
    """A half-typed statement is dropped, not asked; Ctrl-D ends with 0."""
    shell = terminal()
    shell.wait(FRESH)
    shell.type("select count(*)")
    shell.wait("   ...> ")
    shell.child.sendintr()
    shell.wait(FRESH)
    shell.type(".price select count(*) from people where smoker")
    shell.wait("Price 1 query", "Nothing was spent.", FRESH)
    shell.child.sendeof()
    assert shell.ended() == 0


def test_an_error_is_one_message_and_the_prompt_goes_on(terminal):
    """A refused statement is one message, and the next one is answered."""
    shell = terminal()
    shell.wait(FRESH)
    shell.type("select age from people;")
    said = shell.wait("QueryNotAllowed: 'age' would return rows.", FRESH)
    assert "Traceback" not in said
    assert "Pay?" not in said
    shell.type(".nonsense")
    shell.wait(".help lists them", FRESH)
    shell.type(".quit")
    assert shell.ended() == 0


def test_a_statement_may_have_several_lines_and_a_line_several_statements(terminal):
    """Semicolons end statements, wherever lines end."""
    shell = terminal("--yes")
    shell.wait(FRESH)
    shell.type("select count(*) -- not yet; here")
    shell.wait("   ...> ")
    shell.type("from people; select sum(age) from people;")
    said = shell.wait("Public: free, 1,000 left", "Price 1 query, 999 left", "people, 999 left> ")
    assert "Pay?" not in said


def test_yes_on_pays_without_asking(terminal):
    """After `.yes on` statements are paid without a question."""
    shell = terminal()
    shell.wait(FRESH)
    shell.type(".yes on")
    shell.wait("without asking", FRESH)
    shell.type(BY_REGION)
    assert "Pay?" not in shell.wait("Price 1 query, 999 left", ONE_SPENT)


def test_the_dot_commands(terminal, place):
    """Each says what it promises to."""
    shell = terminal("--yes")
    shell.wait(FRESH)
    shell.type(".help")
    shell.wait(".price", ".schema", ".budget", ".history", ".rehearse", ".plot", ".quit", FRESH)
    shell.type(".history")
    shell.wait("Nothing has been asked yet.", FRESH)
    shell.type(".plot out.svg")
    shell.wait("nothing to draw yet", FRESH)
    shell.type(BY_REGION)
    shell.wait(ONE_SPENT)
    shell.type(".plot out.svg")
    shell.wait("Drawn: out.svg", ONE_SPENT)
    assert "<svg" in (place / "out.svg").read_text()
    shell.type(".schema")
    shell.wait("education", "Spending is kept apart in 5 cells, by region.", ONE_SPENT)
    shell.type(".budget")
    shell.wait("1 of 1,000 queries spent, 999 left.", "north", "999", ONE_SPENT)
    shell.type(".history")
    shell.wait("count by region", "999", ONE_SPENT)


def test_rehearsal_is_marked_and_spends_nothing(terminal, place):
    """Synthetic rows need no agreement and no ledger; off comes back to the real ones."""
    shell = terminal()
    shell.wait(FRESH)
    shell.type(".rehearse on")
    shell.wait("people, rehearsal> ")
    shell.type(BY_REGION)
    said = shell.wait("the price would be 1 query", "people, rehearsal> ")
    assert "rehearsal: synthetic rows, nothing spent" in said.lower()
    assert "Pay?" not in said
    shell.type(".rehearse off")
    shell.wait("0 of 1,000 queries spent", FRESH)
    assert not ledger_of(place).exists()


def test_rehearsal_needs_the_schema_only(terminal, place):
    """A rehearsal answers from the schema, although the rows are not there."""
    (place / "people.parquet").unlink()
    shell = terminal("--rehearse")
    shell.wait("Rehearsal: the rows are synthetic", "people, rehearsal> ")
    shell.type(BY_REGION)
    shell.wait("the price would be 1 query", "people, rehearsal> ")


def test_past_lines_are_kept_for_their_owner_only(terminal, place):
    """The history file has mode 0600 and no y or n in it; the next shell finds the lines."""
    shell = terminal()
    shell.wait(FRESH)
    shell.type(BY_REGION)
    shell.wait("Pay? [y/N] ")
    shell.type("n")
    shell.wait(FRESH)
    kept = place / "home/.local/state/sulq/history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600  # from the start, not only at the end
    shell.type(".quit")
    assert shell.ended() == 0
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert BY_REGION in kept.read_text()
    assert "n" not in kept.read_text().splitlines()
    again = terminal()
    again.wait(FRESH)
    again.child.send("\x1b[A")  # the up arrow
    again.wait(".quit")


def test_a_home_that_cannot_be_written_does_no_harm(terminal, place):
    """No history is kept; the shell works as ever."""
    (place / "home").rmdir()
    (place / "home").write_text("")
    shell = terminal()
    shell.wait(FRESH)
    shell.type(".quit")
    assert shell.ended() == 0


# --- piped ------------------------------------------------------------------------------


def test_piped_statements_pay_only_with_yes(place):
    """Nobody can be asked, so the price is shown and the statement refused."""
    refused = piped(place, BY_REGION)
    assert refused.returncode == 2
    assert "Price 1 query" in refused.stdout
    assert "--yes" in refused.stderr
    assert not ledger_of(place).exists()
    paid = piped(place, BY_REGION, "--yes")
    assert paid.returncode == 0
    assert "price 1 query, 999 left" in paid.stdout
    assert "> " not in paid.stdout  # no prompts
    again = piped(place, BY_REGION)
    assert again.returncode == 0
    assert "free" in again.stdout


def test_a_script_goes_on_after_an_error_and_ends_with_its_code(place):
    """Piped statements go on after a refusal; the exit code tells of it."""
    ended = piped(
        place, "select age from people;\nselect count(*) from people where smoker", "--yes"
    )
    assert ended.returncode == 2
    assert "QueryNotAllowed" in ended.stderr
    assert "price 1 query, 999 left" in ended.stdout


# --- reading ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("select 1;", ["select 1"], ""),
        ("select 1; select 2;\n", ["select 1", "select 2"], ""),
        ("select 1; select", ["select 1"], " select"),
        ("select ';'\n", [], "select ';'\n"),
        ("select 'a;\n", [], "select 'a;\n"),
        ('select ";";', ['select ";"'], ""),
        ("select 1 -- ;\n", [], "select 1 -- ;\n"),
        ("-- only a comment\n", [], ""),
        (";;\n", [], ""),
        ("", [], ""),
    ],
)
def test_split(text, statements, rest):
    """A semicolon ends a statement unless it stands in a string, a name or a comment."""
    assert split(text) == (statements, rest)


def test_completion_offers_columns_and_commands():
    """Tab completes commands, columns and keywords."""
    complete = completer([".price", "region", "Income"])
    assert complete("re", 0) == "region"
    assert complete("re", 1) is None
    assert complete("inc", 0) == "Income"
    assert complete(".p", 0) == ".price"
