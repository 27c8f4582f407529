"""The socket for PostgreSQL's clients: who is let in, and how many.

TLS if the server has a certificate, and then for everyone beyond this machine. The user is the
public half of a key, the password the whole key, proved by SCRAM-SHA-256. A client must have proved
itself within `read_seconds`; of those who have not, the oldest makes room for a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import socket
import ssl
from collections import Counter

from sulq.errors import KeyRefused, LimitReached, SulqError
from sulq.preview import KeptRehearsals
from sulq.server.pgwire import messages
from sulq.server.pgwire.catalogue import DATABASE, Catalogues
from sulq.server.pgwire.client_socket import Gone, TooLong, Wire
from sulq.server.pgwire.problems import Problem, malformed, problem_of
from sulq.server.pgwire.service_calls import Asking, WireServices
from sulq.server.pgwire.session import Session
from sulq.server.pgwire.variables import Variables
from sulq.server.services import logs
from sulq.server.services.access import Principal
from sulq.server.services.context import Services
from sulq.server.services.responses import UNEXPECTED
from sulq.server.services.scram import MECHANISM, Exchange, NotProved, Verifier
from sulq.server.services.settings import Settings, is_loopback
from sulq.server.services.threads import MeteredThreads
from sulq.server.services.work_meter import Account

MAX_OPENING = 100  # connections that have proved nothing yet
MAX_STARTUP = 10_000  # bytes of a first message
MAX_PROOF = 4_000
STOP_SECONDS = 5.0
USER = re.compile(r"(?:sulq_)?([0-9a-f]{16})")
OWN = ("user", "database", "options", "replication")
NO_KEY = (
    "the user is the public half of your key, such as sulq_0123456789abcdef, and the password is "
    "the whole key"
)


class Listener:
    """Takes connections of PostgreSQL's clients for one server."""

    def __init__(
        self, services: Services, bound: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        self._services = services
        self._settings = services.settings
        self._bound = bound
        self._tls = tls
        self._meter = services.meter
        threads = MeteredThreads(2, self._meter, self._settings.at_once)
        self._shared = WireServices(services, Catalogues(), KeptRehearsals(), threads)
        self._server: asyncio.Server | None = None
        self._relay: asyncio.Server | None = None
        self._opening: dict[Wire, None] = {}
        self._serving: dict[asyncio.Task[None], Wire] = {}
        self._sessions: dict[int, Session] = {}  # by the secret that cancels
        self._persons: Counter[int] = Counter()
        self._closing = False

    async def start(self) -> None:
        """Take connections from now on."""
        loop, seconds = asyncio.get_running_loop(), self._settings.read_seconds
        self._server = await loop.create_server(
            lambda: Wire(seconds, self._begin), sock=self._bound, backlog=100
        )
        if self._settings.workers > 1:
            with contextlib.suppress(OSError):  # where there are no such addresses
                self._relay = await asyncio.start_unix_server(self._relayed, _relay(os.getpid()))

    def stop(self) -> None:
        """Take no more; whoever waits hears of it."""
        self._closing = True
        for server in (self._server, self._relay):
            if server is not None:
                server.close()
        for session in self._sessions.values():
            session.closing = True

    async def close(self) -> None:
        """Finish what is under way, within a few seconds."""
        self.stop()
        for wire in list(self._serving.values()):
            if wire not in self._opening:
                problem = Problem(
                    "57P01", "this server is shutting down", "connect again later", fatal=True
                )
                wire.write(problem.sent())
            wire.close()
        if self._serving:
            await asyncio.wait(list(self._serving), timeout=STOP_SECONDS)
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._shared.threads.stop()
        self._shared.threads.close()
        self._shared.catalogues.close()

    # ---- one connection ---------------------------------------------------------------------

    def _begin(self, wire: Wire) -> None:
        if self._closing or len(self._serving) >= self._settings.connections:
            wire.write(_too_many("too many connections").sent())
            wire.close()
            return
        self._opening[wire] = None
        if len(self._opening) > MAX_OPENING:
            oldest = next(iter(self._opening))
            del self._opening[oldest]
            oldest.abort()
        account = Account(self._meter, wire.address)
        task = asyncio.get_running_loop().create_task(account.run(self._serve(wire, account)))
        self._serving[task] = wire
        task.add_done_callback(lambda done: self._serving.pop(done, None))

    async def _serve(self, wire: Wire, account: Account) -> None:
        logs.about.set({"request": secrets.token_hex(8), "client": wire.address})
        try:
            await self._served(wire, account)
        except (Gone, TimeoutError):
            pass
        except TooLong:
            wire.write(malformed().sent())
        except Problem as problem:
            problem.fatal = True
            wire.write(problem.sent())
        except SulqError as error:
            made = problem_of(error, False, self._settings.folder)
            made.fatal = True
            wire.write(made.sent())
        except Exception as error:
            logs.failure(error, route="postgres")
            wire.write(Problem("XX000", UNEXPECTED, charged=None, fatal=True).sent())
        finally:
            self._opening.pop(wire, None)
            wire.close()

    async def _served(self, wire: Wire, account: Account) -> None:
        try:
            async with asyncio.timeout(self._settings.read_seconds):
                said = await self._opened(wire)
                if said is None:
                    return
                account.check()
                principal = await self._proved(wire, said.get("user", ""))
        except messages.Malformed:
            raise malformed() from None
        self._opening.pop(wire, None)
        person = principal.person.id
        account.belong_to(person)
        if self._persons[person] >= self._settings.postgres_connections:
            raise _too_many(
                f"{self._persons[person]} connections are open with your keys, and no more may be"
            )
        self._persons[person] += 1
        while (secret := secrets.randbits(32)) in self._sessions:
            pass
        try:
            session = await self._session(wire, principal, said)
            self._sessions[secret] = session
            wire.write(messages.key_data(os.getpid(), secret))
            logs.event("postgres", person=principal.person.name, key=principal.key)
            await session.serve()
        finally:
            self._sessions.pop(secret, None)
            self._persons[person] -= 1
            if not self._persons[person]:
                del self._persons[person]

    async def _opened(self, wire: Wire) -> dict[str, str] | None:
        """The parameters of a start, over TLS if that is wanted; None: it was a cancel."""
        for _ in range(3):
            code, body = await wire.opening(MAX_STARTUP)
            if code == messages.SSL and self._tls is not None and not wire.secure:
                await wire.start_tls(self._tls)
            elif code in (messages.SSL, messages.GSS):
                wire.write(b"N")
            elif code == messages.CANCEL:
                await self._cancel(*messages.cancel(body))
                return None
            elif code >> 16 == 3:
                return self._started(wire, code, messages.startup(body))
            else:
                break
        raise malformed()

    def _started(self, wire: Wire, code: int, said: dict[str, str]) -> dict[str, str]:
        """A start in our version of the protocol, and in TLS where it must be."""
        if self._tls is not None and not wire.secure and not is_loopback(wire.address):
            raise Problem("28000", "connect with TLS: sslmode=require, or better verify-full")
        unknown = [name for name in said if name.startswith("_pq_.")]
        if code != messages.PROTOCOL or unknown:
            wire.write(messages.negotiated(unknown))
        if said.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise Problem("0A000", "there is nothing to replicate")
        return said

    # ---- who it is --------------------------------------------------------------------------

    async def _proved(self, wire: Wire, user: str) -> Principal:
        """Whose key it is; the same messages whatever is wrong with it."""
        found = USER.fullmatch(user)
        key = "" if found is None else found[1]
        registry, access = self._services.registry, self._services.access
        kept = await registry.run(access.verifier, key)
        if kept == "":
            raise Problem(
                "28P01", "this key was made before keys could be used here",
                "rotate it (POST /v1/keys/rotate, or the console) and use the new one",
            )  # fmt: skip
        secret = await registry.run(registry.shared_secret, "keys that are not there")
        exchange = Exchange(Verifier.mock(user, secret) if kept is None else Verifier.read(kept))
        try:
            await self._exchanged(wire, exchange)
            if kept is None:
                raise NotProved
            return await registry.run(access.holder, key)
        except (NotProved, KeyRefused):
            with contextlib.suppress(LimitReached):
                await registry.run(self._meter.strangers.take, wire.address)
                raise Problem(
                    "28P01", f'password authentication failed for user "{user[:63]}"', NO_KEY
                ) from None
            raise _too_many("too many keys were refused to this address") from None

    async def _exchanged(self, wire: Wire, exchange: Exchange) -> None:
        wire.write(messages.authentication(10, messages.text(MECHANISM), b"\0"))
        mechanism, first = messages.sasl_first(await self._password(wire))
        if mechanism != MECHANISM:
            raise NotProved
        wire.write(messages.authentication(11, exchange.first(first)))
        proof = exchange.final(await self._password(wire))
        wire.write(messages.authentication(12, proof) + messages.authentication(0))

    async def _password(self, wire: Wire) -> bytes:
        kind, body = await wire.message(MAX_PROOF)
        if kind != "p":
            raise malformed()
        return body

    async def _session(self, wire: Wire, principal: Principal, said: dict[str, str]) -> Session:
        """The session that a start asks for."""
        user = said.get("user", "")
        database = said.get("database") or user
        variables = Variables(f"sulq_{principal.key}")
        for name, value in [*_options(said.get("options", "")), *said.items()]:
            if name not in OWN and not name.startswith("_pq_."):
                variables.begin(name, value)
        registry, access = self._services.registry, self._services.access
        datasets = await registry.run(access.datasets, principal)
        if database not in (DATABASE, "postgres", user, *(d.name for d in datasets)):
            raise Problem(
                "3D000", f'database "{database[:63]}" does not exist for this key',
                f"the database is called {DATABASE}; or name one of your datasets",
            )  # fmt: skip
        asking = Asking(self._shared, principal, variables, database, os.getpid())
        return Session(wire, asking, variables, self._settings)

    # ---- cancelling -------------------------------------------------------------------------

    async def _cancel(self, number: int, secret: int) -> None:
        """Stop what a connection does, here or at the worker that has it."""
        if number == os.getpid():
            session = self._sessions.get(secret)
            if session is not None:
                session.cancel()
        elif self._relay is not None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_unix_connection(_relay(number))
                writer.write(secret.to_bytes(4, "big"))
                writer.close()

    async def _relayed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(1.0):
                secret = int.from_bytes(await reader.readexactly(4), "big")
            await self._cancel(os.getpid(), secret)
        writer.close()


def _relay(number: int) -> str:
    """Where one worker hears of what another was asked to cancel; not a file."""
    return f"\0sulq-cancel-{number}"


def _too_many(what: str) -> Problem:
    return Problem("53300", what, "close one, or try again later", fatal=True)


def _options(text: str) -> list[tuple[str, str]]:
    """-c name=value and --name=value, as PGOPTIONS has them."""
    try:
        words = iter(shlex.split(text))
    except ValueError:
        raise Problem("22023", "options: a quote is left open") from None
    out = []
    for word in words:
        said = next(words, "") if word == "-c" else word[2:]
        name, equals, value = said.partition("=")
        if not word.startswith(("--", "-c")) or not equals:
            raise Problem("22023", "options: want -c name=value")
        out.append((name.replace("-", "_"), value))
    return out


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The server's certificate, if it has one."""
    if settings.certificate is None or settings.private_key is None:
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.load_cert_chain(
        settings.folder / settings.certificate, settings.folder / settings.private_key
    )
    return made
