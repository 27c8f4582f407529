"""Datasets by name, and the databases behind them.

A dataset is a source, a schema and a promise under a name of its tenant. Its ledger lies in the
server's folder and outlives it: made again, under whatever name, the same rows go on with the
ledger they have, unless the owner overrides that, which the new ledger says for good.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sulq.database import Database
from sulq.errors import NotFound, Refused, SulqError, in_queries
from sulq.ledger.location import exists
from sulq.ledger.types import MEMORY
from sulq.open_database import open as open_database
from sulq.privacy.promise import Promise
from sulq.server.services import locations
from sulq.server.services.access import Record, record_of
from sulq.server.services.actors import FAILED, LATE, Actor, acting
from sulq.server.services.audit_log import record as log
from sulq.server.services.dataset_ledgers import (
    DatasetLedgers,
    check_text,
    give_up,
    group_beside,
    note_in,
)
from sulq.server.services.events import note
from sulq.server.services.people import Person, check_name
from sulq.server.services.registry import Registry, Run, Taken, alarm, new_id, now
from sulq.server.services.renewals import Renewals, refresh_rows
from sulq.server.services.scan_times import (
    ELSEWHERE,
    PAIRS,
    TEXT_LETTERS,
    MadeUp,
    ScanTimes,
)
from sulq.server.services.settings import Settings
from sulq.server.services.slots import Pace, Slots, pace_of
from sulq.sources.postgres import is_address
from sulq.values.price import micro_of
from sulq.values.schema import Schema

MAX_DESCRIPTION = 10_000
KINDS = {"open": "thaw", "frozen": "freeze", "closed": "close"}  # of events
KEPT = ("epsilon", "delta", "queries", "noise", "guarantee", "discoveries", "share")
PROMISE = (*KEPT, "pricing")


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Dataset:
    """A dataset that is open in this process. Made once each time it is opened."""

    record: Record
    db: Database
    slots: Slots
    scan_times: ScanTimes
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

    def __init__(self, *held: Database | ScanTimes) -> None:
        self._closing: list[Callable[[], None]] = [each.close for each in held]
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
            for close in self._closing:
                close()

    def when_closed(self, close: Callable[[], None]) -> None:
        """Do this as well when it is closed; nothing waits for anything there."""
        self._closing.append(close)


class Datasets(Renewals):
    """All datasets of a server. What blocks here is meant for a thread of its own."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self.registry = registry
        self._settings = settings
        self.ledgers = DatasetLedgers(registry, settings.folder, settings.ledger_server)
        self._open: dict[int, Dataset] = {}
        self._opening = threading.Lock()

    # ---- using ----------------------------------------------------------------------------

    def opened(self, record: Record) -> Dataset:
        """The dataset of a record; opened the first time, which takes a while."""
        found = self._open.get(record.id)
        if found is not None and found.record.program_fuel == record.program_fuel:
            return found
        with self._opening:
            if not self.is_open(record):  # or another process switched programs on or off
                self.forget(record)
                self._keep(record, self._reopened(record))
            return self._open[record.id]

    def _reopened(self, record: Record) -> Database:
        """The database of a dataset that was made before: what it had must be there."""
        said, folder = json.loads(record.arguments), self._settings.folder
        arguments = locations.found(said, folder)
        locations.check_there(record.name, arguments)
        locations.note_former(said, folder)
        db = self._database(arguments)
        try:
            self.ledgers.check_seen(record, db)
        except BaseException:
            db.close()
            raise
        self.ledgers.note_seen(record, db)
        now_kept = locations.kept(arguments, folder)
        if now_kept != said:  # a folder of before: whole paths become relative ones
            with self.registry.writing() as run:
                run("UPDATE datasets SET arguments = ? WHERE id = ? AND arguments = ?",
                    json.dumps(now_kept), record.id, record.arguments)  # fmt: skip
        return db

    def open_all(self) -> None:
        """Open every dataset; one that cannot be opened says why when it is asked."""
        rows = self.registry.all("SELECT * FROM datasets WHERE state <> 'closed' ORDER BY id")
        for row in rows:
            with suppress(SulqError):
                self.opened(record_of(row))

    def all_open(self) -> list[Dataset]:
        """Every dataset that is open in this process."""
        return list(self._open.values())

    def is_open(self, record: Record) -> bool:
        """Is it open in this process already, as it is to be asked now?"""
        found = self._open.get(record.id)
        return found is not None and found.record.program_fuel == record.program_fuel

    def _keep(self, record: Record, db: Database) -> Dataset:
        settings = self._settings
        source = str(json.loads(record.arguments)["source"])
        kind = "csv" if ".csv" in source.lower() else "parquet"
        kind = ELSEWHERE if is_address(source) else kind
        held = db.warm()
        made = ScanTimes(lambda: MadeUp(db, kind, settings.folder, held), settings.longest_seconds)
        slots = Slots(pace_of(record.timing, db.stored_rows.n), settings)
        dataset = Dataset(record, db, slots, made, Use(made, db))
        if slots.measured and not slots.known:
            self.measure(dataset)  # for the first time, or for the first time with these rows
        self._open[record.id] = dataset
        return dataset

    def measure(self, dataset: Dataset) -> None:
        """Measure what questions take now, on made-up rows."""
        self.keep_pace(dataset, dataset.scan_times.pace())

    def keep_pace(self, dataset: Dataset, measured: Pace) -> None:
        """Keep what was measured, as far as it is the quickest so far."""
        pace = dataset.slots.measure_again(measured)
        with self.registry.writing() as run:
            run("UPDATE datasets SET pace = ? WHERE id = ?", pace.to_json(), dataset.record.id)

    def _database(self, arguments: Mapping[str, Any]) -> Database:
        said = dict(arguments)
        if isinstance(said.get("group"), str):
            del said["group"]  # made before: its ledger knows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = open_database(**said)
        if said.get("programs"):
            found.charge_time(self._settings.price_of_time)
        return found

    def forget(self, record: Record) -> None:
        """Open it again at the next question: its rows were refreshed, or it is closed.

        What is under way is answered first.
        """
        found = self._open.pop(record.id, None)
        if found is not None:
            self._leave(found)

    def close(self) -> None:
        """Let go of everything."""
        for number in list(self._open):
            self._leave(self._open.pop(number))

    def _leave(self, dataset: Dataset) -> None:
        with suppress(SulqError, sqlite3.Error):  # a saving for the next start, no more
            self.ledgers.note_seen(dataset.record, dataset.db)
        dataset.use.end()

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
        check_text(description, "description", MAX_DESCRIPTION)
        with self._opening:
            if self._find(owner.tenant, name) is not None:
                raise Refused(f"name={name!r} is there already. Close it, or choose another.")
            said = dict(arguments) | {"name": name}
            said["schema"] = Schema.load(said["schema"]).to_json()
            Promise(**{n: x for n in KEPT if (x := said.get(n)) is not None})
            ledger = self.ledgers.of(owner, name, said)
            said["ledger"] = str(ledger)
            if override is not None:
                self._database(said | {"ledger": MEMORY, "group": None}).close()  # only if so
                known = give_up(ledger, override)
            if refresh is not None and exists(ledger):
                refresh_rows(said, refresh)
            group = said.get("group")
            shared = None if group is None else group_beside(ledger, owner.tenant, group)
            db = self._database(said | {"group": shared})
            try:
                if override is not None:
                    note_in(ledger, "override", known)
                record = self._written(owner, name, said, description)
            except BaseException:
                db.close()
                raise
            self._keep(record, db)
        return record

    def _written(
        self, owner: Person, name: str, said: Mapping[str, Any], description: str
    ) -> Record:
        try:
            with self.registry.writing() as run:
                number = new_id(
                    run, "INSERT INTO datasets (house, name, description, arguments, state, "
                    "created) VALUES (?, ?, ?, ?, 'open', ?)", owner.tenant, name, description,
                    json.dumps(locations.kept(said, self._settings.folder)), now(),
                )  # fmt: skip
                log(run, owner.tenant, "dataset", dataset=name)
        except Taken:
            raise Refused(f"name={name!r} is there already.") from None
        return self.record(number)

    # ---- deciding -------------------------------------------------------------------------

    def record(self, number: int) -> Record:
        """The record of one dataset, as it is now."""
        row = self.registry.one("SELECT * FROM datasets WHERE id = ?", number)
        if row is None:
            raise NotFound("there is no such dataset.")
        return record_of(row)

    def find(self, tenant: int, name: str) -> Record:
        """A dataset of this tenant."""
        found = self._find(tenant, name)
        if found is None:
            raise NotFound(f"there is no dataset {name!r}.")
        return found

    def _find(self, tenant: int, name: str) -> Record | None:
        row = self.registry.one(
            "SELECT * FROM datasets WHERE house = ? AND name = ? AND state <> 'closed'",
            tenant,
            name,
        )
        return None if row is None else record_of(row)

    def of_tenant(self, tenant: int) -> list[Record]:
        """Every dataset of a tenant that is not closed."""
        rows = self.registry.all(
            "SELECT * FROM datasets WHERE house = ? AND state <> 'closed' ORDER BY name", tenant
        )
        return [record_of(row) for row in rows]

    def describe(self, record: Record, description: str) -> None:
        """Say in words what a dataset is."""
        check_text(description, "description", MAX_DESCRIPTION)
        with self.registry.writing() as run:
            run("UPDATE datasets SET description = ? WHERE id = ?", description, record.id)
            log(run, record.tenant, "describe", dataset=record.name, description=description)

    def allot(self, record: Record, person: Person, queries: Any) -> None:
        """Let an analyst spend at most so many queries in all; None: as many as there are."""
        self.opened(record).db.allot(person.in_ledger, queries)
        with self.registry.writing() as run:
            most = "all there is" if queries is None else in_queries(micro_of(queries))
            log(run, record.tenant, "allot", dataset=record.name, about=person.name,
                about_id=person.known_as, queries=most)  # fmt: skip

    def set_state(self, record: Record, state: str, reason: str | None = None) -> None:
        """Freeze, thaw or close. A closed dataset is gone; its ledger stays.

        Thawed after a scan that failed, the ledger goes on too: `reason` is written there.
        """
        if state not in ("open", "frozen", "closed"):
            raise Refused(f"state={state!r}, want 'open', 'frozen' or 'closed'.")
        if state == "open":
            self._resume(record, reason)
        with self.registry.writing() as run:
            run("UPDATE datasets SET state = ? WHERE id = ? AND state <> 'closed'",
                state, record.id)  # fmt: skip
            if state != record.state:
                note(run, record.id, KINDS[state], reason=reason)
                if state == "frozen":
                    who = acting.get().name
                    words = f"{record.name!r} was frozen by {who}: nothing may be asked."
                    alarm(run, record.tenant, record.id, "frozen", words)
            if state == "closed":
                run("DELETE FROM members WHERE dataset = ?", record.id)
        if state == "closed":
            self.forget(record)

    def _resume(self, record: Record, reason: str | None) -> None:
        try:
            db = self.opened(record).db
            frozen = db.frozen is not None
        except SulqError:
            return  # its rows cannot be opened: if it is frozen, the ledger says so again then
        if frozen and not (reason or "").strip():
            raise Refused(
                f"{record.name!r} is frozen because a scan failed. Look at what failed, then thaw "
                "it with a reason, which is written into the ledger."
            )
        if frozen:
            db.resume(reason or "")

    def note_stop(self, record: Record, db: Database) -> None:
        """Freeze it and tell the owner, if its ledger says that a scan failed."""
        found = db.frozen
        if found is None:
            return
        with self.registry.writing() as run:
            if _freeze(run, record, FAILED):
                alarm(
                    run, record.tenant, record.id, "failed",
                    f"A scan failed with {found.error} although its engine ({found.engine}) was "
                    "there, so it is frozen: whether a scan fails may depend on rows. Look at what "
                    "was asked, then thaw it with a reason.",
                )  # fmt: skip

    # ---- late replies ---------------------------------------------------------------------

    def note_late(self, record: Record, schema: Schema) -> None:
        """Tell the owner that real rows were slower than made-up ones; freeze after too many."""
        self._note_late(
            record,
            "A batch of questions was late: its rows took longer to read than the slot allows, "
            f"each of {PAIRS} times, and made-up rows beside them did not. {slow_rows(schema)}",
        )

    def note_noise(self, record: Record) -> None:
        """Tell the owner that a late reply left as noise; freeze after too many."""
        self._note_late(
            record,
            'A batch of questions was late, and its replies left as noise, as late = "noise" '
            "has it. The machine or the rows were slow.",
        )

    def _note_late(self, record: Record, message: str) -> None:
        with self.registry.writing() as run:
            alarm(run, record.tenant, record.id, "late", message)
            count = run(
                "SELECT count(*) FROM alarms WHERE dataset = ? AND kind = 'late' AND seen IS NULL",
                record.id,
            ).fetchone()[0]  # fmt: skip
            if self._settings.most_late and count >= self._settings.most_late:
                _freeze(run, record, LATE)

    def note_slow(self, dataset: Dataset) -> None:
        """Tell the owner that the machine was slow; that counts towards nothing."""
        with self.registry.writing() as run:
            alarm(
                run, dataset.record.tenant, dataset.record.id, "slow",
                "A batch of questions was late because the machine was slow. Until it is quick "
                f"again, slots are {dataset.slots.longer} times as long as measured.",
            )  # fmt: skip


def slow_rows(schema: Schema) -> str:
    """Advice on rows that are slower than made-up ones; from the schema alone."""
    texts = [
        c.name for c in schema.columns if c.type == "text" and not c.key and c.max_length is None
    ]
    if texts:
        return (
            f"Made-up texts have {TEXT_LETTERS} characters. If those of {', '.join(texts[:5])} are "
            "longer, declare max_length."
        )
    return (
        "No column of the schema explains that. Look at how the source is stored: compression, "
        "small parts, a slow disk or network."
    )


def _freeze(run: Run, record: Record, by: Actor) -> bool:
    """Freeze a dataset that is open; was it?"""
    moved = run("UPDATE datasets SET state = 'frozen' WHERE id = ? AND state = 'open'", record.id)
    if moved.rowcount:
        note(run, record.id, "freeze", by=by)
    return bool(moved.rowcount)
