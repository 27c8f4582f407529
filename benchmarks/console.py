"""Part 8: pages of the console: server time beside what is allowed and a bare page; weight.

A page is asked over HTTP on this machine, by one client on one connection, a bare page (the form
to sign in) in turn with it. The ledger has two thousand charges.
"""

from __future__ import annotations

import html
import http.client
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.data import SCHEMA, people
from benchmarks.measure import Line, in_turn

PLAIN, CHARTED = 0.150, 0.400  # seconds
HEAVIEST = 200  # KB, with stylesheet and script
CHARGES = 2000
BARE = "/console/sign-in"
D = "/console/datasets/people"
ANALYST = {
    "datasets": "/console/", "a dataset": D, "the SQL box": f"{D}/ask",
    "guided forms": f"{D}/guided", "my answers": f"{D}/answers", "kinds of models": f"{D}/models",
    "the form of a model": f"{D}/models/new/ID3", "account": "/console/account",
}  # fmt: skip
OWNER = {
    "new dataset": "/console/new", "analysts": "/console/analysts", "server": "/console/server",
    "decide": f"{D}/owner", "who may ask": f"{D}/people", "schema": f"{D}/schema",
}  # fmt: skip
CHARTS = {"plan": "/console/plan", "timeline": f"{D}/timeline"}
SQL = {"kind": "sql", "sql": "select region, count(*), avg(income) from people group by region"}


def lines() -> Iterator[Line]:
    from sulq.server.process import running
    from sulq.server.services.settings import Settings

    with tempfile.TemporaryDirectory(dir=".bench") as place:
        folder = Path(place) / "instance"
        keys = prepared(folder)
        settings = Settings.load(folder, port=0, rate=1e6, burst=10**6)
        with running(settings) as url:
            yield from measured(url, keys)


def prepared(folder: Path) -> dict[str, str]:
    """An instance with people, a wide file beside them, and many charges."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sulq.server.services.context import Services
    from sulq.server.services.folder import begin
    from sulq.server.services.settings import Settings
    from sulq.values.query import Query

    owner_key = begin(folder, "owner").text
    wide = {f"measurement_{i:03}": [0.5] for i in range(200)}
    pq.write_table(pa.table(wide), folder / "data" / "wide.parquet")
    services = Services.open(Settings.load(folder))
    owner = services.people.owner()
    arguments = {
        "source": str(people(100_000).resolve()), "schema": SCHEMA, "epsilon": 1.0,
        "queries": 10**6,
    }  # fmt: skip
    record = services.datasets.create(owner, "people", arguments)
    alice = services.people.add_analyst(owner.tenant, "alice")
    services.people.invite(record.id, alice)
    asked = [Query(where=f"age > {i % 120} and income > {i}") for i in range(CHARGES)]
    services.datasets.opened(record).db.as_analyst("alice").ask(asked, share=False)
    keys = {"owner": owner_key, "alice": services.people.new_key(alice).text}
    services.close()
    return keys


def measured(url: str, keys: dict[str, str]) -> Iterator[Line]:
    alice, owner = Client(url, keys["alice"]), Client(url, keys["owner"])
    heaviest = (0, "")
    for client, paths, most in (
        (alice, ANALYST, PLAIN), (owner, OWNER, PLAIN), (owner, CHARTS, CHARTED),
        (alice, dict(answered(alice)), CHARTED), (owner, {"the report": f"{D}/report"}, CHARTED),
    ):  # fmt: skip
        for what, path in paths.items():
            yield timed(client, what, most, "GET", path)
            heaviest = max(heaviest, (client.weight("GET", path), what))
    posts: list[tuple[Client, str, str, dict[str, str]]] = [
        (alice, "a price", f"{D}/preview", SQL),
        (owner, "200 columns as fields", "/console/new/columns", {"source": "wide.parquet"}),
    ]
    for client, what, path, fields in posts:
        yield timed(client, what, PLAIN, "POST", path, fields)
        heaviest = max(heaviest, (client.weight("POST", path, fields), what))
    weight, what = heaviest
    yield Line(
        f"the heaviest page, {what}", weight / 1000, HEAVIEST, f"{HEAVIEST} KB", 1.0, "", "KB"
    )


def answered(alice: Client) -> Iterator[tuple[str, str]]:
    """An answer and models, paid for; where they are."""
    page = alice.send("POST", f"{D}/preview", SQL).decode()
    said = SQL | {n: hidden(page, n) for n in ("request", "price")}
    yield "an answer with its chart", alice.location(f"{D}/pay", said)
    for kind, label in (("PCA", ""), ("ID3", "smoker")):
        fields = [("kind", kind), ("label", label), ("columns", "age"), ("columns", "income")]
        page = alice.send("POST", f"{D}/models/preview", fields).decode()
        fields += [(n, hidden(page, n)) for n in ("request", "price")]
        place = alice.location(f"{D}/models/learn", fields)
        while b'"running"' in alice.send("GET", f"{place}/progress"):
            pass
        yield f"a model with its pictures, {kind}", place


def timed(client: Client, what: str, most: float, *request: Any) -> Line:
    ours, bare = in_turn(lambda: client.send(*request), lambda: client.send("GET", BARE))
    note = f"{ours / bare:.1f} times a bare page ({bare * 1000:.1f} ms)"
    return Line(what, ours, most, f"{most * 1000:.0f} ms", 1.0, note)


def hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    if found is None:
        raise ValueError(f"the page has no field {name!r}")
    return html.unescape(found[1])


class Client:
    """Someone who signed in."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self.cookie = self.token = ""
        self._connection = http.client.HTTPConnection(parts.netloc)
        reply = self._reply("POST", "/console/sign-in", {"key": key})
        self.cookie = (reply.getheader("set-cookie") or "").split(";")[0]
        reply.read()
        self.token = hidden(self.send("GET", "/console/").decode(), "csrf")

    def _reply(self, method: str, path: str, fields: Any = None) -> http.client.HTTPResponse:
        headers, body = {"Cookie": self.cookie, "Origin": self.url}, None
        if method == "POST":
            pairs = list(fields.items()) if isinstance(fields, dict) else list(fields)
            body = urlencode([*pairs, ("csrf", self.token)])
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self._connection.request(method, path, body, headers)
        return self._connection.getresponse()

    def send(self, method: str, path: str, fields: Any = None) -> bytes:
        reply = self._reply(method, path, fields)
        body = reply.read()
        if reply.status >= 400:
            raise ValueError(f"{method} {path}: {reply.status}")
        return body

    def location(self, path: str, fields: Any) -> str:
        reply = self._reply("POST", path, fields)
        said = reply.read()
        where = reply.getheader("location")
        if where is None:
            raise ValueError(f"POST {path}: {reply.status} {said[:500]!r}")
        return where

    def weight(self, *request: Any) -> int:
        """Bytes of a page with its stylesheet and script."""
        body = self.send(*request)
        found = set(re.findall(rb'(?:href|src)="(/console/static/[^"]+)"', body))
        return len(body) + sum(len(self.send("GET", path.decode())) for path in found)
