"""Settings -> a server that listens: uvicorn, TLS, signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sulq.errors import MissingExtra, Refused
from sulq.server.settings import Settings

STOP_SECONDS = 5  # more than the longest deadline, for what is under way when told to stop
BACKLOG = 512
PAUSE_SECONDS = 1.0  # before a worker process that died is started again


def config(settings: Settings) -> Any:
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
    return uvicorn.Config(
        make_app(settings), host=settings.host, port=settings.port, http=protocol(settings),
        ws="none", lifespan="on", access_log=False, log_config=None, server_header=False,
        proxy_headers=False, timeout_keep_alive=30, backlog=BACKLOG,
        timeout_graceful_shutdown=int(settings.longest_seconds) + STOP_SECONDS,
        ssl_certfile=_file(settings, settings.certificate),
        ssl_keyfile=_file(settings, settings.private_key),
    )  # fmt: skip


def _file(settings: Settings, name: str | None) -> str | None:
    if name is None:
        return None
    path = settings.folder / name  # an absolute path stays as it is
    if not path.is_file():
        raise Refused(f"{name!r} is no file: want a PEM file, from the folder of sulq.toml on.")
    return str(path)


def listening(settings: Settings) -> socket.socket:
    """A socket bound to the address, or a refusal in one sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named: asyncio sends small replies at once (TCP_NODELAY) only on such.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Refused(
            f"host={settings.host!r}, port={settings.port}: {error.strerror}. Choose another."
        ) from None
    return made


def address(settings: Settings, bound: socket.socket) -> str:
    """Where clients reach it."""
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def serve(settings: Settings, bound: socket.socket) -> None:
    """Serve until stopped. What is under way then is finished."""
    import uvicorn

    from sulq.server import logs

    server = uvicorn.Server(config(settings))  # what is wrong with them is said before the log
    logs.start()
    server.run([bound])


@contextmanager
def running(settings: Settings) -> Iterator[str]:
    """A server in a thread of this process, and its address; for a tour and for tests."""
    import uvicorn

    server = uvicorn.Server(config(settings))
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


# ---- several processes ----------------------------------------------------------------------


def serve_many(settings: Settings, bound: socket.socket) -> None:
    """Worker processes on one socket and one folder; one that dies is started again."""
    os.set_inheritable(bound.fileno(), True)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    workers = [_worker(settings, bound) for _ in range(settings.workers)]
    while not stopping.wait(PAUSE_SECONDS):
        workers = [w if w.poll() is None else _worker(settings, bound) for w in workers]
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()


def _worker(settings: Settings, bound: socket.socket) -> subprocess.Popen[bytes]:
    said = asdict(settings) | {"folder": str(settings.folder)}
    command = [sys.executable, "-m", "sulq.server.running", str(bound.fileno()), json.dumps(said)]
    return subprocess.Popen(command, pass_fds=[bound.fileno()])


def main(number: str, said: str) -> None:
    """One worker process, on a socket that it was handed."""
    values = json.loads(said)
    folder = Path(values.pop("folder"))
    values["sources"] = tuple(values["sources"])
    bound = socket.socket(proto=socket.IPPROTO_TCP, fileno=int(number))
    serve(Settings(folder, **values), bound)


if __name__ == "__main__":
    main(*sys.argv[1:])
