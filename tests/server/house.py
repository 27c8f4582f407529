"""What the server's tests share: a house with two owners, and requests over real HTTP."""

from __future__ import annotations

import http.client
import json
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from attacks.harness import SCHEMA, people

from sulq.server.folder import begin
from sulq.server.rooms import Rooms
from sulq.server.running import running
from sulq.server.settings import Settings

QUICK = {"port": 0, "padding": False, "rate": 1e6, "burst": 10**6}
PROMISE = {"epsilon": 1.0, "delta": 1e-6, "queries": 100}


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]["type"]


def call(url, method, path, body=None, key=None, **headers):
    """One request on a connection of its own; `body` is bytes, or anything JSON."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if key is not None:
        headers = {"Authorization": f"Bearer {key}"} | headers
    if body is not None:
        headers = {"Content-Type": "application/json"} | headers
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, path, body, headers)
        found = connection.getresponse()
        return Reply(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
    finally:
        connection.close()


@dataclass
class House:
    """A server's folder with anna's dataset 'people', asked by bob; and carl's house beside it."""

    folder: Path
    url: str = ""
    keys: dict[str, str] = field(default_factory=dict)

    def call(self, method, path, body=None, who="bob", **headers):
        return call(self.url, method, path, body, self.keys.get(who, who), **headers)

    def ask(self, where, who="bob", name="people", **headers):
        body = {"query": {"where": where}}
        return self.call("POST", f"/v1/datasets/{name}/ask", body, who, **headers)

    @contextmanager
    def rooms(self, **said):
        rooms = Rooms.open(Settings.load(self.folder, **QUICK | said))
        try:
            yield rooms
        finally:
            rooms.close()

    @contextmanager
    def serving(self, **said):
        with running(Settings.load(self.folder, **QUICK | said)) as self.url:
            yield self


def rows(path, table=None):
    """A Parquet file of people."""
    pq.write_table(people() if table is None else table, path)
    return path


def made(folder, table=None, schema=SCHEMA, **terms):
    """A house on disk: owners anna and carl, analysts bob (invited) and eve (not)."""
    house = House(Path(folder))
    house.keys["anna"] = begin(house.folder, "anna").text
    source = rows(house.folder / "data" / "people.parquet", table)
    others = rows(house.folder / "data" / "others.parquet", people(20, seed=9))
    with house.rooms() as rooms, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        anna, carl = rooms.people.owner(), rooms.people.add_owner("carl")
        said = {"schema": schema} | PROMISE | terms
        record = rooms.datasets.create(anna, "people", said | {"source": str(source)})
        beside = said | {"source": str(others), "schema": SCHEMA}
        rooms.datasets.create(carl, "secrets", beside)
        bob = rooms.people.add_analyst(anna.house, "bob")
        eve = rooms.people.add_analyst(anna.house, "eve")
        dan = rooms.people.add_analyst(carl.house, "dan")
        rooms.people.invite(record.id, bob)
        for person in (carl, bob, eve, dan):
            house.keys[person.name] = rooms.people.new_key(person).text
    return house


def columns(**values):
    """A small table from lists."""
    return pa.table(values)
