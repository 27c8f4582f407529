"""A server's folder that is moved, copied, restored, or lost in part: spending right, or refused.

What should exist and does not is an error, never a fresh start. No luck is involved.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing

import pytest
from attacks.harness import SCHEMA, opened, people
from server.instance import PROMISE, Instance, made, rows
from server.older_registry import step_down

import sulq
from sulq.errors import LedgerDamaged, Refused
from sulq.open_database import refresh
from sulq.server.services.backup_manifest import write_manifest
from sulq.server.services.folder import backup, restore

D = "/v1/datasets/people"
T = 100
SPENT = 3  # queries before anything happens to the folder
BLOCKED = (503, "LedgerDamaged")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A server whose analyst has asked three questions; a backup was made after the second."""
    place = tmp_path_factory.mktemp("moved")
    instance = made(place / "clinic")
    with instance.serving() as served:
        assert [served.ask(f"age > {i}").status for i in range(2)] == [200, 200]
        backup(instance.folder, place / "copy")
        assert served.ask("age > 2").status == 200
    shutil.copytree(place, place.with_name(f"{place.name}-kept"))
    return instance


@pytest.fixture
def tmp_path(first):
    """Its folder and the backup, put back for each test where they were: a place counts."""
    place = first.folder.parent
    shutil.rmtree(place)
    shutil.copytree(place.with_name(f"{place.name}-kept"), place)
    return place


@pytest.fixture
def instance(first, tmp_path):
    return at(first, tmp_path / "clinic")


def at(instance, folder):
    """The same instance in another folder."""
    return Instance(folder, keys=instance.keys)


def ledgers(instance):
    return instance.folder / "ledgers"


def ledger(instance):
    (path,) = ledgers(instance).glob("1.people.ledger")
    return path


def asked(instance):
    """What asking one more question comes to: micro-queries spent in all, or how it is refused."""
    with instance.serving() as served:
        reply = served.ask("age > 50")
        for body in (reply.body, served.call("GET", D).body):
            assert str(instance.folder.parent).encode() not in body  # no path, whoever looks
            assert b"ledgers" not in body
        if reply.status != 200:
            return reply.status, reply.error
        return T - reply.json["answer"]["remaining_micro"] // 10**6


def told(instance):
    """What the owner hears of it."""
    with instance.serving() as served:
        return served.ask("age > 60", "anna").json["error"]["message"]


# ---- moved, copied, restored ----------------------------------------------------------------


def moved(instance, tmp_path):
    return at(instance, instance.folder.rename(tmp_path / "hospital"))


def moved_twice(instance, tmp_path):
    assert asked(moved(instance, tmp_path)) == SPENT + 1
    return at(instance, (tmp_path / "hospital").rename(tmp_path / "last"))


def moved_deeper(instance, tmp_path):
    (tmp_path / "a").mkdir()
    return at(instance, instance.folder.rename(tmp_path / "a" / "clinic"))


def moved_by_a_link(instance, tmp_path):
    (tmp_path / "link").symlink_to(instance.folder)
    return at(instance, tmp_path / "link")


def copied(instance, tmp_path):
    shutil.copytree(instance.folder, tmp_path / "second")
    return at(instance, tmp_path / "second")


def copied_and_gone(instance, tmp_path):
    copy = copied(instance, tmp_path)
    shutil.rmtree(instance.folder)
    return copy


def copied_and_the_first_goes_on(instance, tmp_path):
    copied(instance, tmp_path)
    return instance


def restored(instance, tmp_path):
    """To another path, the first one gone; the rows are put there by hand."""
    shutil.move(instance.folder / "data", tmp_path / "data")
    shutil.rmtree(instance.folder)
    restore(tmp_path / "copy", tmp_path / "again", "disk lost")
    shutil.copytree(tmp_path / "data", tmp_path / "again" / "data", dirs_exist_ok=True)
    return at(instance, tmp_path / "again")


def restored_in_place(instance, tmp_path):
    shutil.move(instance.folder / "data", tmp_path / "data")
    shutil.rmtree(instance.folder)
    restore(tmp_path / "copy", instance.folder, "disk lost")
    shutil.copytree(tmp_path / "data", instance.folder / "data", dirs_exist_ok=True)
    return instance


def restored_without_rows(instance, tmp_path):
    shutil.rmtree(instance.folder)
    restore(tmp_path / "copy", tmp_path / "again", "disk lost")
    return at(instance, tmp_path / "again")


WAYS = {  # what happened -> what the next question comes to
    moved: SPENT + 1 + 0,
    moved_twice: SPENT + 1,  # the same question again is free
    moved_deeper: SPENT + 1,
    moved_by_a_link: SPENT + 1,
    copied: BLOCKED,
    copied_and_gone: SPENT + 1,
    copied_and_the_first_goes_on: SPENT + 1,
    restored: SPENT,  # the question after the backup is forgotten, as the docs say
    restored_in_place: SPENT,
    restored_without_rows: (409, "SourceChanged"),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_spending_goes_with_the_folder(instance, tmp_path, way):
    """Moved, renamed, linked, copied, restored, with the first one there and gone."""
    assert asked(way(instance, tmp_path)) == WAYS[way]


def test_a_copy_beside_the_first_says_where_that_is_to_its_owner_alone(instance, tmp_path):
    """The owner of a second folder hears which one goes on; taken away, the copy goes on."""
    copy = copied(instance, tmp_path)
    assert str(ledgers(instance)) in told(copy)
    instance.folder.rename(tmp_path / "away")
    assert asked(copy) == SPENT + 1
    assert asked(at(instance, tmp_path / "away")) == SPENT + 1  # not noticed, and the docs say so


def test_no_second_folder_is_restored_while_the_first_is_there(instance, tmp_path):
    """Nothing is written; into the first one only what is missing is put back."""
    with pytest.raises(Refused, match="still there"):
        restore(tmp_path / "copy", tmp_path / "again", "a try")
    assert not (tmp_path / "again").exists()
    assert restore(tmp_path / "copy", instance.folder, "nothing is wrong")["restored"] == []
    assert asked(instance) == SPENT + 1


def test_a_backup_is_not_restored_into_itself(instance, tmp_path):
    """One folder named twice is a slip: it is told, and the backup stays what it is."""
    before = sorted(p.name for p in (tmp_path / "copy").iterdir())
    with pytest.raises(Refused, match="is the backup itself"):
        restore(tmp_path / "copy", tmp_path / "copy", "a slip")
    assert sorted(p.name for p in (tmp_path / "copy").iterdir()) == before


# ---- lost in part ---------------------------------------------------------------------------


def without_its_ledger(instance, tmp_path):
    for file in ledgers(instance).glob("1.people.ledger*"):
        file.unlink()


def without_ledgers(instance, tmp_path):
    shutil.rmtree(ledgers(instance))


def with_empty_ledgers(instance, tmp_path):
    shutil.rmtree(ledgers(instance))
    ledgers(instance).mkdir()


def without_a_seal(instance, tmp_path):
    shutil.rmtree(ledgers(instance) / ".sulq")


def without_a_secret(instance, tmp_path):
    (ledgers(instance) / ".sulq" / "secret").unlink()


def without_a_mark(instance, tmp_path):
    (ledgers(instance) / ".sulq" / "1.people.ledger.mark").unlink()


def with_an_older_ledger(instance, tmp_path):
    without_its_ledger(instance, tmp_path)
    shutil.copy(tmp_path / "copy" / "ledgers" / "1.people.ledger", ledgers(instance))


def with_older_ledgers_and_seal(instance, tmp_path):
    shutil.rmtree(ledgers(instance))
    shutil.copytree(tmp_path / "copy" / "ledgers", ledgers(instance))


def with_an_older_registry(instance, tmp_path):
    for file in instance.folder.glob("server.db*"):
        file.unlink()
    shutil.copy(tmp_path / "copy" / "server.db", instance.folder)


LOSSES = {
    without_its_ledger: BLOCKED,
    without_ledgers: BLOCKED,
    with_empty_ledgers: BLOCKED,
    without_a_seal: BLOCKED,
    without_a_secret: BLOCKED,
    without_a_mark: BLOCKED,
    with_an_older_ledger: BLOCKED,
    with_older_ledgers_and_seal: BLOCKED,
    with_an_older_registry: SPENT + 1,
}


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_what_is_lost_is_noticed(instance, tmp_path, loss, elsewhere):
    """Where it was, and moved to another path: blocked, and the owner hears how to mend it."""
    loss(instance, tmp_path)
    here = moved(instance, tmp_path) if elsewhere else instance
    assert asked(here) == LOSSES[loss]
    if LOSSES[loss] == BLOCKED:
        assert "estore" in told(here) or "Put it back" in told(here)


@pytest.mark.parametrize(
    "loss", [without_ledgers, with_empty_ledgers, without_a_seal, without_a_mark]
)
def test_the_rows_do_not_begin_again_under_another_name(instance, tmp_path, loss):
    """Closed and made anew after a loss, they would have all of T again: refused."""
    loss(instance, tmp_path)
    with instance.serving() as served:
        served.call("DELETE", D, None, "anna")
        new = {"name": "again", "source": "people.parquet", "schema": SCHEMA} | PROMISE
        reply = served.call("POST", "/v1/datasets", new, "anna")
        assert (reply.status, reply.error) == BLOCKED


def test_without_its_registry_a_folder_is_not_served_and_not_begun_anew(instance, tmp_path):
    """`sulq serve` and `sulq init` refuse it; `sulq restore` puts the registry back."""
    for file in instance.folder.glob("server.db*"):
        file.unlink()
    for command, how in ((["serve", "--port", "0"], "sulq restore"), (["init"], "not empty")):
        done = sulq_run(command[0], str(instance.folder), *command[1:])
        assert done.returncode != 0
        assert how in done.stdout + done.stderr
    assert "server.db" in restore(tmp_path / "copy", instance.folder, "lost")["restored"]
    assert asked(instance) == SPENT + 1


@pytest.mark.parametrize("loss", [without_a_seal, without_ledgers])
def test_what_is_lost_is_put_back_as_far_as_the_backup_is_not_older(instance, tmp_path, loss):
    """The seal of a backup fits a newer ledger; an older ledger under a newer registry does not."""
    loss(instance, tmp_path)
    restore(tmp_path / "copy", instance.folder, "lost")
    assert asked(instance) == (SPENT + 1 if loss is without_a_seal else BLOCKED)


# ---- folders of before ----------------------------------------------------------------------


def as_before(instance, folder=None):
    """Write places down as release 1 did: whole paths, of this folder or one that it was in."""
    folder = folder or instance.folder
    with closing(sqlite3.connect(instance.folder / "server.db")) as file, file:
        for number, text in file.execute("SELECT id, arguments FROM datasets").fetchall():
            said = json.loads(text)
            said |= {n: str(folder / said[n]) for n in ("ledger", "source")}
            file.execute(
                "UPDATE datasets SET arguments = ? WHERE id = ?", (json.dumps(said), number)
            )
        step_down(file.execute, 2)
    for note in (ledgers(instance) / ".sulq").glob("*.place"):
        note.unlink()


def written(instance):
    with closing(sqlite3.connect(instance.folder / "server.db")) as file:
        (text,) = file.execute("SELECT arguments FROM datasets WHERE name = 'people'").fetchone()
    return {n: json.loads(text)[n] for n in ("ledger", "source")}


RELATIVE = {"ledger": "ledgers/1.people.ledger", "source": "data/people.parquet"}


def test_places_are_written_down_relative_to_the_folder(instance):
    """Ledger and rows alike."""
    assert written(instance) == RELATIVE


@pytest.mark.parametrize("way", [None, moved, moved_deeper, copied, copied_and_gone])
def test_a_folder_of_before_goes_on(instance, tmp_path, way):
    """Where it was, moved or copied: read as it is, and its places become relative."""
    as_before(instance)
    here = instance if way is None else way(instance, tmp_path)
    expected = SPENT + 1 if way is None else WAYS[way]
    assert asked(here) == expected
    if expected != BLOCKED:
        assert written(here) == RELATIVE


def test_a_backup_of_before_restores_to_another_path(instance, tmp_path):
    """With whole paths in it: refused beside the first, and goes on without it."""
    as_before(instance)
    old = backup_as_it_is(instance, tmp_path / "old")
    with pytest.raises(Refused, match="still there"):
        restore(old, tmp_path / "again", "a try")
    shutil.move(instance.folder / "data", tmp_path / "data")
    shutil.rmtree(instance.folder)
    restore(old, tmp_path / "again", "disk lost")
    shutil.copytree(tmp_path / "data", tmp_path / "again" / "data", dirs_exist_ok=True)
    assert asked(at(instance, tmp_path / "again")) == SPENT + 1


def backup_as_it_is(instance, out):
    """A backup that does not bring the registry up to date first."""
    shutil.copytree(instance.folder, out)
    shutil.rmtree(out / "data")
    heads = {}
    for path in (out / "ledgers").glob("*.ledger"):
        with closing(sqlite3.connect(path)) as file:
            number, hash = file.execute("SELECT number, hash FROM head").fetchone()
        heads[path.name] = {"number": number, "hash": hash}
    about = {"made": "2026-11-16T00:00:00+00:00", "heads": heads, "elsewhere": []}
    with closing(sqlite3.connect(out / "server.db")) as file:
        file.execute("PRAGMA journal_mode = DELETE").fetchall()  # as in any backup
    write_manifest(out, about)
    return out


# ---- the command line -----------------------------------------------------------------------


def sulq_run(*words, cwd=None):
    command = [sys.executable, "-c", "from sulq.cli import app; app()", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=60)


def test_a_backup_by_a_relative_path_copies_and_says_so(instance, tmp_path):
    """Nothing is elsewhere, however the folder is named."""
    done = sulq_run("backup", instance.folder.name, "monday", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Not copied" not in done.stderr + done.stdout
    assert sorted(os.listdir(tmp_path / "monday" / "ledgers")) == [
        ".sulq", "1.people.ledger", "2.secrets.ledger"
    ]  # fmt: skip


# ---- a library's ledger ---------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    """A table asked three times, its ledger and '.sulq' beside it."""
    (tmp_path / "a").mkdir()
    path = rows(tmp_path / "a" / "people.parquet")
    with opened(path, queries=10, ledger=None) as db:
        for i in range(SPENT):
            db.count(f"age > {i}")
    return path


def spent(path, **terms):
    try:
        with opened(path, queries=10, ledger=None, **terms) as db:
            return int(db.budget.spent)
    except sulq.SulqError as error:
        return type(error).__name__


def test_a_librarys_ledger_moves_and_is_not_copied(source, tmp_path):
    """The whole folder moved goes on; a copy beside the first is refused until that is gone."""
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert spent(tmp_path / "b" / source.name) == "LedgerDamaged"
    with pytest.raises(LedgerDamaged, match="is a copy"):
        refresh(tmp_path / "b" / source.name, reason="go on here")
    assert spent(source) == SPENT
    (tmp_path / "a").rename(tmp_path / "c")
    assert spent(tmp_path / "c" / source.name) == SPENT
    shutil.rmtree(tmp_path / "c")
    assert spent(tmp_path / "b" / source.name) == SPENT


def test_no_ledger_begins_beside_one_whose_rows_are_not_known(source):
    """The seal lost, or a ledger brought alone: another ledger would be a second budget."""
    shutil.rmtree(source.with_name(".sulq"))
    assert spent(source) == "LedgerDamaged"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(LedgerDamaged, match="no ledger begins beside it"):
            sulq.open(source, SCHEMA, epsilon=1.0, queries=10, ledger=source.with_name("x.ledger"))
    with refresh(source, SCHEMA, reason="the seal was lost") as db:
        assert db.budget.spent == SPENT
    rows(source.with_name("others.parquet"), people(30, seed=7))
    assert spent(source.with_name("others.parquet")) == 0  # control: known again, so others begin


def test_other_files_called_ledger_are_no_ledgers(tmp_path):
    """An accountant's text file beside the rows stops nothing."""
    (tmp_path / "book.ledger").write_text("2026-11-16 paid\n")
    assert spent(rows(tmp_path / "people.parquet")) == 0
