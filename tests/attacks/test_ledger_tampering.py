"""An edited, cut, swapped or restored ledger is noticed at the next start.

What cannot be noticed, everything restored together, is tested too: so that the document
that says so stays true.
"""

import shutil
import sqlite3
from pathlib import Path

import pytest

from sulq.errors import LedgerDamaged
from sulq.ledger import Ledger, Request, canonical, link_hash
from sulq.ledger.seal import Seal

SETTINGS = {"terms": {"promise": {}, "schema": {}}, "cells": 2, "total": 100, "name": "clinic"}


def opened(path):
    return Ledger.open(path, seal=Seal.open(path), **SETTINGS)


def fill(path, first, last):
    ledger = opened(path)
    for i in range(first, last):
        charge = ledger.charge([Request(f"q{i}", 2, (i % 2,), id=f"r{i}", analyst="ann")])[0]
        ledger.record([(charge.number, f'{{"value":{i}}}')])
    ledger.close()


@pytest.fixture
def path(tmp_path):
    """A ledger of twenty charges and answers, closed: entries 0 to 40."""
    path = tmp_path / "clinic.ledger"
    fill(path, 0, 20)
    return path


def edit(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def noticed(path, what):
    with pytest.raises(LedgerDamaged, match=what) as error:
        opened(path)
    return str(error.value)


def test_control_an_untouched_ledger_starts(path):
    """And so does one only looked at, vacuumed or copied over itself."""
    edit(path, "SELECT * FROM entries")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("VACUUM")
    connection.close()
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)
    assert opened(path).verify() == 41


EDITS = {
    "a cheaper price": (
        """UPDATE entries SET body = replace(body, '"price":2', '"price":1') WHERE number = 5""",
        "entry 5 was changed",
    ),
    "another answer": (
        """UPDATE entries SET body = '{"answer":"7","charge":1}' WHERE number = 2""",
        "entry 2 was changed",
    ),
    "another kind": ("UPDATE entries SET kind = 'note' WHERE number = 3", "entry 3 was changed"),
    "another total": (
        """UPDATE entries SET body = replace(body, '"total":100', '"total":999')""",
        "entry 0 was changed",
    ),
    "a number as text": ("UPDATE entries SET body = 5 WHERE number = 3", "entry 3 was changed"),
    "a deleted first entry": ("DELETE FROM entries WHERE number = 0", "entry 0 is missing"),
    "a deleted entry": ("DELETE FROM entries WHERE number = 9", "entry 9 is missing"),
    "the last entry deleted": ("DELETE FROM entries WHERE number = 40", "'head' do not agree"),
    "everything deleted": ("DELETE FROM entries", "entry 0 is missing"),
    "an entry added": (
        "INSERT INTO entries SELECT 41, kind, body, hash, hash FROM entries WHERE number = 40",
        "entry 41 was changed",
    ),
    "spending set back": ("UPDATE head SET base = 0, most = 0", "'head' do not agree"),
    "a head set back": ("UPDATE head SET number = 0", "'head' do not agree"),
    "a second head": ("INSERT INTO head SELECT 2, 0, hash, 0, 0, 0 FROM head", "'head' do not"),
    "no head": ("DELETE FROM head", "'head' do not agree"),
    "a cell set back": ("UPDATE cells SET spent = 0 WHERE cell = 1", "'cells' do not agree"),
    "a cell removed": ("DELETE FROM cells WHERE cell = 0", "'cells' do not agree"),
    "a charge forgotten": ("DELETE FROM charges WHERE number = 1", "'charges' do not agree"),
    "a charge of another question": (
        "UPDATE charges SET query = 'x' WHERE number = 1",
        "'charges' do not agree",
    ),
    "an answer forgotten": (
        "UPDATE charges SET answer = NULL WHERE number = 3",
        "'charges' do not agree",
    ),
    "an answer exchanged": (
        "UPDATE charges SET answer = 4 WHERE number = 1",
        "'charges' do not agree",
    ),
    "a request id freed": ("DELETE FROM requests", "'requests' do not agree"),
    "a request id moved": ("UPDATE requests SET charge = 1", "'requests' do not agree"),
    "a table dropped": ("DROP TABLE cells", "cannot be read"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_noticed(path, name):
    """Each single edit of a row, with or without the indexes, is found and named."""
    statement, what = EDITS[name]
    edit(path, statement)
    noticed(path, what)


def rewrite(path, change):
    """Edit the bodies and recompute every hash and table, as a patient forger would."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT number, kind, body FROM entries ORDER BY number").fetchall()
    previous = "0" * 64
    for number, kind, body in rows:
        body = change(number, body)
        new = link_hash(previous, number, kind, body)
        connection.execute(
            "UPDATE entries SET body = ?, previous = ?, hash = ? WHERE number = ?",
            (body, previous, new, number),
        )
        previous = new
    connection.execute("UPDATE head SET hash = ?", (previous,))
    connection.commit()
    connection.close()


def test_a_chain_recomputed_from_an_edit_on_is_noticed_by_the_mark(path):
    """The ledger agrees with itself; the mark outside does not."""
    rewrite(path, lambda n, body: body.replace("19", "20") if n == 40 else body)
    Ledger.reopen(path).verify()
    assert "another entry 40" in noticed(path, "sulq override")


def test_a_chain_that_agrees_but_does_not_add_up_is_noticed(path):
    """Prices are added again at every start, so a consistent forgery must add up too."""
    rewrite(path, lambda n, body: body.replace('"price":2', '"price":1') if n == 37 else body)
    noticed(path, "entry 37 does not add up")


def test_the_last_entries_cut_off_cleanly_are_noticed(path):
    """A shorter ledger that is whole in itself: only the mark knows."""
    before = path.with_name("before")
    shutil.copy(path, before)
    fill(path, 20, 21)
    shutil.copy(before, path)
    noticed(path, "ends at entry 40 but entry 42 was seen: an older copy was restored")


def test_an_older_copy_with_new_entries_is_noticed(path):
    """Going on with an older copy elsewhere and putting it back gives other entries."""
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(path, elsewhere / path.name)
    fill(path, 20, 22)
    fill(elsewhere / path.name, 30, 35)
    shutil.copy(elsewhere / path.name, path)
    noticed(path, "another entry 44")


def test_a_swapped_ledger_is_noticed(path):
    """Another ledger of the same folder in its place, longer or shorter."""
    other = path.with_name("other.ledger")
    fill(other, 0, 25)
    shutil.copy(other, path)
    noticed(path, "another entry 40")
    shutil.copy(path, other)
    opened(other)  # the other is itself again
    path.unlink()
    fresh = path.with_name("fresh.ledger")
    opened(fresh).close()
    fresh.replace(path)
    noticed(path, "ends at entry 0 but entry 40 was seen")


@pytest.mark.parametrize("keep", [0, 1, 100, 4096, 8192, 0.5, 0.9, -1])
def test_a_truncated_file_is_noticed(path, keep):
    """Cut to nothing, inside the header, between pages, in the last page."""
    content = path.read_bytes()
    size = int(keep * len(content)) if isinstance(keep, float) else keep
    path.write_bytes(content[:size])
    noticed(path, "ledger")


def test_flipped_bytes_never_raise_a_budget(path):
    """One byte changed anywhere: it starts with the same history, or reports damage."""
    content = path.read_bytes()
    truth = opened(path).history()
    Ledger.reopen(path).close()
    caught = 0
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        fresh = path.with_name("flipped")
        fresh.write_bytes(damaged)
        for end in ("-wal", "-shm"):
            Path(f"{fresh}{end}").unlink(missing_ok=True)
        try:
            ledger = Ledger.reopen(fresh)
            assert ledger.history() == truth
            assert ledger.budget() == (100, 20, 80)
            ledger.close()
        except LedgerDamaged:
            caught += 1
    assert caught > 100


def test_a_deleted_ledger_is_noticed(path):
    """A start without a ledger that was there is refused."""
    path.unlink()
    noticed(path, "is gone, but it was here")


def test_an_edit_while_the_ledger_is_open_is_noticed_at_the_next_charge(path):
    """Not only at the start: each charge checks where the chain ends."""
    for statement in (
        "UPDATE head SET most = 0",
        "UPDATE head SET number = number - 1",
        "UPDATE head SET hash = 'x'",
        "UPDATE head SET number = number + 1, base = 0",
    ):
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        ledger = Ledger.reopen(copy)
        edit(copy, statement)
        with pytest.raises(LedgerDamaged):
            ledger.charge([Request("new", 1, None)])
        ledger.close()
        for end in ("", "-wal", "-shm"):
            Path(f"{copy}{end}").unlink(missing_ok=True)


def test_a_forged_extension_is_noticed_by_a_running_process(path):
    """Entries by another process must link to what this one saw, and add up."""
    ledger = Ledger.reopen(path)
    body = canonical({"charge": 1})
    edit(
        path,
        f"INSERT INTO entries VALUES (41, 'retry', '{body}', '{'0' * 64}', '{'1' * 64}')",
        f"UPDATE head SET number = 41, hash = '{'1' * 64}'",
    )
    with pytest.raises(LedgerDamaged, match="entry 41"):
        ledger.charge([Request("new", 1, None)])


def test_limit_everything_restored_together_is_not_noticed(path):
    """The ledger, its folder and the mark as they were: nothing here can tell."""
    saved = path.parent / "saved"
    saved.mkdir()
    shutil.copy(path, saved)
    shutil.copytree(path.parent / ".sulq", saved / ".sulq")
    fill(path, 20, 25)
    shutil.rmtree(path.parent / ".sulq")
    shutil.copytree(saved / ".sulq", path.parent / ".sulq")
    shutil.copy(saved / path.name, path)
    assert opened(path).verify() == 41
