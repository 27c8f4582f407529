"""Options that several commands take, and those that go together: a database, a promise, a server.

A command with a parameter of a name in GATHERED takes all options of the function there, and is
given what that makes of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.errors import Refused
from sulq.settings_file import Settings, find

if TYPE_CHECKING:
    from sulq.server.services.context import Services
    from sulq.server.services.people import Person

Json = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file, not to stdout.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Also draw it: out.svg or out.png.")]
PriceOnly = Annotated[bool, typer.Option("--price", help="Only say the price. Nothing is spent.")]
Spend = Annotated[
    float | None, typer.Option("--budget", help="Queries to spend; by default at usual noise.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is written into the ledger.")]
TableName = Annotated[str | None, typer.Option("--table", help="The table of a DuckDB file.")]

# ---- the database and its promise -----------------------------------------------------------

WHERE = {
    "config": "A sulq.toml; otherwise ./sulq.toml, or beside --data.",
    "data": "A Parquet, CSV or DuckDB file; postgresql://...; or a server's, "
    "http://HOST:PORT/NAME.",
    "schema": "The schema, a TOML file.",
    "ledger": "Beside the data by default; postgresql://...; :memory: to try.",
    "table": "The table, where there are several.",
    "group": "Datasets about the same people with one T; --ledger is then theirs.",
}
WHAT: dict[str, tuple[Any, str]] = {  # with what a new promise has
    "epsilon": (1.0, "How far confidence in a fact may grow."),
    "delta": (1e-6, "Except with this probability."),
    "queries": (1000, "T, the queries of the table's whole life."),
    "noise": ("gaussian", "gaussian, laplace, binomial or stitched."),
    "guarantee": ("beliefs", "beliefs or dp."),
}
WHERE_PANEL = "Where the rows are (instead of sulq.toml)"
WHAT_PANEL = "The promise (fixed once the ledger has begun)"


def keyword(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A parameter of a command that is put together."""
    how = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, how, annotation=kind, default=default)


def _option(name: str, text: str, kind: Any, default: Any, panel: str | None) -> inspect.Parameter:
    said = typer.Option(f"--{name}", help=text, rich_help_panel=panel)
    return keyword(name, Annotated[kind, said], default)


def settings_from(
    config: str | None = None, data: str | None = None, **said: Any
) -> Settings:  # fmt: skip
    """The command line over the sulq.toml that applies."""
    given = Settings(source=data, **said)
    if config is not None:
        return given.over(Settings.load(config))
    beside = find(Path(data).parent if data is not None else ".")
    if beside is None:
        return given
    found = Settings.load(beside)
    if data is not None and (
        found.source is None or Path(found.source).resolve() != Path(data).resolve()
    ):
        return given  # the sulq.toml there is about another table
    return given.over(found)


def promise_from(**said: Any) -> dict[str, Any]:
    """What a new promise is made of, by name."""
    return said


def with_queries(promise: dict[str, Any], rows: int | None) -> dict[str, Any]:
    """The promise with as many queries as suit the rows, unless they were said."""
    from sulq.privacy.fitting import fitting_queries

    error = promise.pop("error", None)
    if promise["queries"] is not None and error is not None:
        raise Refused("--queries and --error: say one of them; each decides the other.")
    if promise["queries"] is None:
        others = {name: x for name, x in promise.items() if name != "queries"}
        fits = None if rows is None else fitting_queries(rows, error, **others)
        if fits is None and error is not None and rows is not None:
            raise Refused(
                f"--error {error:g}: with epsilon={promise['epsilon']:g} not even one count of "
                f"{rows:,} rows is so exact. Allow a larger error or epsilon."
            )
        promise["queries"] = fits or (WHAT["queries"][0] if rows is None else 1)
    return promise


settings_from.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [_option(name, text, str | None, None, WHERE_PANEL) for name, text in WHERE.items()]
    + [_option(name, text, type(x) | None, None, WHAT_PANEL) for name, (x, text) in WHAT.items()]
    + [_option("pricing", "geometry, or paper for comparison.", str | None, None, WHAT_PANEL)]
)
promise_from.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        _option("queries", f"{text[:-1]}; by default what suits the rows.", int | None, None, None)
        if name == "queries"
        else _option(name, text, type(x), x, None)
        for name, (x, text) in WHAT.items()
    ]
    + [_option("error", "Wanted of a count, at 95%, as a share of the rows: 0.05.", float | None,
               None, None)]
)  # fmt: skip


# ---- a server's folder ----------------------------------------------------------------------

Dir = Annotated[Path, typer.Option("--dir", help="The server's folder.")]
Dataset = Annotated[str, typer.Argument(help="The dataset's name.")]
Analyst = Annotated[str, typer.Argument(help="The analyst's name.")]


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """A server's folder, whether or not a server runs on it, and whose datasets are meant."""

    path: Path
    owner: str | None = None

    @contextmanager
    def opened(self) -> Iterator[tuple[Services, Person]]:
        """Its services and the owner."""
        with services_of(self.path) as services:
            yield services, services.people.owner(self.owner)


@contextmanager
def services_of(folder: Path) -> Iterator[Services]:
    """The services of a server's folder."""
    from sulq.server.services.actors import acting_as, terminal
    from sulq.server.services.context import Services
    from sulq.server.services.settings import Settings as ServerSettings

    services = Services.open(ServerSettings.load(folder))
    try:
        with acting_as(terminal()):
            yield services
    finally:
        services.close()


def folder_from(
    folder: Dir = Path(),
    owner: Annotated[
        str | None, typer.Option("--owner", help="Whose; needed if there are several.")
    ] = None,
) -> ServerFolder:
    """The folder that a command on a server is about."""
    return ServerFolder(folder, owner)


GATHERED: dict[str, Callable[..., Any]] = {
    "settings": settings_from, "promise": promise_from, "server": folder_from,
}  # fmt: skip
