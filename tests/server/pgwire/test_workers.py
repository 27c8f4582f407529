"""Several workers on one port: who cancels, what a key may spend, and who is let in."""

import struct
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from server.instance import made
from server.pgwire.test_stopwatch import free_port
from server.pgwire.wired import Wired, message, startup
from server.processes import children, served, until
from soak import in_soak, times

WORKERS = 2
SLOW = "select count(*) from people where age > {} and secret"


@pytest.fixture(scope="module")
def pg(tmp_path_factory):
    """A server of two processes; an answer takes a minute, so that it can be cancelled."""
    instance = made(tmp_path_factory.mktemp("workers") / "instance", queries=10_000)
    found = Wired(instance.folder, keys=instance.keys, port=free_port())
    said = {"SULQ_SERVER_PADDING": "yes", "SULQ_SERVER_DEADLINE_SECONDS": "60"}
    options = ("--workers", WORKERS, "--postgres", found.port)
    with served(found.folder, *options, env=said) as (parent, found.url):
        found.until_ready()
        found.workers = lambda: children(parent.pid)
        yield found


def spread(pg):
    """A connection to each worker, by the worker's number; the second may be slow to come."""
    found, spare = {}, []

    def both():
        made = pg.connect()
        if found.setdefault(made.info.backend_pid, made) is not made:
            spare.append(made)  # held for a while, so that the other worker takes the next one
        while len(spare) > 10:
            spare.pop(0).close()
        return len(found) == WORKERS

    assert until(both)
    for connection in spare:
        connection.close()
    return found


def cancelled(connection, text):
    """Does this statement end because somebody cancelled it?"""
    try:
        connection.execute(text)
    except psycopg.errors.QueryCanceled:
        return True
    return False


def test_all_workers_take_connections_at_one_port(pg):
    """Each has its number, which is that of its process."""
    found = spread(pg)
    assert set(found) == set(pg.workers())
    for connection in found.values():
        assert connection.execute("select tablename from pg_tables").fetchone() == ("people",)
        connection.close()


def test_a_cancel_finds_its_worker_whichever_takes_it(pg):
    """Requests to cancel come on connections of their own, to any worker, and each one counts."""
    found = spread(pg)
    for at, (worker, connection) in enumerate(found.items()):
        connection.execute("set sulq.spend = 99")
        for turn in range(times(3, 10)):
            timer = threading.Timer(0.2, connection.cancel_safe)
            timer.start()
            assert cancelled(connection, SLOW.format(10 * at + turn)), worker
            timer.join()
        connection.close()


def test_a_wrong_secret_cancels_nothing_anywhere(pg):
    """Every worker hears it, and the statement goes on until its own client cancels it."""
    with pg.connect() as connection:
        connection.execute("set sulq.spend = 1")
        number, ended, before = connection.info.backend_pid, threading.Event(), []

        def strangers():
            for secret in range(12):
                with pg.raw() as own:
                    own.sendall(struct.pack("!iiiI", 16, 80877102, number, secret))
                    own.recv(1)
            before.append(ended.is_set())
            connection.cancel_safe()

        timer = threading.Timer(0.2, strangers)
        timer.start()
        assert cancelled(connection, SLOW.format(77))
        ended.set()
        timer.join()
        assert before == [False]


@in_soak
def test_a_cap_of_the_key_holds_over_all_workers(tmp_path):
    """Eight questions at once on two workers with a cap of three: three answers, three charges."""
    instance = made(tmp_path / "instance")
    pg = Wired(instance.folder, keys=instance.keys, port=free_port())
    with served(pg.folder, "--workers", WORKERS, "--postgres", pg.port) as (_, pg.url):
        pg.until_ready()
        capped(pg)


def capped(pg):
    """Ask on both workers at once, within a cap."""
    key = pg.keys["bob"].split("_")[1]
    pg.call("PUT", f"/v1/keys/{key}/cap", {"queries": 3}, who="anna")
    before, connections = pg.spent(), [*spread(pg).values(), *spread(pg).values()]
    said = Counter()

    def ask(connection, age):
        try:
            connection.execute(f"select count(*) from people where age > {age}")
            said["answered"] += 1
        except psycopg.errors.ConfigurationLimitExceeded:
            said["refused"] += 1

    threads = [threading.Thread(target=lambda c=c, k=k: (ask(c, 20 + k), ask(c, 30 + k)))
               for k, c in enumerate(connections)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {"answered": 3, "refused": 5}
    assert pg.spent() == before + 3_000_000
    for connection in connections:
        connection.close()


def test_a_key_that_is_not_there_has_one_salt_at_every_worker(pg):
    """A salt that changed from worker to worker would tell that nobody has this key."""
    first = message("p", b"SCRAM-SHA-256\0\0\0\0\x10n,,n=,r=abcdefgh")

    def salt(user):
        with pg.raw() as own:
            own.sendall(startup(user=user, database="sulq") + first)
            data = b""
            while b",i=" not in data:
                data += own.recv(4096)
            return data.partition(b",s=")[2].partition(b",")[0]

    for user in ("sulq_0123456789abcdef", pg.user()):
        assert len({salt(user) for _ in range(12)}) == 1


def test_a_key_that_is_revoked_ends_sessions_at_every_worker(pg):
    """With the next statement, whichever worker has the session."""
    pg.keys["bob"], old = pg.call("POST", "/v1/keys/rotate").json["key"], pg.keys["bob"]
    found = spread(pg)
    pg.call("DELETE", f"/v1/keys/{pg.keys['bob'].split('_')[1]}", who="anna")
    for connection in found.values():
        assert until(lambda c=connection: _ended(c))
    assert old != pg.keys["bob"]


def _ended(connection):
    try:
        connection.execute("select 1")
    except psycopg.errors.InvalidPassword:
        return True
    except psycopg.OperationalError:
        return connection.closed
    return False


def test_a_port_that_is_taken_is_said_before_anything_starts(pg, tmp_path):
    """The message names the port."""
    instance = made(tmp_path / "instance")
    done = subprocess.run(
        [Path(sys.executable).with_name("sulq"), "serve", instance.folder, "--port", "0",
         "--postgres", str(pg.port), "--workers", "2"], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"port={pg.port}: Address already in use. Choose another." in done.stderr
