"""docs/papers.md names what is there."""

import ast
import re
from pathlib import Path

import pytest

import sulq
from sulq.learn import PCA, SVD

HERE = Path(__file__).parents[2]
PAGE = HERE / "docs" / "papers.md"
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md))(?::(\w+))?`")


def found(place):
    """A file of the repository, or of src/sulq."""
    return next((p for p in (HERE / place, HERE / "src" / "sulq" / place) if p.is_file()), None)


def names_in(path):
    """What a file defines: functions, classes, methods, constants."""
    tree = ast.parse(path.read_text())
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    assigned = [n for n in tree.body if isinstance(n, ast.Assign)]
    return defined | {t.id for n in assigned for t in n.targets if isinstance(t, ast.Name)}


def missing(text):
    """Every file and name that a page mentions and that is not there."""
    wrong = []
    for place, name in NAMED.findall(text):
        path = found(place)
        if path is None or (name and name not in names_in(path)):
            wrong.append(f"{place}:{name}")
    return wrong


def test_every_file_and_name_exists():
    """Each item of the papers says where it is in the code, and it is there."""
    text = PAGE.read_text()
    assert len(NAMED.findall(text)) > 60
    assert missing(text) == []


@pytest.mark.parametrize("said", ["`learn/kmeans.py:NoSuchName`", "`learn/nofile.py`"])
def test_control_what_is_not_there_is_found(said):
    """A file or a name that is gone is noticed."""
    assert missing(f"| item | {said} | |") == [said.strip("`") + ("" if ":" in said else ":")]


@pytest.mark.parametrize(
    ("file", "items"),
    [
        ("PODS 05", ["Definition 1", "Theorem 1", "Lemma 2", "Theorem 3", "Lemma 4", "Theorem 5",
                     "Theorem 6", "Theorem 7", "3.1.1", "3.1.2", "3.1.3", "3.1.4", "3.1.5", "3.1.6",
                     "4.1.2", "4.2", "4.3", "4.4", "4.5", "5.4"]),
        ("CRYPTO 04", ["Definition 1", "Proposition 1", "Proposition 2", "Proposition 3", "Lemma 1",
                       "Theorem 1", "Theorem 2", "Theorem 3", "6:", "7:"]),
        ("Duan", ["Definition 1", "Definition 2", "Lemma 1", "Lemmas 2 and 3", "Theorem 1",
                  "Theorem 2", "Theorem 3", "Theorem 4", "Theorem 5", "Theorem 6", "4.2", "7.1",
                  "7.2"]),
    ],
)  # fmt: skip
def test_every_item_has_a_line(file, items):
    """No theorem, lemma, definition or numbered remark of a paper is left out."""
    page = PAGE.read_text()
    part = page[page.index(f"\n## {file}\n") :].split("\n## ")[1]
    assert [item for item in items if item not in part] == []


def test_prices_of_models_are_those_of_the_page():
    """The prices of SVD and PCA that the page names are computed."""
    page = PAGE.read_text()
    for guarantee in ("beliefs", "dp"):
        for d in (4, 16):
            db = sulq.rehearsal(columns(d), rows=10, queries=100_000, guarantee=guarantee)
            for kind in (SVD, PCA):
                price = float(kind(n_components=2).price(db, columns=list(columns(d))).queries)
                assert f"{price:.3g}" in page or f"{price:.2f}" in page, (kind, d, guarantee, price)


def columns(count):
    """Numbers between 0 and 1."""
    unit = {"type": "number", "low": 0, "high": 1, "nullable": False}
    return {f"x{i}": unit for i in range(count)}
