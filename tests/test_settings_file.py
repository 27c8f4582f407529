"""sulq.toml -> Settings: what it takes, what it refuses, and where paths start."""

from __future__ import annotations

import tomllib

import pytest

from sulq.errors import Refused
from sulq.settings_file import Settings, draft, find


def load(tmp_path, text):
    path = tmp_path / "sulq.toml"
    path.write_text(text)
    return Settings.load(path)


def test_every_setting_becomes_an_argument_of_open(tmp_path):
    """What is said is passed on; what is not said is left to sulq.open."""
    found = load(tmp_path, 'source = "p.parquet"\nepsilon = 1\nqueries = 10\nnoise = "laplace"\n')
    assert found.arguments == {
        "source": str(tmp_path / "p.parquet"), "epsilon": 1, "queries": 10, "noise": "laplace",
    }  # fmt: skip


def test_settings_are_the_arguments_of_open():
    """Every setting is one that sulq.open takes."""
    import inspect

    import sulq

    assert set(Settings.__slots__) <= set(inspect.signature(sulq.open).parameters)


def test_relative_paths_start_at_the_file(tmp_path):
    """Absolute ones stay as they are."""
    found = load(tmp_path, 'source = "a/p.csv"\nschema = "/etc/s.toml"\nledger = "../l"\n')
    assert found.source == str(tmp_path / "a/p.csv")
    assert found.schema == "/etc/s.toml"
    assert found.ledger == str(tmp_path / "../l")


def test_what_is_no_path_stays_as_it_is(tmp_path):
    """Addresses and :memory: are not joined to the folder."""
    found = load(tmp_path, 'source = "postgresql://h/db"\nledger = ":memory:"\n')
    assert found.source == "postgresql://h/db"
    assert found.ledger_path is None


def test_default_ledger_is_beside_the_file(tmp_path):
    """It has the source's name."""
    found = load(tmp_path, 'source = "p.parquet"\n')
    assert found.ledger_path == tmp_path.resolve() / "p.parquet.ledger"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('source = "x"\nepsilonn = 1\n', "line 2: 'epsilonn' is not a setting. Known: source, "),
        ("\n[columns.age]\nlow = 1\n", "line 2: 'columns' is not a setting"),
        ('epsilon = "1"\n', "line 1: epsilon = '1', want a number"),
        ("epsilon = true\n", "want a number"),
        ("queries = 1.5\n", "want a whole number"),
        ("source = 3\n", "want text in quotes"),
        ('noise = ""\n', "want text in quotes"),
        ("epsilon = \n", "not valid TOML"),
    ],
)
def test_refusals_name_the_line_and_what_is_wanted(tmp_path, text, said):
    """Each wrong setting is said with its place."""
    with pytest.raises(Refused) as refused:
        load(tmp_path, text)
    assert said in str(refused.value)


def test_a_missing_file_says_how_to_make_one(tmp_path):
    """It names `sulq init`."""
    with pytest.raises(Refused, match="sulq init"):
        Settings.load(tmp_path / "none.toml")


def test_one_over_another():
    """The command line wins where it says something."""
    found = Settings(epsilon=2.0).over(Settings(epsilon=1.0, queries=5))
    assert (found.epsilon, found.queries) == (2.0, 5)


def test_find(tmp_path):
    """The file of a folder is found, if it is there."""
    assert find(tmp_path) is None
    (tmp_path / "sulq.toml").write_text("")
    assert find(tmp_path) == tmp_path / "sulq.toml"


def test_a_draft_can_be_read_back(tmp_path):
    """Odd names are quoted so that TOML reads them back."""
    text = draft('we"ird\\ \u00e9.parquet', "s.toml", Settings(epsilon=0.1, delta=1e-9))
    found = load(tmp_path, text)
    assert found.source == str(tmp_path / 'we"ird\\ \u00e9.parquet')
    assert (found.epsilon, found.delta, found.queries) == (0.1, 1e-9, 1000)
    assert tomllib.loads(text)["guarantee"] == "beliefs"
