"""The documentation says what the product does: examples run, references are complete."""

from __future__ import annotations

import doctest
import functools
import importlib.util
import inspect
import io
import linecache
import re
import shlex
import shutil
import tomllib
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import postgres
import pyarrow.parquet as pq
import pytest

import sulq
from sulq import errors
from sulq import learn as sulq_learn
from sulq import settings_file as config
from sulq.cli import demo_data
from sulq.database import Database
from sulq.expressions.functions import FUNCTIONS
from sulq.expressions.parse import HINTS, parse
from sulq.values.column import FIELDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROWS = 20_000
INSIDE = {"spread"}  # of an Answer: how .interval works


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+?)\s*$", without_blocks(text), re.MULTILINE)


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@functools.cache
def make_reference() -> Any:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- examples ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced block: its tag, such as 'python', the words after it, and its text."""

    tag: str
    words: tuple[str, ...]
    text: str
    line: int


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in re.finditer(r"^```(\S*)([^\n]*)\n(.*?)^```\s*$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(match[1], tuple(match[2].split()), match[3], line))
    return found


def run_page(text: str, name: str) -> None:
    """Run every example of one page in order; they share names and the working directory."""
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks_of(text):
        where = f"{name}, line {block.line}"
        if block.tag == "python":
            run_python(block, names, where)
        elif block.tag == "console":
            run_console(block, where)


def run_python(block: Block, names: dict[str, Any], where: str) -> None:
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        runner, said = doctest.DocTestRunner(optionflags=flags), io.StringIO()
        runner.run(test, out=said.write, clear_globs=False)
        assert not runner.summarize(verbose=False).failed, said.getvalue()
        names.update(test.globs)
        return
    padded = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
    with redirect_stdout(io.StringIO()):
        file = where.split(",")[0]
        linecache.cache[file] = (len(padded), None, padded.splitlines(True), file)  # for @sulq.row
        exec(compile(padded, file, "exec"), names)


def run_console(block: Block, where: str) -> None:
    """Run `$ sulq ...` lines. Tag 'console fails': refused; 'console exact': output as shown."""
    from typer.testing import CliRunner

    from sulq.cli import app

    for command, shown in commands_of(block.text):
        if not command.startswith("sulq "):
            continue
        env = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        result = CliRunner().invoke(app, shlex.split(command)[1:], env=env)
        said = f"{where}: $ {command}\nexit code {result.exit_code}\n{result.output}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(said) from result.exception
        assert (result.exit_code != 0) == ("fails" in block.words), said
        if "exact" in block.words:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert doctest.OutputChecker().check_output(shown, result.output, flags), said


def commands_of(text: str) -> list[tuple[str, str]]:
    """Each command with what is shown below it; a line that ends in a backslash goes on."""
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(first, rest) for first, _, rest in (part.partition("\n") for part in parts)]


@pytest.fixture(scope="session")
def demo_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's people.parquet and people.toml, smaller."""
    folder = tmp_path_factory.mktemp("demo")
    pq.write_table(demo_data.people(ROWS), folder / "people.parquet")
    (folder / "people.toml").write_text(demo_data.SCHEMA)
    return folder


@pytest.fixture
def workplace(demo_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the demo's files, to work in."""
    for file in demo_files.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put_into_postgres(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The demo's people on a server, and the addresses that the page takes from outside."""
    if not postgres.here():
        pytest.skip(postgres.MISSING)
    database = postgres.fresh_name("clinic")
    server = postgres.shared()
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    name = postgres.load(pq.read_table(folder / "people.parquet"), database=database, name="people")
    assert name == "people"
    patch.setenv("CLINIC", server.url("reader", database))
    patch.setenv("LEDGER", f"{server.url(database=database)}&ledger=people")
    (folder / "home").mkdir()  # another machine's folder: here the table has its ledger already
    patch.setenv("SULQ_HOME", str(folder / "home"))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_examples_run(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block and every `$ sulq` line of a page does what the page says."""
    if page.name == "spark.md":
        return  # run by tests/engines/test_spark.py, where Spark is
    if page.name == "postgresql.md":
        put_into_postgres(workplace, monkeypatch)
    if page == ROOT / "README.md":  # it is read in the demo's own folder, which has settings
        text = config.draft("people.parquet", "people.toml", config.Settings())
        (workplace / config.FILE).write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ledgers in memory, in examples about them
        run_page(page.read_text(encoding="utf-8"), page_id(page))


@pytest.mark.parametrize(
    "broken",
    [
        "```python\nraise ValueError\n```\n",
        "```python\n>>> 1 + 1\n3\n```\n",
        "```console\n$ sulq nonsense\n```\n",
        "```console fails\n$ sulq --help\n```\n",
        "```console exact\n$ sulq --help\nnothing of the kind\n```\n",
    ],
)
def test_a_broken_example_is_caught(broken: str, workplace: Path) -> None:
    """The runner has teeth."""
    with pytest.raises((AssertionError, ValueError)):
        run_page(broken, "broken.md")


def test_the_price_table_is_exact(workplace: Path) -> None:
    """Each line of the table in ask-cheaply.md has the price the product asks."""
    table = read("docs/howto/ask-cheaply.md")
    lines = re.findall(r"^\| `(sulq\.Query\(.*?\))` \|.*\| (\S+) \| (\S+) \|$", table, re.MULTILINE)
    assert len(lines) >= 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        databases = [
            sulq.open(
                "people.parquet", "people.toml", epsilon=1.0, queries=1000, guarantee=g,
                ledger=":memory:",
            )
            for g in ("beliefs", "dp")
        ]  # fmt: skip
    for text, *prices in lines:
        query = eval(text, {"sulq": sulq})
        found = [str(db.price(query)).split()[0] for db in databases]
        assert found == prices, text


def test_the_belief_table_is_exact() -> None:
    """Each line of the epsilon table in choose-a-promise.md is what the promise says."""
    table = read("docs/howto/choose-a-promise.md")
    lines = re.findall(r"^\| ([\d.]+) ((?:\| [\d.]+% ){4})\| ([\d.,]+) \|$", table, re.MULTILINE)
    assert len(lines) == 5
    for epsilon, beliefs, std in lines:
        promise = sulq.Promise(float(epsilon), 1e-6, 1000)
        said = [f"{100 * promise.belief(p):.1f}" for p in (0.01, 0.1, 0.5, 0.9)]
        assert re.findall(r"[\d.]+", beliefs) == said
        assert std == f"{promise.std:,.1f}"


# --- completeness -----------------------------------------------------------------------


@pytest.mark.parametrize("error", errors.__all__)
def test_error_is_explained(error: str) -> None:
    """Every error has its heading, with how to mend it."""
    assert error in headings(read("docs/reference/errors.md"))


@pytest.mark.parametrize("name", sulq.__all__)
def test_public_name_is_documented(name: str) -> None:
    """Every public name has a heading."""
    assert name in headings(read("docs/reference/python.md"))


@pytest.mark.parametrize("name", sulq_learn.__all__)
def test_learner_is_documented(name: str) -> None:
    """Every name of sulq.learn is in its table, and its public methods are somewhere."""
    assert re.search(rf"`{name}\b", read("docs/reference/python.md"))
    pages = "".join(p.read_text(encoding="utf-8") for p in DOCS.rglob("*.md"))
    kind = getattr(sulq_learn, name)
    methods = {n for n in vars(kind) if not n.startswith("_")} if isinstance(kind, type) else set()
    known = {"estimator_type", "parsed", "fit_transform", "fit_predict", "get_feature_names_out"}
    missing = sorted(n for n in methods - known if not re.search(rf"\b{n}\b", pages))
    assert not missing


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        (Database, "python.md"), (sulq.Promise, "python.md"), (sulq.Answer, "python.md"),
        (sulq.Table, "python.md"), (sulq.Price, "python.md"), (sulq.Budget, "python.md"),
        (sulq.Charge, "python.md"),
    ],
)  # fmt: skip
def test_public_attributes_are_documented(kind: type, page: str) -> None:
    """Every public method and attribute of what a user holds is named."""
    text = read(f"docs/reference/{page}")
    names = {n for n, _ in inspect.getmembers(kind) if not n.startswith("_")} - INSIDE
    missing = sorted(n for n in names if f".{n}" not in text and f"`{n}`" not in text)
    assert not missing


@pytest.mark.parametrize("field", FIELDS)
def test_schema_field_is_documented(field: str) -> None:
    """Every setting of a column has a heading."""
    words = {w for h in headings(read("docs/reference/schema.md")) for w in h.split(", ")}
    assert field in words


def test_every_function_has_a_spelling_that_the_parser_reads() -> None:
    """functions.md lists the allow-list, all of it, in words that work."""
    make = make_reference()
    spelled = {name: text for names in make.SPELLINGS.values() for name, text in names.items()}
    assert spelled.keys() == FUNCTIONS.keys()
    for text in [*spelled.values(), *make.ALSO]:
        parse(text, make.LETTERS)


def test_every_listed_refusal_gives_its_hint() -> None:
    """What the reference lists as refused is refused with those words."""
    make = make_reference()
    for text, key in make.REFUSED.items():
        with pytest.raises(sulq.QueryNotAllowed, match=re.escape(HINTS[key])):
            parse(text, make.LETTERS)


@pytest.mark.parametrize("name", ["functions.md", "cli.md", "http.md", "learners.md"])
def test_generated_page_is_fresh(name: str) -> None:
    """If this fails: python docs/make_reference.py"""
    assert read(f"docs/reference/{name}") == make_reference().PAGES[name]()


def test_every_command_is_documented() -> None:
    """Every command has a heading, and no page names a command that does not exist."""
    known = set(make_reference().command_tree())
    assert known <= set(headings(read("docs/reference/cli.md")))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        spoken = re.findall(r"(?:^\$ |`)(sulq(?: [a-z][a-z-]*)+)", text, re.MULTILINE)
        for words in spoken:
            first = " ".join(words.split()[:2])
            assert first in known, f"{page_id(page)}: {words}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_names_in_the_docs_exist(page: Path) -> None:
    """A page never speaks of sulq.something or db.something that is not there."""
    from sulq.server.pgwire.variables import DEFAULTS

    text = page.read_text(encoding="utf-8")
    for setting in (name for name in DEFAULTS if name.startswith("sulq.")):
        text = re.sub(rf"{re.escape(setting)}\b", "", text)  # of a connection of PostgreSQL's
    modules = {p.stem for p in (ROOT / "src/sulq").iterdir()} | {"toml", "service"}
    for name in re.findall(r"\bsulq\.([A-Za-z]\w*)", text):
        assert name in sulq.__all__ or name in modules or name == "__version__", f"sulq.{name}"
    for name in re.findall(r"\bdb\.([A-Za-z]\w*)", text):
        assert hasattr(Database, name) or name in ("promise", "schema", "name", "pricing"), name


def anchors(text: str) -> set[str]:
    """The anchors GitHub gives headings."""
    kept = (re.sub(r"[^\w\- ]", "", h.lower()) for h in headings(text))
    return {h.replace(" ", "-") for h in kept}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    """Links between pages lead to a file, and to a heading in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} leads nowhere"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found.read_text(encoding="utf-8")), f"{target}: no heading"


PATH = re.compile(r"`((?:\.?[\w-]+/)+[\w.-]*\.(?:py|md|toml|sql|html|css|svg|png|txt|yml))(?:[:`])")
MADE_UP = ("data/", "models/", ".sulq/", "path/")  # folders of a reader, in examples


def lost_paths(page: Path, text: str) -> list[str]:
    """The paths of files in backticks that lead nowhere: from the page, the root or the package."""
    tops = (page.parent, ROOT, ROOT / "src/sulq", ROOT / "tests")
    return [
        path
        for path in PATH.findall(text)
        if not path.startswith(MADE_UP) and not any((top / path).exists() for top in tops)
    ]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_paths_in_the_docs_exist(page: Path) -> None:
    """A file of the repository that a page names is there."""
    assert lost_paths(page, page.read_text(encoding="utf-8")) == []


def test_a_lost_path_is_noticed() -> None:
    """The search above reads paths as pages write them."""
    text = "`src/sulq/promise.py` `privacy/promise.py` `data/people.toml` `tests/none.py:N`"
    assert lost_paths(DOCS / "papers.md", text) == ["src/sulq/promise.py", "tests/none.py"]


# --- statements -------------------------------------------------------------------------


def test_the_index_lists_every_page() -> None:
    """No page is left out."""
    index = read("docs/README.md")
    for page in DOCS.rglob("*.md"):
        if page.name != "README.md" and page.parent.name != "proofs":
            assert str(page.relative_to(DOCS)) in index, page.name


def test_readme_names_the_two_commands() -> None:
    """make run and make test are in the README."""
    readme = read("README.md")
    assert "make run" in readme
    assert "make test" in readme


def test_versions_agree() -> None:
    """pyproject, the package and the changelog name one version."""
    assert sulq.__version__ == PROJECT["version"]
    assert re.search(r"^## \[([^\]]+)\]", read("CHANGELOG.md"), re.MULTILINE)[1] == sulq.__version__


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_python_version_agrees(page: str) -> None:
    """A page that names a Python version names the one in pyproject.toml."""
    wanted = PROJECT["requires-python"].removeprefix(">=")
    stated = re.findall(r"Python (\d+\.\d+)", read(page))
    assert stated
    assert set(stated) == {wanted}


def test_license_is_the_declared_one() -> None:
    """The project and the file name the same license."""
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE")


SAMPLES = {  # what the pages show of the demo's table -> what is true of it
    "README.md": {
        r"smoker and age >= 40.*# ([\d,]+) \+/- (\d+)": lambda p: (p.smoker & (p.age >= 40)).sum(),
        r"mean\(.income.\)\)  # ([\d,]+) \+/- (\d+)": lambda p: p.income.mean(),
    },
    "docs/tutorial.md": {
        r"\n([\d,]+) \+/- (\d+) \(95%\), price 1 query": lambda p: (p.smoker & (p.age >= 40)).sum(),
        r"0 to 9 +([\d,]+) \+/- (\d+)": lambda p: (p.age < 10).sum(),
        r"10 to 19 +([\d,]+) \+/- (\d+)": lambda p: ((p.age >= 10) & (p.age < 20)).sum(),
        r"110 to 120 +([-\d,]+) \+/- (\d+)": lambda p: (p.age >= 110).sum(),
    },
}


def test_sample_outputs_agree_with_the_truth():
    """Numbers shown of the demo's people lie within four standard deviations of what is true."""
    from sulq.cli.demo_data import people

    table = people().to_pandas()
    for page, samples in SAMPLES.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for pattern, truth in samples.items():
            shown, reach = (float(x.replace(",", "")) for x in re.search(pattern, text).groups())
            assert abs(shown - truth(table)) <= 4 * reach / 1.96, (page, pattern)


def test_security_names_tests_that_are_there() -> None:
    """Each test that docs/security.md names exists, and no two sections have one heading."""
    text = read("docs/security.md")
    assert len(headings(text)) == len(set(headings(text)))
    named = re.findall(r"`((?:tests/)?[a-z]+/[a-z_]+\.py)?(?:::(test_[a-z0-9_]+))?`", text)
    file, seen = "", 0
    for path, test in named:
        file = path.removeprefix("tests/") or file
        if not (path or test):
            continue
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in source, f"{file}::{test}"
        seen += 1
    assert seen > 60
