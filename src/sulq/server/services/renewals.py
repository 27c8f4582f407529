"""What an owner decides about a dataset that is there: its rows as they are now, or more of them;
whether questions may run programs on them.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sulq.open_database import append, refresh
from sulq.programs.library import FUEL
from sulq.questions.programs_used import check_switch
from sulq.server.services import locations
from sulq.server.services.access import Record
from sulq.server.services.audit_log import record as log
from sulq.server.services.dataset_ledgers import DatasetLedgers, check_text
from sulq.server.services.events import note
from sulq.server.services.locations import LEDGERS
from sulq.server.services.registry import Registry
from sulq.server.services.settings import Settings
from sulq.values.schema import Schema


def refresh_rows(said: Mapping[str, Any], reason: str) -> None:
    """Let the ledger of these arguments go on with the rows as they are now."""
    check_text(reason, "refresh", 1000)
    refresh(
        said["source"], said["schema"], ledger=said["ledger"], table=said.get("table"),
        name=said["name"], reason=reason,
    ).close()  # fmt: skip


class Renewals:
    """The half of all datasets that lets them go on otherwise than before."""

    ledgers: DatasetLedgers
    registry: Registry
    _settings: Settings
    _opening: threading.Lock

    @abstractmethod
    def forget(self, record: Record) -> None:
        """Open it again at the next question."""

    def refresh(self, record: Record, reason: str, schema: Any = None) -> None:
        """Go on with changed rows or a changed schema; logged, and what was spent stays spent."""
        arguments = locations.found(json.loads(record.arguments), self._settings.folder)
        if schema is not None:
            arguments["schema"] = Schema.load(schema).to_json()
        self._renew(record, arguments, "refresh", reason, lambda: refresh_rows(arguments, reason))

    def append(self, record: Record, rows: str | None, reason: str) -> None:
        """Go on with rows of new periods, from a file or there already; logged."""
        said = locations.found(json.loads(record.arguments), self._settings.folder)
        check_text(reason, "reason", 1000)
        more: dict[str, Any] = {"ledger": said["ledger"], "table": said.get("table")}
        take_in = partial(append, said["source"], rows, name=said["name"], reason=reason, **more)
        self._renew(record, said, "append", reason, lambda: take_in().close())

    def set_programs(self, record: Record, programs: bool | None, fuel: int | None) -> None:
        """Let questions run programs, or no longer, with so many instructions a row.

        What is under way is answered first; the next question opens the dataset anew.
        """
        said = json.loads(record.arguments)
        said |= {} if programs is None else {"programs": programs}
        said |= {} if fuel is None else {"program_fuel": fuel}
        mode = said.get("mode", "noise")
        check_switch(said.get("programs", False), said.get("program_fuel", FUEL), mode)
        with self.registry.writing() as run:
            run("UPDATE datasets SET arguments = ? WHERE id = ?", json.dumps(said), record.id)
            on = "on" if said.get("programs") else "off"
            log(run, record.tenant, "programs", dataset=record.name, programs=on,
                fuel=said.get("program_fuel"))  # fmt: skip
        self.forget(record)

    def _renew(
        self, record: Record, arguments: dict[str, Any], kind: str, reason: str,
        work: Callable[[], None],
    ) -> None:  # fmt: skip
        """Do this while nobody asks; what questions take is measured again afterwards."""
        folder = self._settings.folder
        with self._opening:
            self.forget(record)
            locations.check_there(record.name, arguments)
            locations.note_former(json.loads(record.arguments), folder)
            own = folder / LEDGERS / f"{record.tenant}.{record.name}.ledger"
            inside = not self.ledgers.is_elsewhere(arguments["ledger"])
            self.ledgers.other(
                record.tenant, Path(arguments["ledger"]) if inside else own, arguments
            )
            work()
        with self.registry.writing() as run:
            run("UPDATE datasets SET arguments = ?, pace = NULL WHERE id = ?",
                json.dumps(locations.kept(arguments, folder)), record.id)  # fmt: skip
            note(run, record.id, kind, reason=reason)
