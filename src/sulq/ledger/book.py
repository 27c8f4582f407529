"""One chain of entries that threads, processes and machines write to, and its mark outside.

A writer holds the head, sees that the chain still continues from what it knew, appends, commits,
and marks the newest entry in the owner's seal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self, TypeVar

from sqlalchemy import Connection

from sulq.errors import Refused, SulqError
from sulq.ledger.chain import EMPTY, Following, Page, hash_of, hold_head, now, read_head
from sulq.ledger.replay import check_extends
from sulq.ledger.retry import patient, plainly
from sulq.ledger.seal import Seal
from sulq.ledger.sqlite import Place
from sulq.ledger.types import Head

Walked = TypeVar("Walked", bound=Following)

# Kinds with a meaning of their own.
RESERVED = (
    "open", "charge", "answer", "retry", "refresh", "carry", "allot", "freeze", "resume", "join",
    "spend", "level", "program", "keys", "append", "discover",
)  # fmt: skip


class Book:
    """A durable chain: a dataset's ledger, or that of a group of datasets."""

    def __init__(self, disk: Place, seal: Seal | None) -> None:
        self._disk = disk
        self._seal = seal
        self._seen = EMPTY
        self.name = ""
        self.total = 0
        self.verified = ""  # when the whole chain was last walked here: UTC, ISO 8601

    @classmethod
    def _verified(cls, disk: Place, seal: Seal | None) -> Self:
        """The chain that is there, walked before anything of it is believed."""
        book = cls(disk, seal)
        try:
            book._start()
        except BaseException:
            book.close()
            raise
        return book

    def _start(self) -> None:
        """Believe nothing of it, and know what it says."""
        raise NotImplementedError

    def _walked(self, audit: Callable[[Connection], Walked]) -> Walked:
        """Believe nothing: walk the chain, compare the tables, then the mark outside."""
        # The mark first: another process may charge and mark while the chain is walked.
        mark = self._seal.marked() if self._seal is not None else None
        with self._reading() as connection:
            found = audit(connection)
            if self._seal is not None:
                self._seal.check_mark(mark, found.head.number, lambda n: hash_of(connection, n))
        self._seen, self.verified = found.head, now()
        return found

    @property
    def lasting(self) -> bool:
        """Is it kept anywhere but in this process's memory?"""
        return self._disk.shared

    def close(self) -> None:
        """Let go of the file. Using it again opens it again."""
        self._disk.close()

    def _mark(self) -> None:
        if self._seal is not None:
            self._seal.mark(self._seen.number, self._seen.hash)

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._disk.reading()

    @contextmanager
    def _writing(self, failure: type[SulqError] = Refused) -> Iterator[Page]:
        """Hold the head, append what the caller adds, commit, then mark it outside."""
        with self._disk.lock:
            with self._disk.writing(failure) as connection:
                head = hold_head(connection)
                check_extends(connection, self._seen, head, self.total)
                self._look(connection, head)
                self._seen = head
                page = Page(connection, head)
                yield page
                page.write()
            self._seen = page.head
            if page.written:
                self._mark()

    def _look(self, connection: Connection, head: Head) -> None:
        """Look at what others wrote since, before anything is added."""

    @plainly()
    def note(self, kind: str, body: Mapping[str, Any]) -> int:
        """Append an entry that the owner should find later, such as "override"."""
        if kind in RESERVED or not kind.isidentifier() or len(kind) > 16:
            raise ValueError(f"kind={kind!r}: a short word, not one of {', '.join(RESERVED)}")
        with self._writing() as page:
            return page.append(kind, {**body, "time": now()})

    @plainly()
    def check_usable(self) -> None:
        """Raise if nothing could be charged now. Without patience, for a watch that looks again."""
        self._disk.check_writable()
        mark = None
        if self._seal is not None:
            self._seal.check_writable()
            mark = self._seal.marked()
        with self._disk.lock, self._reading() as connection:
            head = read_head(connection)
            check_extends(connection, self._seen, head, self.total)
            if self._seal is not None:
                self._seal.check_mark(mark, head.number, lambda n: hash_of(connection, n))

    @patient
    def check_growth(self) -> Head:
        """Check what was written since this process last looked; give where the chain ends."""
        with self._disk.lock, self._reading() as connection:
            head = read_head(connection)
            check_extends(connection, self._seen, head, self.total)
        return head
