"""The learners never touch an engine: they import the front door and nothing behind it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sulq
import sulq.learn

FOLDER = Path(sulq.learn.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
# Drawing takes plain numbers, quoting plain texts, ArrayRows an array: none takes a database. What
# words refusals of several steps looks at a database's budget.
HARMLESS = ("sulq.learn.", "sulq.drawing.", "sulq.expressions.quoting", "sulq.sources.array_rows",
            "sulq.stepwise")  # fmt: skip
INSIDE = {path.stem for path in FILES}


def strangers(tree):
    """What a file takes of sulq that is not a public name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("sulq."))
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level > 1 or (node.level == 1 and module.split(".")[0] not in INSIDE):
                yield f"{'.' * node.level}{module}"
            if node.level == 0 and module.startswith("sulq.") and not module.startswith(HARMLESS):
                yield module
            if node.level == 0 and module == "sulq":
                yield from (a.name for a in node.names if a.name not in sulq.__all__)
        if isinstance(node, ast.Attribute):
            owner = node.value
            named = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if named == "sulq" and node.attr not in sulq.__all__:
                yield f"sulq.{node.attr}"
            if named == "db" and node.attr.startswith("_"):
                yield f"db.{node.attr}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_learners_use_the_front_door(path):
    assert list(strangers(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "text",
    [
        "import sulq.engines", "from sulq.kernel.sums import scaled", "from sulq import kernel",
        "from ..kernel import scaled", "sulq.kernel.sums.scaled", "db._engine.sums(q)",
        "task.db._engine",
    ],
)  # fmt: skip
def test_the_check_has_teeth(text):
    assert list(strangers(ast.parse(text)))
