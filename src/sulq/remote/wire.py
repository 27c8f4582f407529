"""Requests and replies over one address, sent again where that is safe.

Only the standard library. A request with an id may be sent any number of times: the server pays
once and gives one answer. So what fails on the way is sent again, for a while.
"""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import ssl
import threading
import time
from typing import Any
from urllib.parse import quote, urlsplit

from sulq import errors
from sulq.errors import BudgetExceeded, LimitReached, Refused, ServerAway, SulqError

LOCAL = ("127.0.0.1", "::1", "localhost")
PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)  # seconds before it is sent again; the last repeats
AGAIN = (408, 429, 502, 503, 504)  # statuses after which asking again may help


def split(url: str) -> tuple[str, str | None]:
    """http://host:port/name -> the address, and the dataset if there is one."""
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise Refused(f"url={url!r}: want an address such as http://127.0.0.1:8707/people.")
    if parts.query or parts.fragment:
        raise Refused(f"url={url!r}: nothing may stand behind the dataset's name.")
    names = [part for part in parts.path.split("/") if part]
    if len(names) > 1:
        raise Refused(f"url={url!r}: want an address and at most a dataset's name.")
    return f"{parts.scheme}://{parts.netloc}", names[0] if names else None


class Wire:
    """A server's address and a key. Safe among threads: each has a connection of its own."""

    def __init__(
        self, base: str, key: str, *, timeout_seconds: float, patience_seconds: float,
        certificate: str | None, insecure: bool,
    ) -> None:  # fmt: skip
        self.base = base
        self._parts = urlsplit(base)
        self.key = key
        self._timeout = timeout_seconds
        self._patience = patience_seconds
        self._context = self._tls(certificate)
        self._own = threading.local()
        if self._parts.scheme == "http" and self._parts.hostname not in LOCAL and not insecure:
            raise Refused(
                f"url={base!r}: without TLS your key could be read on the way. Use https://, or "
                "say insecure=True if nobody else is on this network."
            )

    def _tls(self, certificate: str | None) -> ssl.SSLContext | None:
        if self._parts.scheme != "https":
            return None
        context = ssl.create_default_context()
        if certificate is not None:
            context.load_verify_locations(certificate)
        return context

    # ---- asking ---------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """What is at this path."""
        return json.loads(self._sent("GET", path, None, None))

    def lines(self, path: str) -> list[Any]:
        """The same where each line is a JSON document."""
        return [json.loads(line) for line in self._sent("GET", path, None, None).splitlines()]

    def post(self, path: str, body: Any, request_id: str | None = None) -> Any:
        """What comes back for a body; a fresh request id unless one is given."""
        return self.send("POST", path, body, request_id or secrets.token_hex(16))

    def send(self, method: str, path: str, body: Any, request_id: str | None = None) -> Any:
        """The same with any method."""
        said = json.dumps(body, allow_nan=False).encode()
        return json.loads(self._sent(method, path, said, request_id))

    def _sent(self, method: str, path: str, body: bytes | None, request_id: str | None) -> bytes:
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if request_id is not None:
            headers["Idempotency-Key"] = request_id
        until, tried = time.monotonic() + self._patience, 0
        while True:
            pause = PAUSES[min(tried, len(PAUSES) - 1)]
            try:
                status, reply, wait = self._once(method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if time.monotonic() + pause > until:
                    raise self._away(error) from None
            else:
                if status < 300:
                    return reply
                if status not in AGAIN or time.monotonic() + (wait or pause) > until:
                    raise error_of(status, reply, wait)
                pause = max(pause, wait or 0.0)
            time.sleep(pause)
            tried += 1

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float | None]:
        connection = self._connection()
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        reply = response.read()
        if response.will_close:
            self.close()
        wait = response.getheader("retry-after")
        return response.status, reply, float(wait) if wait and wait.isdigit() else None

    def _connection(self) -> http.client.HTTPConnection:
        made: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if made is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._context is not None:
                made = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout, context=self._context
                )
            else:
                made = http.client.HTTPConnection(host, port, timeout=self._timeout)
            made.connect()
            made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._own.connection = made
        return made

    def close(self) -> None:
        """Hang up this thread's connection; the next request opens another."""
        made = getattr(self._own, "connection", None)
        if made is not None:
            made.close()
            self._own.connection = None

    def _away(self, error: Exception) -> ServerAway:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ServerAway(
            f"no reply from {self.base} ({why}). Whether a charge was made is not known; asking "
            "the same again does not pay again.\nIs the address right, and is the server running?"
        )


def at(name: str, *more: str) -> str:
    """The path of a dataset, or of something of it."""
    return "/".join(["/v1/datasets", *(quote(part, safe="") for part in (name, *more))])


def error_of(status: int, reply: bytes, wait: float | None) -> SulqError:
    """The server's refusal as the same exception that would be raised here."""
    try:
        said = json.loads(reply)["error"]
        kind, message = str(said["type"]), str(said["message"])
    except (ValueError, KeyError, TypeError):
        return ServerAway(f"the reply (status {status}) is not a sulq server's. Is the url right?")
    if kind == "BudgetExceeded":
        refused = BudgetExceeded(said.get("price_micro") or 0, said.get("remaining_micro") or 0)
        refused.args = (message,)
        return refused
    if kind == "LimitReached":
        return LimitReached(message, wait)
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, SulqError):
        return found(message)
    return SulqError(message)
