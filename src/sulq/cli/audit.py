"""sulq audit: which questions of a file could be answered exactly, and why not the rest."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from sulq import settings_file as config
from sulq.cli.common import Said
from sulq.cli.shell import split
from sulq.errors import Refused
from sulq.settings_file import Settings
from sulq.values.text_file import read_text

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

IndependentColumns = Annotated[
    bool | None,
    typer.Option(
        "--independent-columns",
        help="Each prior holds whatever the row's other private values are.",
    ),
]


def audit(
    settings: Settings, file: File, rule: Rule = None, known: Known = None, prior: Prior = None,
    independent_columns: IndependentColumns = None,
) -> Said:  # fmt: skip
    """Review questions offline: which could be answered exactly together, which tell too much.

    Nothing is charged and no ledger is touched. With --rule duan the findings depend on the
    rows: they are for the owner. Without --queries, m is the number of questions in the file.

    Example: sulq audit queries.sql --prior smoker=0.3
    """
    import sulq
    from sulq.audit import review

    text = read_text(file, lambda why: Refused(f"{str(file)!r} cannot be read ({why})."))
    statements, rest = split(text + "\n;")
    if rest:
        raise Refused("the file is not SQL: a quote or a comment is not closed.")
    if not statements:
        raise Refused(f"{file.name!r} has no statement. Write SELECTs with ; between them.")
    said = Settings(
        rule=rule, known=known, priors=_priors(prior), independent_columns=independent_columns
    ).over(settings)
    arguments = {"epsilon": 1.0, "queries": len(statements)} | said.arguments
    arguments |= {"mode": "audited", "independent_rows": True, "ledger": config.MEMORY}
    for name in ("noise", "guarantee", "pricing"):
        arguments.pop(name, None)  # of a promise that rests on noise
    if arguments.get("source") is None:
        raise Refused("which table? Give --data FILE --schema FILE.toml, or --config PATH.")
    warnings.filterwarnings("ignore", message="the ledger is in memory")
    with sulq.open(**arguments) as db:
        found = review(statements, db)
    return Said(found.to_json(), str(found))


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
