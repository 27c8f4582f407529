"""Every reason for which a dataset answers nothing shows in all five places within 10 seconds.

Readiness, the dataset's state, alarms, metrics and the log. Each reason is put in place on a server
that runs, under the questions of nobody; a reason without a way to put it in place fails.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import postgres
import pytest
from attacks.harness import people
from server.instance import made, rows
from server.processes import until
from soak import in_soak

from sulq.errors import Refused
from sulq.server.services import dataset_states
from sulq.server.services.dataset_states import FAULTS, FROZEN, OPEN, WORDS

D = "/v1/datasets/people"
LIMIT_SECONDS = 10


@pytest.fixture
def lines(monkeypatch):
    """What the server logs."""
    log = logging.getLogger("sulq.server")
    found = []

    class Kept(logging.Handler):
        def emit(self, record):
            found.append(dict(record.said))

    handler = Kept()
    monkeypatch.setattr(log, "level", logging.INFO)
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


def ledger_of(instance):
    return next((instance.folder / "ledgers").glob("*.people.ledger"))


def readiness(instance):
    return instance.call("GET", "/ready", None, None)


def line_of(instance, who="bob"):
    found = instance.call("GET", "/v1/datasets", None, who).json["datasets"]
    return next(line for line in found if line["name"] == "people")


# ---- each reason, put in place on a server that runs ------------------------------------------


def rows_missing(instance, patch):
    (instance.folder / "data" / "people.parquet").rename(instance.folder / "away")


def rows_changed(instance, patch):
    rows(instance.folder / "data" / "people.parquet", people(200, seed=77))


def ledger_missing(instance, patch):
    ledger_of(instance).rename(instance.folder / "away")


def ledger_damaged(instance, patch):
    """An older copy in its place."""
    path = ledger_of(instance)
    shutil.copy(path, instance.folder / "copy")
    os.replace(instance.folder / "copy", path)


def ledger_read_only(instance, patch):
    """What root left behind: nobody but root may write it. Root, who runs tests, always may."""
    mark = next((instance.folder / "ledgers" / ".sulq").glob("*.people.ledger.mark"))
    honest = os.access
    patch.setattr(os, "access", lambda path, *a, **k: Path(path) != mark and honest(path, *a, **k))


def disk_full(instance, patch):
    """One block is free. A disk that is full is in the test below."""
    honest = os.statvfs

    class Full:
        f_bavail = f_bfree = 1
        f_frsize = 4096

    patch.setattr(os, "statvfs", lambda path: Full if "ledgers" in str(path) else honest(path))


def no_reply(instance, patch):
    """A disk over a network that hangs: the look at the rows does not return."""
    from sulq.database import Database

    patch.setattr(dataset_states, "HANGING_SECONDS", 0.5)
    honest = Database.check_rows

    def hanging(db):
        if db.name == "people":
            time.sleep(3)
        honest(db)

    patch.setattr(Database, "check_rows", hanging)


def not_opening(instance, patch):
    """The rows have lost a column that is declared, and the dataset is opened anew."""
    from sulq.server.services import datasets

    def refusing(**said):
        raise Refused("the engine is not installed here.")

    patch.setattr(datasets, "open_database", refusing)
    instance.call("PATCH", D, {"programs": True}, "anna")  # so it is opened again


def frozen(instance, patch):
    assert instance.call("PATCH", D, {"state": "frozen"}, "anna").status == 200


IN_PLACE = {
    "rows-missing": rows_missing, "rows-changed": rows_changed, "ledger-missing": ledger_missing,
    "ledger-damaged": ledger_damaged, "ledger-read-only": ledger_read_only,
    "disk-full": disk_full, "no-reply": no_reply, "not-opening": not_opening, FROZEN: frozen,
}  # fmt: skip
ON_SERVERS = {"rows-away", "ledger-away"}  # below, with a PostgreSQL that stops


def test_every_reason_has_a_test():
    """A new reason without a way to put it in place is not shown to work."""
    assert IN_PLACE.keys() | ON_SERVERS == FAULTS.keys() | {FROZEN}
    assert set(WORDS) - IN_PLACE.keys() - ON_SERVERS == {OPEN, "spent", "opening"}


@pytest.mark.parametrize("why", IN_PLACE)
def test_a_reason_shows_in_all_five_places(tmp_path, monkeypatch, lines, why):
    """Within ten seconds, though nobody asks anything."""
    instance = made(tmp_path / "instance")
    with instance.serving() as served:
        served.until_ready()
        assert served.ask("secret").status == 200
        IN_PLACE[why](served, monkeypatch)
        assert shows_everywhere(served, lines, why)
        assert (served.ask("age > 3").status >= 400) or why in ("disk-full", "ledger-read-only",
                                                                "no-reply")  # fmt: skip


def shows_everywhere(served, lines, why):
    """Does a reason show in readiness, state, alarm, metric and log, within the limit?"""
    start = time.monotonic()
    fault = why != FROZEN
    shows = {
        "log": lambda: any(
            (line["event"], line.get("why"), line.get("dataset")) == ("stopped", why, "people")
            for line in lines
        ),
        "state": lambda: (
            line_of(served)["stopped"]["why"] == why if line_of(served)["stopped"] else
            line_of(served)["state"] == why
        ),
        "readiness": lambda: (
            b" of 2 datasets" in readiness(served).body if fault else
            readiness(served).json["frozen"] == 1
        ),
        "alarm": lambda: any(
            (a["kind"], a["dataset"]) == ("stopped" if fault else why, "people")
            for a in served.call("GET", "/v1/alarms", None, "anna").json["alarms"]
        ),
        "metric": lambda: (
            f'sulq_stopped{{dataset="people",why="{why}"}} 1'
            in served.call("GET", "/v1/metrics", None, "anna").body.decode()
        ),
    }  # fmt: skip
    missing = [place for place, there in shows.items() if not until(there, LIMIT_SECONDS)]
    assert not missing, (why, missing, readiness(served).body, line_of(served), lines[-5:])
    return time.monotonic() - start < 60 or pytest.fail("this machine is too slow to say")


# ---- with a PostgreSQL of its own -----------------------------------------------------------


@in_soak
def test_a_ledger_whose_server_stops_shows_everywhere_and_goes_on_by_itself(
    tmp_path, monkeypatch, lines
):
    """The ledgers are in PostgreSQL; it is stopped, then started again."""
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    place = Path(tempfile.mkdtemp(prefix="sulq-states-"))
    try:
        place.chmod(0o755)
        server = postgres.Server.make(place / "server")
        server.start()
        monkeypatch.setenv("SULQ_SERVER_LEDGERS", f"{server.url()}&ledger=books")
        instance = made(tmp_path / "instance")
        with instance.serving() as served:
            served.until_ready()
            server.stop()
            assert shows_everywhere(served, lines, "ledger-away")
            server.start()
            assert until(lambda: readiness(served).status == 200, LIMIT_SECONDS)
            assert line_of(served)["stopped"] is None
            assert ("asked again", "people") in [(x["event"], x.get("dataset")) for x in lines]
            assert served.ask("secret").status == 200
    finally:
        server.stop()
        shutil.rmtree(place)


def test_rows_whose_server_does_not_reply_show_as_away(tmp_path, monkeypatch):
    """Rows and ledgers are looked at apart, and a server once for all that is on it."""
    instance = made(tmp_path / "instance")
    tried = []

    def away(url):
        tried.append(url)
        raise Refused("no")

    with instance.services() as services:
        record = services.datasets.find(1, "people")
        said = json.loads(record.arguments)
        address = "postgresql://reader@localhost:1/rows"
        monkeypatch.setattr(dataset_states, "reach", away)
        servers = dataset_states._Servers()
        for place, why in (("source", "rows-away"), ("ledger", "ledger-away")):
            moved = replace(record, arguments=json.dumps(said | {place: address}))
            assert services.states.look(moved, servers).kind == why
    assert len(tried) == 1


# ---- what really happens to a folder ----------------------------------------------------------

LOOK = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from server.instance import Instance
with Instance(Path(sys.argv[1])).services() as services:
    record = services.datasets.find(1, "people")
    print(services.states.look(record).kind)
    exec(sys.argv[3])
    print(services.states.look(record).kind)
"""


def looked(folder, between, *before):
    """The state before and after something is done to the folder, in a process of its own."""
    arguments = [sys.executable, "-c", LOOK, str(folder), json.dumps(sys.path), between]
    done = subprocess.run([*before, *arguments], capture_output=True, text=True, timeout=120,
                          check=False)  # fmt: skip
    return done.stdout.split(), done.stderr


def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 8 MB, filled to the last byte while the dataset is open."""
    made(tmp_path / "instance")
    mount = (
        'mount -t tmpfs -o size=8m none "$0"/ledgers && cp -a "$1"/. "$0"/ledgers && shift && "$@"'
    )
    copy = shutil.copytree(tmp_path / "instance" / "ledgers", tmp_path / "copy")
    before = ("unshare", "-m", "sh", "-c", mount, str(tmp_path / "instance"), str(copy))
    if shutil.which("unshare") is None or subprocess.run([*before, "true"], check=False).returncode:
        pytest.skip("no file system can be mounted here: needs mount namespaces")
    fill = """
with open(Path(sys.argv[1]) / "ledgers" / "filler", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
"""
    states, words = looked(tmp_path / "instance", fill, *before)
    assert states == ["open", "disk-full"], words


def test_a_mark_that_root_left_behind(tmp_path):
    """The server runs as another user, whom the file does not let write."""
    if os.geteuid() != 0:
        pytest.skip("only root can leave a file to another user")
    place = Path(tempfile.mkdtemp(prefix="sulq-states-"))
    try:
        place.chmod(0o755)
        made(place / "instance")
        for path in (place / "instance", *(place / "instance").rglob("*")):
            shutil.chown(path, 65534, 65534)
        user = "os.setgid(65534), os.setuid(65534)"
        left = f"import os; mark = next(Path(sys.argv[1]).rglob('*.people.ledger.mark')); {user}"
        states, words = looked(place / "instance", f"{left}; os.chmod(mark, 0o400)")
        assert states == ["open", "ledger-read-only"], words
    finally:
        shutil.rmtree(place)


# ---- telling nobody twice, and nobody too much ------------------------------------------------


def test_what_an_analyst_hears_names_no_place(tmp_path, monkeypatch):
    """The reason is public; paths are for the owner."""
    instance = made(tmp_path / "instance")
    with instance.serving() as served:
        served.until_ready()
        ledger_read_only(served, monkeypatch)
        assert until(lambda: line_of(served)["stopped"], LIMIT_SECONDS)
        assert line_of(served)["stopped"]["message"] == "its ledger cannot be written."
        assert "mark" in line_of(served, "anna")["stopped"]["message"]
        assert str(tmp_path) not in readiness(served).body.decode()
        assert readiness(served).status == 503
        assert served.call("GET", "/ready?some=true", None, None).status == 200


def test_an_alarm_that_the_registry_does_not_take_shows_and_is_written_later(tmp_path, monkeypatch):
    """A full disk is the registry's too: the alarm waits in memory, and is one alarm in the end."""
    instance = made(tmp_path / "instance")
    with instance.services() as services:
        states, registry = services.states, services.registry
        states.look_at_all()
        honest = type(registry).writing

        def refusing(self):
            raise Refused("the disk is full")

        monkeypatch.setattr(type(registry), "writing", refusing)
        rows_missing(instance, monkeypatch)
        states._due.clear()
        states.look_at_all()
        assert [a["kind"] for a in states.unwritten(1)] == ["stopped"]
        assert not registry.alarms(1)
        monkeypatch.setattr(type(registry), "writing", honest)
        for _ in range(2):
            states._due.clear()
            states.look_at_all()
        assert not states.unwritten(1)
        assert [a["kind"] for a in registry.alarms(1)] == ["stopped"]
