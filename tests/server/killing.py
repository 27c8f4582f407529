"""kill -9 the server at random moments under load, start it again, until the budget is spent.

python tests/server/killing.py 200     the whole thing, from the project's folder
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from server.instance import call, made

import sulq
from sulq.ledger import Ledger
from sulq.ledger.seal import Seal

CLIENTS = 8
SERVER = """
import sys
from sulq.server.process import listening, serve
from sulq.server.services.settings import Settings
settings = Settings.load(sys.argv[1], port=int(sys.argv[2]), padding=False, rate=1e6,
                         burst=10**6)
serve(settings, listening(settings))
"""


class Server:
    """A server process on one port, killed and started again."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.child = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        command = [sys.executable, "-c", SERVER, str(self.folder), str(self.port)]
        self.child = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def up(self):
        """Does it answer?"""
        try:
            return call(self.url, "GET", "/v1/health").status == 200
        except OSError:
            return False

    def kill(self):
        self.child.kill()
        self.child.wait()


def client(number, instance, url, delivered, refused):
    """Ask question after question, each with its id, until the budget is spent."""
    db = sulq.connect(url, instance.keys["bob"], "people", patience_seconds=600)
    i = 0
    while True:
        where, name = f"age > {i % 100} and id <> {number + CLIENTS * i}", f"{number}.{i}"
        try:
            answer = db.ask(sulq.Query(where=where), request_id=name)
        except sulq.BudgetExceeded:
            refused.append(number)
            return
        delivered[name] = (where, answer.exact)
        i += 1


def run(folder, kills, total, life=0.4, seed=None, say=lambda text: None):
    """Everything that went wrong, and how much was done."""
    instance = made(Path(folder) / "instance", queries=total)
    server, delivered, refused = Server(instance.folder), {}, []
    dice = random.Random(seed)
    server.start()
    threads = [
        threading.Thread(target=client, args=(k, instance, server.url, delivered, refused))
        for k in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    done = 0
    while done < kills and not refused:
        before = len(delivered)
        while not server.up():
            time.sleep(0.01)
        if dice.random() < 0.7:  # else while it still opens its files
            while len(delivered) == before and not refused:
                time.sleep(0.005)
        time.sleep(dice.random() * life)
        server.kill()
        done += 1
        server.start()
        if done % 20 == 0:
            say(f"{done} kills, {len(delivered)} answers")
    for thread in threads:
        thread.join()
    faults = again(instance, server.url, delivered)
    server.kill()
    faults += in_ledger(instance, delivered, total)
    return faults, {"kills": done, "answers": len(delivered), "refused": len(refused)}


def again(instance, url, delivered):
    """Each delivered answer once more, under its id and without: all the same, nothing charged."""
    db = sulq.connect(url, instance.keys["bob"], "people", patience_seconds=120)
    spent = db.budget.spent
    faults = []
    for name, (where, exact) in delivered.items():
        if db.ask(sulq.Query(where=where), request_id=name).exact != exact:
            faults.append(f"{name} differs on retry")
    for name, (where, exact) in list(delivered.items())[::20]:
        if db.count(where).exact != exact:
            faults.append(f"{name} differs when asked anew")
    return faults + ([] if db.budget.spent == spent else ["a retry was charged"])


def in_ledger(instance, delivered, total):
    """The chain is whole; no answer without its charge; T answers at most."""
    (path,) = (instance.folder / "ledgers").glob("*.people.ledger")
    ledger = Ledger.reopen(path, seal=Seal.open(path))
    ledger.verify()
    charges = ledger.history()
    paid = {c.request for c in charges}
    faults = [f"{name} has no charge" for name in delivered if name not in paid]
    if len(delivered) > total:
        faults.append(f"{len(delivered)} answers of {total}")
    if sum(c.price for c in charges) > total * 1_000_000:
        faults.append("more was charged than there is")
    if len(charges) < len(delivered):
        faults.append("fewer charges than answers")
    if ledger.budget()[2] >= 1_000_000:
        faults.append("budget was left although answers were refused")
    ledger.close()
    return faults


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as place:
        start = time.monotonic()
        found, summary = run(
            place, wanted, total=wanted * 50, say=lambda text: print(text, flush=True)
        )
        print(summary, f"{time.monotonic() - start:.0f} seconds; faults: {found or 'none'}")
