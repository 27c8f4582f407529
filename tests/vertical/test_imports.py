"""Mining reaches rows by the front door only: what it takes of sulq is public, or reads no row."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from strangers import strangers

import sulq
import sulq.vertical

FILES = sorted(Path(sulq.vertical.__file__).parent.glob("*.py"))
OWN = "sulq.vertical."
INSIDE = {path.stem for path in FILES}

# Formatting, parsing, schemas and arithmetic on answers: nothing here has a database in it.
HARMLESS = {
    ("sulq.values.number_text", "with_error"),
    ("sulq.expressions.parse", "predicate"), ("sulq.expressions.parse", "shorten"),
    ("sulq.expressions.domains", "domain_batch"), ("sulq.expressions.quoting", "quote"),
    ("sulq.learn.task", "all_within"), ("sulq.learn.task", "within"),
    ("sulq.learn.task", "bounds_of"), ("sulq.learn.task", "MICRO"),
    ("sulq.learn.parameters", "checked_share"), ("sulq.learn.parameters", "checked_whole"),
    ("sulq.learn.task", "LeftOut"), ("sulq.learn.task", "NOBODY"),
    ("sulq.learn.task", "lacking"), ("sulq.learn.second_moments", "count_and_sum_weights"),
    ("sulq.learn.second_moments", "Moments"), ("sulq.learn.second_moments", "moments_query"),
    ("sulq.learn.second_moments", "read_moments"),
    ("sulq.learn.pca", "PCA"), ("sulq.learn.pca", "SVD"), ("sulq.stepwise", "in_steps"),
}  # fmt: skip
CALLS = {
    "ask", "budget", "key_counts", "name", "price", "promise", "rows", "schema", "sizes",
}  # fmt: skip


def found_in(text):
    """What mining may not take, in a text."""
    return list(
        strangers(
            ast.parse(text), INSIDE,
            lambda module, name: module.startswith(OWN) or (module, name) in HARMLESS,
            lambda name, attribute: name in ("db", "a_db", "b_db") and attribute not in CALLS,
        )
    )  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_mining_uses_the_front_door(path):
    """A file of vertical/ imports public names only."""
    assert found_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import sulq.engines", "from sulq.kernel.sums import add_batch", "from sulq import kernel",
        "from ..kernel import hashed", "sulq.kernel.sums.hashed", "db._engine.sums(q)",
        "part.db._engine", "a_db.sql('select 1')", "from sulq.database import Database",
    ],
)  # fmt: skip
def test_the_check_has_teeth(text):
    """Imports of engines and of private names are found."""
    assert found_in(text)


def test_the_module_is_loaded_on_demand():
    """sulq.vertical is there without an import of its own, and every name it lists exists."""
    assert all(hasattr(sulq.vertical, name) for name in sulq.vertical.__all__)
