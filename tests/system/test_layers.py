"""The layers of pyproject.toml hold, and a single import the wrong way breaks them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"


def lint(root):
    """The exit code of import-linter over the sources below a folder, and what it said."""
    found = subprocess.run(
        [sys.executable, "-c", LINT], cwd=root, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(root / "src")},
    )  # fmt: skip
    return found.returncode, found.stdout + found.stderr


def test_the_layers_hold():
    """make lint finds no import that points the wrong way, and no cycle."""
    code, said = lint(ROOT)
    assert code == 0, said


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("expressions/parse.py", "def late():\n    import sulq.ledger", "Data moves one way"),
        ("values/schema.py", "if TYPE_CHECKING:\n    import sulq.engines", "Data moves one way"),
        ("expressions/quoting.py", "import sulq.expressions.parse", "No cycle"),
        ("learn/base.py", "def sums():\n    import sulq.engines.duckdb", "Rows are reached"),
        ("privacy/noise.py", "from sulq.errors import Refused", "Noise imports nothing"),
        ("questions/check.py", "import sulq", "front door"),
        ("another.py", "", "sulq.another"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_found(tmp_path, file, line, contract):
    """Inside a function, for types only, within a package or in a new file: it is refused."""
    shutil.copytree(ROOT / "src/sulq", tmp_path / "src/sulq", ignore=lambda *_: {"__pycache__"})
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    changed = tmp_path / "src/sulq" / file
    before = changed.read_text() if changed.exists() else ""
    changed.write_text(f"{before}\n{line}\n")
    code, said = lint(tmp_path)
    assert code == 1
    assert contract in said.partition("Broken contracts")[2], said
