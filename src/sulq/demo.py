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

from sulq import config, demo_data
from sulq.errors import MICRO, MissingExtra, Refused, SulqError, in_queries
from sulq.query import Query

if TYPE_CHECKING:
    from sulq import Answer, Database, Table

STAMP = ".sulq-demo"  # says that the folder is the demo's own, and may be started afresh
LEDGER = "people.parquet.ledger"
SERVER = "server"  # the folder of the demo's server
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "queries": 1000}
FILES = ("people.parquet", "people.toml", config.FILE, "report.md", "ages.svg", LEDGER,
         f"{LEDGER}-wal", f"{LEDGER}-shm")  # fmt: skip
WIDEST = 100
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
    screen = _Screen()
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
        from sulq.server.running import running
        from sulq.server.settings import Settings

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
    from sulq.server.folder import begin
    from sulq.server.rooms import Rooms
    from sulq.server.settings import Settings

    begin(folder / SERVER, "owner")
    settings = folder / SERVER / config.FILE
    # The people are made up, so nobody needs to be hidden from a stopwatch.
    settings.write_text(settings.read_text().replace("padding = true", "padding = false"))
    rooms = Rooms.open(Settings.load(folder / SERVER))
    try:
        arguments = {
            "source": str((folder / "people.parquet").resolve()),
            "schema": folder / "people.toml",
            "ledger": str((folder / LEDGER).resolve()),
        }
        owner = rooms.people.owner()
        record = rooms.datasets.create(owner, "people", arguments | PROMISE)
        alice = rooms.people.add_analyst(owner.house, "alice")
        rooms.people.invite(record.id, alice)
        return rooms.people.new_key(alice).text
    finally:
        rooms.close()


def _go_on(folder: Path, db: Database, screen: _Screen) -> None:
    """Serve until stopped, and say how to ask."""
    wire = getattr(db, "_wire", None)
    if wire is None:
        return
    screen.title("Still serving")
    from sulq.console.entrances import entrance

    screen.say(
        f"The server goes on at {wire.base} until Ctrl-C. In a browser, links that sign in once, "
        "within half an hour:\n"
    )
    for who, path in (
        ("owner", entrance(folder / SERVER)), ("analyst", entrance(folder / SERVER, "alice")),
    ):  # fmt: skip
        screen.link(f"  {who:8} {wire.base}{path}")
    screen.say("\nIn another terminal:\n")
    screen.code(f"export SULQ_KEY={wire.key}")
    screen.code(f'sulq count "age > 65 and disease" --data {wire.base}/people')
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _end(folder: Path, screen: _Screen) -> None:
    """Write the report and say where to go next."""
    from sulq.ledger import Ledger
    from sulq.report import markdown, report
    from sulq.seal import Seal

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
        "\nYour own table: [bold]sulq plan --rows N[/bold] shows what a promise costs, "
        "[bold]sulq schema draft FILE[/bold] writes a first schema, [bold]sulq init FILE[/bold] "
        "the settings. The tutorial is docs/tutorial.md."
    )


def _activation() -> list[str]:
    """How to reach the command `sulq`, where the shell does not know it yet."""
    activate = Path(sys.executable).parent / "activate"
    if shutil.which("sulq") or not activate.is_file():
        return []
    return [f"source {os.path.relpath(activate)}"]


class _Tour:
    """The walk: each step shows a question, its price before, its answer after."""

    def __init__(self, folder: Path, screen: _Screen, db: Database) -> None:
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
        self.ask("db.count()", Query(), lambda: self.db.count(), "count(*)")
        self.screen.say(
            "The number of rows is public, so this was a waste; but it shows how far off an "
            "answer is: within about 330, whatever the size of the table."
        )

    def private_count(self) -> None:
        self.title("A count of something private")
        self.ask_count("smoker and age >= 40")

    def mean(self) -> None:
        self.title("A mean")
        query, _ = self.db.mean_query("income", None, None, None)
        self.ask('db.mean("income")', query, lambda: self.db.mean("income"), "avg(income)")

    def private_mean(self) -> None:
        self.title("A mean over a private group")
        where = "smoker and disease"
        query, _ = self.db.mean_query("age", where, None, None)
        self.ask(
            f'db.mean("age", "{where}")', query, lambda: self.db.mean("age", where),
            f"avg(age) filter ({where})",
        )  # fmt: skip
        self.screen.say("Who is in the group, and how many, is private too: the price covers both.")

    def histogram(self) -> None:
        self.title("A histogram: any number of bins, one price")
        table = self.ask_table(
            'db.histogram("age", bins=12)', Query(by=self.db.histogram_axis("age", 12)),
            lambda: self.db.histogram("age", 12),
            "select least(age // 10, 11), count(*) from people group by 1",
            lambda row: str(row["age"]), _tens,
        )  # fmt: skip
        try:
            table.plot(self.folder / "ages.svg")
            self.screen.say(f"table.plot drew it with error bars: {self.folder}/ages.svg")
        except MissingExtra:
            self.screen.say("table.plot('ages.svg') would draw it: pip install 'sulq[plot]'.")

    def crosstab(self) -> None:
        self.title("A table of two columns")
        self.ask_table(
            'db.crosstab(["smoker", "disease"])', Query(by=("smoker", "disease")),
            lambda: self.db.crosstab(["smoker", "disease"]),
            "select [smoker, disease], count(*) from people group by 1",
            lambda row: f"{row['smoker']}, {row['disease']}",
            lambda key: ", ".join(str(part).lower() for part in key),
        )  # fmt: skip

    def one_region(self) -> None:
        self.title("One region: the others pay nothing")
        before = self.by_region()
        self.ask_count("region = 'north' and disease")
        after = self.by_region()
        rows = [(r, _queries(before[r]), _queries(after[r])) for r in demo_data.REGIONS]
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
        self.refusal('db.count("smoker", error=1)', Query(where="smoker", error=Fraction(1)))
        where = "id in (select id from people)"
        self.refusal(f'db.count("{where}")', Query(where=where))

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
        self.ask(
            f'db.count("{where}"{more})',
            Query(where=where, error=None if error is None else Fraction(error)),
            lambda: self.db.count(where, error=error),
            f"count(*) filter ({where})",
        )

    def ask(self, code: str, query: Query, ask: Callable[[], Answer], truth: str) -> None:
        """The price, the answer, the true value and what is left."""
        self.screen.code(code)
        self.screen.line("price", f"{self.db.price(query)}, known before asking")
        answer = ask()
        ((true,),) = self.truth.execute(f"select {truth} from people").fetchall()
        self.screen.line("answer", f"[bold]{_number(answer)}[/bold] (95%)")
        self.screen.line("true", f"{_like(float(true), answer)}  [dim]{BECAUSE}[/dim]")
        self.screen.line("left", self.left())

    def ask_table(
        self,
        code: str,
        query: Query,
        ask: Callable[[], Table],
        truth: str,
        key: Callable[[dict[str, Any]], str],
        true_key: Callable[[Any], str],
    ) -> Table:
        """The same for an answer with several numbers."""
        from sulq.answer import with_error

        self.screen.code(code)
        self.screen.line("price", f"{self.db.price(query)}, known before asking")
        table = ask()
        true = {true_key(k): n for k, n in self.truth.execute(truth).fetchall()}
        rows = [
            (
                key(row),
                with_error(row["count"], (row["count_high"] - row["count_low"]) / 2),
                f"{true.get(key(row), 0):,}",
            )
            for row in table
        ]
        self.screen.table((", ".join(table.by), "answer (95%)", "true value"), rows)
        self.screen.line("left", self.left())
        return table

    def refusal(self, code: str, query: Query) -> None:
        self.screen.code(code)
        try:
            self.db.ask(query)
        except SulqError as error:
            self.screen.line(type(error).__name__, str(error))

    def left(self) -> str:
        budget = self.db.budget
        return f"{_queries(budget.remaining)} of {_queries(budget.total)} queries"

    def by_region(self) -> dict[str, Fraction]:
        return {cell["region"]: cell["spent"] for cell in self.db.budget_by_cell()}


class _Screen:
    """Rich, for a page that reads from top to bottom; plain text where nobody watches."""

    def __init__(self) -> None:
        from rich.console import Console

        self.rich = Console(highlight=False, width=min(Console().width, WIDEST))

    def title(self, text: str) -> None:
        from rich.rule import Rule

        self.rich.print()
        self.rich.print(Rule(f"[bold]{text}[/bold]", align="left", characters="-"))

    def say(self, text: Any, indent: int = 0) -> None:
        from rich.padding import Padding

        self.rich.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)

    def code(self, text: str) -> None:
        self.rich.print(f"  {text}", style="cyan", markup=False)

    def link(self, text: str) -> None:
        """Never broken, so that it can be clicked."""
        self.rich.print(text, style="cyan", markup=False, soft_wrap=True)

    def line(self, name: str, text: str) -> None:
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=max(6, len(name)))
        grid.add_column(overflow="fold")
        grid.add_row(f"[dim]{name}[/dim]", text)
        self.say(grid, indent=4)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE, pad_edge=False)
        for i, name in enumerate(head):
            table.add_column(name, justify="right" if i else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self.say(table, indent=4)


def _number(answer: Answer) -> str:
    return str(answer).split(" (95%)")[0]


def _like(true: float, answer: Answer) -> str:
    """The true value with as many digits as the answer shows."""
    shown = str(answer).split(" +/- ")[0]
    digits = len(shown.partition(".")[2])
    return f"{true:,.{digits}f}"


def _queries(amount: Fraction) -> str:
    return in_queries(int(amount * MICRO)).split()[0]


def _tens(key: int) -> str:
    return f"{key * 10} to {key * 10 + 9 if key < 11 else 120}"
