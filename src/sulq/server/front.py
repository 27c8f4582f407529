"""What every request passes first: who it came through, an id, short names, compression.

A proxy that is trusted says who asked, over which scheme and under which name; nobody else's
word is taken for it. Every request has an id, in its reply and in every line of the log.

Large replies of the API and files are compressed. Pages are not, nor is what holds a key: they
carry secrets beside what was typed, and the length of what is packed would tell of both (BREACH).
"""

from __future__ import annotations

import re
import secrets
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sulq.server.body_reader import WITHOUT_KEY_BYTES, too_large
from sulq.server.gate import HEADERS
from sulq.server.services import logs
from sulq.server.services.responses import JSON, dumped, error_body
from sulq.server.services.settings import Settings
from sulq.server.services.work_meter import ACCOUNT, Account, WorkMeter

SHOWN = (b"authorization", b"cookie")  # headers with a key or a session
SHORT = {"/ready": "/v1/ready", "/metrics": "/v1/metrics"}  # for those who look at machines
PACKED = ("/v1/", "/console/static/")
NOT_PACKED = ("/v1/keys", "/v1/token", "/v1/webhook")
LARGE = 4_000  # bytes
LEVEL = 5
ID = b"x-request-id"
SANE = re.compile(rb"[A-Za-z0-9._:/+=-]{1,100}")
HOST = re.compile(rb"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
FORWARDED = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host")


class Front:
    """The outermost ASGI application."""

    def __init__(self, app: ASGIApp, settings: Settings, meter: WorkMeter) -> None:
        self._app = app
        self._meter = meter
        self._packed = GZipMiddleware(app, LARGE, LEVEL)
        self._trusted = [ip_network(text) for text in settings.trusted_proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as its sender sent it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._trusted:
            scope = as_sent(scope, self._trusted)
        path: str = SHORT.get(scope["path"]) or scope["path"]
        if path != scope["path"]:
            scope = {**scope, "path": path, "raw_path": path.encode()}
        id = _id(scope)
        client = (scope.get("client") or ("",))[0]
        logs.about.set({"request": id.decode(), "client": client})

        async def identified(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (ID, id)]
            await send(message)

        if is_too_large(scope):
            await _refuse(identified)
            return
        packed = path.startswith(PACKED) and not path.startswith(NOT_PACKED)
        work = (self._packed if packed else self._app)(scope, receive, identified)
        account = Account(self._meter, client)
        scope.get("state", {})[ACCOUNT] = account
        await account.run(work)  # type: ignore[arg-type]  # of Starlette's


def is_too_large(scope: Scope) -> bool:
    """True if a body is announced that nobody may send who shows no key at all."""
    sizes = [value for name, value in scope["headers"] if name == b"content-length"]
    most = max((int(size[:20]) for size in sizes if size.isdigit()), default=0)
    return most > WITHOUT_KEY_BYTES and not any(name in SHOWN for name, _ in scope["headers"])


async def _refuse(send: Send) -> None:
    """Say so without reading it."""
    body = dumped(error_body(too_large(WITHOUT_KEY_BYTES).error))
    headers = [
        (b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"), *HEADERS,
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _id(scope: Scope) -> bytes:
    """The id that the request brought, if it is fit for a log, or a new one."""
    said = [value for name, value in scope["headers"] if name == ID]
    if len(said) == 1 and SANE.fullmatch(said[0]):
        return bytes(said[0])
    return secrets.token_hex(8).encode()


def as_sent(scope: Scope, trusted: list[IPv4Network | IPv6Network]) -> Scope:
    """The request as it was before it came through trusted proxies."""
    peer = (scope.get("client") or ("", 0))[0]
    if not _is_in(peer, trusted):
        return scope
    given = {name: _values(scope, name) for name in FORWARDED}
    found = {**scope, "client": (_client(peer, given[FORWARDED[0]], trusted), 0)}
    schemes, hosts = given[FORWARDED[1]], given[FORWARDED[2]]
    if schemes and schemes[-1].lower() in (b"http", b"https"):
        found["scheme"] = schemes[-1].lower().decode()
    if hosts and HOST.fullmatch(hosts[-1]):
        others = [(n, v) for n, v in scope["headers"] if n != b"host"]
        found["headers"] = [(b"host", hosts[-1]), *others]
    return found


def _values(scope: Scope, name: bytes) -> list[bytes]:
    """What a header that proxies add to says, the nearest proxy's word last."""
    lines = b",".join(value for key, value in scope["headers"] if key == name)
    return [part.strip() for part in lines.split(b",") if part.strip()]


def _client(peer: str, said: list[bytes], trusted: list[IPv4Network | IPv6Network]) -> str:
    """The last address that no trusted proxy has: whoever is before it may be made up."""
    for value in reversed(said):
        address = _address(value.decode("latin-1"))
        if address is None:
            return peer
        peer = address
        if not _is_in(peer, trusted):
            return peer
    return peer


def _address(text: str) -> str | None:
    """An address without its port; None if it is none."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        return str(ip_address(bare))
    except ValueError:
        return None


def _is_in(address: str, networks: list[IPv4Network | IPv6Network]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)
