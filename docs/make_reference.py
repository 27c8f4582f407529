"""Writes the reference pages that are taken from the code.

    python docs/make_reference.py           write them
    python docs/make_reference.py --check   fail if one is stale

tests/system/test_docs.py runs the check, and reads every spelling below with the real parser.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from sulq.expressions.functions import FUNCTIONS, MADE
from sulq.expressions.node import HUGE, MAX_NODES
from sulq.expressions.parse import HINTS, MAX_NESTING, MAX_TEXT
from sulq.learn import KINDS, KMeans
from sulq.learn.parameters import Parameter, parameters_of
from sulq.server.api.api_reference import Field, Route, sections
from sulq.server.api.app import api
from sulq.settings_file import Settings, draft
from sulq.values.schema import LARGEST, Schema

FOLDER = Path(__file__).parent / "reference"

# The letters used in functions.md, as a schema: the test parses every spelling with it.
LETTERS = Schema.load(
    {
        "a": {"type": "number", "low": 1, "high": 9},
        "b": {"type": "number", "low": 1, "high": 9},
        "k": {"type": "integer", "low": 0, "high": 9},
        "m": {"type": "integer", "low": 0, "high": 9},
        "p": {"type": "boolean"},
        "q": {"type": "boolean"},
        "t": {"type": "text"},
        "d": {"type": "date", "low": "2000-01-01", "high": "2030-12-31"},
        "e": {"type": "date", "low": "2000-01-01", "high": "2030-12-31"},
    }
)

# How each allowed function is written in SQL, by section.
SPELLINGS: dict[str, dict[str, str]] = {
    "Arithmetic": {
        "add": "a + b",
        "sub": "a - b",
        "mul": "a * b",
        "div": "a / b",
        "mod": "k % m",
        "neg": "-a",
        "abs": "abs(a)",
        "sign": "sign(a)",
        "floor": "floor(a)",
        "ceil": "ceil(a)",
        "round": "round(a, 2)",
        "sqrt": "sqrt(a)",
        "ln": "ln(a)",
        "exp": "exp(a)",
        "power": "power(a, b)",
        "least": "least(a, b)",
        "greatest": "greatest(a, b)",
        "width_bucket": "width_bucket(a, 0, 10, 5)",
    },
    "Casts": {
        "to_integer": "cast(a as integer)",
        "to_number": "cast(k as double)",
        "to_boolean": "cast(k as boolean)",
    },
    "Comparison and logic": {
        "eq": "a = b",
        "ne": "a <> b",
        "lt": "a < b",
        "le": "a <= b",
        "is_null": "a is null",
        "and": "p and q",
        "or": "p or q",
        "not": "not p",
        "xor": "p xor q",
        "in": "k in (1, 2, 3)",
        "like": "t like 'A%'",
    },
    "Choice": {
        "case": "case when p then a else b end",
        "coalesce": "coalesce(a, 0)",
    },
    "Text and dates": {
        "length": "length(t)",
        "starts_with": "starts_with(t, 'A')",
        "ends_with": "ends_with(t, 'z')",
        "contains": "contains(t, 'b')",
        "substr": "substr(t, 2, 3)",
        "split_part": "split_part(t, '-', 2)",
        "regexp_matches": "regexp_matches(t, '^[A-Z]{2}-\\d+$')",
        "lower": "lower(t)",
        "upper": "upper(t)",
        "part": "extract(year from d)",
        "trunc": "date_trunc('month', d)",
    },
}

# Other ways to write the same functions.
ALSO = {
    "a > b": "`b < a`; `a >= b` likewise",
    "a between 2 and 5": "`2 <= a and a <= 5`",
    "a is not null": "`not (a is null)`",
    "p is true": "true where p is true; missing counts as false",
    "case k when 1 then a when 2 then b end": "`case` with `k = 1` and `k = 2` as conditions",
    "if(p, a, b)": "`case when p then a else b end`",
    "nullif(a, b)": "`case when a = b then null else a end`",
    "d + 7": "seven days later",
    "d >= '2020-01-31'": "text beside a date is read as a date; so is `date '2020-01-31'`",
    "date_diff('day', d, e)": "`e - d`, in whole days; of timestamps, the midnights between them. "
    "Likewise month, quarter, year, and hour, minute, second of the clock",
    "date_diff('full_day', d, e)": "times 24 hours between two dates or timestamps, down",
    "year(d)": "`extract(year from d)`; likewise quarter, month, day, dayofweek, dayofyear",
    "date_part('month', d)": "`extract(month from d)`",
    "left(t, 3)": "`substr(t, 1, 3)`",
    "k is null or k > 3": "brackets and precedence are SQL's",
}

# What people try that is refused, and the hint they get.
REFUSED = {
    "count(a) > 3": "count",
    "a // b": "intdiv",
    "log(a)": "log",
    "t ilike 'a%'": "ilike",
    "t || 'x' = 'y'": "dpipe",
    "(select 1) = 1": "subquery",
    "isnan(a)": "isnan",
}


def functions_page() -> str:
    """The allow-list of row functions, with what each does at its edges."""
    lines = [
        "# Functions",
        "",
        "<!-- Written by docs/make_reference.py from sulq.expressions.functions. Do not edit. -->",
        "",
        "What may stand in an expression or a `where`: this list and nothing else. Every function",
        "is total. It has a value or is missing (NULL) on every row, and it never fails. All of",
        "them give the same bits on every engine.",
        "",
        "In the tables `a` and `b` are numbers, `k` and `m` whole numbers, `p` and `q` Booleans,",
        "`t` a text, `d` and `e` dates. Missing arguments give a missing result unless a line",
        "says otherwise. Names are read in any case; quote a name with double quotes.",
    ]
    for section, names in SPELLINGS.items():
        lines += ["", f"## {section}", "", "| write | what it does |", "|---|---|"]
        lines += [f"| `{names[n]}` | {_cell(FUNCTIONS[n].edges)} |" for n in names]
    lines += ["", "## Other ways to write them", "", "| write | means |", "|---|---|"]
    lines += [f"| `{_cell(text)}` | {_cell(means)} |" for text, means in ALSO.items()]
    lines += [
        "",
        "## Columns and constants",
        "",
        f"- {MADE['column']}",
        f"- Whole numbers are exact up to {LARGEST:,} (2**53), other numbers reach {HUGE:g}.",
        "- `true`, `false`, `null`, `'text'` in single quotes, `date '2020-01-31'`.",
        "",
        "## Ranges",
        "",
        "A sum needs a known range. It follows from the declared ranges through the expression:",
        "`age` in [0, 120] makes `age * age` lie in [0, 14,400]. Where the range is not known,",
        "clamp it: `least(greatest(x, 0), 100)`. A missing `x` then counts as 0, because `least`",
        "and `greatest` skip what is missing.",
        "",
        "## Not allowed",
        "",
        "Subqueries, aggregates, and anything that reads files, the network, the clock, the",
        "session or random numbers. At most",
        f"{MAX_TEXT:,} characters, brackets {MAX_NESTING} deep, {MAX_NODES:,} parts.",
        "Some refusals say what to write instead:",
        "",
        "| refused | the hint |",
        "|---|---|",
    ]
    lines += [f"| `{_cell(text)}` | {_cell(HINTS[key])} |" for text, key in REFUSED.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text that does not end its table cell."""
    return text.replace("|", "\\|")


# --- the command line -------------------------------------------------------------------


def command_tree() -> dict[str, Any]:
    """Every command by its full name, such as 'sulq schema draft'; groups included."""
    from typer.main import get_command

    root = get_command(importlib.import_module("sulq.cli").app)
    return dict(_commands("sulq", root))


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _commands(f"{name} {child}", below)


def cli_page() -> str:
    """Every command with its arguments and options, as the program itself declares them."""
    lines = [
        "# Command line",
        "",
        "<!-- Written by docs/make_reference.py from the program's own help. Do not edit. -->",
        "",
        "`sulq COMMAND --help` prints the same. Results go to stdout, notes and errors to stderr.",
        "A command exits with 0 when it did what was asked, 2 when it was refused and nothing was",
        "charged, and 1 when something else went wrong. With `--json`, stdout is one JSON",
        "document, errors included.",
    ]
    tree = command_tree()
    lines += _shared(tree)
    for name, command in tree.items():
        lines += ["", f"## {name}", "", *_paragraphs(command.help)]
        below = [n for n, c in getattr(command, "commands", {}).items() if not c.hidden]
        if below:
            lines += ["", *(f"- [`{name} {n}`](#{_anchor(f'{name} {n}')})" for n in below)]
        lines += _parameters(name, command)
    return "\n".join(lines) + "\n"


def _paragraphs(text: str | None) -> list[str]:
    """Help text with its line breaks, without the marks typer uses."""
    return (text or "").replace("\b", "").strip().splitlines()


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")


def _shared(tree: dict[str, Any]) -> list[str]:
    """The options of every command that opens a database, once."""
    found = {p.name: p for c in tree.values() for p in c.params if _panel(p)}
    lines = [
        "",
        "## Shared options",
        "",
        "Commands that open a database look for a `sulq.toml` in the working folder, or beside",
        "`--data`. These options override what it says.",
    ]
    for panel in dict.fromkeys(_panel(p) for p in found.values()):
        lines += ["", f"{panel}:", "", "| | |", "|---|---|"]
        chosen = (p for p in found.values() if _panel(p) == panel)
        lines += [f"| `{p.opts[0]}` | {_cell(_flat(p.help))} |" for p in chosen]
    return [*lines, *_config()]


def _config() -> list[str]:
    """The settings file, as `sulq init` writes it."""
    known = ", ".join(f"`{f.name}`" for f in fields(Settings))
    return [
        "",
        "## sulq.toml",
        "",
        "`sulq init` writes this file beside the data. Paths in it start at its own folder.",
        f"Settings: {known}; each means what it means to [`sulq.open`](python.md#open).",
        "",
        "```toml",
        *draft("people.parquet", "people.toml", Settings()).splitlines(),
        "```",
    ]


def _panel(p: Any) -> str:
    return getattr(p, "rich_help_panel", None) or ""


def _parameters(name: str, command: Any) -> list[str]:
    shown = [p for p in command.params if not getattr(p, "hidden", False) and not _panel(p)]
    arguments = [p for p in shown if type(p).__name__ == "TyperArgument"]
    options = [p for p in shown if p not in arguments and not _of_typer(p)]
    shares = any(_panel(p) for p in command.params)
    if not arguments and not options:
        return []
    words = [(p.metavar or p.name.upper()) for p in arguments]
    words = [w if p.required else f"[{w}]" for w, p in zip(words, arguments, strict=True)]
    usage = " ".join([name, *words, *(["[OPTIONS]"] if options else [])])
    lines = ["", "```text", usage, "```", "", "| | | default |", "|---|---|---|"]
    for word, p in zip(words, arguments, strict=True):
        lines.append(f"| `{_cell(word)}` | {_cell(_flat(p.help))} | {_default(p)} |")
    for p in options:
        flags = ", ".join(f"`{o}`" for o in [*p.opts, *p.secondary_opts])
        lines.append(f"| {flags} | {_cell(_flat(p.help))} | {_default(p)} |")
    if shares:
        lines += ["", "It also takes the [shared options](#shared-options)."]
    return lines


def _of_typer(p: Any) -> bool:
    """Options every program made with typer has."""
    return p.name in ("install_completion", "show_completion", "help")


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


def _default(p: Any) -> str:
    if p.required:
        return "required"
    if p.default is None or p.default in (False, "", (), []) or callable(p.default):
        return ""
    return f"`{p.default}`"


# --- learners.md ------------------------------------------------------------------------


def learners_page() -> str:
    """The parameters of every learner, as they declare them."""
    lines = [
        "# Learners' parameters",
        "",
        "<!-- Written by docs/make_reference.py from sulq.learn. Do not edit. -->",
        "",
        "Each is a keyword of the constructor (the first one of `PCA`, `SVD` and `KMeans` may",
        "stand without its name), an option of `sulq learn` if it is a number, a word or a switch,",
        "and under its name in the last column a field of the console's form.",
        "[Learning](../howto/learn/README.md) says what the learners do.",
        "",
        "Every learner has these:",
        "",
        *_learner_table([p for p in parameters_of(KMeans) if p.shared]),
    ]
    for name, kind in KINDS.items():
        own = [p for p in parameters_of(kind) if not p.shared]
        table = _learner_table(own, bool(kind.about.title))
        lines += ["", f"## {name}", "", kind.about.words, "", *table]
    return "\n".join(lines) + "\n"


def _learner_table(found: list[Parameter], shown: bool = False) -> list[str]:
    head = [
        "| parameter | default | what it is | may be | in the console |",
        "|---|---|---|---|---|",
    ]
    return head + [
        f"| `{p.name}` | `{p.default!r}` | {_cell(p.help)} | {_may_be(p)} | {p.words * shown} |"
        for p in found
    ]


def _may_be(p: Parameter) -> str:
    kind = {int: "a whole number", float: "a number", bool: "true or false"}.get(p.kind, "")
    said = p.wanted.replace("'", "`") if p.choices else p.wanted
    return f"{kind}, {said}" if p.kind is int and said else said or kind


# --- http.md ----------------------------------------------------------------------------


def http_page() -> str:
    """Every route with its body, an example and its errors, as the server describes them."""
    found = api().openapi()
    lines = [
        "# HTTP",
        "",
        "<!-- Written by docs/make_reference.py from the server's description. Do not edit. -->",
        "",
        *found["info"]["description"].strip().splitlines(),
        "",
        "The same description, for programs, is at `GET /v1/openapi.json`, and for people at",
        "`/console/reference` of every server. Examples of requests have what must be said; what",
        "is left out has its default. How to run a server is in [serve](../howto/serve.md).",
    ]
    for tag, routes in sections(found).items():
        lines += ["", f"## {tag.capitalize()}", *(line for r in routes for line in _route(r))]
    return "\n".join(lines) + "\n"


def _route(route: Route) -> list[str]:
    lines = ["", f"### {route.method} {route.path}", "", f"{route.summary}. {route.about}"]
    rows = [f"| {_name(field)} | {field.kind} | {_cell(field.about)} |" for field in route.fields]
    if rows:
        lines += ["", "| | | |", "|---|---|---|", *rows]
    lines += ["", "```text", *route.request.splitlines(), "```", "", f"{route.status}:", ""]
    lines += ["```text", *route.reply.splitlines(), "```"]
    statuses = [status for status, _ in route.errors]
    return lines + (["", f"Errors: {', '.join(statuses)}."] if statuses else [])


def _name(field: Field) -> str:
    if field.where != "body":
        return f"`{field.name}` ({field.where})"
    return f"`{field.name}`" + ("" if field.default is None else f", default `{field.default}`")


PAGES: dict[str, Callable[[], str]] = {
    "functions.md": functions_page, "cli.md": cli_page, "http.md": http_page,
    "learners.md": learners_page,
}  # fmt: skip


def main() -> int:
    """Write the pages, or with --check say which are stale."""
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale:
        print(("stale: " if "--check" in sys.argv else "written: ") + ", ".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
