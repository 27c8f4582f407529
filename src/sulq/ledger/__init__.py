"""Requests and prices -> charges, on disk before any row is read.

The truth is a chain of entries, each carrying the hash of the one before. The other tables
are indexes on it, written in the same transaction and compared with it at every start. A
crash may waste a charge; it may never give an unpaid answer. See docs/reference/ledger.md.

    allotments.py     what each analyst has spent and may spend of the total
    book.py           one chain that many write to: held, extended, marked outside
    chain.py          the tables, and entries that each carry the hash of the one before
    chain_lines.py    a chain as a file of lines, checked by those alone
    claims.py         which ledger is about which rows: opened, begun, recognised, refreshed
    freeze.py         a scan failed: nothing new is paid or kept until the owner goes on
    group_commit.py   threads that wait to write share one transaction and one sync
    group_ledger.py   the ledger of a group: one total for datasets about the same people; members
    group_shares.py   what the datasets of a group have spent, and its chain followed
    guard.py          are the rows still those the ledger began with?
    history.py        what a ledger has recorded, read by index
    kept_beside.py    what a charge brings along: modules, sets of keys, discoveries
    known_answers.py  stored answers read back as what they measured
    ledger.py         Ledger: the one class that the rest of the product calls
    location.py       where a ledger is: a file, or a schema on a server; is it a copy?
    migrate.py        Tables of an older version -> tables of this one
    older_charges.py  charges made before questions had one form stay free
    older_text.py     the text of a question in an older ledger -> the JSON it has now
    open_periods.py   which periods have rows, which cells can be charged, how these are numbered
    own_transactions.py  which transactions of a server were a ledger's, and left the rows alone
    pay.py            requests -> charges, all or none, never above the total
    period_rows.py    are the rows of each period still those they were?
    postgres.py       one schema of a PostgreSQL database, shared by processes and machines
    postgres_seal.py  marks on each machine, fingerprints with the ledger on the server
    renewal.py        other rows, or more: the entry, and what new periods pay at once
    replay.py         is the chain whole, and do the tables agree with it?
    retry.py          what is done when a ledger's server is lost on the way
    seal.py           what the owner keeps outside: a secret, marks, whose data is whose
    sqlite.py         one SQLite file, safe among threads, processes and forks
    statements.py     statements that SQLAlchemy writes once and SQLite's driver runs
    streams.py        running totals: what is paid for, and what new periods reserve
    terms.py          entry 0, and whether a ledger is opened as it was begun
    types.py          what is asked and what is charged, as frozen values
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sulq.ledger.types import Allotment, Charge, Entry, Freeze, Head, Request

if TYPE_CHECKING:
    from sulq.ledger.chain import canonical, link_hash
    from sulq.ledger.ledger import Ledger

__all__ = [
    "Allotment",
    "Charge",
    "Entry",
    "Freeze",
    "Head",
    "Ledger",
    "Request",
    "canonical",
    "link_hash",
]

_LATER = {"Ledger": "ledger", "canonical": "chain", "link_hash": "chain"}  # these load SQLAlchemy


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'sulq.ledger' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sulq.ledger.{_LATER[name]}"), name)
