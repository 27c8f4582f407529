"""Names that act: in a terminal, a page, a spreadsheet, Markdown, a log; they are shown instead."""

import ast
import csv
import io
import json
import re
import typing
from pathlib import Path

import pytest
from attacks.harness import opened, people
from helpers import SilentNoise
from hypothesis import given, settings
from hypothesis import strategies as st
from server.console.page_client import PageClient
from server.instance import made
from soak import times
from typer.testing import CliRunner

import sulq
from sulq.cli import app
from sulq.errors import Refused
from sulq.report import markdown, report
from sulq.server.api import oversight, request_bodies
from sulq.values.safe_text import (
    checked_text,
    csv_text,
    json_text,
    markdown_text,
    one_line,
    visible,
)

SOURCE = Path(sulq.__file__).parent
HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07", "\x9b31m", "a\rb", "\u202egnp.exe", "\u2066x\u2069", "\u200bx",
    "\x00", "=1+1",
    "+1;=HYPERLINK(\"http://evil.example\")", "-1+cmd|'/C calc'!A0", "@SUM(A1)", "\t=1",
    " =1", "\uff1d1+1", "x,=1", "x;\"=1", "x\n=cmd|' /C calc'!A0", "<script>hit()</script>",
    "[x](javascript:hit())", "`x`", "a|b", "'", "\u2028x", "\U000e0041", "x" * 10_000,
]  # fmt: skip
NAMES = st.text(
    st.one_of(
        st.sampled_from("=+-@;,|\t\r\n\"' \x1b\x9b\u202e\u2066\ufeff\uff1d1a"), st.characters()
    ),
    max_size=30,
)
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f]")
NUMBER = re.compile(r"[+-]?[\d,.]+([eE][+-]?\d+)?( to [+-]?[\d,.]+([eE][+-]?\d+)?)?")


def runs(text):
    """Cells of a file that a spreadsheet would run, whatever it takes for the end of a cell."""
    found = []
    for delimiter in ",;\t|:":
        for line in csv.reader(io.StringIO(text), delimiter=delimiter):
            found += line
    found += re.split('[,;\t\r\n|"]', text)  # and one that knows no quotes
    plain = (cell.strip().strip('\ufeff"').strip() for cell in found)
    signs = "=+-@\uff1d\uff0b\uff0d\uff20"
    return [c for c in plain if c[:1] in signs and c[:1] and not NUMBER.fullmatch(c)]


def older_cell(value):
    """As release 2 had it."""
    formula = re.compile(r"[=@\t\r]|[+-](?![\d.])")
    return f"'{value}" if formula.match(value) else value


def written(rows):
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_spreadsheet_runs_a_name(name):
    """Also where it takes another sign for the end of a cell."""
    assert runs(csv_text([["x", name, 1.5], [name, "y", -2]])) == []


@settings(max_examples=times(500, 20_000), deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4))
def test_no_spreadsheet_runs_any_names(names):
    """Whatever stands beside it."""
    text = csv_text([names, names[::-1]])
    assert runs(text) == []
    assert RAW.sub("", text.replace("\r", "")) == text.replace("\r", "")


def test_control_the_rule_of_release_2_lets_formulas_through():
    """The same look finds them."""
    caught = [name for name in HOSTILE if runs(written([[older_cell(name)]]))]
    assert '+1;=HYPERLINK("http://evil.example")' in caught
    assert "-1+cmd|'/C calc'!A0" in caught


def test_numbers_stay_numbers_and_names_stay_names():
    """Nothing is changed that nobody could run."""
    plain = [
        "north",
        "-5 to 10",
        "1,000 to 2,000",
        "-3.5",
        "O'Brien",
        "a b",
        "Zürich",
        "日本",
        "a-b",
    ]
    assert csv_text([plain]) == written([plain]).replace("\r", "")
    assert csv_text([[1, -2.5, True, None]]) == "1,-2.5,True,\n"


@settings(max_examples=times(300, 10_000), deadline=None)
@given(NAMES)
def test_what_cannot_be_seen_is_spelled_out(name):
    """On a terminal, on one line, in JSON that is read there, in Markdown."""
    assert not RAW.search(visible(name))
    assert not RAW.search(one_line(name))
    assert "\n" not in one_line(name)
    assert not RAW.search(json_text({"x": name}))
    assert json.loads(json_text({"x": name})) == {"x": name}
    assert not re.search(r"(?<!\\)([<`|]|\]\()", re.sub(r"\\\\", "", markdown_text(name)))


# ---- where text leaves ------------------------------------------------------------------------


def test_commands_write_in_one_place():
    """Whatever a command says passes `say` or `grid`: no other echo, print or bare text of Rich."""
    beside = {("demo.py", "print")}  # of words that are its own
    for path in sorted((SOURCE / "cli").glob("*.py")):
        if path.name == "common.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert (node.attr, getattr(node.value, "id", "")) not in (
                    ("echo", "typer"), ("secho", "typer"), ("write", "stdout"),
                ), path.name  # fmt: skip
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                assert not node.args or (path.name, "print") in beside, path.name


def test_every_text_of_a_request_is_limited():
    """Walked over the models of all bodies: a pattern, a most of letters, or words to choose."""
    beside = {("ToCheck", "schema_"), ("NewDataset", "schema_"), ("Refresh", "schema_")}
    models = [
        found
        for module in (request_bodies, oversight)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, request_bodies.Body)
    ]
    free = set()
    for model in models:
        for name, field in model.model_fields.items():
            said = model.model_json_schema()["properties"].get(field.alias or name, {})
            for form in said.get("anyOf", [said]):
                limited = {"maxLength", "pattern", "enum", "const"} & form.keys()
                if form.get("type") == "string" and not limited:
                    free.add((model.__name__, name))
    number = {(m, n) for m, n in free if n in ("queries", "cap")}  # read as an exact number
    assert free - number <= beside
    assert typing.get_type_hints(request_bodies.NewKey)["label"] is str


@pytest.mark.parametrize("text", ["\x1b[2J", "a\u202eb", "x" * 10_001, "a\rb", "\x00"])
def test_what_is_entered_is_refused_in_words(text):
    """Too long, or with what cannot be seen; the refusal itself can be read."""
    with pytest.raises(Refused, match="letters") as refused:
        checked_text(text, "reason", 1000, lines=True)
    assert not RAW.search(str(refused.value))


@pytest.fixture(scope="module")
def categories():
    """Declared values that act, as an owner or the institution may have them."""
    return [name[:200] for name in HOSTILE if name != "\x00"]


def test_tables_reports_and_files_show_names_as_they_are(categories):
    """A table as text, in a notebook, as a file; the report, with the names as labels."""
    table = people(len(categories), city=categories)
    schema = {
        "id": {"key": True}, "secret": {"type": "boolean"},
        "city": {"values": categories, "public": True},
    }  # fmt: skip
    db = opened(table, schema, noise_from=SilentNoise())
    found = db.sql("select city, count(*) as n from frame group by city")
    page = markdown(report(db._ledger, answers=True))
    for text in (str(found), found._repr_html_(), page):
        assert not RAW.search(text)
    assert "<script>hit" not in found._repr_html_()
    assert not re.search(r"(?<!\\)<script>hit", page)
    assert runs(found.to_csv()) == []
    assert not RAW.search(found.plot().svg if hasattr(found.plot(), "svg") else str(found))


def test_a_server_shows_and_refuses_names_that_act(tmp_path):
    """Entered over HTTP where they are taken, they are shown on pages, terminals and in files."""
    with made(tmp_path / "i").serving() as instance:
        for name in HOSTILE:
            for method, path, body in (
                ("PATCH", "/v1/datasets/people", {"description": name}),
                ("POST", "/v1/keys", {"label": name}),
                ("POST", "/v1/analysts", {"name": name}),
                ("POST", "/v1/datasets/people/refresh", {"reason": name}),
            ):
                found = instance.call(method, path, body, "anna")
                taken = found.status < 300
                assert taken or found.status in (409, 422), (path, name, found.body)
                assert not (taken and RAW.search(name)), (path, name)
                assert not RAW.search(found.body.decode())
        anna = PageClient(instance, "anna")
        pages = ["audit-log", "account", "datasets/people", "datasets/people/timeline",
                 "datasets/people/report", "analysts", "server"]  # fmt: skip
        for page in pages:
            shown = anna.get(f"/console/{page}").body.decode()
            assert not RAW.search(shown), page
            assert "<script>hit" not in shown, page
        at = ["--dir", str(instance.folder), "--owner", "anna"]
        for words in (["key", "list"], ["dataset", "list"], ["audit-log"], ["alarms"]):
            for form in ([], ["--json"]):
                said = CliRunner().invoke(app, [*words, *at, *form])
                assert said.exit_code == 0, said.output
                assert not RAW.search(said.output), words
