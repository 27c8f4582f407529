"""The server dies at any moment: nothing is given away, nothing is paid twice, retries agree.

The full size is `python tests/server/killing.py 200`.
"""

import json
import signal
import subprocess
import sys

import pytest
from server import killing
from server.instance import made
from server.processes import alive, children
from soak import times

import sulq
from sulq.ledger import Ledger
from sulq.ledger.seal import Seal


def test_kills_under_load_give_nothing_away(tmp_path):
    """A few kills at random moments, eight clients, until the budget is spent."""
    faults, done = killing.run(tmp_path, kills=times(2, 4), total=times(80, 150))
    assert faults == []
    assert done["kills"] >= 1
    assert done["refused"] == killing.CLIENTS


def test_control_a_lost_charge_or_a_changed_answer_is_found(tmp_path):
    """The same checks find an answer that was never paid, and one that differs."""
    instance = made(tmp_path / "instance", queries=3)
    with instance.serving() as served:
        db = sulq.connect(served.url, served.keys["bob"], "people")
        exact = db.ask(sulq.Query(where="secret"), request_id="a").exact
        delivered = {"a": ("secret", ((exact[0][0] + 1,),))}
        assert killing.again(instance, served.url, delivered) != []
        assert killing.again(instance, served.url, {"a": ("secret", exact)}) == []
    assert "b has no charge" in killing.in_ledger(instance, {"b": ("age > 3", exact)}, 3)


# Dies at one point of a request: before the charge, after it, with the number in hand, after
# it is stored; then the same request is asked of a new process.
DYING = """
import os, signal, sys
import sulq.database, sulq.ledger.ledger
from sulq.engines.duckdb import DuckDBEngine
from sulq.ledger import Ledger
point = sys.argv[3]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
def after(honest):
    def run(*a, **k):
        honest(*a, **k)
        die()
    return run
if point == "before the charge":
    Ledger.charge_each = die
elif point == "after the charge":
    Ledger.charge_each = after(Ledger.charge_each)
elif point == "in the scan":
    DuckDBEngine.sums = die
elif point == "with the number":
    Ledger.record = die
elif point == "after it is stored":
    Ledger.record = after(Ledger.record)
"""
CHARGED = {
    "before the charge": 0, "after the charge": 1, "in the scan": 1, "with the number": 1,
    "after it is stored": 1,
}  # fmt: skip


@pytest.mark.parametrize("point", CHARGED)
def test_a_death_at_each_point_of_a_request(tmp_path, point):
    """Charged before a row is read; asked again it is answered, and pays no second time."""
    instance = made(tmp_path / "instance", queries=10)
    server = killing.Server(instance.folder)
    command = [sys.executable, "-c", DYING + killing.SERVER, str(instance.folder), str(server.port)]
    child = subprocess.Popen([*command, point], stderr=subprocess.DEVNULL)
    db = sulq.connect(server.url, instance.keys["bob"], "people", patience_seconds=60)
    db._wire.retry_seconds = 0
    with pytest.raises(sulq.ServerAway):
        db.ask(sulq.Query(where="secret"), request_id="k")
    assert child.wait(30) == -signal.SIGKILL
    (path,) = (instance.folder / "ledgers").glob("*.people.ledger")
    ledger = Ledger.reopen(path, seal=Seal.open(path))
    assert len(ledger.history()) == CHARGED[point]
    ledger.close()
    with instance.serving() as served:
        db = sulq.connect(served.url, served.keys["bob"], "people")
        answers = {db.ask(sulq.Query(where="secret"), request_id="k").exact for _ in range(3)}
        assert len(answers) == 1
        assert db.budget.spent == 1


def test_several_processes_on_one_folder_share_one_budget(tmp_path):
    """`sulq serve --workers 2`: one cap for both, and a worker that dies is started again."""
    instance = made(tmp_path / "instance", queries=40)
    settings = {"port": 0, "padding": False, "workers": 2, "rate": 1e6, "burst": 10**6}
    code = (
        "import json, sys; from sulq.server.process import listening, address\n"
        "from sulq.server.workers import serve_many\n"
        "from sulq.server.services.settings import Settings\n"
        "settings = Settings.load(sys.argv[1], **json.loads(sys.argv[2]))\n"
        "bound = listening(settings); print(address(settings, bound), flush=True)\n"
        "serve_many(settings, bound)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(instance.folder), json.dumps(settings)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        url = child.stdout.readline().strip()
        delivered, refused = {}, []
        threads = [
            killing.threading.Thread(
                target=killing.client, args=(k, instance, url, delivered, refused)
            )
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(delivered) == 40
        assert sorted(refused) == [0, 1, 2, 3]
        pids = children(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert len(pids) == 2
    assert not [pid for pid in pids if alive(pid)]
