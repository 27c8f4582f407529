"""The state of each dataset: can it be asked, and if not, why.

It is computed in one place, in the background, every few seconds. Readiness, the API, the
console, alarms, messages, metrics, the log and `sulq dataset list` show that value and compute
none of their own. It depends on the source as a whole, the ledger, the disk and the registry,
never on private values: that rows changed is public, how is not.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sulq.database import Database
from sulq.errors import LedgerDamaged, SourceChanged, SulqError
from sulq.ledger.location import check_writable
from sulq.server.services import locations, logs, outbox
from sulq.server.services.access import Record, record_of
from sulq.server.services.datasets import Datasets
from sulq.server.services.registry import Registry, alarm, now
from sulq.sources.postgres import Address, is_address, reach

LOOK_SECONDS = 2.0  # between two looks at all datasets,
SHARE = 10  # and at least so many times as long as the last look at one took
HANGING_SECONDS = 6.0  # after which a look counts as getting no reply
LOOKS = 8  # at once
ROOM_BYTES = 1 << 20  # that must be free where a ledger is written
ONCE_SECONDS = 60  # in which several processes raise one alarm about the same

GOOD_KEY = "SELECT 1 FROM keys WHERE revoked IS NULL AND expires > ?"
REGISTRY_AWAY = "registry"

OPEN, SPENT, OPENING, FROZEN = "open", "spent", "opening", "frozen"
# Each reason for which nothing is answered, in words for everybody.
FAULTS: Mapping[str, str] = {
    "rows-missing": "its rows are not where they were, or may not be read",
    "rows-changed": "its rows are not those that its ledger began with",
    "rows-away": "the database with its rows cannot be reached",
    "ledger-missing": "its ledger is gone",
    "ledger-damaged": "its ledger cannot be trusted, or cannot be read",
    "ledger-read-only": "its ledger cannot be written",
    "ledger-away": "its ledger cannot be reached",
    "disk-full": "the server's disk is full",
    "no-reply": "its rows or its ledger do not reply",
    "not-opening": "it cannot be opened",
}
WORDS: Mapping[str, str] = {
    **FAULTS,
    OPEN: "it can be asked",
    SPENT: "its budget is spent, and stored answers stay free",
    OPENING: "it was not opened yet",
    FROZEN: "it is frozen: nothing may be asked until its owner thaws it",
}


@dataclass(frozen=True, slots=True)
class DatasetState:
    """The state of one dataset since a moment, with what its owner should know."""

    kind: str  # a key of WORDS
    message: str = ""  # for its owner: it may name places
    since: str = ""

    @property
    def is_fault(self) -> bool:
        """True if nothing is answered although nobody decided so."""
        return self.kind in FAULTS

    @property
    def name(self) -> str:
        """The state in one word, as the API and the console show it."""
        return "stopped" if self.is_fault else FROZEN if self.kind == FROZEN else OPEN

    def stop(self, *, to_owner: bool) -> dict[str, Any] | None:
        """Return why nothing is answered, as JSON; None if it can be asked."""
        if not self.is_fault:
            return None
        words = self.message if to_owner else f"{WORDS[self.kind]}."
        return {"why": self.kind, "since": self.since, "message": words}


class Stopped(Exception):
    """A reason for which a dataset cannot be asked: its kind, and words for the owner."""

    def __init__(self, kind: str, message: str) -> None:
        self.state = DatasetState(kind, message)
        super().__init__(kind)


class DatasetStates:
    """The states of all datasets of a server, looked at again and again."""

    def __init__(self, registry: Registry, datasets: Datasets, folder: Path) -> None:
        self._registry = registry
        self._datasets = datasets
        self._folder = folder
        self._states: dict[int, tuple[Record, DatasetState]] = {}
        self._due: dict[int, float] = {}
        self._looks: dict[int, tuple[float, Future[DatasetState]]] = {}
        self._unwritten: list[tuple[Record, DatasetState]] = []  # alarms that the disk did not take
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(LOOKS, thread_name_prefix="sulq-states")
        self._slowness = 1.0  # by how much this thread is woken late: how busy the machine is
        self.fault = ""  # of the server as a whole, as of the last look

    # ---- reading --------------------------------------------------------------------------

    def of(self, record: Record) -> DatasetState:
        """The state of a dataset, as of the last look; what its owner decides shows at once."""
        if record.state == FROZEN:
            return self._frozen(record)
        _, state = self._states.get(record.id, (record, DatasetState(OPENING)))
        return DatasetState(OPENING) if state.kind == FROZEN else state

    def all(self) -> list[tuple[Record, DatasetState]]:
        """Every dataset that is not closed, with its state."""
        return [self._states[number] for number in sorted(self._states)]

    def unwritten(self, tenant: int) -> list[dict[str, Any]]:
        """Alarms of an owner that are not in the registry, since it takes no writes just now."""
        return [
            {
                "id": 0, "kind": outbox.STOPPED, "message": _alarm_words(record, state),
                "time": state.since, "seen": None, "dataset": record.name,
            }
            for record, state in self._unwritten if record.tenant == tenant
        ]  # fmt: skip

    def _frozen(self, record: Record) -> DatasetState:
        _, state = self._states.get(record.id, (record, DatasetState(FROZEN)))
        since = state.since if state.kind == FROZEN else ""
        return DatasetState(FROZEN, f"{record.name!r} is frozen.", since)

    # ---- looking --------------------------------------------------------------------------

    def start(self) -> None:
        """Look from now on, in a thread."""
        threading.Thread(target=self._watch, name="dataset-states", daemon=True).start()

    def close(self) -> None:
        """Look no more; a look under way ends first, unless it gets no reply."""
        self._ended.set()
        with self._lock:
            under_way = [look for _, look in self._looks.values()]
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(under_way, HANGING_SECONDS)

    def forget(self, record: Record) -> None:
        """Look at it anew: its owner has just mended or changed something."""
        with self._lock:
            self._states.pop(record.id, None)
            self._due.pop(record.id, None)

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                self.look_at_all()
            except Exception as error:  # a watch that ends would be silence
                logs.failure(error)
            began = time.monotonic()
            self._ended.wait(LOOK_SECONDS)
            self._slowness = max(1.0, (time.monotonic() - began) / LOOK_SECONDS)

    def look_at_all(self) -> None:
        """Look at every dataset that is due, and note what became of it."""
        self._note_fault(self.server_fault())
        if self.fault == REGISTRY_AWAY:
            return
        rows = self._registry.all("SELECT * FROM datasets WHERE state <> 'closed' ORDER BY id")
        records = {row["id"]: record_of(row) for row in rows}
        with self._lock:
            for number in self._states.keys() - records.keys():
                del self._states[number]
        servers = _Servers()
        for record in records.values():
            self._begin(record, servers)
        wait([look for _, look in self._looks.values()], HANGING_SECONDS)
        for number in list(self._looks):
            self._end(number, records.get(number))
        self._write_alarms()

    def _begin(self, record: Record, servers: _Servers) -> None:
        if record.id not in self._looks and time.monotonic() >= self._due.get(record.id, 0.0):
            with self._lock, suppress(RuntimeError):  # it ends just now
                look = self._pool.submit(self._timed, record, servers)
                self._looks[record.id] = time.monotonic(), look

    def _timed(self, record: Record, servers: _Servers) -> DatasetState:
        start = time.monotonic()
        state = self.look(record, servers)
        end = time.monotonic()
        self._due[record.id] = end + SHARE * (end - start)
        return state

    def _end(self, number: int, record: Record | None) -> None:
        begun, look = self._looks[number]
        if look.done():
            del self._looks[number]
        if record is None or look.cancelled() or self._ended.is_set():
            return
        if look.done():
            self._note(record, look.result())
        elif (
            look.running() and time.monotonic() - begun >= HANGING_SECONDS * self._slowness
            and self._datasets.is_open(record)  # to open it the first time may take longer
        ):  # fmt: skip
            self._note(record, DatasetState("no-reply"))

    def look(self, record: Record, servers: _Servers | None = None) -> DatasetState:
        """Compute the state of a dataset now."""
        try:
            self._check(record, servers or _Servers())
        except Stopped as stopped:
            return stopped.state
        except Exception as error:  # of which the words may quote anything
            return DatasetState("not-opening", f"{type(error).__name__} while it was looked at.")
        return DatasetState(OPEN)

    def _check(self, record: Record, servers: _Servers) -> None:
        if record.state == FROZEN:
            raise Stopped(FROZEN, f"{record.name!r} is frozen.")
        places = locations.found(json.loads(record.arguments), self._folder)
        servers.check(str(places["source"]), "rows-away")
        servers.check(str(places["ledger"]), "ledger-away")
        _check_room([self._folder, *_folders(str(places["ledger"]))])
        _check_there(str(places["ledger"]), "ledger-missing")
        _check_there(str(places["source"]), "rows-missing")
        with _as_stop("ledger-read-only"):
            check_writable(places["ledger"])
        with _as_stop("not-opening"):
            db = self._datasets.opened(record).db
        try:
            check_database(db)
        except Stopped as stopped:
            if stopped.state.kind == "rows-changed":  # or refreshed by another process
                self._datasets.forget(record)
            raise
        if db.frozen is not None:
            self._datasets.note_stop(record, db)
            raise Stopped(FROZEN, f"{record.name!r} is frozen, because a scan failed.")
        if db.budget.remaining <= 0:
            raise Stopped(SPENT, "")

    # ---- telling --------------------------------------------------------------------------

    def server_fault(self) -> str:
        """The reason for which the server as a whole cannot be asked; empty without one."""
        try:
            self._registry.one("SELECT 1 FROM datasets")
        except Exception:
            return REGISTRY_AWAY
        clock = self._registry.clock
        with suppress(Exception):  # to keep the time fails on a full disk, which is no wrong clock
            clock.time()  # so that a clock that leaps is noticed though nobody asks
            if clock.doubt is not None and self._registry.one(GOOD_KEY, clock.now()) is None:
                return "a right clock"
        return ""

    def _note_fault(self, fault: str) -> None:
        if fault != self.fault:
            level = logging.WARNING if fault else logging.INFO
            logs.event("not ready" if fault else "ready", level, missing=[fault] if fault else [])
        self.fault = fault

    def _note(self, record: Record, state: DatasetState) -> None:
        """Keep a state; a change of it is for the log, and a stop for the owner."""
        _, before = self._states.get(record.id, (record, DatasetState(OPENING)))
        if before.kind == state.kind:
            self._states[record.id] = record, replace(state, since=before.since)
            return
        state = replace(state, since=now())
        self._states[record.id] = record, state
        if state.name != OPEN:
            logs.event("stopped", logging.WARNING, dataset=record.name, why=state.kind)
        elif before.name != OPEN:
            logs.event("asked again", dataset=record.name)
        self._unwritten = [one for one in self._unwritten if one[0].id != record.id]
        if state.is_fault:
            self._unwritten.append((record, state))

    def _write_alarms(self) -> None:
        """Put alarms into the registry, with a message; what it does not take waits."""
        for record, state in list(self._unwritten):
            try:
                self._write_alarm(record, state)
            except Exception:
                return
            self._unwritten.remove((record, state))

    def _write_alarm(self, record: Record, state: DatasetState) -> None:
        words = _alarm_words(record, state)
        since = datetime.now(UTC) - timedelta(seconds=ONCE_SECONDS)
        with self._registry.writing() as run:
            known = run(
                "SELECT count(*) FROM alarms WHERE dataset = ? AND kind = ? AND message = ? "
                "AND time > ?", record.id, outbox.STOPPED, words,
                since.isoformat(timespec="seconds"),
            ).fetchone()[0]  # fmt: skip
            if not known:
                alarm(run, record.tenant, record.id, outbox.STOPPED, words)
                outbox.enqueue(
                    run, record.tenant, outbox.STOPPED,
                    f"{record.name!r} answers nothing: {WORDS[state.kind]}.",
                    dataset=record.name, why=state.kind,
                )  # fmt: skip


def check_database(db: Database) -> None:
    """Raise Stopped if an open database cannot be asked."""
    try:
        db.check_rows()
    except SourceChanged as error:
        raise Stopped("rows-changed", str(error)) from None
    except SulqError as error:
        raise Stopped("rows-away", str(error)) from None
    with _as_stop("ledger-away"):
        db.check_ledger()


@contextmanager
def _as_stop(kind: str) -> Iterator[None]:
    """Turn what is raised in here into the reason for a stop: of this kind, or a nearer one."""
    try:
        yield
    except SourceChanged as error:
        raise Stopped("rows-changed", str(error)) from None
    except LedgerDamaged as error:
        raise Stopped("ledger-damaged", str(error)) from None
    except SulqError as error:
        raise Stopped(kind, str(error)) from None


def _alarm_words(record: Record, state: DatasetState) -> str:
    return f"{record.name!r} answers nothing: {WORDS[state.kind]}. {state.message}".strip()


def _folders(ledger: str) -> Iterable[Path]:
    return () if is_address(ledger) else (Path(ledger).parent,)


def _check_there(place: str, kind: str) -> None:
    if "://" in place:
        return
    if not Path(place).exists():
        raise Stopped(kind, f"{Path(place).name!r} is not where it was. Put it back.")
    if kind.startswith("rows") and not os.access(place, os.R_OK, effective_ids=True):
        raise Stopped(kind, f"{Path(place).name!r} may not be read by the user of this server.")


def _check_room(folders: Iterable[Path]) -> None:
    """Raise Stopped unless there is a little room in each folder."""
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            raise Stopped("ledger-missing", f"the folder {folder.name!r} is gone.") from None
        blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
        if blocks * disk.f_frsize < ROOM_BYTES:
            raise Stopped(
                "disk-full", f"less than {ROOM_BYTES:,} bytes are free where {folder.name!r} is. "
                "Make room: it goes on by itself."
            )  # fmt: skip


class _Servers:
    """The servers that were tried in one round of looks, each once."""

    def __init__(self) -> None:
        self._tried: dict[str, str | None] = {}
        self._lock = threading.Lock()

    def check(self, place: str, kind: str) -> None:
        """Raise Stopped if it is an address at which no server replies."""
        if not is_address(place):
            return
        url = Address.read(place).url
        with self._lock:
            if url not in self._tried:
                self._tried[url] = _refusal(url)
            refusal = self._tried[url]
        if refusal is not None:
            raise Stopped(kind, refusal)


def _refusal(url: str) -> str | None:
    try:
        reach(url).close()
    except SulqError as error:
        return str(error)
    return None
