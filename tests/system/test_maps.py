"""What a reader finds the right file by: maps, names, sizes, and imports that say their reason."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE, TESTS = ROOT / "src/sulq", ROOT / "tests"
FILES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted(p.parent for p in SOURCE.rglob("__init__.py") if p.parent != SOURCE)
MAP_LINE = re.compile(r"^ {0,4}(\w+\.py|\w+/) {2,}\S", re.MULTILINE)
MAX_FILE, MAX_FUNCTION = 700, 60

# One name in several packages, where the package tells them apart.
SAME_NAME = {
    "app": "the whole application, the API's routes, the console's pages",
    "base": "what every engine is, what every learner is",
    "database": "the front door: here, audited, over HTTP",
    "datasets": "the service, and its routes",
    "engine": "PostgreSQL's and Spark's",
    "postgres": "connections, the ledger's server, the command",
    "promise": "of noisy answers, and of audited ones",
    "writer": "one SQL for each engine",
}

# Files of ours that are loaded when they are used, because of what they load in turn.
HEAVY = {
    "sulq.__version__": "which a worker of Spark is asked for",
    "sulq.engines.array_engine": "duckdb",
    "sulq.engines.duckdb": "duckdb, pyarrow",
    "sulq.engines.postgres.engine": "psycopg",
    "sulq.engines.spark.engine": "pyspark",
    "sulq.engines.reference": "pyarrow",
    "sulq.ledger": "SQLAlchemy",
    "sulq.privacy.calibration": "scipy",
    "sulq.audit.classes": "scipy",
    "sulq.audit.duan": "scipy",
    "sulq.audit.database": "scipy",
    "sulq.learn": "all learners",
    "sulq.sources.draft": "duckdb",
    "sulq.report": "for owners only",
    "sulq.settings_file": "for commands and tools only",
}
# Front doors, whose commands and names load what is behind them when they are used.
DOORS = (
    "sulq",
    "sulq.cli",
    "sulq.client",
    "sulq.dbapi.cursor",
    "sulq.dbapi.substitution",
    "sulq.server.process",
)


# Still to be mended; a file that is no longer needed here fails.
LATE: set[str] = set()


def name_of(path):
    """A file's name as it is imported."""
    parts = ("sulq", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def mapped(package):
    """The names on a package's map."""
    return MAP_LINE.findall(ast.get_docstring(tree_of(package / "__init__.py"), clean=False) or "")


def there(package):
    """What a package holds: its files, and its folders with a slash."""
    files = {p.name for p in package.glob("*.py")} - {"__init__.py"}
    return files | {p.name + "/" for p in package.iterdir() if p.is_dir()} - {"__pycache__/"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_package_says_what_each_of_its_files_holds(package):
    """The docstring of __init__.py has one line for each file that is there, and no other."""
    names = mapped(package)
    assert sorted(names) == sorted(there(package)), (
        f"one line for each file, four spaces before it, in {package.name}/__init__.py"
    )


def test_a_map_is_read_as_it_is_written(tmp_path):
    """A missing line, and a line of a file that is gone, are both seen."""
    (tmp_path / "here.py").write_text("")
    (tmp_path / "__init__.py").write_text('"""Some.\n\n    gone.py  what it held\n"""\n')
    assert mapped(tmp_path) == ["gone.py"]
    assert there(tmp_path) == {"here.py"}


def test_a_file_name_is_used_once_or_its_package_tells_it_apart():
    """Two files of one name are looked for in vain, unless the list above says why not."""
    found = defaultdict(list)
    for path in FILES:
        if path.stem != "__init__":
            found[path.stem].append(str(path.relative_to(SOURCE)))
    several = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert set(several) == set(SAME_NAME), several


def test_no_file_is_longer_than_one_reads():
    """700 lines at most; above 600 ask whether it is one concept."""
    lines = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in FILES}
    assert {name for name, count in lines.items() if count > MAX_FILE} == set()


def test_no_function_is_longer_than_a_page():
    """60 lines at most."""
    found = set()
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno >= MAX_FUNCTION:
                    found.add(f"{path.relative_to(SOURCE)} {node.name}")
    assert found == set()


def late_imports(tree):
    """The files of ours that are imported inside a function."""
    known = {name_of(p) for p in FILES}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                yield from (a.name for a in node.names if a.name.split(".")[0] == "sulq")
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sulq"):
                names = (f"{node.module}.{a.name}" for a in node.names)
                yield from (
                    n if n in known or node.module == "sulq" else node.module for n in names
                )


def is_heavy(name):
    return any(f"{name}.".startswith(f"{heavy}.") for heavy in HEAVY)


def is_door(name):
    return name in DOORS or name.startswith("sulq.cli.")


@pytest.mark.parametrize(
    "path", [p for p in FILES if not is_door(name_of(p))], ids=lambda p: name_of(p)
)
def test_an_import_inside_a_function_is_of_something_heavy(path):
    """Everything else is imported where a reader and the linter look first: at the top."""
    found = {name for name in late_imports(tree_of(path)) if not is_heavy(name)}
    assert bool(found) == (name_of(path) in LATE), found


def test_the_check_of_late_imports_has_teeth():
    """It sees both spellings, nested functions too, and leaves the top of a file alone."""
    text = "import sulq.ledger\ndef f():\n    def g():\n        from sulq import report\n"
    assert set(late_imports(ast.parse(text))) == {"sulq.report"}
    assert set(late_imports(ast.parse("async def f():\n    import sulq.kernel.sums"))) == {
        "sulq.kernel.sums"
    }


def test_tests_are_found_by_the_package_they_hold():
    """Below tests/ are the packages of sulq, and what is about all of them."""
    across = {"attacks", "fixtures", "system"}
    folders = {p.relative_to(TESTS) for p in TESTS.rglob("*") if list(p.glob("test_*.py"))}
    packages = {p.relative_to(SOURCE) for p in PACKAGES}
    assert {str(f) for f in folders - packages} <= across | {"."}


def test_files_of_tests_that_the_docs_name_are_there():
    """docs/security.md and the proofs say which test holds what."""
    files = {p.relative_to(TESTS).as_posix() for p in TESTS.rglob("*.py")}
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    named = {
        name for page in pages for name in re.findall(r"[\w/]*\btest_\w+\.py", page.read_text())
    }
    short = {name.removeprefix("tests/") for name in named}
    assert len(short) > 20
    ends = {file.split("/")[-1] for file in files}
    assert {n for n in short if n not in files and ("/" in n or n not in ends)} == set()


def layers_of(text):
    """The packages and files of CONTRIBUTING's table, in its order."""
    table = text.split("| package or file | holds |")[1].split("\n\n")[0]
    cells = (line.split("|")[1] for line in table.splitlines()[2:])
    return [
        name.rstrip("/").removesuffix(".py") for c in cells for name in re.findall("`(.*?)`", c)
    ]


def test_the_page_for_contributors_has_every_layer_in_its_place():
    """Everything directly below sulq is in the table, after whatever it imports."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    order = settings["tool"]["importlinter"]["contracts"][0]["layers"][::-1]
    named = layers_of((ROOT / "CONTRIBUTING.md").read_text())
    assert sorted(named) == sorted(order)
    rank = {name: i for i, name in enumerate(named)}
    for path in FILES:
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sulq."):
                other = node.module.split(".")[1]
                assert own == "__init__" or rank[other] <= rank[own], f"{path}: {node.module}"


def test_files_that_the_page_for_contributors_names_are_there():
    """A reader finds each of them where the page says."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    inside = {p.name for p in (SOURCE / "expressions").glob("*.py")}
    for name in re.findall(r"`([\w/]+\.py)`", text):
        places = (ROOT / name, SOURCE / name, TESTS / name)
        assert any(p.exists() for p in places) or name in inside, name
