"""%sulq and %%sulq: the price first, then within a limit or after a yes the table and a chart."""

import subprocess
import sys

import pytest
from attacks.harness import opened, people
from IPython.core.interactiveshell import InteractiveShell

import sulq

GROUPED = "select region, avg(income) as income from people group by region"


@pytest.fixture
def notebook():
    """A shell with the magic loaded and a database in the variable `db`."""
    shell = InteractiveShell()
    shell.extension_manager.load_extension("sulq")
    shell.user_ns["db"] = opened(people(), name="people")
    return shell


def run(shell, line, cell=None):
    if cell is None:
        return shell.run_line_magic("sulq", line)
    return shell.run_cell_magic("sulq", line, cell)


def spent(shell):
    return shell.user_ns["db"].budget.spent


def test_a_cell_shows_its_price_then_asks_then_answers(notebook, capsys, monkeypatch):
    """y pays, and the table and a chart come back; asked again it is free."""
    run(notebook, "db")
    assert "people: 200 rows, 0 of 100 queries spent" in capsys.readouterr().out
    drawn = []
    monkeypatch.setattr("IPython.display.display", drawn.append)
    monkeypatch.setattr("builtins.input", lambda _: "y")
    table = run(notebook, "", GROUPED + ";\n")
    said = capsys.readouterr().out
    assert said.startswith("Price 1 query; expected within about income +/- ")
    assert "100 queries left" in said
    assert isinstance(table, sulq.Table)
    assert isinstance(drawn[0], sulq.Picture)
    assert spent(notebook) == 1
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked for what is free"))
    again = run(notebook, "--no-chart --into found", GROUPED)
    assert "Free" in capsys.readouterr().out
    assert again["income"] == table["income"] == notebook.user_ns["found"]["income"]
    assert (len(drawn), spent(notebook)) == (1, 1)


@pytest.mark.parametrize("answer", ["", "n", "no", EOFError, NotImplementedError, RuntimeError])
def test_without_a_yes_nothing_is_spent(notebook, capsys, monkeypatch, answer):
    """Also where nobody is there to say it, as when a notebook runs by itself."""

    def said(_):
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", said)
    assert run(notebook, "db", GROUPED) is None
    assert "Not asked. Nothing was charged." in capsys.readouterr().out
    assert spent(notebook) == 0


def test_within_a_limit_nobody_is_asked(notebook, capsys, monkeypatch):
    """And beyond it nothing is spent."""
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked although a limit is set"))
    run(notebook, "db --spend 1.5")
    assert "may still spend 1.5 queries" in capsys.readouterr().out
    assert run(notebook, "--no-chart", GROUPED) is not None
    assert run(notebook, "", "select avg(income) from people where secret") is None
    assert "BudgetExceeded" in capsys.readouterr().out
    assert run(notebook, "--price", "select avg(age) from people") is None
    assert "Price 1 query" in capsys.readouterr().out
    assert spent(notebook) == 1


def test_what_is_wrong_is_said_in_a_line(notebook, capsys):
    """A refusal, not a traceback."""
    for line, cell in [
        ("", GROUPED), ("nothing", None), ("db --spend many", None), ("db --what", None),
        ("db", "select * from people"), ("'", None), ("--spend", None), ("a b", None),
    ]:  # fmt: skip
        assert run(notebook, line, cell) is None
        said = capsys.readouterr().out
        assert len(said.splitlines()) <= 3
        assert "Error" in said or "Refused" in said or "NotAllowed" in said
    assert spent(notebook) == 0


def test_importing_sulq_loads_no_ipython():
    """Nor does the magic's own file."""
    code = "import sys, sulq, sulq.notebook; assert not [m for m in sys.modules if 'IPython' in m]"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": _source()})


def _source():
    from pathlib import Path

    return str(Path(sulq.__file__).parents[1])
