"""The cases of benchmarks/beside.py that ask a server, as shipped but for one person's limits."""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import Any

import sulq
from benchmarks import console
from benchmarks.beside_cases import HERE, Timed, case, folder, one_of
from benchmarks.data import SCHEMA, people


@cache
def served(charges: int) -> tuple[str, dict[str, str]]:
    """A server in this process, and the keys of an owner and an analyst."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    begin = one_of("sulq.server.services.folder", "sulq.server.folder").begin
    settings = one_of("sulq.server.services.settings", "sulq.server.settings").Settings
    process = one_of("sulq.server.process", "sulq.server.running")
    try:
        services = importlib.import_module("sulq.server.services.context").Services
    except ImportError:
        services = importlib.import_module("sulq.server.rooms").Rooms
    place = folder(f"instance-{charges}") / "instance"
    owner_key = begin(place, "owner").text
    wide = {f"measurement_{i:03}": [0.5] for i in range(200)}
    pq.write_table(pa.table(wide), place / "data" / "wide.parquet")
    limits = {"port": 0, "rate": 1e6, "burst": 10**6, "at_once": 64}
    open_services = services.open(settings.load(place, **limits))
    owner = open_services.people.owner()
    source = str(people(200_000).resolve())
    arguments = {"source": source, "schema": SCHEMA, "epsilon": 1.0, "queries": 10**6}
    record = open_services.datasets.create(owner, "people", arguments)
    tenant = owner.tenant if hasattr(owner, "tenant") else owner.house
    alice = open_services.people.add_analyst(tenant, "alice")
    open_services.people.invite(record.id, alice)
    asked = [sulq.Query(where=f"age > {i % 120} and income > {i}") for i in range(charges)]
    if asked:
        db = open_services.datasets.opened(record).db.as_analyst("alice")
        db.ask(asked, share=False)
    keys = {"owner": owner_key, "alice": open_services.people.new_key(alice).text}
    open_services.close()
    url = HERE.enter_context(process.running(settings.load(place, **limits)))
    return url, keys


@cache
def connected() -> Any:
    url, keys = served(0)
    return sulq.connect(url, key=keys["alice"], name="people")


@case("The server", "a new count, alone", often=5)
def http_count(turn: int) -> Timed:
    db = connected()
    return lambda: [db.count(f"age > {i} and age < {60 + turn} and smoker") for i in range(5)]


@case("The server", "a new median, alone")
def http_median(turn: int) -> Timed:
    db = connected()
    return lambda: db.sql(f"select median(age) from people where income > {1000 + turn}")


@case("The server", "64 new counts of 16 clients", often=64)
def http_counts(turn: int) -> Timed:
    url, keys = served(0)
    clients = [sulq.connect(url, key=keys["alice"], name="people") for _ in range(16)]

    def ask(number: int) -> None:
        for k in range(4):
            clients[number].count(f"age > {number * 4 + k} and income < {100_000 + turn}")

    def all_at_once() -> None:
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return all_at_once


def page(who: str, method: str, path: str, fields: Any = None) -> Timed:
    client = signed_in(who)
    return lambda: [client.send(method, path, fields) for _ in range(10)]


@cache
def signed_in(who: str) -> Any:
    url, keys = served(2000)
    return console.Client(url, keys[who])


@cache
def models() -> dict[str, str]:
    """Where the answer and the models are that an analyst paid for."""
    return dict(console.answered(signed_in("alice")))


def add_pages() -> None:
    """A case for each page."""
    pages = {
        **{what: ("alice", "GET", path) for what, path in console.ANALYST.items()},
        **{what: ("owner", "GET", path) for what, path in console.OWNER.items()},
        **{what: ("owner", "GET", path) for what, path in console.CHARTS.items()},
        "the report": ("owner", "GET", f"{console.D}/report"),
        "a price": ("alice", "POST", f"{console.D}/preview", console.SQL),
        "200 columns as fields": (
            "owner", "POST", "/console/new/columns", {"source": "wide.parquet"},
        ),
    }  # fmt: skip
    for what, request in pages.items():
        case("The console", what, often=10)(lambda turn, request=request: page(*request))
    for what in (
        "an answer with its chart",
        *(f"a model with its pictures, {k}" for k in ("PCA", "ID3")),
    ):
        case("The console", what, often=10)(
            lambda turn, what=what: page("alice", "GET", models()[what])
        )


add_pages()
