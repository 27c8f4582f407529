"""What the attacks on a ledger in PostgreSQL run in other processes, and a cable to cut."""

import contextlib
import os
import select
import socket
import threading
import time
from pathlib import Path

from attacks.children import ask_until_refused
from soak import times

from sulq.errors import BudgetExceeded, EngineFailed, Refused
from sulq.ledger import Ledger, Request
from sulq.ledger.location import sealed

TOTAL = times(90, 300)
REQUESTS = 4 * TOTAL
PROCESSES = 8
SETTINGS = {"terms": {"promise": {}, "schema": {}}, "cells": 2, "total": TOTAL, "name": "race"}


def opened(where, **changes):
    return Ledger.open(where, seal=sealed(where), **SETTINGS | changes)


def spend(wait, where, home, numbers):
    """Ask each question: pay, compute, keep, reply. Every answer that was delivered."""
    os.environ["SULQ_HOME"] = home
    delivered = []
    wait()
    ledger = until_it_is_there(lambda: opened(where))
    for number in numbers:
        with contextlib.suppress(BudgetExceeded):
            delivered.append((f"q{number}", stubbornly(ledger, number)))
    return delivered


def stubbornly(ledger, number):
    """As a client that sends the same request until it hears."""

    def ask():
        charge = ledger.charge([Request(f"q{number}", 1, None, id=f"r{number}")])[0]
        return ledger.record([(charge.number, os.urandom(4).hex())])[0]

    return until_it_is_there(ask)


def until_it_is_there(ask):
    """What this gives, once the server that was killed has come back."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            return ask()
        except BudgetExceeded:
            raise
        except (Refused, EngineFailed):
            continue
    raise AssertionError("the server did not come back")


def ask_at_home(wait, home, source, terms, analysts):
    os.environ["SULQ_HOME"] = home
    return ask_until_refused(wait, source, terms, analysts)


def spend_naively(wait, address, numbers):
    """Broken on purpose: at READ COMMITTED, look at what is spent, then charge."""
    import psycopg

    paid = 0
    with psycopg.connect(address, autocommit=True) as connection:
        wait()
        for number in numbers:
            with connection.transaction():
                spent = connection.execute("SELECT count(*) FROM naive").fetchone()[0]
                if spent < TOTAL:
                    connection.execute("INSERT INTO naive VALUES (%s)", [number])
                    paid += 1
    return paid


def shares():
    return [range(i, REQUESTS, PROCESSES) for i in range(PROCESSES)]


class Cable:
    """A socket in front of the server's that cuts one connection at its k-th message.

    `forward`: whether the server still gets that message. What it replies is lost.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        self.server = str(server / ".s.PGSQL.5432")
        self.plan(0, False)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen(20)
        threading.Thread(target=self._accept, daemon=True).start()

    def plan(self, cut_at: int, forward: bool, stays_down: bool = False) -> None:
        self.cut_at, self.forward, self.stays_down = cut_at, forward, stays_down
        self.seen, self.down = 0, False

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.down:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.server)
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client, server) -> None:
        """Carry messages; a client says one at a time and waits for the reply."""
        try:
            while self._carried(client, server):
                pass
        except OSError:
            pass
        finally:
            client.close()
            server.close()

    def _carried(self, client, server) -> bool:
        ready, _, _ = select.select([client, server], [], [])
        if server in ready:
            reply = server.recv(2**20)
            client.sendall(reply)
            return bool(reply)
        message = client.recv(2**20)
        self.seen += bool(message)
        if message and self.seen == self.cut_at:
            if self.forward:
                server.sendall(message)
                server.recv(2**20)  # the server has answered, and nobody hears it
            self.down = self.stays_down
            return False
        server.sendall(message)
        return bool(message)
