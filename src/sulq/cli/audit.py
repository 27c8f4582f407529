"""sulq audit: which questions of a file could be answered exactly, and why not the rest."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq import config
from sulq.cli.common import Json, command, emit
from sulq.config import Settings
from sulq.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

File = Annotated[Path, typer.Argument(help="SQL: SELECTs of one count or sum, with ; between.")]
Rule = Annotated[str | None, typer.Option("--rule", help="classes (default) or duan.")]
Known = Annotated[
    float | None, typer.Option("--known", help="The share of rows an attacker may know already.")
]
Prior = Annotated[
    list[str] | None,
    typer.Option(
        "--prior", help="How likely a Boolean is, given all public columns: smoker=0.2..0.4"
    ),
]


def add(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app, panel="For the owner")(audit)


def audit(
    settings: Settings, file: File, rule: Rule = None, known: Known = None, prior: Prior = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Review questions offline: which could be answered exactly together, which tell too much.

    Nothing is charged and no ledger is touched. With --rule duan the findings depend on the
    rows: they are for the owner. Without --queries, m is the number of questions in the file.

    Example: sulq audit queries.sql --prior smoker=0.3
    """
    import sulq
    from sulq.audit import review

    statements = list(_statements(_text(file)))
    if not statements:
        raise Refused(f"{file.name!r} has no statement. Write SELECTs with ; between them.")
    said = Settings(rule=rule, known=known, priors=_priors(prior)).over(settings)
    arguments = {"epsilon": 1.0, "queries": len(statements)} | said.arguments
    arguments |= {"mode": "audited", "independent_rows": True, "ledger": config.MEMORY}
    for name in ("noise", "guarantee", "pricing"):
        arguments.pop(name, None)  # of a promise that rests on noise
    if arguments.get("source") is None:
        raise Refused("which table? Give --data FILE --schema FILE.toml, or --config PATH.")
    warnings.filterwarnings("ignore", message="the ledger is in memory")
    with sulq.open(**arguments) as db:
        found = review(statements, db)
    emit(found.to_json(), str(found), as_json)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise Refused(f"{str(file)!r} cannot be read ({why}).") from None


def _statements(text: str) -> Iterator[str]:
    """The texts between semicolons; one in quotes or a comment is not one."""
    from sqlglot.errors import SqlglotError

    from sulq.dialect import tokens_of

    try:
        tokens = tokens_of(text)
    except SqlglotError:
        raise Refused("the file is not SQL: a quote or a comment is not closed.") from None
    words: list[Any] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type.name != "SEMICOLON":
            words.append(token)
        elif words:
            yield text[words[0].start : words[-1].end + 1]
            words = []


def _priors(given: list[str] | None) -> dict[str, Any] | None:
    """--prior smoker=0.3 --prior ill=0.1..0.2"""
    if not given:
        return None
    found: dict[str, Any] = {}
    for text in given:
        name, _, ends = text.partition("=")
        try:
            numbers = tuple(float(x) for x in ends.split(".."))
        except ValueError:
            numbers = ()
        if not name or len(numbers) not in (1, 2):
            raise Refused(f"prior={text!r}: want column=0.3, or column=0.2..0.4.")
        found[name] = numbers if len(numbers) == 2 else numbers[0]
    return found
