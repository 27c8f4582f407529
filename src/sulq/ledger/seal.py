"""What the owner keeps outside the ledger: a secret, marks, and whose data is whose.

A ledger cannot notice by itself that it was replaced by an older copy. So the folder
`.sulq/` beside it, readable by the owner only, holds

    secret       256 random bits; every fingerprint of a source is keyed with them
    NAME.mark    the highest entry seen of ledger NAME, and the fingerprints of its sources
    NAME.place   the folder of ledger NAME, by which a copy of it is told from itself
    files        fingerprints of files that have not changed since they were read

A mark is written after its entry is on disk, and not synced itself: it may be behind the
ledger, never ahead of it.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sulq.errors import LedgerDamaged, Refused, SourceChanged

FOLDER = ".sulq"
SLOT = 128  # bytes; a slot lies within one disk sector, so it is written whole or not at all
SLOTS = 2
CHUNK = 1 << 20
ROWS = 1 << 16  # rows of a table hashed at a time
GRAIN_NANOSECONDS = 2_000_000_000  # a file this young may change again unseen
REMEMBERED_FILES = 1000

REMEDY = (
    "Restore the newest copy, or run `sulq override`: it says in the ledger, for good, that "
    "answers may have been given beyond the promise."
)

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Mark:
    """The highest entry seen of one ledger."""

    number: int
    hash: str


class Seal:
    """The owner's side of one ledger. Safe among threads and processes."""

    def __init__(self, ledger: Path, secret: bytes) -> None:
        self.name = ledger.name
        self.folder = ledger.parent / FOLDER
        self._path = self.folder / f"{ledger.name}.mark"
        self._secret = secret

    @classmethod
    def open(cls, ledger_path: str | Path) -> Seal:
        """Open the folder beside this ledger, or make it."""
        ledger = Path(os.path.realpath(ledger_path))
        return cls(ledger, open_folder(ledger.parent / FOLDER))

    def beside(self, ledger: str | Path) -> Seal:
        """The seal of another ledger in the same folder, which may be held."""
        return Seal(Path(os.path.realpath(ledger)), self._secret)

    def has_secret_of(self, folder: Path) -> bool:
        """Is this other folder `.sulq` the same, or a copy?"""
        return hmac.compare_digest((folder / "secret").read_bytes(), self._secret)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold all that is known of sources: of two openings at once, one finds the other's."""
        with folder_lock(self.folder):
            yield

    # -- marks --

    def check_mark(
        self, mark: Mark | None, number: int, hash_of: Callable[[int], str | None]
    ) -> None:
        """Raise unless the ledger, ending at entry `number`, contains the marked entry.

        The mark is read before the ledger, since others may be writing to it.
        """
        if mark is None or (mark.number <= number and hash_of(mark.number) == mark.hash):
            return
        if mark.number > number:
            what = f"ends at entry {number} but entry {mark.number} was seen"
        else:
            what = f"has another entry {mark.number} than the one that was seen"
        raise LedgerDamaged(
            f"The ledger {self.name!r} {what}: an older copy was restored, it was cut short, or "
            f"another ledger was put in its place. Nothing is answered.\n{REMEDY}"
        )

    def check_vacant(self) -> None:
        """Raise if a ledger of this name was here and is gone."""
        if self.marked() is not None:
            raise LedgerDamaged(
                f"The ledger {self.name!r} is gone, but it was here and its data were asked "
                f"about. Nothing is answered.\n{REMEDY}"
            )

    def mark(self, number: int, hash: str) -> None:
        """Remember this entry, unless a later one is marked already."""
        try:
            with self._locked() as handle:
                slots = self._slots(os.pread(handle, SLOT * SLOTS, 0))
                numbers = [-1 if slot is None else slot.number for slot in slots]
                if number > max(numbers):
                    where = numbers.index(min(numbers))  # the other slot stays whole
                    os.pwrite(handle, self._slot(number, hash), where * SLOT)
                if max(numbers) < 0:
                    os.fsync(handle)  # the first mark: make sure of the file itself
                    sync_folder(self.folder)
        except OSError as error:
            raise LedgerDamaged(
                f"The mark of ledger {self.name!r} cannot be written: {error.strerror}. "
                "No answer is given; a charge may have been made, and asking again does not "
                f"pay again.\nMake {str(self._path)!r} writable."
            ) from error

    def check_writable(self) -> None:
        """Raise Refused if this process may not write the mark, as after every charge."""
        for place in (self.folder, self._path):
            if place.exists() and not may_write(place):
                raise Refused(
                    f"The mark of ledger {self.name!r} cannot be written: {str(place)!r} is "
                    "read-only for this process. Nothing was charged.\nMake it writable for the "
                    "user that runs this process."
                )

    def forget(self, reason: str) -> dict[str, Any]:
        """Put the mark aside and give what was known, for the next ledger's chain."""
        body: dict[str, Any] = {"reason": reason, "ledger": self.name}
        try:
            mark = self.marked()
        except LedgerDamaged:
            mark = None
        if self._path.exists():
            aside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.forgotten")
            os.rename(self._path, aside)
            sync_folder(self.folder)
        return body if mark is None else body | {"number": mark.number, "hash": mark.hash}

    def marked(self) -> Mark | None:
        """The highest valid mark; None if there never was one."""
        text = _content(self._path)[: SLOT * SLOTS]
        marks = [slot for slot in self._slots(text) if slot is not None]
        if not marks and text.strip(b"\0"):
            raise LedgerDamaged(
                f"The mark {str(self._path)!r} cannot be read, or was made with another secret. "
                f"Nothing is answered.\n{REMEDY}"
            )
        return max(marks, key=lambda mark: mark.number, default=None)

    def _slots(self, text: bytes) -> list[Mark | None]:
        return [self._parsed(text[i * SLOT : (i + 1) * SLOT]) for i in range(SLOTS)]

    def _slot(self, number: int, hash: str) -> bytes:
        text = f"{number:019d} {hash}".encode()
        return (text + b" " + self._check(text)).ljust(SLOT - 1) + b"\n"

    def _parsed(self, slot: bytes) -> Mark | None:
        text, _, check = slot.rstrip().rpartition(b" ")
        if not hmac.compare_digest(check, self._check(text)):
            return None
        number, hash = text.decode().split(" ")
        return Mark(int(number), hash)

    def _check(self, text: bytes) -> bytes:
        keyed = blake2b(text, key=self._secret, digest_size=16, person=b"sulq mark")
        return keyed.hexdigest().encode()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The mark file, open and held against other threads and processes."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    # -- sources --

    def current(self) -> str | None:
        """The fingerprint of the rows this ledger is about now: the last one remembered."""
        return next(reversed(_fingerprints(self._path)), None)

    def vouch(self, store: Path) -> None:
        """Remember that this encoded store was made here, as it is now."""
        note = self.folder / f"{self.fingerprint(store)}.store"
        replace_file(note, b"")
        sync_folder(self.folder)

    def vouches(self, store: Path) -> bool:
        """Was this encoded store made here, and is it still as it was?"""
        return (self.folder / f"{self.fingerprint(store)}.store").exists()

    def known(self, fingerprint: str) -> str | None:
        """Name another ledger of this folder that was opened on the same data.

        Its file may be deleted since. None if this ledger has the data already.
        """
        if fingerprint in _fingerprints(self._path):
            return None
        for path in sorted(self.folder.glob("*.mark")):
            if fingerprint in _fingerprints(path):
                return path.name.removesuffix(".mark")
        return None

    def other(self, fingerprint: str) -> str | None:
        """The same, as it is called where this ledger is."""
        return self.known(fingerprint)

    def knows_rows_of(self, ledger: str) -> bool:
        """Is it known which rows this ledger of the folder is about?"""
        return bool(_fingerprints(self.folder / f"{ledger}.mark"))

    def remembers(self, fingerprint: str) -> bool:
        """Was this ledger ever about these rows?"""
        return fingerprint in _fingerprints(self._path)

    def remember(self, fingerprint: str) -> None:
        """Keep this source's fingerprint with the ledger's mark, for good."""
        with self._locked() as handle:
            if fingerprint == next(reversed(_fingerprints(self._path)), None):
                return
            end = max(os.fstat(handle).st_size, SLOT * SLOTS)
            # The line break in front ends a line that a crash cut short.
            os.pwrite(handle, f"\n{fingerprint}\n".encode(), end)
            os.fsync(handle)
        sync_folder(self.folder)

    def fingerprint(self, source: Any, progress: Progress | None = None) -> str:
        """Fingerprint a file, a folder, an Arrow table or an iterator of bytes, keyed.

        A file whose device, inode, size and times are unchanged is not read again.
        """
        if isinstance(source, str | Path):
            path = Path(source)
            if not path.is_dir():
                return self._of_file(path, progress)
            return self.fingerprint_of_files(path, [p for p in path.rglob("*") if p.is_file()])
        if hasattr(source, "to_batches"):
            return self._of_bytes(_table_bytes(source), progress, source.nbytes)
        return self._of_bytes(source, progress, None)

    def of_contents(self, contents: str) -> str:
        """Fingerprint a text, keyed."""
        return self._of_bytes([contents.encode()], None, None)

    def of_version(
        self, version: str | None, contents: Callable[[], tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Fingerprint what `contents` gives, unless this very version of it was read before."""
        key = self.of_contents(f"version {version}")
        found = self._files().get(key) if version is not None else None
        if found is None:
            found = " ".join(map(self.of_contents, contents()))
            if version is not None:
                self._keep_file(key, found)
        return tuple(found.split())

    def _of_bytes(
        self, chunks: Iterable[bytes | memoryview], progress: Progress | None, size: int | None
    ) -> str:
        hash, done = blake2b(key=self._secret, digest_size=32, person=b"sulq source"), 0
        for chunk in chunks:
            hash.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, size)
        return hash.hexdigest()

    def fingerprint_of_files(self, folder: Path, files: list[Path]) -> str:
        """Fingerprint these files of a folder, with the names they have in it."""
        lines = (
            f"{f.relative_to(folder)}\n{self._of_file(f, None)}\n".encode() for f in sorted(files)
        )
        return self._of_bytes(lines, None, None)

    def _of_file(self, path: Path, progress: Progress | None) -> str:
        before = os.stat(path)
        remembered = self._files().get(_version(before))
        if remembered is not None:
            return remembered
        with path.open("rb") as file:
            found = self._of_bytes(iter(lambda: file.read(CHUNK), b""), progress, before.st_size)
        if _version(os.stat(path)) != _version(before):
            raise SourceChanged(f"{path.name!r} changed while it was read. Nothing was charged.")
        if time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > GRAIN_NANOSECONDS:
            self._keep_file(_version(before), found)
        return found

    def _files(self) -> dict[str, str]:
        try:
            files = json.loads(_content(self.folder / "files"))
        except ValueError:
            return {}  # only a saving of time: read the file again
        return files if isinstance(files, dict) else {}

    def _keep_file(self, key: str, fingerprint: str) -> None:
        with suppress(OSError), folder_lock(self.folder):  # only a saving of time
            files = self._files() | {key: fingerprint}
            newest = dict(list(files.items())[-REMEMBERED_FILES:])
            replace_file(self.folder / "files", json.dumps(newest).encode())


# ---- files ----------------------------------------------------------------------------------


def may_write(place: Path) -> bool:
    """True if this process may read and write it: not another user's, not on a read-only disk."""
    return os.access(place, os.R_OK | os.W_OK, effective_ids=True)


def open_folder(folder: Path) -> bytes:
    """Make the folder, for its owner only, or open it; give its secret."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        return _secret(folder)
    except OSError as error:
        raise Refused(
            f"folder={str(folder)!r} cannot be used: {error.strerror}. Nothing was charged.\n"
            "Keep the ledger in a folder that can be written: ledger='/elsewhere/people.ledger'."
        ) from error


def _secret(folder: Path) -> bytes:
    """The folder's secret, drawn the first time."""
    path = folder / "secret"
    with folder_lock(folder):
        if not path.exists():
            if any(folder.glob("*.mark")):
                raise LedgerDamaged(
                    f"{str(path)!r} is gone, so the marks beside it cannot be checked. "
                    "Nothing is answered.\nRestore the folder as a whole."
                )
            replace_file(path, secrets.token_bytes(32))
        secret = path.read_bytes()
    if len(secret) != 32:
        raise LedgerDamaged(f"{str(path)!r} is damaged. Nothing is answered.\nRestore it.")
    return secret


def _fingerprints(path: Path) -> list[str]:
    """Every source this ledger was about, oldest first."""
    try:
        return _content(path)[SLOT * SLOTS :].decode("ascii").split()
    except UnicodeDecodeError:
        raise LedgerDamaged(
            f"The mark {str(path)!r} is damaged. Nothing is answered.\nRestore the newest copy of "
            "the folder it is in, or run `sulq override`."
        ) from None


def _content(path: Path) -> bytes:
    """What a file of the folder holds; nothing if it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise LedgerDamaged(
            f"{str(path)!r} cannot be read: {error.strerror}. Nothing is answered.\nRestore the "
            "newest copy of the folder it is in."
        ) from None


def _version(found: os.stat_result) -> str:
    parts = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ":".join(map(str, parts))


def _table_bytes(table: Any) -> Iterator[memoryview]:
    """An Arrow table as bytes that do not depend on how it is cut into chunks."""
    import pyarrow as pa

    plain = pa.table({str(i): _decoded(column) for i, column in enumerate(table.columns)})
    yield memoryview("\0".join(table.column_names).encode())
    for start in range(0, max(plain.num_rows, 1), ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, plain.schema) as stream:
            stream.write_table(plain.slice(start, ROWS).combine_chunks())
        yield memoryview(sink.getvalue())


def _decoded(column: Any) -> Any:
    """A column without its dictionary, whose order depends on the chunks."""
    return column.cast(column.type.value_type) if hasattr(column.type, "index_type") else column


def replace_file(path: Path, content: bytes) -> None:
    """Write a file for the owner only: the old content or the new, never half of it."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_folder(path.parent)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the folder itself against other threads and processes; nothing to clean up."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # Unlocked by name: a child forked meanwhile holds the same open file.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
