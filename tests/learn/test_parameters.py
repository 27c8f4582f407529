"""A parameter is declared once: constructor, refusals, command line, form and docs follow."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import opened
from learn.data import columns_of, low_rank, schema, table
from typer.main import get_command

import sulq
from sulq import learn
from sulq.cli import app
from sulq.cli.learn import model_from
from sulq.learn import KINDS, KMeans
from sulq.learn.parameters import parameter, parameters_of
from sulq.server.console.forms import Form
from sulq.server.console.model_form import Wish, fields_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "learners.md"
DECLARED = [(name, p) for name, kind in KINDS.items() for p in parameters_of(kind)]
named = pytest.mark.parametrize(("name", "p"), DECLARED, ids=lambda x: getattr(x, "name", x))


@dataclass(kw_only=True, eq=False, repr=False)
class Mine(KMeans):
    """A learner with one more parameter."""

    extra: int = parameter(7, "One more.", low=3, words="Extra ones", first=5, most=9)
    way: str = parameter("left", "Which way.", choices=("left", "right"))


def database():
    return opened(table(low_rank(200, 3)), schema(3))


@pytest.mark.parametrize("name", KINDS)
def test_the_constructor_takes_what_is_declared(name):
    """By name, with the declared default, and nothing else."""
    taken = inspect.signature(KINDS[name]).parameters
    assert {p.name: p.default for p in parameters_of(KINDS[name])} == {
        n: given.default for n, given in taken.items()
    }
    assert all(p.help.endswith(".") for p in parameters_of(KINDS[name]))


@functools.cache
def learning():
    """The commands of `sulq learn`, as typer makes them."""
    return get_command(app).commands["learn"].commands


@named
def test_every_parameter_is_an_option_and_in_the_docs(name, p):
    """The command line offers all that can be typed; the page lists all."""
    offered = {option.name: option for option in learning()[KINDS[name].about.command].params}
    if p.plain and not p.shared:
        assert offered[p.name].help == p.help
        assert offered[p.name].default == p.default
    assert f"| `{p.name}` | `{p.default!r}` | {p.help} |" in PAGE.read_text(encoding="utf-8")


def test_a_new_parameter_reaches_everything(monkeypatch):
    """One line in the class: a keyword, a refusal, an option and a field of the form."""
    monkeypatch.setitem(KINDS, "Mine", Mine)
    monkeypatch.setitem(_console_kinds(), "Mine", Mine.about)
    assert Mine(extra=4).get_params()["extra"] == 4
    assert repr(Mine(extra=4)) == "Mine(extra=4)"
    option = inspect.signature(model_from(Mine)).parameters["extra"]
    assert option.default == 7
    assert option.annotation.__metadata__[0].min == 3
    (field,) = (p for p in fields_of("Mine") if p.name == "extra")
    assert (field.words, field.first, field.most) == ("Extra ones", 5, 9)
    pairs = [("kind", "Mine"), ("columns", "x0"), ("extra", "8")]
    assert Wish.of(Form(pairs)).model().extra == 8
    for text in ("2", "10", "many"):
        with pytest.raises(
            sulq.QueryNotAllowed, match="Extra ones: want a whole number from 3 to 9"
        ):
            Wish.of(Form([*pairs[:2], ("extra", text)]))


def _console_kinds():
    from sulq.server.console import model_form

    return model_form.KINDS


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Mine(extra=2), "extra=2, want 3 or more"), (Mine(extra=4.5), "extra=4.5, want 3 or more"),
        (Mine(extra=True), "extra=True"), (Mine(extra=None), "extra=None"),
        (Mine(way="up"), "way='up', want 'left' or 'right'"),
        (KMeans(row_norm=0), "row_norm=0, want a number above 0"),
        (KMeans(row_norm=float("nan")), "row_norm=nan"),
        (KMeans(guarantee="none"), "guarantee='none', want 'beliefs' or 'dp'"),
        (learn.ConjunctionLearner(beta=1), "beta=1, want a number between 0 and 1"),
        (learn.ConjunctionLearner(beta=0), "beta=0, want a number between 0 and 1"),
        (learn.ConjunctionLearner(label_noise=0.5), "label_noise=0.5"),
        (learn.LinearRegression(alpha=-1), "alpha=-1, want 0 or more"),
        (learn.ID3(bins=1), "bins=1, want 2 or more"),
        (learn.ID3(max_gain_loss=0), "max_gain_loss=0, want a number above 0"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused_before_anything_is_asked(model, said):
    """By price and by fit alike, and nothing is charged."""
    db = database()
    for call in (model.price, model.fit):
        with pytest.raises(sulq.Refused, match=said):
            call(db, columns=columns_of(3)[:2], label="x2")
    assert db.history() == []


def test_what_is_allowed_passes():
    """At the ends: what includes its end, and the default of what does not."""
    learn.ConjunctionLearner(label_noise=0.0)._check_parameters()
    learn.LinearRegression(alpha=0)._check_parameters()
    KMeans(1, max_iter=1, row_norm=1e-9, on_small="raise")._check_parameters()


def test_the_command_line_starts_without_the_learners():
    """Only `sulq learn` loads them."""
    import subprocess
    import sys

    code = (
        "import sys; from typer.main import get_command; from sulq.cli import app\n"
        "get_command(app)\n"
        "assert not {'numpy', 'sulq.learn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
