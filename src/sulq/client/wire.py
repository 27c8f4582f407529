"""Requests and replies over one address, retried where that is safe.

A request with an id may be sent any number of times: the server charges once and gives one answer.
So a request that gets no reply is retried, for a while.
"""

from __future__ import annotations

import json
import secrets
import ssl
import time
from contextlib import closing
from itertools import chain, repeat
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from sulq import errors
from sulq.errors import (
    BudgetExceeded,
    Late,
    LimitReached,
    NotFound,
    Refused,
    ServerAway,
    SulqError,
)

LOCAL = ("127.0.0.1", "::1", "localhost")
PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)  # seconds before a retry; the last repeats
RETRIED = (408, 429, 502, 503, 504)  # statuses after which a retry may help
LATE_SECONDS = 300.0  # for which a late answer is asked for again
MAX_REPLY_BYTES = 1 << 30  # more than any answer or ledger; an endless reply ends here
KEEP_ALIVE_SECONDS = 25.0  # an idle connection; the server closes it after 30
MAX_NAME = 1000  # characters of any name in a path
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


def split(url: str) -> tuple[str, str | None]:
    """http://host:port/name -> the address, and the dataset if there is one."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        _ = parts.port  # raises if it is no number
        httpx.URL(parts.geturl())  # raises if there can be no such host
    except (ValueError, httpx.InvalidURL):
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise Refused(f"url={url!r}: want an address such as http://127.0.0.1:8707/people.")
    if parts.query or parts.fragment:
        raise Refused(f"url={url!r}: nothing may stand behind the dataset's name.")
    names = [part for part in parts.path.split("/") if part]
    if len(names) > 1:
        raise Refused(f"url={url!r}: want an address and at most a dataset's name.")
    return f"{parts.scheme}://{parts.netloc}", names[0] if names else None


def transport(base: str, *, certificate: str | None, insecure: bool) -> httpx.BaseTransport:
    """Connections to an address, over TLS unless it is this machine or `insecure`."""
    parts = urlsplit(base)
    if parts.scheme == "http" and parts.hostname not in LOCAL and not insecure:
        raise Refused(
            f"url={base!r}: without TLS your key could be read on the way. Use https://, or "
            "say insecure=True if nobody else is on this network."
        )
    verify: ssl.SSLContext | bool = False  # nothing to verify without TLS
    if parts.scheme == "https":
        verify = ssl.create_default_context()
        if certificate is not None:
            verify.load_verify_locations(certificate)
    limits = httpx.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE_SECONDS)
    return httpx.HTTPTransport(verify=verify, trust_env=False, limits=limits)


class Wire:
    """A server's address and a key, usable from any number of threads."""

    def __init__(
        self, base: str, key: str, transport: httpx.BaseTransport, *,
        timeout_seconds: float, retry_seconds: float,
    ) -> None:  # fmt: skip
        self.base = base
        self.key = key
        self.retry_seconds = retry_seconds
        self.late_seconds = LATE_SECONDS
        try:
            authorization = {"Authorization": f"Bearer {key}"} if key else {}
            self._client = httpx.Client(
                base_url=base, headers=HEADERS | authorization, timeout=timeout_seconds,
                transport=transport, trust_env=False, follow_redirects=False,
            )  # fmt: skip
        except UnicodeError:
            raise _unsendable() from None

    # ---- requests -------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """The document at this path."""
        return _document(self._reply("GET", path))

    def lines(self, path: str) -> list[Any]:
        """The documents at this path, one on each line."""
        return [_document(line) for line in self._reply("GET", path).splitlines()]

    def post(self, path: str, body: Any, request_id: str | None = None) -> Any:
        """The reply to a body, under a fresh request id unless one is given."""
        return self.send("POST", path, body, request_id or secrets.token_hex(16))

    def send(self, method: str, path: str, body: Any, request_id: str | None = None) -> Any:
        """The reply to a body sent with any method."""
        return _document(self._reply(method, path, body, request_id))

    def _reply(
        self, method: str, path: str, body: Any = None, request_id: str | None = None
    ) -> bytes:
        """The reply's body; a request without one is retried for `retry_seconds`.

        An answer that is late is asked for again until it is there, which may take longer.
        """
        request = self._request(method, path, body, request_id)
        until = time.monotonic() + self.retry_seconds
        late_until = time.monotonic() + self.late_seconds
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            wait = None
            try:
                status, reply, wait = self._once(request)
            except httpx.LocalProtocolError:
                raise _unsendable() from None
            except httpx.TransportError as error:
                if time.monotonic() + pause > until:
                    raise ServerAway(
                        f"no reply from {self.base} ({_reason(error)}). Whether a charge was made "
                        "is not known; asking the same again does not pay again.\nIs the address "
                        "right, and is the server running?"
                    ) from None
            else:
                if status < 300:
                    return reply
                refused = error_of(status, reply, wait)
                if status == 503 and isinstance(refused, Late):
                    if time.monotonic() > late_until:
                        raise refused
                    time.sleep(refused.retry_after or pause)
                    continue
                if status not in RETRIED or time.monotonic() + (wait or pause) > until:
                    raise refused
            time.sleep(max(pause, wait or 0.0))
        raise AssertionError("pauses never end")

    def _request(self, method: str, path: str, body: Any, request_id: str | None) -> httpx.Request:
        if self._client.is_closed:
            raise Refused(f"the connection to {self.base} is closed. Nothing was charged.")
        headers = {} if request_id is None else {"Idempotency-Key": request_id}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        try:
            return self._client.build_request(method, path, content=content, headers=headers)
        except UnicodeError:
            raise _unsendable() from None

    def _once(self, request: httpx.Request) -> tuple[int, bytes, float | None]:
        """One reply: its status, its body, and how many seconds to wait before a retry."""
        with closing(self._client.send(request, stream=True)) as response:
            wait = wait_of(response.headers.get("retry-after", ""))
            return response.status_code, _limited(response), wait

    def close(self) -> None:
        """Close every connection, for good."""
        self._client.close()


def _limited(response: httpx.Response) -> bytes:
    """The whole body of a reply, as it was sent; ServerAway as soon as it is too long."""
    chunks, size = [], 0
    for chunk in response.iter_raw():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise stranger(response.status_code)
        chunks.append(chunk)
    return b"".join(chunks)


def _reason(error: BaseException) -> str:
    """The operating system's words for a failure, where it has some."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        found = found.__cause__ or found.__context__
    return str(error) or type(error).__name__


def _unsendable() -> Refused:
    return Refused("the key or the request id has a character that none has. Nothing was charged.")


def wait_of(said: str) -> float | None:
    """Seconds until a retry may help, as the header `retry-after` says; '' if there is none."""
    return float(said) if said.isdigit() else None


def at(name: str, *more: str) -> str:
    """The path of a dataset, or of something of it."""
    return path_of("datasets", name, *more)


def path_of(*parts: str) -> str:
    """The path of a route under /v1, whatever its parts hold."""
    return "/".join(["/v1", *(_segment(part) for part in parts)])


def _segment(part: str) -> str:
    """One part of a path; dots alone would mean another path."""
    if len(part) > MAX_NAME:
        raise NotFound(f"nothing has a name of {len(part):,} characters.")
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


def stranger(status: int = 200) -> ServerAway:
    """The error for a reply that no server of ours gives."""
    return ServerAway(f"the reply (status {status}) is not a sulq server's. Is the url right?")


def _document(reply: bytes) -> dict[str, Any]:
    try:
        found = json.loads(reply)
    except (ValueError, RecursionError):
        raise stranger() from None
    if not isinstance(found, dict):
        raise stranger()
    return found


def error_of(status: int, reply: bytes, wait: float | None) -> SulqError:
    """The server's refusal as the same exception that would be raised here."""
    try:
        said = json.loads(reply)["error"]
        kind, message = str(said["type"]), str(said["message"])
    except (ValueError, KeyError, TypeError):
        return stranger(status)
    error: SulqError
    found = getattr(errors, kind, None)
    if found is BudgetExceeded:
        error = BudgetExceeded(said.get("price_micro") or 0, said.get("remaining_micro") or 0)
        error.args = (message,)
    elif found is LimitReached:
        error = LimitReached(message, wait)
    elif found is Late:
        seconds = said.get("retry_after_seconds")
        error = Late(message, float(seconds) if isinstance(seconds, int | float) else wait)
    elif isinstance(found, type) and issubclass(found, SulqError):
        error = found(message)
    else:
        error = SulqError(message)
    error.charged = said.get("charged")
    return error
