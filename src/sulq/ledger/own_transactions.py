"""A ledger's own transactions on a PostgreSQL server: they end there, and leave the rows alone.

A table's version says which transactions of its server are over (`version_of` in
sources/postgres_catalog.py). Where the ledger is on that server too, each charge is one of them.
What ended between two looks is known by number, so rows need a look only if some other one did.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

LATEST = 10_000  # that are remembered
SNAPSHOT = re.compile(r"(\d+):(\d+):([\d,]*)")

_lock = threading.Lock()
_own: OrderedDict[tuple[str, int], None] = OrderedDict()
_watched = threading.Event()  # does anyone look at rows on a server?


def watch() -> None:
    """From now on ledgers of this process say which transactions were theirs."""
    _watched.set()


def watched() -> bool:
    """Is it worth saying?"""
    return _watched.is_set()


def note(life: str, number: int) -> None:
    """A ledger's transaction was kept, in this life of a server; it wrote to the ledger alone."""
    with _lock:
        _own[life, number] = None
        while len(_own) > LATEST:
            _own.popitem(last=False)


def only_own(before: str, after: str) -> bool:
    """Did nothing but ledgers' own transactions end between these two versions of a table?

    Both say the snapshot, the last checkpoint, the life of the server and how far it has replayed.
    """
    if ended_between(before, after) is None:
        return False
    begun, ended = SNAPSHOT.match(before), SNAPSHOT.match(after)
    assert begun is not None
    assert ended is not None
    open_then, open_now = ({int(x) for x in s[3].split(",") if x} for s in (begun, ended))
    over = open_then.union(range(int(begun[2]), int(ended[2]))) - open_now
    life = after.split()[2]
    with _lock:
        return all((life, number) in _own for number in over)


def ended_between(before: str, after: str) -> range | None:
    """The numbers of all transactions that may have ended between these two versions, savepoints'
    too; None if that is not known, or they are many: after a checkpoint it is not.
    """
    (first, *was), (last, *now) = before.split(), after.split()
    begun, ended = SNAPSHOT.fullmatch(first), SNAPSHOT.fullmatch(last)
    if begun is None or ended is None or len(was) != 3 or was != now:
        return None
    numbers = range(int(begun[1]), int(ended[2]))
    return numbers if len(numbers) <= LATEST else None
