"""Types of a CSV's columns, guessed from its first rows."""

import pytest

from sulq.sources import guess
from sulq.sources.guess import guessed_types


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["1", "-2", "0"], "integer"), (["1", "2.5"], "number"), ([".5", "1e-3"], "number"),
     (["true", "FALSE"], "boolean"), (["2020-02-29", "1999-12-31"], "date"),
     (["2020-02-29 10:00:00"], "date"), (["2020-02-30"], "text"), (["17-08-1984"], "text"),
     (["00123"], "text"), (["1,5"], "text"), (["yes", "no"], "text"), (["1", "x"], "text"),
     (["", "7"], "integer"), (["."], "text"), (["-"], "text"), (["1" * 30], "number")],
)  # fmt: skip
def test_a_type_fits_every_value(tmp_path, values, kind):
    """The first type that fits all values there are; else a text."""
    file = tmp_path / "a.csv"
    file.write_text("x;y\n" + "".join(f"{v};z\n" for v in values))
    assert guessed_types(file) == {"x": kind, "y": "text"}


def test_an_empty_column_is_not_guessed_at(tmp_path):
    """Where nothing is seen nothing is said, as in a file without rows."""
    file = tmp_path / "a.csv"
    file.write_text("x,y\n1,\n")
    assert guessed_types(file) == {"x": "integer"}
    file.write_text("x,y\n")
    assert guessed_types(file) == {}


def test_a_long_file_is_not_read_to_its_end(tmp_path, monkeypatch):
    """Only the first rows, and no half of one."""
    monkeypatch.setattr(guess, "LINES", 10)
    file = tmp_path / "a.csv"
    file.write_text("x\n1\n2\n34567.5\nno\n")
    assert guessed_types(file) == {"x": "integer"}
