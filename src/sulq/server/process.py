"""Settings -> a server that listens: uvicorn, TLS, signals."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sulq.errors import MissingExtra, Refused
from sulq.server.services import logs
from sulq.server.services.settings import Settings, service_links

STOP_SECONDS = 5  # more than the longest deadline, for what is under way when told to stop
BACKLOG = 512
ACCEPTED = 4  # connections in one turn of the event loop, so that others are served between
SWITCH_SECONDS = 0.0001  # after which a thread lets another go on; a batch must not wait long
HSTS = ("strict-transport-security", "max-age=31536000")  # a year, as browsers want it


def config(
    settings: Settings, *, own_process: bool = False, postgres: socket.socket | None = None
) -> Any:
    """uvicorn's configuration."""
    try:
        import jinja2  # noqa: F401  # of the console
        import uvicorn
    except ImportError:
        raise MissingExtra(
            "the server's libraries are not installed: pip install 'sulq[server]'"
        ) from None
    from sulq.server.app import make_app
    from sulq.server.connections import protocol

    settings.check_listening()
    sys.setswitchinterval(SWITCH_SECONDS)
    app = make_app(settings, own_process=own_process, postgres=postgres)
    return uvicorn.Config(
        app, host=settings.host, port=settings.port, http=protocol(settings, app.state.meter),
        ws="none", lifespan="on", access_log=False, log_config=None, server_header=False,
        proxy_headers=False, timeout_keep_alive=30, backlog=min(ACCEPTED, _backlog()),
        timeout_graceful_shutdown=int(settings.longest_seconds) + STOP_SECONDS,
        ssl_certfile=_file(settings, settings.certificate),
        ssl_keyfile=_file(settings, settings.private_key),
        headers=[HSTS] if settings.behind_tls else [],
    )  # fmt: skip


def _backlog() -> int:
    """How many may wait to be accepted, within the files that this process may open."""
    from sulq.server.connections import open_files

    return min(BACKLOG, max(8, open_files() // 8))


def _file(settings: Settings, name: str | None) -> str | None:
    if name is None:
        return None
    path = settings.folder / name  # an absolute path stays as it is
    if not path.is_file():
        raise Refused(f"{name!r} is no file: want a PEM file, from the folder of sulq.toml on.")
    return str(path)


def listening(settings: Settings) -> socket.socket:
    """A socket bound to the address, or a refusal in one sentence."""
    return _bound(settings, settings.port)


def listening_for_postgres(settings: Settings) -> socket.socket | None:
    """The same for PostgreSQL's clients; None if they have no port."""
    return None if settings.postgres is None else _bound(settings, settings.postgres)


def _bound(settings: Settings, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named: asyncio sends small replies at once (TCP_NODELAY) only on such.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Refused(
            f"host={settings.host!r}, port={port}: {error.strerror}. Choose another."
        ) from None
    return made


def address(settings: Settings, bound: socket.socket) -> str:
    """Where clients reach it."""
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def _server(
    settings: Settings, *, own_process: bool = False, postgres: socket.socket | None = None
) -> Any:
    """uvicorn's server, with more that may wait for a connection than are accepted at a time.

    asyncio has one number for both. Told to stop, it lets nobody wait to be read or refused.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for bound in sockets or () if self.started else ():
                bound.listen(_backlog())

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            self.config.app.state.stop()  # type: ignore[union-attr]
            await super().shutdown(sockets)

    return Server(config(settings, own_process=own_process, postgres=postgres))


def serve(settings: Settings, bound: socket.socket, postgres: socket.socket | None = None) -> None:
    """Serve until it is shut down. What is under way then is finished."""
    from sulq.server.connections import max_connections, open_files

    server = _server(
        settings, own_process=True, postgres=postgres
    )  # what is wrong with them is said before the log
    logs.start()
    if links := service_links():
        logs.event("variables of Kubernetes' service links are no settings", ignored=links)
    most = max_connections(settings)
    if most < settings.connections:
        logs.event(
            f"at most {most} connections, not {settings.connections}: this process may open "
            f"{open_files()} files; raise that with ulimit -n", logging.WARNING,
        )  # fmt: skip
    signal.signal(signal.SIGHUP, lambda *_: _reload(server, settings))
    server.run([bound])


def _reload(server: Any, settings: Settings) -> None:
    """Take the certificate anew, at both doors, for connections that come; the server goes on."""
    contexts = (getattr(server.config, "ssl", None), server.config.app.state.tls)
    certificate, key = settings.certificate, settings.private_key
    if certificate is None or key is None:
        logs.event("a hangup changes nothing: there is no certificate")
        return
    try:
        # Both files are looked at elsewhere first: a pair that does not fit must change nothing.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *filter(None, contexts)):
            context.load_cert_chain(settings.folder / certificate, settings.folder / key)
    except OSError as error:
        logs.event("the certificate was not taken anew", logging.WARNING, why=type(error).__name__)
        return
    logs.event("the certificate was taken anew")


@contextmanager
def running(settings: Settings, postgres: socket.socket | None = None) -> Iterator[str]:
    """A server in a thread of this process, and its address; for a tour and for tests."""
    server = _server(settings, postgres=postgres)
    bound = listening(settings)
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise Refused("the server did not start; its log says why.")
            thread.join(0.005)
        yield address(settings, bound)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
