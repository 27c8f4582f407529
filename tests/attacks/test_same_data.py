"""The same rows again: under another name, after a deletion, with other terms.

Within one ledger folder the data go on with their ledger, or are refused, or need a step that
the ledger logs. No luck is involved.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from attacks.children import at_once, open_as
from attacks.harness import SCHEMA, opened, people, replaced

import sulq
from sulq.open_database import encode, refresh

pytestmark = pytest.mark.real_noise

T = 5


@pytest.fixture
def source(tmp_path):
    """People whose whole budget is spent."""
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path)
    with owned(path) as db:
        db.ask([sulq.Query(where=f"secret and id <> {i}") for i in range(T)])
        assert db.budget.remaining == 0
    return path


def owned(path, **terms):
    return opened(path, **{"queries": T, "ledger": None} | terms)


def outcome(open_it):
    """What opening came to: 'spent' if it goes on with the ledger, 'fresh' if money is there."""
    try:
        with open_it() as db:
            return "spent" if db.budget.remaining == 0 else "fresh"
    except (sulq.Refused, sulq.LedgerDamaged) as error:
        return type(error).__name__


def copied(path, name):
    return shutil.copy(path, path.with_name(name))


def linked(path, name, link):
    link(path, path.with_name(name))
    return path.with_name(name)


def gone(path):
    path.unlink()
    return path


def ledger_of(path):
    return path.with_name(path.name + ".ledger")


def renamed(path):
    """The ledger moved away; the data begin again under the default name."""
    ledger_of(path).rename(path.with_name("old.ledger"))
    return path


def other_schema(**column):
    return SCHEMA | column


WAYS = {
    "as it was": ("spent", lambda p: owned(p)),
    "copied": ("Refused", lambda p: owned(copied(p, "copy.parquet"))),
    "copied as csv's ending": ("Refused", lambda p: owned(copied(p, "copy.pq"))),
    "hard link": ("Refused", lambda p: owned(linked(p, "hard.parquet", os.link))),
    "symbolic link": ("spent", lambda p: owned(linked(p, "soft.parquet", os.symlink))),
    "another ledger": ("Refused", lambda p: owned(p, ledger=p.with_name("new.ledger"))),
    "another name": ("spent", lambda p: owned(p, name="strangers")),
    "a relative path": ("spent", lambda p: owned(os.path.relpath(p))),
    "the ledger deleted": ("LedgerDamaged", lambda p: gone(ledger_of(p)) and owned(p)),
    "the ledger deleted, another one": (
        "Refused",
        lambda p: gone(ledger_of(p)) and owned(p, ledger=p.with_name("new.ledger")),
    ),
    "the ledger deleted, a copy of the data": (
        "Refused",
        lambda p: gone(ledger_of(p)) and owned(copied(p, "copy.parquet")),
    ),
    "the ledger renamed": ("LedgerDamaged", lambda p: owned(renamed(p))),
    "the ledger renamed, and named so": (
        "Refused",
        lambda p: owned(renamed(p), ledger=p.with_name("old.ledger")),
    ),
    "a link to the ledger": (
        "spent",
        lambda p: owned(p, ledger=linked(ledger_of(p), "soft.ledger", os.symlink)),
    ),
    "a hard link to the ledger": (
        "Refused",
        lambda p: owned(p, ledger=linked(ledger_of(p), "hard.ledger", os.link)),
    ),
    "data deleted and made again": (
        "spent",
        lambda p: pq.write_table(people(), gone(p)) or owned(p),
    ),
    "the .sulq folder deleted": (
        "LedgerDamaged",
        lambda p: shutil.rmtree(p.with_name(".sulq")) or owned(p),
    ),
    "the secret deleted": (
        "LedgerDamaged",
        lambda p: gone(p.with_name(".sulq") / "secret") and owned(p),
    ),
    "a larger epsilon": ("PromiseError", lambda p: owned(p, epsilon=2.0)),
    "a smaller epsilon": ("PromiseError", lambda p: owned(p, epsilon=0.5)),
    "a larger delta": ("PromiseError", lambda p: owned(p, delta=1e-3)),
    "more queries": ("PromiseError", lambda p: owned(p, queries=T + 1)),
    "other noise": ("PromiseError", lambda p: owned(p, noise="laplace")),
    "the weaker guarantee": ("PromiseError", lambda p: owned(p, guarantee="dp")),
    "other prices": ("PromiseError", lambda p: owned(p, pricing="paper")),
    "a wider column": (
        "SchemaError",
        lambda p: owned(p, schema=other_schema(age={"type": "integer", "low": 0, "high": 200})),
    ),
    "a public secret": (
        "SchemaError",
        lambda p: owned(p, schema=other_schema(secret={"type": "boolean", "public": True})),
    ),
    "fewer columns": (
        "SchemaError",
        lambda p: owned(p, schema={k: v for k, v in SCHEMA.items() if k != "age"}),
    ),
    "encoded": ("spent", lambda p: owned(stored(p), schema=None)),
    "encoded, another ledger": (
        "Refused",
        lambda p: owned(stored(p), schema=None, ledger=p.with_name("new.ledger")),
    ),
    "encoded and copied": ("spent", lambda p: owned(copied(stored(p), "b.sulq"), schema=None)),
    "refresh onto another's ledger": ("Refused", lambda p: onto_another(p)),
    "refresh onto an old copy of the ledger": ("Refused", lambda p: onto_old_copy(p)),
    "refresh without a change": ("spent", lambda p: refresh(p)),
}


def stored(path):
    """The rows as an encoded store."""
    return encode(path, SCHEMA, path.with_name("people.sulq"))


def onto_another(path):
    """A ledger begun for three harmless rows takes over the people."""
    dummy = path.with_name("dummy.parquet")
    pq.write_table(people(3), dummy)
    owned(dummy).close()
    return refresh(path, ledger=ledger_of(dummy))


def onto_old_copy(path):
    """A copy of the ledger under another name, its spending wiped by a refresh."""
    return refresh(path, ledger=copied(ledger_of(path), "old.ledger"))


@pytest.mark.parametrize("way", WAYS)
def test_the_same_rows_never_get_a_second_budget(source, way):
    """Each way goes on with the ledger or is refused, as listed; none finds fresh money."""
    expected, open_it = WAYS[way]
    found = outcome(lambda: open_it(source))
    print(f"same data, {way}: {found}")
    assert found == expected != "fresh"


def test_control_other_rows_do_get_a_budget_of_their_own(source):
    """The same harness finds fresh money where there is some."""
    other = source.with_name("others.parquet")
    pq.write_table(people(seed=2), other)
    assert outcome(lambda: owned(other)) == "fresh"


def test_four_openings_at_once_begin_one_ledger(tmp_path):
    """Four processes, four ledger names, one table: one opens, three are refused."""
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path)
    names = [tmp_path / f"{i}.ledger" for i in range(4)]
    found = at_once(open_as, [(str(path), {"ledger": str(name)}) for name in names])
    assert sorted(found) == ["opened", "refused", "refused", "refused"]


def test_limits_what_is_not_recognised(source, tmp_path):
    """Documented: another format, another order, one more row, another folder are other data."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pyarrow.csv.write_csv(people(), tmp_path / "people.csv")
    pq.write_table(people().slice(1), tmp_path / "fewer.parquet")
    shutil.copy(source, elsewhere / "people.parquet")
    for path in (
        tmp_path / "people.csv", tmp_path / "fewer.parquet", elsewhere / "people.parquet"
    ):  # fmt: skip
        assert outcome(lambda p=path: owned(p)) == "fresh"


# ---- changed rows ---------------------------------------------------------------------------


def rewritten(path, table):
    """Other bytes of the same length, the modification time put back."""
    before, size = os.stat(path), path.stat().st_size
    pq.write_table(table, path, compression="none", use_dictionary=False)
    assert path.stat().st_size == size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def appended(path):
    pq.write_table(pa.concat_tables([people(), people(1, seed=9)]), path)


def one_value(path):
    table = people()
    rewritten(path, replaced(table, 17, age=(table["age"][17].as_py() + 1) % 100))


@pytest.mark.parametrize("change", [appended, one_value, os.unlink])
@pytest.mark.parametrize("running", [True, False])
def test_changed_rows_stop_the_database(tmp_path, change, running):
    """An appended row; one value changed, with size and time as before; the file gone."""
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path, compression="none", use_dictionary=False)
    os.utime(path, (1, 1))  # long ago: its fingerprint may be remembered
    db = owned(path)
    db.count("secret")
    change(path)
    wanted = (sulq.SourceChanged, sulq.SchemaError) if change is os.unlink else sulq.SourceChanged
    with pytest.raises(wanted):
        db.count("not secret") if running else owned(path)
    with pytest.raises(sulq.SourceChanged):
        db.count("secret")  # not even what is stored
    assert db.budget.spent == 1


def test_a_refresh_is_logged_and_spending_goes_on(tmp_path):
    """After a change: refused, refreshed, answered afresh, paid again, on the same account."""
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path)
    with owned(path) as db:
        before = db.count("secret").exact
    appended(path)
    with refresh(path, reason="one more person") as db:
        assert (db.rows, db.budget.spent) == (201, 1)
        assert db.count("secret").exact != before
        assert db.budget.spent == 2
        kinds = [entry.kind for entry in db._ledger.entries()]
        assert kinds == ["open", "charge", "answer", "refresh", "charge", "answer"]
    with owned(path) as db:
        assert db.budget.spent == 2


def test_a_refresh_cannot_move_spending_between_cells(source):
    """Public values in another order would give the rows of 'north' the budget of 'south'."""
    for values in (["south", "north"], ["north", "east"], ["north", "south", "east"]):
        with pytest.raises(sulq.SchemaError):
            refresh(source, other_schema(region={"values": values, "public": True}))


def test_rows_in_a_write_ahead_log_are_not_overlooked(tmp_path):
    """DuckDB keeps changes beside its file until a checkpoint, where no fingerprint sees them."""
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", people())
        connection.execute("CREATE TABLE people AS SELECT * FROM rows")
    owned(path).close()
    crash = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); "
        "c.execute('INSERT INTO people SELECT * FROM people LIMIT 7'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", crash, str(path)], check=True)
    assert path.with_name("people.duckdb.wal").exists()
    with pytest.raises(sulq.SourceChanged, match="wal"):
        owned(path)


def test_a_ledger_in_memory_says_that_it_promises_no_lifetime():
    """The one way to ask without a durable account warns."""
    with pytest.warns(UserWarning, match="no lifetime promise"):
        sulq.open(people(), SCHEMA, epsilon=1.0, queries=T)


# ---- nothing about rows is stored -----------------------------------------------------------

HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_256")


def digests(content):
    """Every unkeyed hash of some bytes, as it might be written down; 60 bits are enough.

    Some 1e8 comparisons with random bytes: a false alarm of 1e-10.
    """
    found = [hashlib.new(name, content).digest() for name in HASHES]
    found += [hashlib.blake2b(content, digest_size=size).digest() for size in (16, 32)]
    for digest in found:
        yield from (digest[:8], digest.hex()[:16].encode(), base64.b64encode(digest)[:10])


def traces(source, secrets):
    """Files beside the data that hold an unkeyed hash of one of these, or one itself."""
    wanted = [trace for content in secrets for trace in (*digests(content), content[:200])]
    files = [f for f in source.parent.rglob("*") if f.is_file() and f != source]
    assert any(f.name == "secret" for f in files)
    return [f.name for f in files if any(trace in f.read_bytes() for trace in wanted)]


def test_no_unkeyed_hash_of_rows_is_stored(tmp_path):
    """Neither of the file, nor of a row, nor an exact sum, in the ledger or beside it."""
    path = tmp_path / "people.csv"
    pyarrow.csv.write_csv(people(), path)
    os.utime(path, (1, 1))
    with owned(path) as db:
        query = sulq.Query(["income"], where="secret")
        db.ask(query)
        exact = db._pipeline.engine.sums([db._planner.check(query)])[0][0][0]  # a dozen digits
    rows = path.read_bytes().splitlines(keepends=True)
    secrets = [path.read_bytes(), *rows[1:], *(row.strip() for row in rows[1:])]
    secrets.append(str(exact).encode())
    assert traces(path, secrets) == []
    (tmp_path / "leak").write_text(hashlib.sha256(path.read_bytes()).hexdigest())  # the control
    (tmp_path / "log").write_bytes(b"row " + hashlib.md5(rows[5].strip()).digest())
    assert sorted(traces(path, secrets)) == ["leak", "log"]


def test_what_the_owner_keeps_is_for_the_owner_only(source):
    """The ledger, the marks and the secret cannot be read by others on the machine."""
    kept = [ledger_of(source), *source.with_name(".sulq").iterdir()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert source.with_name(".sulq").stat().st_mode & 0o077 == 0


def test_the_keyed_fingerprint_differs_from_folder_to_folder(tmp_path):
    """The same file in two folders leaves two different fingerprints."""
    marks = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(people(), folder / "people.parquet")
        owned(folder / "people.parquet").close()
        marks.append((folder / ".sulq" / "people.parquet.ledger.mark").read_bytes()[256:].split())
    assert marks[0]
    assert set(marks[0]).isdisjoint(marks[1])


@pytest.mark.parametrize("name", ["books.db", "books", "p.sqlite"])
def test_a_ledger_of_any_name_is_seen_when_the_seal_is_lost(tmp_path, name):
    """Spend all, lose what is kept outside, begin another: refused, whatever its name."""
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path)
    with owned(path, ledger=tmp_path / name) as db:
        db.ask([sulq.Query(where=f"secret and id <> {i}") for i in range(T)])
    shutil.rmtree(tmp_path / ".sulq")
    with pytest.raises(sulq.SulqError):
        owned(path, ledger=tmp_path / "other.ledger")
