"""The learners never touch an engine: they import the front door and nothing behind it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from strangers import strangers

import sulq
import sulq.learn

FOLDER = Path(sulq.learn.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
# Drawing takes plain numbers, quoting plain texts, ArrayRows an array: none takes a database. What
# words refusals of several steps looks at a database's budget.
HARMLESS = ("sulq.learn.", "sulq.drawing.", "sulq.expressions.quoting", "sulq.sources.frames",
            "sulq.stepwise")  # fmt: skip
INSIDE = {path.stem for path in FILES}


def found_in(text):
    """What learners may not take, in a text."""
    return list(
        strangers(
            ast.parse(text), INSIDE, lambda module, name: module.startswith(HARMLESS),
            lambda name, attribute: name == "db" and attribute.startswith("_"),
        )
    )  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_learners_use_the_front_door(path):
    """A file of learn/ imports public names only."""
    assert found_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import sulq.engines", "from sulq.kernel.sums import scaled", "from sulq import kernel",
        "from ..kernel import scaled", "sulq.kernel.sums.scaled", "db._engine.sums(q)",
        "task.db._engine",
    ],
)  # fmt: skip
def test_the_check_has_teeth(text):
    """Imports of engines and of private names are found."""
    assert found_in(text)
