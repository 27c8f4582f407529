"""What the server's tests share: an instance with two owners, and requests over real HTTP."""

from __future__ import annotations

import http.client
import json
import sqlite3
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from attacks.harness import SCHEMA, people

from sulq.server.process import running
from sulq.server.services.context import Services
from sulq.server.services.folder import begin
from sulq.server.services.settings import Settings

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
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
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
class Instance:
    """A server's folder with anna's dataset 'people', asked by bob; and carl's tenant beside it."""

    folder: Path
    url: str = ""
    keys: dict[str, str] = field(default_factory=dict)

    def call(self, method, path, body=None, who="bob", **headers):
        return call(self.url, method, path, body, self.keys.get(who, who), **headers)

    def ask(self, where, who="bob", name="people", **headers):
        body = {"query": {"where": where}}
        return self.call("POST", f"/v1/datasets/{name}/ask", body, who, **headers)

    def point(self, **places):
        """Change where its registry says that the dataset's rows or ledger are."""
        with sqlite3.connect(self.folder / "server.db") as file:
            (said,) = file.execute(
                "SELECT arguments FROM datasets WHERE name = 'people'"
            ).fetchone()
            changed = json.dumps(json.loads(said) | places)
            file.execute("UPDATE datasets SET arguments = ? WHERE name = 'people'", (changed,))
        file.close()

    def until_ready(self):
        """Wait until it may be sent questions."""
        while self.call("GET", "/ready", None, None).status != 200:
            time.sleep(0.01)

    @contextmanager
    def services(self, **said):
        services = Services.open(Settings.load(self.folder, **QUICK | said))
        try:
            yield services
        finally:
            services.close()

    @contextmanager
    def serving(self, **said):
        with running(Settings.load(self.folder, **QUICK | said)) as self.url:
            yield self


def rows(path, table=None):
    """A Parquet file of people."""
    pq.write_table(people() if table is None else table, path)
    return path


def made(folder, table=None, schema=SCHEMA, **terms):
    """An instance on disk: owners anna and carl, analysts bob (invited) and eve (not)."""
    instance = Instance(Path(folder))
    instance.keys["anna"] = begin(instance.folder, "anna").text
    source = rows(instance.folder / "data" / "people.parquet", table)
    others = rows(instance.folder / "data" / "others.parquet", people(20, seed=9))
    with instance.services() as services, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        anna, carl = services.people.owner(), services.people.add_owner("carl")
        said = {"schema": schema} | PROMISE | terms
        record = services.datasets.create(anna, "people", said | {"source": str(source)})
        beside = said | {"source": str(others), "schema": SCHEMA}
        services.datasets.create(carl, "secrets", beside)
        bob = services.people.add_analyst(anna.tenant, "bob")
        eve = services.people.add_analyst(anna.tenant, "eve")
        dan = services.people.add_analyst(carl.tenant, "dan")
        services.people.invite(record.id, bob)
        for person in (carl, bob, eve, dan):
            instance.keys[person.name] = services.people.new_key(person).text
    return instance


def columns(**values):
    """A small table from lists."""
    return pa.table(values)
