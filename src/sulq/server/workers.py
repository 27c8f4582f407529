"""Several processes on one socket and one folder, which live no longer than their parent.

Each worker has a pipe from its parent. The settings come through it, since a command line is
for everybody to read; and it ends when the parent does, however that was, and so does the worker.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO

from sulq.server.process import STOP_SECONDS, serve
from sulq.server.services.settings import Settings

PAUSE_SECONDS = 1.0  # before a worker process that died is started again


def serve_many(
    settings: Settings, bound: socket.socket, postgres: socket.socket | None = None
) -> None:
    """Keep that many workers going until told to stop; one that dies is started again."""
    sockets = [one for one in (bound, postgres) if one is not None]
    for one in sockets:
        os.set_inheritable(one.fileno(), True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    workers = [_worker(settings, sockets) for _ in range(settings.workers)]
    hung_up = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: hung_up.set())
    while not ended.wait(PAUSE_SECONDS):
        workers = [w if w.poll() is None else _worker(settings, sockets) for w in workers]
        if hung_up.is_set():
            hung_up.clear()
            for worker in workers:
                worker.send_signal(signal.SIGHUP)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()


def _worker(settings: Settings, sockets: list[socket.socket]) -> subprocess.Popen[bytes]:
    numbers = [one.fileno() for one in sockets]
    command = [sys.executable, "-m", "sulq.server.workers", *map(str, numbers)]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=numbers)
    assert worker.stdin is not None
    said = asdict(settings) | {"folder": str(settings.folder)}
    try:
        worker.stdin.write(json.dumps(said).encode() + b"\n")
        worker.stdin.flush()  # and the pipe stays open as long as this process lives
    except BrokenPipeError:
        pass  # it died at once; it is started again
    return worker


def main(*numbers: str) -> None:
    """One worker process, on the sockets that it was handed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it serves
    pipe = sys.stdin.buffer
    said = pipe.readline()
    if not said:
        return  # the parent is gone already
    values = json.loads(said)
    values |= {"folder": Path(values["folder"]), "sources": tuple(values["sources"])}
    settings = Settings(**values)
    grace = settings.longest_seconds + 2 * STOP_SECONDS
    ending = threading.Thread(target=_end_with, args=(pipe, grace), daemon=True)
    ending.start()
    serve(settings, *(socket.socket(proto=socket.IPPROTO_TCP, fileno=int(n)) for n in numbers))


def _end_with(pipe: IO[bytes], grace_seconds: float) -> None:
    """Wait for the parent's end, then stop as if told to; at once if that takes too long."""
    pipe.read()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(grace_seconds)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
