"""Two servers, one PostgreSQL: one of them is killed again and again under load.

Clients ask whichever answers, as through a proxy. T answers are given in all, each of them paid
once whichever server it was asked of, and whoever has signed in stays so.
"""

import itertools
import json
import random
import threading
import time
from contextlib import closing, suppress
from http.client import HTTPException

import postgres
import pytest
from server.console.page_client import PageClient
from server.instance import Instance, call, made
from server.killing import Server
from soak import times

from sulq.ledger import Ledger
from sulq.ledger.location import sealed
from sulq.server.services.folder import begin

psycopg = postgres.driver()
CLIENTS = 8
D = "/v1/datasets/people"


class Pair:
    """Two server processes with folders of their own, as on two machines."""

    def __init__(self, folder, total):
        self.one = made(folder / "one", queries=total)
        two = Instance(folder / "two", keys=self.one.keys)
        assert begin(two.folder, "anna") is None
        (two.folder / "data").rmdir()
        (two.folder / "data").symlink_to(self.one.folder / "data")
        self.servers = [Server(self.one.folder), Server(two.folder)]
        for server in self.servers:
            server.start()
        self.wait()

    def wait(self):
        for server in self.servers:
            while not server.up():
                time.sleep(0.01)

    def close(self):
        for server in self.servers:
            server.kill()

    def ask(self, where, request, first=0):
        """Ask one server, then the other, until one replies; the status and the body."""
        body, replied = {"query": {"where": where}}, None
        for k in itertools.count(first):
            with suppress(OSError, HTTPException):  # it was killed: the other one
                replied = call(self.servers[k % 2].url, "POST", f"{D}/ask", body,
                               self.one.keys["bob"], Idempotency_Key=request)  # fmt: skip
                if replied.status in (200, 402):
                    break
                assert replied.status in (429, 503), replied.body
        return replied

    def page(self, k, cookie):
        """A page at one server, for whoever has this cookie."""
        return call(self.servers[k].url, "GET", "/console/", Cookie=cookie)


def client(number, pair, delivered, refused, failed):
    try:
        for i in itertools.count():
            where = f"age > {i % 100} and id <> {number + CLIENTS * i}"
            request = f"{number}.{i}"
            reply = pair.ask(where, request, first=number + i)
            if reply.status == 402:
                refused.append(number)
                return
            delivered[request] = (where, reply.json["answer"]["exact"])
    except Exception as error:
        failed.append(repr(error))


def kill_under_load(pair, kills, delivered, refused, dice):
    """Kill one, look at the other, start it again; until it was often enough or T is spent."""
    instance = Instance(pair.one.folder, pair.servers[0].url, pair.one.keys)
    cookie = PageClient(instance, "bob").cookie
    done = 0
    while done < kills and len(refused) < CLIENTS:
        before = len(delivered)
        while len(delivered) == before and len(refused) < CLIENTS:
            time.sleep(0.005)
        time.sleep(dice.random() * times(1, 3))
        chosen = done % 2
        pair.servers[chosen].kill()
        done += 1
        assert pair.page(1 - chosen, cookie).status == 200
        pair.servers[chosen].start()
        pair.wait()
        assert pair.page(chosen, cookie).status == 200
    return done, cookie


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """The environment of two servers that share a registry and their ledgers."""
    address = postgres.registry()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("SULQ_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SULQ_SERVER_REGISTRY", address)
    return tmp_path


def test_one_of_two_servers_dies_again_and_again(shared):
    """Exactly T answers, the same at both servers; sessions go on; the ledger agrees."""
    total = times(40, 8000)
    with closing(Pair(shared, total)) as pair:
        delivered, refused, failed = {}, [], []
        threads = [
            threading.Thread(target=client, args=(k, pair, delivered, refused, failed))
            for k in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        done, cookie = kill_under_load(pair, times(2, 40), delivered, refused, random.Random(1))
        for thread in threads:
            thread.join()
        assert failed == []
        assert sorted(refused) == list(range(CLIENTS))
        assert len(delivered) == total
        assert done >= times(1, 20)
        for k in range(2):
            assert pair.page(k, cookie).status == 200
            for request, (where, exact) in list(delivered.items())[:: times(6, 50)]:
                assert pair.ask(where, request, first=k).json["answer"]["exact"] == exact
        with pair.one.services() as services:
            record = services.datasets.find(services.people.owner("anna").tenant, "people")
            address = json.loads(record.arguments)["ledger"]
    with closing(Ledger.reopen(address, seal=sealed(address))) as ledger:
        ledger.verify()
        charges = ledger.history()
        assert {c.request for c in charges} == set(delivered)
        assert sum(c.price for c in charges) == total * 1_000_000
    print(f"{done} kills, {len(delivered)} answers of {total}")


def test_control_two_ledgers_give_twice_as_much(tmp_path):
    """The same count finds two servers that share nothing: each gives T answers."""
    found = 0
    for name in ("a", "b"):
        with made(tmp_path / name, queries=3).serving() as served:
            asked = [served.ask(f"age > {i}").status for i in range(5)]
            found += asked.count(200)
    assert found == 6
