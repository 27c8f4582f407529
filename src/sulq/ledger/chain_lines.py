"""A chain of entries as a file: each line has an entry, its hash and the one before it.

A line is written in one way only, with nothing in it that its hash does not cover, so that any
byte of an export that is changed is noticed by whoever has the file alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.chain import EMPTY, canonical, link_hash

HEAD = re.compile(r"(-1|\d{1,18}):([0-9a-f]{64})", re.ASCII)
Damage = Callable[[int, str], LedgerDamaged]


class Link(NamedTuple):
    """One entry: `body` is the JSON that its hash covers, as it is."""

    number: int
    kind: str
    body: str
    previous: str
    hash: str

    def line(self) -> bytes:
        """It as a line of an export."""
        return (
            f'{{"body":{self.body},"hash":"{self.hash}","kind":{canonical(self.kind)},'
            f'"number":{self.number},"previous":"{self.previous}"}}\n'
        ).encode("ascii")

    def shown(self) -> dict[str, Any]:
        """It as plain values: those of its line, and no others."""
        return self._asdict() | {"body": json.loads(self.body)}


def links_in(lines: Iterable[bytes], damaged: Damage) -> Iterator[Link]:
    """The entries of an export, each line byte for byte as it was written."""
    for number, line in enumerate(lines):
        try:
            said = json.loads(line)
            link = Link(**(said | {"body": canonical(said["body"])}))
            same = link.line() == line and type(link.number) is int
        except (ValueError, TypeError, KeyError, RecursionError):
            raise damaged(number, "cannot be read") from None
        if not same:
            raise damaged(number, "was changed")
        yield link


def follow(links: Iterable[Link], damaged: Damage, head: str | None = None) -> dict[str, Any]:
    """Check every link, and that a head kept elsewhere is one of them; the newest head."""
    wanted = None if head is None else head_of(head)
    number, previous = EMPTY.number, EMPTY.hash
    found = wanted in (None, (number, previous))
    for link in links:
        number += 1
        if link.number != number:
            raise damaged(number, "is missing")
        if link.previous != previous:
            raise damaged(number, "does not follow from the one before")
        if link.hash != link_hash(previous, number, link.kind, link.body):
            raise damaged(number, "was changed")
        previous = link.hash
        found = found or wanted == (number, previous)
    if not found and wanted is not None:
        raise damaged(wanted[0], "is not the one that was kept elsewhere")
    return {"number": number, "hash": previous}


def head_of(text: str) -> tuple[int, str]:
    """The number and the hash of NUMBER:HASH."""
    found = HEAD.fullmatch(text)
    if found is None:
        raise Refused(f"head={text[:100]!r}: want NUMBER:HASH, as an export ends with.")
    return int(found[1]), found[2]
