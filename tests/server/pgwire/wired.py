"""A server with a port for PostgreSQL's clients, and connections to it."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest
from server.instance import QUICK, Instance, made

from sulq.server.process import listening_for_postgres, running
from sulq.server.services.settings import Settings

SMOKERS = "select region, count(*) as n from people where secret group by region"


@dataclass
class Wired(Instance):
    """An instance whose PostgreSQL port is open."""

    port: int = 0

    def user(self, who="bob"):
        return self.keys[who][: len("sulq_") + 16]

    def said(self, who="bob", **more):
        return {
            "host": "127.0.0.1", "port": self.port, "user": self.user(who),
            "password": self.keys[who], "dbname": "sulq", "connect_timeout": 20,
        } | more  # fmt: skip

    def connect(self, who="bob", **more):
        return psycopg.connect(**self.said(who, autocommit=True) | more)

    def environment(self, who="bob"):
        """What programs of libpq are told."""
        said = self.said(who)
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD",
                 "dbname": "PGDATABASE"}  # fmt: skip
        return os.environ | {env: str(said[name]) for name, env in names.items()}

    def psql(self, *commands, who="bob", **environment):
        """What psql prints, and complains of."""
        program = shutil.which("psql")
        if program is None:
            why = "psql is not here: apt-get install postgresql-client"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
        words = [word for command in commands for word in ("-c", command)]
        done = subprocess.run(
            [program, "-X", "-A", "-v", "VERBOSITY=verbose", *words], capture_output=True,
            text=True, timeout=60, env=self.environment(who) | environment,
        )  # fmt: skip
        return done.stdout, done.stderr

    def spent(self, name="people"):
        """Micro-queries spent on a dataset, as its owner sees it."""
        found = self.call("GET", f"/v1/datasets/{name}", who="anna").json
        return found["budget"]["spent_micro"]

    def raw(self):
        """A socket, without a word said."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextmanager
def wired(folder, settings=(), **terms):
    """A new instance, served with a port for PostgreSQL's clients."""
    instance = made(folder, **{"queries": 10_000} | terms)
    found = Wired(instance.folder, keys=instance.keys)
    said = Settings.load(found.folder, **QUICK | {"postgres": 0} | dict(settings))
    own = listening_for_postgres(said)
    with running(said, own) as found.url:
        found.port = own.getsockname()[1]
        yield found


# ---- the protocol by hand -------------------------------------------------------------------


def message(kind, body=b""):
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def startup(**said):
    words = b"".join(f"{name}\0{value}\0".encode() for name, value in said.items())
    body = struct.pack("!i", 196608) + words + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def received(connection, seconds=20):
    """All that comes until the other side hangs up or is silent."""
    connection.settimeout(seconds)
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except (TimeoutError, ConnectionError):
        pass
    return data


def messages(data):
    """The messages in some bytes: kind and body of each."""
    out, at = [], 0
    while at + 5 <= len(data):
        (length,) = struct.unpack_from("!i", data, at + 1)
        out.append((chr(data[at]), data[at + 5 : at + 1 + length]))
        at += 1 + length
    return out


def fields(body):
    """The fields of an error."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}
