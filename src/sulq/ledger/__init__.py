"""Requests and prices -> charges, on disk before any row is read.

The truth is a chain of entries, each carrying the hash of the one before. The other tables
are indexes on it, written in the same transaction and compared with it at every start. A
crash may waste a charge; it may never give an unpaid answer. See docs/reference/ledger.md.

    values.py    what is asked, what is charged
    chain.py     the tables, and entries that each carry the hash of the one before
    replay.py    is the chain whole, and do the tables agree with it?
    paying.py    requests -> charges, all or none, never above the total
    allotments.py  what each analyst spent and may spend, in the same transaction
    together.py  threads that wait to write share one commit
    terms.py     entry 0, and whether a ledger is opened as it was begun
    layout.py    tables of an older version, made anew from the chain
    disk.py      one SQLite file: made whole, synced, safe among threads, processes and forks
    server.py    one schema of a PostgreSQL database, shared by processes and machines
    server_seal.py  marks on each machine, fingerprints beside the ledger on the server
    patience.py  what is done when a server is lost on the way
    place.py     which of these an address means
    ledger.py    Ledger, which strings these together
"""

from sulq.ledger.chain import canonical, link_hash
from sulq.ledger.ledger import Ledger
from sulq.ledger.values import Allotment, Charge, Entry, Head, Request

__all__ = ["Allotment", "Charge", "Entry", "Head", "Ledger", "Request", "canonical", "link_hash"]
