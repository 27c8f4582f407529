"""A server's folder: begun, settings, backup, restore, and rows that come back."""

import gc
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time

import pyarrow.parquet as pq
import pytest
from attacks.harness import SCHEMA, people, replaced
from server.instance import PROMISE, made, rows

from sulq.errors import LedgerDamaged, Refused, SchemaError
from sulq.ledger import Ledger
from sulq.ledger.seal import Seal
from sulq.server.services.allowed_sources import Sources
from sulq.server.services.folder import backup, begin, restore
from sulq.server.services.people import People
from sulq.server.services.registry import Registry
from sulq.server.services.registry_tables import VERSION
from sulq.server.services.settings import Settings, service_links

D = "/v1/datasets/people"
NEW = {"name": "people", "source": "people.parquet", "schema": SCHEMA} | PROMISE


def ledger_of(instance):
    (path,) = (instance.folder / "ledgers").glob("*.people.ledger")
    return path


# ---- beginning ------------------------------------------------------------------------------


def test_a_new_folder_is_the_owners_alone(tmp_path):
    """Nobody else on the machine can read a server's folder."""
    key = begin(tmp_path / "instance", "anna")
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in [tmp_path / "instance", *(tmp_path / "instance").iterdir()]
    }
    assert modes["instance"] == modes["ledgers"] == modes["data"] == 0o700
    assert modes["server.db"] == 0o600
    assert key.text.startswith("sulq_")
    with pytest.raises(Refused, match="not empty"):
        begin(tmp_path / "instance", "anna")
    with pytest.raises(Refused, match="owner"):
        begin(tmp_path / "other", "an na")


def test_settings_come_from_the_file_then_the_environment_then_the_command(tmp_path, monkeypatch):
    """A later source of settings outweighs an earlier one."""
    begin(tmp_path / "instance", "anna")
    assert Settings.load(tmp_path / "instance").port == 8707
    monkeypatch.setenv("SULQ_SERVER_PORT", "9000")
    monkeypatch.setenv("SULQ_SERVER_PADDING", "no")
    monkeypatch.setenv("SULQ_SERVER_SOURCES", f"data{os.pathsep}more")
    found = Settings.load(tmp_path / "instance", host="localhost")
    assert (found.port, found.padding, found.host) == (9000, False, "localhost")
    assert found.sources == ("data", "more")


LINKS = {
    "PORT": "tcp://10.0.0.1:80", "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "80",
    "SERVICE_PORT_HTTP": "80", "PORT_80_TCP": "tcp://10.0.0.1:80", "PORT_80_TCP_PROTO": "tcp",
    "PORT_80_TCP_PORT": "80", "PORT_80_TCP_ADDR": "10.0.0.1", "PG_SERVICE_HOST": "10.0.0.2",
    "PG_PORT": "tcp://10.0.0.2:5432", "PG_PORT_5432_TCP_PORT": "5432",
}  # fmt: skip


def test_what_kubernetes_sets_by_itself_is_no_setting(tmp_path, monkeypatch):
    """The links of a service called sulq-server are left out; a wrong setting is still refused."""
    begin(tmp_path / "instance", "anna")
    for name, value in LINKS.items():
        monkeypatch.setenv(f"SULQ_SERVER_{name}", value)
    assert Settings.load(tmp_path / "instance").port == 8707
    assert service_links() == sorted(f"SULQ_SERVER_{name}" for name in LINKS)
    monkeypatch.setenv("SULQ_SERVER_PORT", "9000")
    assert Settings.load(tmp_path / "instance").port == 9000
    for name, value in [("PORT", "http://x"), ("REPORT", "1"), ("PG_PORT", "5432")]:
        with monkeypatch.context() as patch:
            patch.setenv(f"SULQ_SERVER_{name}", value)
            with pytest.raises(Refused, match=r"(?i)port"):
                Settings.load(tmp_path / "instance")


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", 70_000), ("port", "x"), ("padding", "perhaps"), ("rate", 0), ("workers", 1.5),
     ("host", ""), ("sources", "data"), ("colour", "red"), ("nesting", True)],
)  # fmt: skip
def test_a_wrong_setting_is_named(tmp_path, monkeypatch, name, value):
    """A setting that is wrong is refused by its name, with what is allowed."""
    begin(tmp_path / "instance", "anna")
    with pytest.raises(Refused, match=name):
        Settings.load(tmp_path / "instance", **{name: value})
    if isinstance(value, str) and name != "sources":
        monkeypatch.setenv(f"SULQ_SERVER_{name.upper()}", value)
        with pytest.raises(Refused, match=name):
            Settings.load(tmp_path / "instance")


def test_a_setting_of_before_is_read_with_a_word(tmp_path):
    """A file that still has `slots` is read, and whoever starts the server hears of it."""
    begin(tmp_path / "instance", "anna")
    with (tmp_path / "instance" / "sulq.toml").open("a") as file:
        file.write("slots = 4\n")
    with pytest.warns(UserWarning, match="slots has no effect"):
        assert Settings.load(tmp_path / "instance").port == 8707


def test_other_machines_need_tls_unless_told_otherwise(tmp_path):
    """Plain HTTP for other machines must be asked for."""

    def listens(**said):
        Settings(tmp_path, **said).check_listening()

    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        listens(host=host)
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"):
        with pytest.raises(Refused, match="TLS"):
            listens(host=host)
        listens(host=host, beyond_loopback=True)
        listens(host=host, certificate="a.pem", private_key="b.pem")
    with pytest.raises(Refused, match="both"):
        listens(certificate="a.pem")


def test_a_folder_without_a_server_is_said_so(tmp_path):
    """A folder that is no server's is refused in words."""
    with pytest.raises(Refused, match="sulq init"):
        Settings.load(tmp_path)
    with pytest.raises(Refused, match="sulq init"):
        Registry.open(tmp_path)


# ---- sources --------------------------------------------------------------------------------


def test_an_owner_names_files_of_the_data_folder_only(tmp_path):
    """No way up, out, through a link, or by address; and no word about what is there."""
    begin(tmp_path / "instance", "anna")
    data, outside = tmp_path / "instance" / "data", rows(tmp_path / "outside.parquet")
    rows(data / "in.parquet")
    (data / "sub").mkdir()
    rows(data / "sub" / "deep.parquet")
    (data / "link.parquet").symlink_to(outside)
    (data / "folder").symlink_to(tmp_path)
    settings = Settings.load(
        tmp_path / "instance", sources=["data", "postgresql://db.inside:5432/"]
    )
    registry = Registry.open(tmp_path / "instance")
    anna, sources = People(registry).owner(), Sources(registry, settings)
    for name in ("in.parquet", "sub/deep.parquet", "./in.parquet"):
        assert sources.allowed(name, anna).startswith(str(data))
    assert sources.allowed("postgresql://db.inside:5432/people", anna)
    refused = [
        "../server.db", "..", ".", "", "/etc/passwd", str(outside), "link.parquet", "sub",
        "folder/outside.parquet", "in.parquet\0.csv", "x" * 600, "in.csv.gz", None, 3,
        "postgresql://db.outside/people", "postgresql://db.inside:5433/people",
        "postgresql://db.inside:5432/people?host=evil", "postgresql://db.inside:5432,evil/people",
        "postgresql://db.inside:5432@evil/people", "file:///etc/passwd", "http://db.inside:5432/",
        "postgresql://[::1/people",
    ]  # fmt: skip
    for name in refused:
        with pytest.raises(SchemaError) as caught:
            sources.allowed(name, anna)
        assert str(tmp_path) not in str(caught.value).replace(str(name), "")
    registry.close()


@pytest.mark.parametrize("what", ["empty", "text", "cut", "lying footer", "magic only"])
def test_a_file_that_is_not_what_it_says_is_refused_in_bounded_time(instance, what):
    """Damaged and lying Parquet: 422, in the one shape, and the server goes on."""
    good = rows(instance.folder / "data" / "bad.parquet", people(50, seed=4)).read_bytes()
    bad = {
        "empty": b"",
        "text": b"id,age\n1,2\n",
        "cut": good[: len(good) // 2],
        "lying footer": good[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1",
        "magic only": b"PAR1PAR1",
    }[what]
    (instance.folder / "data" / "bad.parquet").write_bytes(bad)
    reply = instance.call(
        "POST", "/v1/datasets", NEW | {"name": "bad", "source": "bad.parquet"}, "anna"
    )
    assert (reply.status, reply.error) == (422, "SchemaError")
    assert instance.ask("secret").status == 200


@pytest.mark.parametrize("what", ["read_csv('{}')", "read_text('{}')", "glob('{}')"])
def test_a_view_of_other_files_is_refused_before_they_are_read(instance, tmp_path, what):
    """Not even the first line of a file elsewhere is told, as names of columns."""
    import duckdb

    canary = tmp_path / "canary.csv"
    canary.write_text("CANARY77,b\n1,2\n")
    with duckdb.connect(str(instance.folder / "data" / "view.duckdb")) as made_up:
        made_up.execute(f"CREATE VIEW people AS SELECT * FROM {what.format(canary)}")
    body = NEW | {"name": "view", "source": "view.duckdb", "table": "people"}
    reply = instance.call("POST", "/v1/datasets", body, "anna")
    assert (reply.status, reply.error) == (422, "SchemaError")
    assert b"CANARY77" not in reply.body
    assert b"It has" not in reply.body


def test_control_a_view_of_its_own_file_is_taken(instance):
    """A view over tables of its own DuckDB file is a table."""
    import duckdb

    with duckdb.connect(str(instance.folder / "data" / "view.duckdb")) as made_up:
        table = people(60, seed=8)
        made_up.register("these", table)
        made_up.execute("CREATE TABLE every AS SELECT * FROM these")
        made_up.execute("CREATE VIEW people AS SELECT * FROM every WHERE age < 200")
    body = NEW | {"name": "view", "source": "view.duckdb", "table": "people"}
    assert instance.call("POST", "/v1/datasets", body, "anna").json["rows"] == table.num_rows


@pytest.mark.parametrize("name", ["*.parquet", "[o].parquet", "?thers.parquet"])
def test_a_name_that_is_a_pattern_reads_no_other_file(instance, name):
    """A file name with * or ? is that file's name."""
    rows(instance.folder / "data" / name, people(30, seed=5))
    rows(instance.folder / "data" / "o.parquet", people(31, seed=6))
    reply = instance.call("POST", "/v1/datasets", NEW | {"name": "x", "source": name}, "anna")
    assert (reply.status, reply.error) == (422, "SchemaError")


# ---- rows that come back --------------------------------------------------------------------


def test_closed_and_made_again_the_ledger_goes_on(instance):
    """Under its name or another: what was spent stays spent, answers stay free."""
    first = instance.ask("secret", "anna").json["answer"]["exact"]
    for name in ("people", "renamed"):
        instance.call("DELETE", "/v1/datasets/people", None, "anna")
        instance.call("DELETE", "/v1/datasets/renamed", None, "anna")
        made_again = instance.call("POST", "/v1/datasets", NEW | {"name": name}, "anna")
        assert made_again.status == 201, made_again.body
        assert made_again.json["budget"]["spent_micro"] == 10**6
        assert instance.ask("secret", "anna", name).json["answer"]["exact"] == first


def test_the_same_rows_twice_at_once_are_refused_also_for_another_owner(instance):
    """Their owner hears why; to another owner the file looks like a missing one."""
    more = NEW | {"name": "more"}
    reply = instance.call("POST", "/v1/datasets", more, "anna")
    assert (reply.status, reply.error) == (409, "Refused")
    assert instance.call("POST", "/v1/datasets", more, "carl").status == 422
    instance.call("DELETE", D, None, "anna")
    assert instance.call("POST", "/v1/datasets", more, "carl").status == 422  # still anna's ledger


def test_another_promise_for_the_same_rows_is_refused(instance):
    """Rows that have a ledger keep its promise."""
    instance.call("DELETE", D, None, "anna")
    reply = instance.call("POST", "/v1/datasets", NEW | {"epsilon": 2.0}, "anna")
    assert (reply.status, reply.error) == (422, "PromiseError")
    assert instance.call("POST", "/v1/datasets", NEW, "anna").status == 201


def test_an_override_begins_anew_and_is_shown_for_good(instance):
    """A ledger given up is kept aside, and the new one says so."""
    instance.ask("secret", "anna")
    instance.call("DELETE", D, None, "anna")
    reply = instance.call("POST", "/v1/datasets", NEW | {"override": "a new study"}, "anna")
    assert reply.status == 201, reply.body
    assert reply.json["budget"]["spent_micro"] == 0
    shown = [(d["kind"], d["reason"]) for d in reply.json["decisions"]]
    assert shown == [("open", None), ("override", "a new study")]
    instance.call("PUT", f"{D}/analysts/bob", None, "anna")
    assert instance.call("GET", D, None, "bob").json["decisions"] == reply.json["decisions"]
    kept = list((instance.folder / "ledgers").glob("*.given-up"))
    assert len(kept) == 1
    nothing = instance.call(
        "POST", "/v1/datasets", NEW | {"name": "x", "override": "again"}, "anna"
    )
    assert nothing.status == 409


def test_changed_rows_stop_the_dataset_until_the_owner_refreshes(instance):
    """Analysts hear that it is blocked, owners why; a refresh keeps what was spent."""
    instance.ask("secret", "anna")
    pq.write_table(replaced(people(), 3, age=1), instance.folder / "data" / "people.parquet")
    reply = instance.ask("age > 3", "bob")
    assert (reply.status, reply.error) == (409, "SourceChanged")
    assert b"parquet" not in reply.body
    told = instance.ask("age > 3", "anna")
    assert b"people.parquet" in told.body
    assert str(instance.folder).encode() not in told.body
    renewed = instance.call("POST", f"{D}/refresh", {"reason": "new rows"}, "anna")
    assert renewed.json["budget"]["spent_micro"] == 10**6
    assert [d["kind"] for d in renewed.json["decisions"]] == ["open", "refresh"]
    assert instance.ask("secret", "bob").json["answer"]["remaining_micro"] == 98 * 10**6


def test_a_refresh_by_another_process_is_followed(instance):
    """`sulq dataset refresh` beside a running server: the next question opens it again."""
    instance.ask("secret")
    pq.write_table(replaced(people(), 3, age=1), instance.folder / "data" / "people.parquet")
    with instance.services() as services:
        record = services.datasets.find(services.people.owner("anna").tenant, "people")
        services.datasets.refresh(record, "rows of March")
    statuses = [instance.ask("age > 3").status for _ in range(3)]
    assert statuses[-1] == 200


def test_a_changed_schema_from_another_process_is_followed(instance):
    """`sulq dataset refresh --schema` beside a running server: no question is asked by the old."""
    instance.ask("secret")
    narrower = {**SCHEMA, "age": {**SCHEMA["age"], "high": 50}}
    with instance.services() as services:
        record = services.datasets.find(services.people.owner("anna").tenant, "people")
        services.datasets.refresh(record, "ages to 50", narrower)
    assert [instance.ask(f"age > {i}").status for i in range(2)] == [409, 200]
    assert instance.call("GET", D).json["schema"]["columns"]["age"]["high"] == 50


@pytest.mark.parametrize("padding", [False, True])
def test_questions_under_way_survive_a_refresh_and_a_close(tmp_path, padding):
    """Rows close behind the last question: no failure, no thread and no file is left."""
    terms = {"padding": True, "deadline_seconds": 0.05, "most_late": 0} if padding else {}
    instance = made(tmp_path / "instance", queries=10_000)
    with instance.serving(**terms) as served:
        stop, seen = threading.Event(), set()

        def load(k):
            for i in itertools.count():
                if stop.is_set():
                    return
                seen.add(served.ask(f"age > {i % 100} and id <> {k + 3 * i}", "anna").status)

        threads = [threading.Thread(target=load, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        open_files = []
        for _ in range(3):
            changes = [
                served.call("POST", f"{D}/refresh", {"reason": "again"}, "anna"),
                served.call("DELETE", D, None, "anna"),
                served.call("POST", "/v1/datasets", NEW | {"queries": 10_000}, "anna"),
            ]
            assert [c.status for c in changes] == [200, 200, 201]
            open_files.append(len(os.listdir("/proc/self/fd")))
        stop.set()
        for thread in threads:
            thread.join()
        assert seen <= {200, 404, 409} | ({503} if padding else set())  # 503: late
        assert open_files[-1] <= open_files[0] + 12
        gc.collect()
        assert sum(t.name.startswith("sulq") for t in threading.enumerate()) < 60


def test_the_same_rows_from_several_processes_at_once_get_one_ledger(tmp_path):
    """Each with a registry and locks of its own: one makes the dataset, the others are refused."""
    instance = made(tmp_path / "instance")
    source = rows(instance.folder / "data" / "new.parquet", people(40, seed=5))
    code = (
        "import json, sys, warnings; warnings.simplefilter('ignore')\n"
        "from sulq.server.services.context import Services\n"
        "from sulq.server.services.settings import Settings\n"
        "from sulq.errors import Refused\n"
        "services = Services.open(Settings.load(sys.argv[1], padding=False))\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "anna, said = services.people.owner('anna'), json.loads(sys.argv[3])\n"
        "try: services.datasets.create(anna, sys.argv[2], said)\n"
        "except Refused: print('refused')\n"
        "else: print('made')"
    )
    said = json.dumps({"source": str(source), "schema": SCHEMA} | PROMISE)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(instance.folder), f"name{k}", said],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for k in range(4)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert sorted(r.communicate(timeout=60)[0] for r in racers) == ["made\n", *["refused\n"] * 3]


# ---- backup and restore ---------------------------------------------------------------------


def test_a_backup_while_serving_restores_whole(tmp_path):
    """Copied under load; restored elsewhere it goes on, and says that it was restored."""
    instance = made(tmp_path / "instance", queries=1000)
    with instance.serving() as served:
        stop, asked = threading.Event(), []

        def load():
            while not stop.is_set():
                asked.append(served.ask(f"age > {len(asked) % 100} and {len(asked)} >= 0").status)

        thread = threading.Thread(target=load)
        thread.start()
        while len(asked) < 5:
            time.sleep(0.01)
        about = backup(instance.folder, tmp_path / "copy")
        stop.set()
        thread.join()
        assert set(asked) == {200}
    with pytest.raises(Refused, match="there already"):
        backup(instance.folder, tmp_path / "copy")
    shutil.rmtree(instance.folder / "ledgers")  # the disk is gone
    shutil.copytree(instance.folder / "data", tmp_path / "data")
    found = restore(tmp_path / "copy", tmp_path / "again", "disk lost")
    assert found["whole"]
    assert len(found["restored"]) == 2
    shutil.rmtree(instance.folder)
    (tmp_path / "again").rename(instance.folder)
    shutil.copytree(tmp_path / "data", instance.folder / "data", dirs_exist_ok=True)
    with instance.serving() as served:
        reply = served.call("GET", D, None, "anna")
        assert [d["kind"] for d in reply.json["decisions"]] == ["open", "restore"]
        assert reply.json["decisions"][1]["reason"] == "disk lost"
        head = about["heads"][ledger_of(instance).name]["number"]
        assert reply.json["decisions"][1]["number"] == head + 1
        assert served.ask("age > 1 and 1 >= 0").status == 200


def test_going_backwards_is_noticed(tmp_path):
    """An older ledger under a newer mark is not put back; neither is it served."""
    instance = made(tmp_path / "instance", queries=50)
    with instance.serving() as served:
        served.ask("secret")
        backup(instance.folder, tmp_path / "copy")
        served.ask("age > 3")
    assert restore(tmp_path / "copy", instance.folder, "nothing is wrong")["restored"] == []
    path = ledger_of(instance)
    path.write_bytes(b"x" * 5000)  # damaged since
    with pytest.raises(LedgerDamaged, match="older copy"):
        restore(tmp_path / "copy", instance.folder, "damaged")
    assert path.read_bytes() == b"x" * 5000  # as it was: nothing was forgotten silently
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    shutil.copy2(tmp_path / "copy" / "ledgers" / path.name, path)  # by hand
    with instance.serving() as served:
        reply = served.ask("secret")
        assert (reply.status, reply.error) == (503, "LedgerDamaged")
        assert reply.json["error"]["charged"] is None
        assert b"blocked" in reply.body


def test_a_missing_ledger_is_restored_if_the_backup_is_the_newest(tmp_path):
    """A lost ledger comes back from a backup that has its last entry."""
    instance = made(tmp_path / "instance", queries=50)
    with instance.serving() as served:
        served.ask("secret")
        backup(instance.folder, tmp_path / "copy")
    path = ledger_of(instance)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    found = restore(tmp_path / "copy", instance.folder, "deleted by mistake")
    assert found["restored"] == [path.name]
    with instance.serving() as served:
        assert served.ask("secret").json["answer"]["remaining_micro"] == 49 * 10**6
    with pytest.raises(Refused, match="no backup"):
        restore(tmp_path, instance.folder, "x")
    with pytest.raises(Refused, match="reason"):
        restore(tmp_path / "copy", instance.folder, " ")


# ---- older tables ---------------------------------------------------------------------------


def test_a_ledger_of_an_older_version_is_brought_up_to_date(tmp_path):
    """Tables are indexes on the chain: what an older version did not have is made from it."""
    import sqlite3

    instance = made(tmp_path / "instance", queries=50)
    with instance.serving() as served:
        served.ask("secret")
        served.ask("age > 3", "anna")
    path = ledger_of(instance)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE analysts")
        connection.execute("DROP TABLE layout")
    connection.close()
    with instance.serving() as served:
        found = served.call("GET", f"{D}/allotments", None, "anna").json["allotments"]
        assert {n: a["spent_micro"] for n, a in found.items()} == {"bob": 10**6, "@anna": 10**6}
        assert served.ask("age > 4").status == 200


def test_a_ledger_of_a_newer_version_is_not_touched(tmp_path):
    """A ledger of a later version is refused."""
    import sqlite3

    instance = made(tmp_path / "instance", queries=50)
    path = ledger_of(instance)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE layout SET version = 99")
    connection.close()
    with pytest.raises(LedgerDamaged, match="newer version"):
        Ledger.reopen(path, seal=Seal.open(path))


def test_a_registry_of_another_version_is_refused(tmp_path):
    """A registry of a later version is refused."""
    import sqlite3

    begin(tmp_path / "instance", "anna")
    with sqlite3.connect(tmp_path / "instance" / "server.db") as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(Refused, match=f"version {VERSION + 1}"):
        Registry.open(tmp_path / "instance")


def test_names_are_plain(instance):
    """Names are letters, digits, dots, dashes and underscores."""
    for name in ("", "a b", "../x", "x" * 65, "@anna", "a/b", "-a", ".a", "\u00e9", "a\n"):
        reply = instance.call("POST", "/v1/analysts", {"name": name}, "anna")
        assert reply.status == 422, name
        created = instance.call("POST", "/v1/datasets", NEW | {"name": name}, "anna")
        assert created.status == 422, name


def test_keys_expire_when_they_say(instance):
    """A key works until its day and not after."""
    reply = instance.call("POST", "/v1/keys", {"days": 1, "label": "short"}, "anna").json
    listed = instance.call("GET", "/v1/keys", None, "anna").json["keys"]
    assert [k["expires"] for k in listed if k["id"] == reply["id"]] == [reply["expires"]]
    for days in (0, -1, 3651, 1.5, "9", True):
        assert instance.call("POST", "/v1/keys", {"days": days}, "anna").status == 422


def test_what_the_command_leaves_out_the_file_says(tmp_path):
    """None is not said: the file's own value stands."""
    begin(tmp_path / "instance", "anna")
    file = tmp_path / "instance" / "sulq.toml"
    file.write_text(file.read_text().replace("port = 8707", "port = 9999"))
    assert Settings.load(tmp_path / "instance", port=None, host=None).port == 9999


def test_no_entry_is_lost_between_two_parts_of_an_export():
    """An export in parts has every entry once."""
    from sulq.server.api.datasets import _some

    lines = iter([b"%d\n" % i for i in range(7)])
    parts = []
    while part := _some(lines, 3):
        parts.append(part)
    assert b"".join(parts) == b"".join(b"%d\n" % i for i in range(7))
