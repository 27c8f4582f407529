"""Measure how far a question walks through the code, and how the code is cut (`make measures`).

A walk counts the functions and files of `sulq` that run for one question, and how often the running
file changes. Cold is the first question of its kind in a fresh process; warm is the second of the
same kind with another constant. The tool reads the tree and asks through public doors only.

    python tools/measures.py             a table for people
    python tools/measures.py --json      the same numbers, for a comparison
    python tools/measures.py --walk sql  the files that a warm grouped SELECT crosses
"""

from __future__ import annotations

import argparse
import ast
import collections
import http.client
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sulq

ROOT = Path(sulq.__file__).parent
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "queries": 100_000}
REGIONS, MONTHS = ["north", "south", "east", "west"], ["2026-01", "2026-02", "2026-03"]
SCHEMA: dict[str, Any] = {
    "columns": {
        "id": {"key": True},
        "region": {"values": REGIONS, "public": True},
        "smoker": {"type": "boolean", "nullable": False},
        "diet": {"values": ["any", "none"], "nullable": False},
        "income": {"type": "number", "low": 0, "high": 1e5, "nullable": False},
    }
}
VISITS: dict[str, Any] = {
    "unit": {"column": "person", "max_rows": 2, "max_periods": 2},
    "period": {"column": "month"},
    "columns": {
        "person": {"type": "integer", "low": 0, "high": 10_000},
        "month": {"values": MONTHS, "public": True},
        "sick": {"type": "boolean", "nullable": False},
    },
}
FORMS = ("smoker and region = 'north'", "(smoker or diet = 'any') and region = 'south'")
PRICES = 200  # new prices, of which the median is told
NOISES = ("gaussian", "laplace", "binomial", "stitched")
ROOTS = {"Measurement", "Law", "Question"}  # whose subclasses are kinds of measurement or of noise
MEASUREMENTS = {"mechanisms", "plan"}  # where kinds may be tested

Walk = dict[str, int]


class Tracer:
    """Functions of sulq that are called, in every thread that starts after it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.is_on = False
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """Note a call; Python calls this for every event of every thread."""
        if self.is_on and event == "call":
            path = frame.f_code.co_filename
            if path.startswith(str(ROOT)):
                name = frame.f_code.co_qualname.split(".<locals>")[0]
                self.calls.append((path[len(str(ROOT)) + 1 :], name))

    def walk(self, act: Callable[[], object]) -> list[tuple[str, str]]:
        """Act, and return the calls in order, as files and functions."""
        self.calls, self.is_on = [], True
        try:
            act()
        finally:
            self.is_on = False
        return self.calls


def counted(calls: list[tuple[str, str]]) -> Walk:
    """Count functions, files, and changes of file."""
    files = [file for file, _ in calls]
    return {
        "functions": len(set(calls)),
        "files": len(set(files)),
        "changes": sum(a != b for a, b in itertools.pairwise(files)),
    }


# ---- the data -------------------------------------------------------------------------------


def write_rows(folder: Path) -> None:
    """Write 20,000 people and 20,000 visits."""
    draws, n = np.random.default_rng(0), 20_000
    people = {
        "id": np.arange(n),
        "region": draws.choice(REGIONS, n),
        "smoker": draws.random(n) < 0.3,
        "diet": draws.choice(["any", "none"], n),
        "income": draws.random(n) * 1e5,
    }
    visits = {
        "person": draws.integers(0, 10_000, n),
        "month": draws.choice(MONTHS, n),
        "sick": draws.random(n) < 0.1,
    }
    pq.write_table(pa.table(people), folder / "people.parquet")
    pq.write_table(pa.table(visits), folder / "visits.parquet")


# ---- the doors ------------------------------------------------------------------------------


def condition(k: int) -> str:
    """A condition of a form of its own for every k below 1,024, unknown to a cache of forms."""
    text = "income"
    for bit in range(10):
        text = (
            f"sqrt({text})"
            if k >> bit & 1
            else f"({text} * {text})"
            if bit < 2
            else f"abs({text} - 1)"
        )
    return f"smoker and {text} > 2 and region = 'north'"


def library(folder: Path) -> dict[str, Callable[[int], object]]:
    """Questions asked in Python, by name."""
    db = sulq.open(str(folder / "people.parquet"), SCHEMA, **PROMISE)
    visits = sulq.open(str(folder / "visits.parquet"), VISITS, **PROMISE)
    grouped = "select region, avg(income) from people where income > {} group by region"
    return {
        "count": lambda k: db.count(FORMS[k % 2]),
        "count with another constant": lambda k: db.count(f"income > {k} and region = 'north'"),
        "histogram": lambda k: db.histogram("income", bins=10, where=f"income > {k}"),
        "sql": lambda k: db.sql(grouped.format(k)),
        "marginals": lambda k: db.marginals(["smoker", "diet"], 2, where=f"income > {k}"),
        "people by period": lambda k: visits.ask(
            sulq.Query(by=["month"], where=f"sick or person = {k}")
        ),
        "price": lambda k: db.price(sulq.Query(where=condition(500 + k))),
    }


@contextmanager
def served(folder: Path) -> Iterator[dict[str, Callable[[int], object]]]:
    """A server in this process with an HTTP and a PostgreSQL door, asked with an analyst's key."""
    from sulq.server.process import listening_for_postgres, running
    from sulq.server.services.folder import begin
    from sulq.server.services.settings import Settings

    home = folder / "server"
    key = begin(home, "owner").text
    settings = Settings.load(home, port=0, postgres=0, padding=False, rate=1e6, burst=10**6)
    (home / "data").mkdir(exist_ok=True)
    os.link(folder / "people.parquet", home / "data" / "people.parquet")
    door = listening_for_postgres(settings)
    with running(settings, door) as url:
        parts = urlsplit(url)

        def call(method: str, path: str, body: Any) -> Any:
            connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            reply = connection.getresponse()
            content = json.loads(reply.read() or b"null")
            connection.close()
            if reply.status >= 400:
                raise SystemExit(f"{method} {path}: {reply.status} {content}")
            return content

        body = {"name": "people", "source": "people.parquet", "schema": SCHEMA, **PROMISE}
        call("POST", "/v1/datasets", body)
        ask, select = "/v1/datasets/people/ask", "/v1/datasets/people/sql"
        grouped = "select region, avg(income) from people where income > {} group by region"
        doors: dict[str, Callable[[int], object]] = {
            "count": lambda k: call("POST", ask, {"query": {"where": FORMS[k % 2]}}),
            "sql": lambda k: call("POST", select, {"sql": grouped.format(k)}),
        }
        try:
            import psycopg
        except ImportError:
            yield doors
            return
        port = door.getsockname()[1] if door else 0
        with psycopg.connect(
            host="127.0.0.1", port=port, user=key[:21], password=key, dbname="sulq", autocommit=True
        ) as connection:
            connection.execute("set sulq.spend = 1000")
            count = "select count(*) from people where {}"
            doors["postgres count"] = lambda k: connection.execute(
                count.format(FORMS[k % 2])
            ).fetchall()
            doors["postgres sql"] = lambda k: connection.execute(grouped.format(k)).fetchall()
            yield doors


def walks(tracer: Tracer, folder: Path) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Walk every question at every door, cold and then warm."""
    for name, ask in library(folder).items():
        for i, kind in enumerate(("cold", "warm")):
            yield f"library {name}", kind, tracer.walk(lambda a=ask, k=100 + i: a(k))
    with served(folder) as doors:
        for name, ask in doors.items():
            for i, kind in enumerate(("cold", "warm")):
                door = name if name.startswith("postgres") else f"http {name}"
                yield door, kind, tracer.walk(lambda a=ask, k=100 + i: a(k))


def price_seconds(folder: Path) -> float:
    """The median processor time of a new price of a count."""
    db = sulq.open(str(folder / "people.parquet"), SCHEMA, ledger=":memory:", **PROMISE)
    spent = []
    for k in range(PRICES):
        query = sulq.Query(where=condition(k))
        began = time.process_time()
        db.price(query)
        spent.append(time.process_time() - began)
    return statistics.median(spent)


# ---- the tree -------------------------------------------------------------------------------


def trees() -> dict[str, ast.Module]:
    """Every source file, parsed."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


def kinds(modules: dict[str, ast.Module]) -> set[str]:
    """Classes that derive from a measurement or a law, and the kinds of contribution."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = ROOTS | {"Dense", "Terms", "Running", "Discover", "Percentile", "Strategy", "Residual"}
    while more := {name for name, own in bases.items() if own & names} - names:
        names |= more
    return names


def kind_tests(modules: dict[str, ast.Module]) -> list[str]:
    """`isinstance` on kinds, and comparisons with a kind of noise, outside their packages."""
    names, tests = kinds(modules), []
    for file, tree in modules.items():
        if file.split("/")[0] in MEASUREMENTS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                tested = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                if tested & names:
                    tests.append(f"{file}:{node.lineno} {ast.unparse(node)}")
            elif isinstance(node, ast.Compare):
                texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                if texts & set(NOISES):
                    tests.append(f"{file}:{node.lineno} {ast.unparse(node)}")
    return tests


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the parameters of a function, `self` aside."""
    own = node.args
    names = [*own.posonlyargs, *own.args, *own.kwonlyargs]
    return len([arg for arg in names if arg.arg not in ("self", "cls")])


def shape() -> dict[str, Any]:
    """How the code is cut: files, functions, kinds, noise names."""
    modules = trees()
    texts = {file: (ROOT / file).read_text() for file in modules}
    lines = {file: len(text.splitlines()) for file, text in texts.items()}
    functions = {
        f"{file} {node.name}": node
        for file, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    widest = max(
        (name for name in functions if not name.startswith("open_database.py")),
        key=lambda name: parameters(functions[name]),
    )
    longest = max(lines, key=lambda file: lines[file])
    lengths = [node.end_lineno - node.lineno + 1 for node in functions.values() if node.end_lineno]
    return {
        "source lines": sum(lines.values()),
        "files": len(lines),
        "packages": len({file.rsplit("/", 1)[0] for file in lines if "/" in file}),
        "modules in the root": len([f for f in lines if "/" not in f and f != "__init__.py"]),
        "longest file": f"{longest} ({lines[longest]})",
        "median file": int(statistics.median(lines.values())),
        "median function": int(statistics.median(lengths)),
        "most parameters": f"{widest} ({parameters(functions[widest])})",
        "Any": sum(len(re.findall(r"\bAny\b", text)) for text in texts.values()),
        "fmt: skip": sum(text.count("fmt: skip") for text in texts.values()),
        "tests of kinds outside their files": len(kind_tests(modules)),
        **{
            f"files that name {noise}": sum(noise in text for text in texts.values())
            for noise in NOISES
        },
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--walk", metavar="NAME", help="list the files of one warm walk")
    parser.add_argument("--kinds", action="store_true", help="list the tests of kinds")
    options = parser.parse_args()
    if options.kinds:
        print(*kind_tests(trees()), sep="\n")
        return
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder)
        (folder / "prices").mkdir()
        os.link(folder / "people.parquet", folder / "prices" / "people.parquet")
        seconds = price_seconds(folder / "prices")
        measured: dict[str, Walk] = {}
        tracer = Tracer()
        for question, kind, calls in walks(tracer, folder):
            measured[f"{question}, {kind}"] = counted(calls)
            if options.walk and question.endswith(options.walk) and kind == "warm":
                print(question)
                functions = collections.Counter(file for file, _ in set(calls))
                for file, count in functions.most_common():
                    print(f"  {count:4} {file}")
        sys.setprofile(None)
    tree = shape()
    if options.json:
        print(json.dumps({"walks": measured, "price_seconds": seconds, "tree": tree}, indent=1))
        return
    print(f"{'walk':40} {'functions':>9} {'files':>6} {'changes':>8}")
    for question, walk in measured.items():
        print(f"{question:40} {walk['functions']:9} {walk['files']:6} {walk['changes']:8}")
    print(f"\nprocessor time of a new price: {1000 * seconds:.2f} ms (median of {PRICES})\n")
    for fact, number in tree.items():
        print(f"{fact:36} {number}")


if __name__ == "__main__":
    main()
