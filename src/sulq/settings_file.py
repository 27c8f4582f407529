"""sulq.toml -> Settings: where the rows are and what is promised, as arguments of sulq.open.

The file stands beside the data; relative paths in it start at its own folder.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sulq.errors import Refused
from sulq.ledger.types import MEMORY as MEMORY
from sulq.sources.postgres import is_address
from sulq.sources.source import STORE, Source, open_source, store_facts
from sulq.values.text_file import read_text

FILE = "sulq.toml"
PATHS = ("source", "schema", "ledger")
NUMBER, WHOLE, SWITCH = (int | float, "a number"), (int, "a whole number"), (bool, "true or false")
WANTED: dict[str, tuple[Any, str]] = {  # what is no text
    "epsilon": NUMBER, "delta": NUMBER, "dither": NUMBER, "known": NUMBER, "queries": WHOLE,
    "independent_rows": SWITCH, "independent_columns": SWITCH, "priors": (dict, "a table [priors]"),
    "programs": SWITCH, "program_fuel": WHOLE, "discoveries": WHOLE, "share": NUMBER,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What `sulq.open` takes. None means: not said here, so sulq.open's own default."""

    source: str | None = None
    schema: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    queries: int | None = None
    noise: str | None = None
    guarantee: str | None = None
    pricing: str | None = None
    ledger: str | None = None
    engine: str | None = None
    table: str | None = None
    name: str | None = None
    mode: str | None = None
    rule: str | None = None
    dither: float | None = None
    known: float | None = None
    independent_rows: bool | None = None
    independent_columns: bool | None = None
    priors: Mapping[str, Any] | None = None
    group: str | None = None
    programs: bool | None = None
    program_fuel: int | None = None
    discoveries: int | None = None
    share: float | None = None

    @classmethod
    def load(cls, path: str | Path) -> Settings:
        """Read a sulq.toml."""
        path = Path(path)
        text = read_text(
            path,
            lambda why: Refused(
                f"config={str(path)!r} cannot be read ({why}). `sulq init DATA` writes one."
            ),
        )
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Refused(f"{path.name}: not valid TOML: {error}.") from None
        said = cls(**_checked(found, text, path))
        here = default_ledger(said) if said.ledger is None else None
        return said if here is None else replace(said, ledger=str(path.parent / here))

    def over(self, other: Settings) -> Settings:
        """These settings where they say something, the others elsewhere."""
        return replace(other, **self.arguments)

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for sulq.open; what was not said is left out."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in said.items() if value is not None}

    @property
    def ledger_path(self) -> Path | str | None:
        """Where the ledger is: as said, or beside the file; None if it is kept in memory.

        A text is the address of a server.
        """
        if self.ledger is not None:
            if is_address(self.ledger):
                return self.ledger
            return None if self.ledger == MEMORY else Path(self.ledger)
        if self.source is None or "://" in self.source:
            return Path(here) if (here := default_ledger(self)) else None
        path = Path(self.source).resolve()
        store = path.suffix in STORE and path.is_file()  # goes on with the ledger of its rows
        return Path(
            Source("file", "", path=path, facts=store_facts(path) if store else None).ledger
        )


def default_ledger(said: Settings) -> str | None:
    """The ledger of a server's table, where none is named."""
    if said.source is None or not is_address(said.source):
        return None
    return open_source(said.source, said.table, said.name).ledger


def find(folder: str | Path = ".") -> Path | None:
    """The sulq.toml in a folder, if there is one."""
    path = Path(folder) / FILE
    return path if path.is_file() else None


def _checked(found: Mapping[str, Any], text: str, path: Path) -> dict[str, Any]:
    known = [f.name for f in fields(Settings)]
    out = {}
    for name, value in found.items():
        at = f"{path.name}, line {_line(text, name)}: "
        if name == "server":  # read by `sulq serve`
            continue
        if name not in known:
            raise Refused(f"{at}{name!r} is not a setting. Known: {', '.join(known)}.")
        out[name] = _value(name, value, at, path.parent)
    return out


def _value(name: str, value: Any, at: str, folder: Path) -> Any:
    kind, want = WANTED.get(name, (str, "text in quotes"))
    fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    if not fits or value == "":
        raise Refused(f"{at}{name} = {value!r}, want {want}.")
    if name in PATHS and value != MEMORY and "://" not in value:
        return str(folder / value)  # an absolute path stays as it is
    return value


def _line(text: str, name: str) -> int:
    """The line that sets a key, or opens a table of that name."""
    key = rf"""["']?{re.escape(name)}["']?"""
    wanted = re.compile(rf"\s*(\[+\s*{key}\s*[\].]|{key}\s*[=.])")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if wanted.match(line)), 1)


def draft(source: str, schema: str, settings: Settings) -> str:
    """The text of a new sulq.toml, for the owner to read and edit."""
    say = json.dumps  # a JSON string is a TOML string
    return f"""\
# Where the private rows are, and what is promised about them.
# Paths start at this file's folder. `sulq plan --rows N` shows what each choice buys.
source = {say(source)}
schema = {say(schema)}            # columns, bounds, categories: `sulq schema draft` helps

# The promise. It is fixed when the first question begins the ledger, and stays for good:
# after `queries` queries nobody's confidence in a fact about a row has grown by more than
# `epsilon`, except with probability `delta`.
epsilon = {settings.epsilon or 1.0}
delta = {settings.delta or 1e-6}
queries = {settings.queries or 1000}
noise = {say(settings.noise or "gaussian")}            # gaussian, laplace, binomial or stitched
guarantee = {say(settings.guarantee or "beliefs")}         # beliefs or dp
"""
