"""`sulq demo`: a private table behind a server, priced, charged and answered over HTTP.

The people are synthetic, which is the only reason true values can be shown beside the answers.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq import settings_file as config
from sulq.cli import demo_data
from sulq.cli.common import amount, console, grid
from sulq.cli.options import services_of
from sulq.errors import Refused, SulqError
from sulq.values.query import Query

if TYPE_CHECKING:
    from sulq import Answer, Database, Table

STAMP = ".sulq-demo"  # says that the folder is the demo's own, and may be started afresh
LEDGER = "people.parquet.ledger"
SERVER = "server"  # the folder of the demo's server
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "queries": 1000}
FILES = ("people.parquet", "people.toml", config.FILE, "report.md", "ages.svg", LEDGER,
         f"{LEDGER}-wal", f"{LEDGER}-shm")  # fmt: skip
WIDEST = 100  # letters of a line
BECAUSE = "(shown only because this table is synthetic)"
TO_TRY = (
    'sulq price count "age > 65 and disease"',
    'sulq count "age > 65 and disease"',
    "sulq mean income --where \"education = 'university'\"",
    "sulq histogram education --plot education.svg",
    "sulq budget",
    "sulq history --last 5",
)


def run(folder: Path) -> None:
    """Make the people, open them under a promise, and walk through."""
    started = time.perf_counter()
    screen = Screen()
    screen.say(
        "\n[bold]SuLQ[/bold]: a table that anyone may ask, and no single person can be learned "
        "from.\n"
    )
    prepare(folder)
    screen.say(
        f"Made {demo_data.PEOPLE:,} synthetic people in {folder}/people.parquet, and their schema "
        f"in {folder}/people.toml."
    )
    with _asked(folder) as db:
        tour = _Tour(folder, screen, db)
        for step in tour.steps():
            step()
        _end(folder, screen)
        screen.say(f"\n[dim]{time.perf_counter() - started:.1f} seconds.[/dim]")
        if sys.stdin.isatty() and sys.stdout.isatty():
            _go_on(folder, db, screen)


def prepare(folder: Path) -> None:
    """Write the people and their schema; an earlier demo's own files are started afresh."""
    import pyarrow.parquet as pq

    ours = (folder / STAMP).is_file()
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(
            f"dir={str(folder)!r} holds something that is not the demo's. Give another folder "
            "with --dir."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STAMP).write_text("Written by `sulq demo`, which starts afresh each time.\n")
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        # Only ever for made-up people: this forgets what was spent.
        for name in (".sulq", SERVER):
            shutil.rmtree(folder / name, ignore_errors=True)
        pq.write_table(demo_data.people(), folder / "people.parquet")
        (folder / "people.toml").write_text(demo_data.SCHEMA)
        settings = config.draft("people.parquet", "people.toml", config.Settings())
        (folder / config.FILE).write_text(settings)
    except OSError as error:
        raise Refused(f"dir={str(folder)!r} cannot be written: {error.strerror}.") from None


@contextmanager
def _asked(folder: Path) -> Iterator[Database]:
    """The people behind a server on this machine, as an analyst asks them.

    Without the server's libraries they are opened here instead.
    """
    import sulq

    try:
        from sulq.server.process import running
        from sulq.server.services.settings import Settings

        importlib.import_module("uvicorn")
        importlib.import_module("fastapi")
    except ImportError:
        with sulq.open(folder / "people.parquet", folder / "people.toml", **PROMISE) as db:
            yield db
        return
    key = _server(folder)
    with ExitStack() as stack:
        try:
            url = stack.enter_context(running(Settings.load(folder / SERVER)))
        except Refused:  # the usual port is taken
            url = stack.enter_context(running(Settings.load(folder / SERVER, port=0)))
        yield stack.enter_context(sulq.connect(url, key=key, name="people"))


def _server(folder: Path) -> str:
    """Make a server's folder that offers the people; give an analyst's key."""
    from sulq.server.services.folder import begin

    begin(folder / SERVER, "owner")
    with services_of(folder / SERVER) as services:
        arguments = {
            "source": str((folder / "people.parquet").resolve()),
            "schema": folder / "people.toml",
            "ledger": str((folder / LEDGER).resolve()),
        }
        owner = services.people.owner()
        record = services.datasets.create(owner, "people", arguments | PROMISE)
        alice = services.people.add_analyst(owner.tenant, "alice")
        services.people.invite(record.id, alice)
        return services.people.new_key(alice).text


def _go_on(folder: Path, db: Database, screen: Screen) -> None:
    """Serve until it is shut down, and say how to ask."""
    wire = getattr(db, "_wire", None)
    if wire is None:
        return
    screen.title("Still serving")
    from sulq.server.console.sessions import entrance

    screen.say(
        f"The server goes on at {wire.base} until Ctrl-C. In a browser, links that sign in once, "
        "within half an hour:\n"
    )
    for who, path in (
        ("owner", entrance(folder / SERVER)), ("analyst", entrance(folder / SERVER, "alice")),
    ):  # fmt: skip
        screen.code(f"{who:8} {wire.base}{path}")
    screen.say("\nIn another terminal:\n")
    screen.code(f"export SULQ_KEY={wire.key}")
    screen.code(f'sulq count "age > 65 and disease" --data {wire.base}/people')
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _end(folder: Path, screen: Screen) -> None:
    """Write the report and say where to go next."""
    from sulq.ledger import Ledger
    from sulq.ledger.seal import Seal
    from sulq.report import markdown, report

    path = folder / LEDGER
    ledger = Ledger.reopen(path, seal=Seal.open(path))
    (folder / "report.md").write_text(markdown(report(ledger)), encoding="utf-8")
    entries = ledger.verify()
    ledger.close()
    screen.title("Where to go next")
    screen.say(
        f"The ledger's chain of {entries:,} entries is whole. What an owner would show a reviewer "
        f"is in {folder}/report.md.\n\nTry it yourself, on what is left of the budget:\n"
    )
    for line in (*_activation(), f"cd {folder}", *TO_TRY):
        screen.code(line)
    screen.say(
        "\nYour own table: [bold]sulq plan --rows N[/bold] shows what a promise buys, "
        "[bold]sulq schema draft FILE[/bold] writes a first schema, [bold]sulq init FILE[/bold] "
        "the settings. The tutorial is docs/tutorial.md."
    )


def _activation() -> list[str]:
    """How to reach the command `sulq`, where the shell does not know it yet."""
    activate = Path(sys.executable).parent / "activate"
    if shutil.which("sulq") or not activate.is_file():
        return []
    return [f"source {os.path.relpath(activate)}"]


class Screen:
    """Rich, for a page that reads from top to bottom; plain text where nobody watches."""

    def __init__(self) -> None:
        self.rich = console(width=min(console().width, WIDEST))

    def title(self, text: str) -> None:
        """The head of a part."""
        from rich.rule import Rule

        self.rich.print()
        self.rich.print(Rule(f"[bold]{text}[/bold]", align="left", characters="-"))

    def say(self, text: Any, indent: int = 0) -> None:
        """A paragraph."""
        from rich.padding import Padding

        self.rich.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)

    def code(self, text: str) -> None:
        """Never broken, so that it can be copied, or clicked."""
        self.rich.print(f"  {text}", style="cyan", markup=False, soft_wrap=True)

    def line(self, name: str, text: str) -> None:
        """A name and what it is."""
        from rich.table import Table

        both = Table.grid(padding=(0, 2))
        both.add_column(width=max(6, len(name)))
        both.add_column(overflow="fold")
        both.add_row(f"[dim]{name}[/dim]", text)
        self.say(both, indent=4)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Labels in the first column, numbers in the others."""
        self.say(grid(head, rows, labels=1), indent=4)


class _Tour:
    """The walk: each step shows a question, its price before, its answer after."""

    def __init__(self, folder: Path, screen: Screen, db: Database) -> None:
        import duckdb

        self.folder = folder
        self.screen = screen
        self.number = 0
        self.db = db
        self.truth = duckdb.connect()
        self.truth.execute("SET enable_progress_bar = false")
        path = str(folder / "people.parquet").replace("'", "''")
        self.truth.execute(f"create view people as select * from read_parquet('{path}')")

    def steps(self) -> Sequence[Callable[[], None]]:
        return (
            self.promise, self.count, self.private_count, self.mean, self.private_mean,
            self.histogram, self.crosstab, self.one_region, self.cheaper, self.again,
            self.refused, self.batch,
        )  # fmt: skip

    # -- the steps --

    def promise(self) -> None:
        self.screen.title("The promise")
        url = getattr(self.db, "url", None)
        if url is not None:
            self.screen.say("A server on this machine offers them to an analyst with a key:\n")
            self.screen.code(f'db = sulq.connect("{url}", key="sulq_...", name="people")\n')
        else:
            self.screen.code('db = sulq.open("people.parquet", schema="people.toml",')
            self.screen.code("               epsilon=1.0, delta=1e-6, queries=1000)\n")
        for line in self.db.promise.explain(self.db.rows).splitlines():
            self.screen.say(line, indent=2)
        self.screen.say(
            "\nEvery answer below is an exact sum plus noise, paid for before a row is read. "
            "Beside it stands the true value, which no analyst of a real table would see."
        )

    def count(self) -> None:
        self.title("A count")
        self.ask("db.count()", Query(), "count(*)")
        self.screen.say(
            "The number of rows is public, so it is exact and free. What reads a private column "
            "is neither:"
        )

    def private_count(self) -> None:
        self.title("A count of something private")
        self.ask_count("smoker and age >= 40")

    def mean(self) -> None:
        self.title("A mean")
        query, _ = self.db.mean_query("income", None, None, None)
        self.ask('db.mean("income")', query, "avg(income)")

    def private_mean(self) -> None:
        self.title("A mean over a private group")
        where = "smoker and disease"
        query, _ = self.db.mean_query("age", where, None, None)
        self.ask(f'db.mean("age", "{where}")', query, f"avg(age) filter ({where})")
        self.screen.say("Who is in the group, and how many, is private too: the price covers both.")

    def histogram(self) -> None:
        self.title("A histogram: any number of bins, one price")
        table = self.ask_table(
            'db.histogram("age", bins=12)', Query(by=self.db.histogram_axis("age", 12)),
            "select least(age // 10, 11) * 10 as low, "
            "low || ' to ' || if(low < 110, low + 9, 120) as bin",
        )  # fmt: skip
        table.plot(self.folder / "ages.svg")
        self.screen.say(f"table.plot drew it with error bars: {self.folder}/ages.svg")

    def crosstab(self) -> None:
        self.title("A table of two columns")
        self.ask_table(
            'db.crosstab(["smoker", "disease"])', Query(by=("smoker", "disease")),
            "select smoker || ', ' || disease as bin",
        )  # fmt: skip

    def one_region(self) -> None:
        self.title("One region: the others pay nothing")
        before = self.by_region()
        self.ask_count("region = 'north' and disease")
        after = self.by_region()
        rows = [(r, amount(before[r]), amount(after[r])) for r in demo_data.REGIONS]
        self.screen.table(("region", "spent before", "spent after"), rows)
        self.screen.say("Where someone lives is declared public, so spending is kept by region.")

    def cheaper(self) -> None:
        self.title("A wider error is cheaper")
        self.ask_count("education = 'university'", error=2000)

    def again(self) -> None:
        self.title("The same question again is free")
        self.screen.code('db.count("age >= 40 and smoker")  # was "smoker and age >= 40"')
        before = self.db.budget
        answer = self.db.count("age >= 40 and smoker")
        charged = "nothing was charged" if self.db.budget == before else "charged"
        self.screen.line("answer", f"{_number(answer)}, the stored one; {charged}")

    def refused(self) -> None:
        self.title("Refused, with the reason")
        for code in ('db.count("smoker", error=1)', 'db.count("id in (select id from people)")'):
            self.screen.code(code)
            try:
                eval(code, {"db": self.db})
            except SulqError as error:
                self.screen.line(type(error).__name__, str(error))

    def batch(self) -> None:
        self.title("A hundred counts in one scan")
        steps = [500 * i for i in range(1, 101)]
        queries = [Query(where=f"income >= {i}", error=Fraction(1000)) for i in steps]
        self.screen.code('db.ask([sulq.Query(where=f"income >= {500 * i}", error=1000)')
        self.screen.code("        for i in range(1, 101)])")
        self.screen.line("price", f"{self.db.price(queries)} for all, each within 1,000 (95%)")
        started = time.perf_counter()
        answers = self.db.ask(queries)
        seconds = time.perf_counter() - started
        counts = ", ".join(f"count(*) filter (income >= {i})" for i in steps)
        (true,) = self.truth.execute(f"select {counts} from people").fetchall()
        off = [abs(a.value - t) for a, t in zip(answers, true, strict=True)]
        inside = sum(x <= 1000 for x in off)
        self.screen.line("answer", f"100 numbers in {seconds:.2f} seconds")
        self.screen.line("true", f"{inside} of them lie within 1,000; the furthest is "
                                 f"{max(off):,.0f} off")  # fmt: skip
        self.screen.line("left", self.left())

    # -- asking --

    def title(self, text: str) -> None:
        self.number += 1
        self.screen.title(f"{self.number}. {text}")

    def ask_count(self, where: str, error: int | None = None) -> None:
        more = "" if error is None else f", error={error}"
        query = Query(where=where, error=None if error is None else Fraction(error))
        self.ask(f'db.count("{where}"{more})', query, f"count(*) filter ({where})")

    def ask(self, code: str, query: Query, truth: str) -> None:
        """The price, the answer, the true value and what is left."""
        answer = self.run(code, query)
        ((true,),) = self.truth.execute(f"select {truth} from people").fetchall()
        digits = len(_number(answer).split(" ")[0].partition(".")[2])
        self.screen.line("answer", f"[bold]{_number(answer)}[/bold] (95%)")
        self.screen.line("true", f"{float(true):,.{digits}f}  [dim]{BECAUSE}[/dim]")
        self.screen.line("left", self.left())

    def ask_table(self, code: str, query: Query, bins: str) -> Table:
        """The same for an answer with several numbers; `bins` selects what each row is in."""
        table: Table = self.run(code, query)
        counted = f"select bin, count(*) from ({bins} from people) group by bin"
        true = dict(self.truth.execute(counted).fetchall())
        labels = [", ".join(str(row[name]) for name in table.by) for row in table]
        rows = [
            (label, table.said(i, "count"), f"{true.get(label, 0):,}")
            for i, label in enumerate(labels)
        ]
        self.screen.table((", ".join(table.by), "answer (95%)", "true value"), rows)
        self.screen.line("left", self.left())
        return table

    def run(self, code: str, query: Query) -> Any:
        """Show a line of Python and its price, then what it gives: what is shown is what runs."""
        self.screen.code(code)
        price = self.db.price(query)
        said = f"{price}, known before asking" if price.estimate is None else str(price)
        self.screen.line("price", said)
        return eval(code, {"db": self.db})

    def left(self) -> str:
        budget = self.db.budget
        return f"{amount(budget.remaining)} of {amount(budget.total)} queries"

    def by_region(self) -> dict[str, Fraction]:
        return {cell["region"]: cell["spent"] for cell in self.db.budget_by_cell()}


def _number(answer: Answer) -> str:
    return str(answer).split(" (95%)")[0]
