"""Datasets by name, and the databases behind them.

A dataset is a source, a schema and a promise under a name of its house. Its ledger lies in the
server's folder and outlives it: made again, under whatever name, the same rows go on with the
ledger they have, unless the owner overrides that, which the new ledger says for good.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sulq.errors import NotFound, QueryNotAllowed, Refused, SulqError
from sulq.ledger.place import exists, sealed
from sulq.pace import Paced, paced
from sulq.promise import Promise
from sulq.schema import Schema
from sulq.server.access import Record, record_of
from sulq.server.admission import Turnstile
from sulq.server.deadlines import Pace, pace_of
from sulq.server.people import Person, check_name
from sulq.server.registry import Registry, now
from sulq.server.settings import Settings

LEDGERS = "ledgers"
MOST_DESCRIPTION = 10_000
KEPT = ("epsilon", "delta", "queries", "noise", "guarantee")
PROMISE = (*KEPT, "pricing")


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Dataset:
    """A dataset that is open in this process. Made once each time it is opened."""

    record: Record
    db: Paced
    pace: Pace | None
    turnstile: Turnstile
    use: Use

    @contextmanager
    def using(self) -> Iterator[None]:
        """Scan its rows in here; it does not close meanwhile."""
        if not self.use.begin():
            raise Refused(
                f"{self.record.name!r} was closed or refreshed just now. Nothing was charged.\n"
                "Ask again."
            )
        try:
            yield
        finally:
            self.use.end()


class Use:
    """How many scan a database. Given up, it is closed by the last of them."""

    def __init__(self, db: Paced) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._users = 1  # whoever keeps it open

    def begin(self) -> bool:
        """One more; False if it is closed already."""
        with self._lock:
            if not self._users:
                return False
            self._users += 1
            return True

    def end(self) -> None:
        """One less."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self._db.close()


class Datasets:
    """All datasets of a server. What blocks here is meant for a thread of its own."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self._registry = registry
        self._settings = settings
        self._open: dict[int, Dataset] = {}
        self._opening = threading.Lock()

    # ---- using ----------------------------------------------------------------------------

    def opened(self, record: Record) -> Dataset:
        """The dataset of a record; opened the first time, which takes a while."""
        found = self._open.get(record.id)
        if found is not None:
            return found
        with self._opening:
            found = self._open.get(record.id)
            if found is None:
                found = self._keep(record, self._database(json.loads(record.arguments)))
            return found

    def open_all(self) -> None:
        """Open every dataset; one that cannot be opened says why when it is asked."""
        rows = self._registry.all("SELECT * FROM datasets WHERE state <> 'closed' ORDER BY id")
        for row in rows:
            with suppress(SulqError):
                self.opened(record_of(row))

    def is_open(self, record: Record) -> bool:
        """Is it open in this process already?"""
        return record.id in self._open

    def _keep(self, record: Record, db: Paced) -> Dataset:
        settings = self._settings
        turnstile = Turnstile(settings.slots, settings.queue, settings.wait_seconds)
        self._open[record.id] = Dataset(record, db, pace_of(record.pace), turnstile, Use(db))
        return self._open[record.id]

    def _database(self, arguments: Mapping[str, Any]) -> Paced:
        import sulq

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return paced(sulq.open(**arguments))

    def forget(self, record: Record) -> None:
        """Open it again at the next question: its rows were refreshed, or it is closed.

        What is under way is answered first.
        """
        found = self._open.pop(record.id, None)
        if found is not None:
            found.use.end()

    def close(self) -> None:
        """Let go of everything."""
        for number in list(self._open):
            self._open.pop(number).use.end()

    # ---- making ---------------------------------------------------------------------------

    def create(
        self, owner: Person, name: str, arguments: Mapping[str, Any], *, description: str = "",
        refresh: str | None = None, override: str | None = None,
    ) -> Record:  # fmt: skip
        """Make a dataset, and go on with the ledger that its rows have.

        `refresh`, a reason, goes on with the ledger of that name although the rows are others;
        `override`, a reason, begins a new ledger although the rows have one.
        """
        check_name(name, "name")
        _check_text(description, "description", MOST_DESCRIPTION)
        with self._opening:
            if self._find(owner.house, name) is not None:
                raise Refused(f"name={name!r} is there already. Close it, or choose another.")
            said = dict(arguments) | {"name": name}
            said["schema"] = Schema.load(said["schema"]).to_json()
            Promise(**{n: said[n] for n in KEPT if n in said})  # refuses what cannot be kept
            ledger = self._ledger(owner, name, said)
            said["ledger"] = str(ledger)
            if override is not None:
                known = self._give_up(ledger, override)
            if refresh is not None and exists(ledger):
                self._refresh(said, refresh)
            db = self._database(said)
            try:
                if override is not None:
                    _say(ledger, known)
                pace = self._measured(db, said)
                record = self._written(owner, name, said, description, pace)
            except BaseException:
                db.close()
                raise
            self._keep(record, db)
        return record

    def _ledger(self, owner: Person, name: str, said: Mapping[str, Any]) -> Path | str:
        """The ledger these rows go on with: the one they have, or the one of this name."""
        from sulq.opening import ledger_of_rows

        folder = self._settings.folder / LEDGERS
        folder.mkdir(mode=0o700, exist_ok=True)
        own = folder / f"{owner.house}.{name}.ledger"
        other = ledger_of_rows(said["source"], own, said.get("table"), said["schema"])
        if other is None:
            return own if said.get("ledger") is None else said["ledger"]
        in_use = self._users(folder / other)
        if in_use or not other.startswith(f"{owner.house}."):
            raise Refused(
                "these rows are in another dataset of this server already, and spending is kept "
                "there. Nothing was made.\nClose that dataset first; its ledger then goes on."
            )
        return folder / other

    def _users(self, ledger: Path) -> list[str]:
        rows = self._registry.all("SELECT name, arguments FROM datasets WHERE state <> 'closed'")
        return [r["name"] for r in rows if json.loads(r["arguments"])["ledger"] == str(ledger)]

    def _give_up(self, ledger: Path | str, reason: str) -> dict[str, Any]:
        """Put a ledger aside; give what is known of it, for the next one to say."""
        from sulq.ledger import Ledger
        from sulq.seal import Seal

        _check_text(reason, "override", 1000)
        if not reason.strip():
            raise Refused("override: say why; it stays in the new ledger.")
        if not isinstance(ledger, Path) or not ledger.exists():
            raise Refused("override: these rows have no ledger here, so there is none to give up.")
        seal = Seal.open(ledger)
        Ledger.reopen(ledger, seal=seal).close()
        known = seal.forget(reason)
        aside = ledger.with_name(f"{ledger.name}.{known.get('hash', 'none')[:12]}.given-up")
        for end in ("", "-wal", "-shm"):
            if Path(f"{ledger}{end}").exists():
                Path(f"{ledger}{end}").rename(f"{aside}{end}")
        return known | {"aside": aside.name}

    def _refresh(self, said: Mapping[str, Any], reason: str) -> None:
        from sulq.opening import refresh

        _check_text(reason, "refresh", 1000)
        refresh(
            said["source"], said["schema"], ledger=said["ledger"], table=said.get("table"),
            name=said["name"], reason=reason,
        ).close()  # fmt: skip

    def _measured(self, db: Paced, said: Mapping[str, Any]) -> Pace | None:
        if not self._settings.padding or self._settings.deadline_seconds is not None:
            return None
        from sulq.server.measuring import measure

        kind = "csv" if ".csv" in str(said["source"]).lower() else "parquet"
        return measure(db, kind, self._settings.folder, self._settings.slots)

    def _written(
        self, owner: Person, name: str, said: Mapping[str, Any], description: str,
        pace: Pace | None,
    ) -> Record:  # fmt: skip
        try:
            with self._registry.writing() as run:
                number = run(
                    "INSERT INTO datasets (house, name, description, arguments, pace, state, "
                    "created) VALUES (?, ?, ?, ?, ?, 'open', ?)",
                    owner.house, name, description, json.dumps(said),
                    None if pace is None else pace.to_json(), now(),
                ).lastrowid  # fmt: skip
        except sqlite3.IntegrityError:
            raise Refused(f"name={name!r} is there already.") from None
        return self.record(number)

    # ---- deciding -------------------------------------------------------------------------

    def record(self, number: int) -> Record:
        """The record of one dataset, as it is now."""
        row = self._registry.one("SELECT * FROM datasets WHERE id = ?", number)
        if row is None:
            raise NotFound("there is no such dataset.")
        return record_of(row)

    def find(self, house: int, name: str) -> Record:
        """A dataset of this house."""
        found = self._find(house, name)
        if found is None:
            raise NotFound(f"there is no dataset {name!r}.")
        return found

    def _find(self, house: int, name: str) -> Record | None:
        row = self._registry.one(
            "SELECT * FROM datasets WHERE house = ? AND name = ? AND state <> 'closed'", house, name
        )
        return None if row is None else record_of(row)

    def of_house(self, house: int) -> list[Record]:
        """Every dataset of a house that is not closed."""
        rows = self._registry.all(
            "SELECT * FROM datasets WHERE house = ? AND state <> 'closed' ORDER BY name", house
        )
        return [record_of(row) for row in rows]

    def describe(self, record: Record, description: str) -> None:
        """Say in words what a dataset is."""
        _check_text(description, "description", MOST_DESCRIPTION)
        with self._registry.writing() as run:
            run("UPDATE datasets SET description = ? WHERE id = ?", description, record.id)

    def set_state(self, record: Record, state: str) -> None:
        """Freeze, thaw or close. A closed dataset is gone; its ledger stays."""
        if state not in ("open", "frozen", "closed"):
            raise Refused(f"state={state!r}, want 'open', 'frozen' or 'closed'.")
        with self._registry.writing() as run:
            run("UPDATE datasets SET state = ? WHERE id = ?", state, record.id)
            if state == "closed":
                run("DELETE FROM members WHERE dataset = ?", record.id)
        if state == "closed":
            self.forget(record)

    def refresh(self, record: Record, reason: str, schema: Any = None) -> None:
        """Go on with changed rows or a changed schema; logged, and what was spent stays spent."""
        arguments = json.loads(record.arguments)
        if schema is not None:
            arguments["schema"] = Schema.load(schema).to_json()
        with self._opening:
            self.forget(record)
            self._refresh(arguments, reason)
        with self._registry.writing() as run:
            run("UPDATE datasets SET arguments = ? WHERE id = ?", json.dumps(arguments), record.id)

    # ---- late replies ---------------------------------------------------------------------

    def late_reply(self, record: Record, analyst: str, request: str, asked: str) -> bytes | None:
        """The noise that this request id was answered with, if it was late then."""
        row = self._registry.one(
            "SELECT asked, body FROM late WHERE dataset = ? AND analyst = ? AND request = ?",
            record.id, analyst, request,
        )  # fmt: skip
        if row is None:
            return None
        if row["asked"] != asked:  # or the same in another form, whose noise would be another
            raise QueryNotAllowed(
                f"request id {request!r} was used for another question. Nothing was charged.\n"
                "Give each request its own id."
            )
        return bytes(row["body"])

    def keep_late(
        self, record: Record, analyst: str, request: str | None, asked: str, body: bytes
    ) -> int:
        """Remember a late reply for its request id, and tell the owner; how many there were."""
        with self._registry.writing() as run:
            if request is not None:
                run(
                    "INSERT OR IGNORE INTO late (dataset, analyst, request, asked, body) "
                    "VALUES (?, ?, ?, ?, ?)", record.id, analyst, request, asked, body,
                )  # fmt: skip
            run(
                "INSERT INTO alarms (house, dataset, kind, message, time) VALUES (?, ?, 'late', ?, "
                "?)", record.house, record.id,
                f"A reply to {analyst!r} left as noise: the sum was not there by its deadline. "
                "The charge stands. Is the machine busy? Are there longer texts than usual?", now(),
            )  # fmt: skip
            count = run(
                "SELECT count(*) FROM alarms WHERE dataset = ? AND kind = 'late' AND seen IS NULL",
                record.id,
            ).fetchone()[0]  # fmt: skip
            if self._settings.most_late and count >= self._settings.most_late:
                run("UPDATE datasets SET state = 'frozen' WHERE id = ? AND state = 'open'",
                    record.id)  # fmt: skip
        return int(count)


def check_open(record: Record) -> None:
    """Refuse a frozen dataset."""
    if record.state != "open":
        raise Refused(
            f"{record.name!r} is frozen: nothing may be asked until its owner thaws it. Nothing "
            "was charged."
        )


def _say(ledger: Path | str, known: Mapping[str, Any]) -> None:
    """Write into a new ledger that an old one was given up, for every report to show."""
    from sulq.ledger import Ledger

    book = Ledger.reopen(ledger, seal=sealed(ledger))
    book.note("override", known)
    book.close()


def _check_text(text: Any, what: str, most: int) -> None:
    if not isinstance(text, str) or len(text) > most:
        raise Refused(f"{what}: want at most {most:,} letters.")
