"""What the owner keeps outside the ledger."""

import os
import stat
import threading
from hashlib import blake2b, md5, sha256

import pyarrow as pa
import pytest

from sulq.errors import LedgerDamaged, SourceChanged
from sulq.ledger import seal as seal_module
from sulq.ledger.seal import Seal

HASHES = {n: f"{n:064x}" for n in range(100)}


@pytest.fixture
def seal(tmp_path):
    return Seal.open(tmp_path / "clinic.ledger")


@pytest.fixture
def source(tmp_path):
    """A file old enough that its fingerprint may be kept."""
    path = tmp_path / "people.csv"
    path.write_text("age\n40\n")
    os.utime(path, (1, 1))
    return path


# -- the folder --


def test_everything_is_for_the_owner_only(tmp_path):
    """The folder has mode 0700 and its files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        seal = Seal.open(tmp_path / "l")
        seal.mark(0, HASHES[0])
        seal.remember("f")
        seal._keep_file("a", "b")
    finally:
        os.umask(before)
    assert stat.S_IMODE(seal.folder.stat().st_mode) == 0o700
    assert {f.name: stat.S_IMODE(f.stat().st_mode) for f in seal.folder.iterdir()} == {
        "secret": 0o600,
        "l.mark": 0o600,
        "files": 0o600,
    }


def test_a_folder_left_open_is_closed(tmp_path):
    """A folder that others may read is narrowed."""
    (tmp_path / ".sulq").mkdir(mode=0o755)
    assert stat.S_IMODE(Seal.open(tmp_path / "l").folder.stat().st_mode) == 0o700


def test_one_secret_for_the_folder_and_another_for_the_next(tmp_path):
    """Ledgers of one folder share 256 random bits; another folder has its own."""
    other = tmp_path / "other"
    other.mkdir()
    a, b, c = (Seal.open(path) for path in (tmp_path / "a", tmp_path / "b", other / "a"))
    assert a._secret == b._secret != c._secret
    assert len(a._secret) == 32


def test_threads_agree_on_the_secret(tmp_path):
    """Opening for the first time at once draws one secret."""
    seals = []
    threads = [
        threading.Thread(target=lambda: seals.append(Seal.open(tmp_path / "l"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({seal._secret for seal in seals}) == 1


def test_a_lost_or_damaged_secret_stops(seal, tmp_path):
    """Without it the marks cannot be checked."""
    seal.mark(0, HASHES[0])
    secret = seal.folder / "secret"
    secret.write_bytes(b"short")
    with pytest.raises(LedgerDamaged, match="damaged"):
        Seal.open(tmp_path / "clinic.ledger")
    secret.unlink()
    with pytest.raises(LedgerDamaged, match="is gone"):
        Seal.open(tmp_path / "clinic.ledger")


# -- marks --


def test_the_marked_entry_must_be_in_the_ledger(seal):
    """An equal or longer ledger with the same entry passes; anything else does not."""
    seal.check_mark(seal.marked(), 0, HASHES.get)
    seal.mark(5, HASHES[5])
    seal.check_mark(seal.marked(), 5, HASHES.get)
    seal.check_mark(seal.marked(), 9, HASHES.get)
    with pytest.raises(LedgerDamaged, match="ends at entry 4 but entry 5 was seen: an older copy"):
        seal.check_mark(seal.marked(), 4, HASHES.get)
    with pytest.raises(LedgerDamaged, match="another entry 5"):
        seal.check_mark(seal.marked(), 9, lambda n: HASHES[0])
    with pytest.raises(LedgerDamaged, match="another entry 5"):
        seal.check_mark(seal.marked(), 9, lambda n: None)


def test_a_mark_never_goes_backwards(seal):
    """The largest number stays."""
    for number in (3, 7, 5, 7, 0):
        seal.mark(number, HASHES[number])
    assert seal.marked().number == 7


def test_a_torn_slot_leaves_the_other(seal):
    """Slots alternate, so a crash in one write leaves the mark before it."""
    for number in range(6):
        seal.mark(number, HASHES[number])
    content = bytearray(seal._path.read_bytes())
    newest = 0 if content.startswith(b"%019d" % 5) else seal_module.SLOT
    content[newest + 30] ^= 1
    seal._path.write_bytes(content)
    assert seal.marked().number == 4
    seal.mark(6, HASHES[6])
    assert seal.marked().number == 6


def test_a_forged_or_unreadable_mark_stops(seal, tmp_path):
    """Slots are checked with the secret; two bad ones are damage, not a fresh start."""
    seal.mark(1, HASHES[1])
    seal._path.write_bytes(b"0" * 256)
    with pytest.raises(LedgerDamaged, match="cannot be read"):
        seal.check_mark(seal.marked(), 9, HASHES.get)


def test_processes_mark_together(seal):
    """Eight processes, marks in any order: the highest stays."""
    children = []
    for start in range(8):
        pid = os.fork()
        if pid == 0:
            for number in range(start, 96, 8):
                seal.mark(number, HASHES[number])
            os._exit(0)
        children.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    assert seal.marked() == seal_module.Mark(95, HASHES[95])


def test_a_mark_that_cannot_be_written_stops(seal):
    """Without a mark nothing goes on."""
    seal._path.mkdir()
    with pytest.raises(LedgerDamaged, match="cannot be written"):
        seal.mark(1, HASHES[1])


def test_vacant_means_no_ledger_was_here(seal):
    """Fingerprints alone do not make a ledger; a mark does."""
    seal.check_vacant()
    seal.remember("f")
    seal.check_vacant()
    seal.mark(0, HASHES[0])
    with pytest.raises(LedgerDamaged, match="sulq override"):
        seal.check_vacant()


def test_forgetting_puts_the_mark_aside(seal):
    """What was known comes back for the chain, the file is kept, the data are free again."""
    seal.mark(4, HASHES[4])
    seal.remember("f")
    body = seal.forget("restored from tape")
    assert body == {
        "reason": "restored from tape",
        "ledger": "clinic.ledger",
        "number": 4,
        "hash": HASHES[4],
    }
    seal.check_vacant()
    assert seal.known("f") is None
    assert len(list(seal.folder.glob("*.forgotten"))) == 1
    assert seal.forget("again") == {"reason": "again", "ledger": "clinic.ledger"}


def test_even_an_unreadable_mark_can_be_forgotten(seal):
    """An owner's decision replaces it."""
    seal.mark(4, HASHES[4])
    seal._path.write_bytes(b"garbage" * 50)
    seal.forget("the disk failed")
    seal.check_mark(seal.marked(), 0, HASHES.get)


# -- the same data --


def test_the_same_data_is_known_under_its_first_ledger(seal, tmp_path):
    """Another name, or a deleted ledger file: the mark still says whose data it is."""
    seal.mark(0, HASHES[0])
    seal.remember("f")
    other = Seal.open(tmp_path / "other.ledger")
    assert other.known("f") == "clinic.ledger"
    assert other.known("g") is None
    assert seal.known("f") is None
    other.remember("f")  # after a logged override
    assert other.known("f") is None


def test_every_refresh_is_remembered(seal, tmp_path):
    """Data from before a refresh are still this ledger's, and marks go on beside them."""
    for n, fingerprint in enumerate(["f", "g", "f", "h"]):
        seal.remember(fingerprint)
        seal.mark(n, HASHES[n])
    assert seal._path.read_bytes()[256:].split() == [b"f", b"g", b"f", b"h"]
    assert seal.current() == "h"
    assert seal.marked().number == 3
    other = Seal.open(tmp_path / "other")
    assert {other.known(f) for f in "fgh"} == {"clinic.ledger"}


def test_a_line_cut_short_does_not_spoil_the_next(seal):
    """What is appended behind half a line is read."""
    seal.remember("f" * 64)
    with seal._path.open("ab") as file:
        file.write(b"\nabc")
    seal.remember("g" * 64)
    assert "g" * 64 in seal_module._fingerprints(seal._path)


# -- fingerprints --


def test_fingerprints_are_keyed(seal, tmp_path, source):
    """The same bytes in another folder look different, and no plain hash appears anywhere."""
    other = tmp_path / "other"
    other.mkdir()
    ours = seal.fingerprint(source)
    seal.remember(ours)
    assert ours == seal.fingerprint(iter([b"age\n", b"40\n"]))
    assert ours != Seal.open(other / "l").fingerprint(source)
    content = source.read_bytes()
    stored = b"".join(f.read_bytes() for f in seal.folder.iterdir())
    for plain in (md5, sha256, blake2b, lambda b: blake2b(b, digest_size=32)):
        assert plain(content).hexdigest().encode() not in stored


def test_a_changed_file_has_another_fingerprint(seal, source):
    """Content counts; so do size and time, which decide whether to read at all."""
    before = seal.fingerprint(source)
    source.write_text("age\n41\n")
    assert seal.fingerprint(source) != before
    source.write_text("age\n40\n")
    assert seal.fingerprint(source) == before


def test_a_change_that_keeps_size_and_time_is_noticed(seal, source, monkeypatch):
    """The time of the last change to the inode cannot be set back."""
    monkeypatch.setattr("sulq.ledger.seal.GRAIN_NANOSECONDS", -1)  # remember even a young file
    before = seal.fingerprint(source)
    source.write_text("age\n41\n")
    os.utime(source, (1, 1))
    assert seal.fingerprint(source) != before


def test_an_unchanged_file_is_not_read_again(seal, source, monkeypatch):
    """Its times tell, and its fingerprint is kept."""
    monkeypatch.setattr("sulq.ledger.seal.GRAIN_NANOSECONDS", -1)  # remember even a young file
    read = []
    first = seal.fingerprint(source, progress=lambda done, size: read.append((done, size)))
    assert read == [(7, 7)]
    assert seal.fingerprint(source, progress=lambda *a: pytest.fail("read again")) == first


def test_a_file_just_written_is_not_kept(seal, source):
    """It could change again within the clock's grain."""
    source.write_text("age\n40\n")
    seal.fingerprint(source)
    assert seal._files() == {}


def test_a_damaged_cache_only_costs_time(seal, source):
    """The file is read again."""
    first = seal.fingerprint(source)
    (seal.folder / "files").write_text("{")
    assert seal.fingerprint(source) == first


def test_a_file_that_changes_while_read_is_refused(seal, source):
    """A fingerprint is of one state of the file."""

    def change(done, size):
        source.write_text("age\n50\n60\n")

    with pytest.raises(SourceChanged, match="changed while it was read"):
        seal.fingerprint(source, progress=change)


def test_a_folder_is_its_files_and_their_names(seal, tmp_path):
    """A renamed file makes another folder."""
    folder = tmp_path / "parts"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.csv").write_text("x")
    before = seal.fingerprint(folder)
    (folder / "a" / "1.csv").rename(folder / "a" / "2.csv")
    assert seal.fingerprint(folder) != before


def test_a_table_is_its_rows_not_its_chunks(seal):
    """Chunks, dictionaries and metadata do not count; values, names and order do."""
    table = pa.table({"a": [1, 2, None], "b": ["x", "y", "x"]})
    same = [
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        table.replace_schema_metadata({"pandas": "index"}),
        table.set_column(1, "b", table["b"].dictionary_encode()),
    ]
    other = [
        table.slice(0, 2),
        table.rename_columns(["a", "c"]),
        table.take([1, 0, 2]),
        table.set_column(0, "a", pa.array([1, 2, 0])),
        table.set_column(1, "b", pa.array(["x", "y", "z"]).dictionary_encode()),
    ]
    ours = seal.fingerprint(table)
    assert [seal.fingerprint(t) == ours for t in same] == [True] * 3
    assert [seal.fingerprint(t) == ours for t in other] == [False] * 5
    assert seal.fingerprint(table.slice(0, 0)) != ours
