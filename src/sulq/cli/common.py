"""What every command shares: how a database is found, how results and errors leave.

People read text on stdout; with --json, stdout is one JSON document, errors included. Notes
and warnings go to stderr.
"""

from __future__ import annotations

import functools
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq import config
from sulq.config import Settings
from sulq.errors import AuditRefused, EngineFailed, LedgerDamaged, Refused, SulqError

if TYPE_CHECKING:
    from rich.console import Console

    from sulq import Database
    from sulq.ledger import Ledger

Json = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

# ---- results and errors ---------------------------------------------------------------------


def emit(body: Any, text: str, as_json: bool) -> None:
    """Write a result: JSON for programs, text for people."""
    typer.echo(json.dumps(body, indent=2, ensure_ascii=False) if as_json else text)


def note(text: str) -> None:
    """Say something beside the result."""
    typer.echo(text, err=True)


def console(**options: Any) -> Console:
    """Rich, without colour where nobody watches."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, **options)


def write(path: Path, text: str) -> None:
    """Write a file, or refuse in one sentence."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def confirm(question: str, yes: bool, as_json: bool) -> None:
    """Ask whether to go on, unless --yes has said so."""
    if yes:
        return
    if as_json:
        raise Refused("with --json nobody can be asked: say --yes.")
    typer.confirm(question, abort=True, err=True)


def charged_by(error: SulqError) -> bool | None:
    """Was a charge made? None: the ledger cannot tell."""
    if isinstance(error, LedgerDamaged):
        return None
    return error.charged if isinstance(error, AuditRefused) else isinstance(error, EngineFailed)


def exit_code(error: SulqError) -> int:
    """2 for a refusal, 1 for everything else."""
    return 2 if isinstance(error, Refused) else 1


@contextmanager
def messages(as_json: bool) -> Iterator[None]:
    """Turn sulq's errors into one message and an exit code, warnings into notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: note(f"Warning: {message}")
        try:
            yield
        except SulqError as error:
            kind = type(error).__name__
            if as_json:
                body = {"type": kind, "message": str(error), "charged": charged_by(error)}
                emit({"error": body}, "", True)
            else:
                note(f"{kind}: {error}")
            raise typer.Exit(exit_code(error)) from None


def command(
    app: typer.Typer, name: str | None = None, panel: str | None = None,
    **gathered: Callable[..., Any],
) -> Callable[..., Any]:  # fmt: skip
    """Add a function to the app, with `messages` around it.

    A parameter named `settings` is filled from the options of `settings_from`, and others in the
    same way from the functions given under their names.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(function, eval_str=True).parameters)
        makers = {n: m for n, m in (gathered | {"settings": settings_from}).items() if n in own}
        shared = {n: inspect.signature(m, eval_str=True).parameters for n, m in makers.items()}

        @functools.wraps(function)
        def run(**given: Any) -> None:
            with messages(given.get("as_json", False)):
                for name, make in makers.items():
                    given[name] = make(**{k: given.pop(k) for k in shared[name]})
                function(**given)

        parameters = [
            p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for some in ({k: p for k, p in own.items() if k not in makers}, *shared.values())
            for p in some.values()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, rich_help_panel=panel)(run)
        return function

    return add


# ---- finding the database -------------------------------------------------------------------

WHERE = "Where the rows are (instead of sulq.toml)"
WHAT = "The promise (fixed once the ledger has begun)"


def _option(name: str, panel: str, text: str) -> Any:
    return typer.Option(name, help=text, rich_help_panel=panel)


ConfigFile = Annotated[
    Path | None, _option("--config", WHERE, "A sulq.toml; otherwise ./sulq.toml, or beside --data.")
]
Data = Annotated[
    str | None,
    _option(
        "--data",
        WHERE,
        "A Parquet, CSV or DuckDB file; postgresql://...; or a server's, http://HOST:PORT/NAME.",
    ),
]
SchemaFile = Annotated[str | None, _option("--schema", WHERE, "The schema, a TOML file.")]
LedgerFile = Annotated[
    str | None,
    _option("--ledger", WHERE, "Beside the data by default; postgresql://...; :memory: to try."),
]
TableName = Annotated[str | None, _option("--table", WHERE, "The table, where there are several.")]
Epsilon = Annotated[
    float | None, _option("--epsilon", WHAT, "How far confidence in a fact may grow.")
]
Delta = Annotated[float | None, _option("--delta", WHAT, "Except with this probability.")]
Queries = Annotated[
    int | None, _option("--queries", WHAT, "T, the queries of the table's whole life.")
]
NoiseKind = Annotated[
    str | None, _option("--noise", WHAT, "gaussian, laplace, binomial or stitched.")
]
Guarantee = Annotated[str | None, _option("--guarantee", WHAT, "beliefs or dp.")]
Pricing = Annotated[str | None, _option("--pricing", WHAT, "geometry, or paper for comparison.")]


def settings_from(
    config_file: ConfigFile = None,
    data: Data = None,
    schema: SchemaFile = None,
    ledger: LedgerFile = None,
    table: TableName = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    queries: Queries = None,
    noise: NoiseKind = None,
    guarantee: Guarantee = None,
    pricing: Pricing = None,
) -> Settings:
    """The command line over the sulq.toml that applies."""
    said = Settings(
        source=data, schema=schema, ledger=ledger, table=table, epsilon=epsilon, delta=delta,
        queries=queries, noise=noise, guarantee=guarantee, pricing=pricing,
    )  # fmt: skip
    if config_file is not None:
        return said.over(Settings.load(config_file))
    beside = config.find(Path(data).parent if data is not None else ".")
    if beside is None:
        return said
    found = Settings.load(beside)
    if data is not None and not _same_file(found.source, data):
        return said  # the sulq.toml there is about another table
    return said.over(found)


def _same_file(one: str | None, other: str) -> bool:
    return one is not None and Path(one).resolve() == Path(other).resolve()


def _need_source(settings: Settings) -> str:
    if settings.source is None:
        raise Refused(
            "which table? There is no sulq.toml here. Give --data FILE --schema FILE.toml, or "
            "--config PATH, or run `sulq init FILE` to write a sulq.toml."
        )
    return settings.source


def is_remote(source: str) -> bool:
    """Is it a dataset of a server, asked with the key in SULQ_KEY?"""
    return source.startswith(("http://", "https://"))


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database, and a note when this is the moment its ledger begins."""
    import sulq

    if is_remote(_need_source(settings)):
        with sulq.connect(_need_source(settings)) as db:
            yield db
        return
    from sulq.ledger.place import exists, shown

    path = settings.ledger_path
    new = path is not None and not exists(path)
    with sulq.open(**settings.arguments) as db:
        if path is not None and new:
            note(f"The ledger {shown(path)!r} begins. {_terms(db.promise.to_json())}")
        yield db


def _terms(promise: Mapping[str, Any]) -> str:
    return (
        f"Fixed from now on: epsilon={promise['epsilon']:g}, delta={promise['delta']:g}, "
        f"queries={promise['queries']:,}, noise={promise['noise']}, "
        f"guarantee={promise['guarantee']}."
    )


@contextmanager
def looked_at(settings: Settings) -> Iterator[Database]:
    """The database for a look: a ledger that has not begun is not begun by looking."""
    import sulq

    if is_remote(_need_source(settings)):
        with sulq.connect(_need_source(settings)) as db:
            yield db
        return
    from sulq.ledger.place import exists

    path = settings.ledger_path
    arguments = settings.arguments
    if path is None or not exists(path):
        arguments["ledger"] = config.MEMORY
        warnings.filterwarnings("ignore", message="the ledger is in memory")
    with sulq.open(**arguments) as db:
        yield db


@contextmanager
def ledger_of(settings: Settings) -> Iterator[Ledger]:
    """The ledger alone, with the terms recorded in it: the rows need not even be there."""
    from sulq.ledger import Ledger
    from sulq.ledger.place import exists, sealed, shown
    from sulq.seal import Seal

    if settings.ledger is None and is_remote(_need_source(settings)):
        raise Refused(
            "the ledger is with the server. Its owner sees it there; what you may still spend "
            "stands beside every answer."
        )
    path = settings.ledger_path
    if path is None:
        raise Refused("a ledger in memory is gone when its program ends: there is nothing to show.")
    if not exists(path):
        if isinstance(path, Path) and (path.parent / ".sulq" / f"{path.name}.mark").exists():
            Seal.open(path).check_vacant()
        raise Refused(f"there is no ledger {shown(path)!r}: nothing has been asked yet.")
    ledger = Ledger.reopen(path, seal=sealed(path))
    try:
        yield ledger
    finally:
        ledger.close()
