"""Are the rows of each period still those they were? What the owner keeps outside says so.

A keyed fingerprint of every period's rows lies in a file beside the ledger's seal. New rows may
only be of periods that had none: then every older fingerprint is the same, and spending stays
where it is. The file has the rows as they are, and while new ones are taken in, as they will be: a
program that is killed on the way goes on where it was.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sulq.engines.base import Engine
from sulq.errors import Refused, SchemaError
from sulq.ledger.postgres_seal import ServerSeal
from sulq.ledger.seal import Seal, replace_file

Prints = dict[str, str]  # by period
NO_PERIOD = "None"  # rows that are in none that is declared


def _named(period: Any) -> str:
    """One name for each period: a declared one that is called None is not none at all."""
    if period is None:
        return NO_PERIOD
    text = str(period)
    return f"'{text}'" if text.strip("'") == NO_PERIOD else text


def present(engine: Engine) -> list[Any]:
    """The declared periods that have rows, in the order of the schema. Public, like n."""
    name = str(engine.schema.period)
    found = set(engine.every_group([name]).column(0).to_pylist())
    return [value for value in engine.schema[name].listed or () if value in found]


class PeriodRows:
    """The fingerprints of every period's rows, for one ledger."""

    def __init__(self, seal: Seal, path: Path) -> None:
        self._seal = seal
        self._path = path

    @classmethod
    def of(cls, seal: Seal) -> PeriodRows:
        """Those beside this seal."""
        if isinstance(seal, ServerSeal):
            raise SchemaError(
                "period: the ledger of such a table is a file. Leave [period] out, or keep the "
                "ledger beside the rows."
            )
        return cls(seal, seal.folder / f"{seal.name}.periods")

    def know(self, engine: Engine) -> None:
        """From now on, the rows are these."""
        self._keep([self.prints(engine)])

    def forget(self) -> None:
        """Nothing is known of the rows until `know`."""
        self._path.unlink(missing_ok=True)

    def prints(self, engine: Engine) -> Prints:
        """The rows of each period, keyed with the owner's secret."""
        found = engine.contents_by(str(engine.schema.period))
        return {_named(value): self._seal.of_contents(text) for value, text in found.items()}

    def begin(self, engine: Engine, before: list[Any]) -> Prints:
        """Note what the rows will be; refuse if those of older periods are not what they were."""
        after = self.prints(engine)
        known = next((v for v in self._kept() if set(v) == {*map(_named, before), NO_PERIOD}), None)
        if known is None:
            raise Refused(
                "append: it is not known what the rows of each period were. Nothing was charged.\n"
                "Run `sulq refresh` once; from then on new periods can be appended."
            )
        moved = sorted(period for period in known if known[period] != after.get(period))
        if moved:
            names = ", ".join("(other)" if period == NO_PERIOD else period for period in moved)
            raise Refused(
                f"append: rows of older periods changed ({names}). Nothing was charged.\nOnly new "
                "periods may appear. Restore the old rows, or run `sulq refresh`: it is logged, "
                "and what was spent stays spent."
            )
        self._keep([known, after])
        return after

    def end(self, after: Prints) -> None:
        """The rows are what they were to be."""
        self._keep([after])

    def _kept(self) -> list[Prints]:
        try:
            body = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        versions: list[Prints] = body["versions"]
        if body["seal"] != self._sealed(versions):
            return []
        return versions

    def _keep(self, versions: list[Prints]) -> None:
        body = {"versions": versions, "seal": self._sealed(versions)}
        replace_file(self._path, json.dumps(body).encode())

    def _sealed(self, versions: list[Prints]) -> str:
        return self._seal.of_contents(json.dumps(["periods", versions], sort_keys=True))
