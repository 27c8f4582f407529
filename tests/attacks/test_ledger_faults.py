"""Kill, disk full and I/O errors at every system call: nothing is gained, and it goes on.

A reply counts as delivered only once written, and is written only after `record` returned.
After each fault the ledger is opened again: every reply is charged and stored as it was
delivered, every charge can still be answered, and no more answers come than were paid for.
"""

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from soak import SOAK

from sulq.errors import LedgerDamaged, Refused
from sulq.ledger import Ledger, Request
from sulq.ledger.seal import Seal

CHILD = Path(__file__).with_name("ledger_child.py")
WHEN = 150  # more calls of one kind than a run makes
STEPS = {} if SOAK else {"pwrite64": 3}

SETTINGS = {"terms": {"promise": {}, "schema": {}}, "cells": 2, "total": 1000, "name": "faults"}


def opened(path):
    return Ledger.open(path, seal=Seal.open(path), **SETTINGS)


def strace(*arguments):
    """Run under strace. Without it these tests mean nothing, so CI may not skip them."""
    if shutil.which("strace") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("strace is missing: install it, the fault tests may not be skipped in CI")
        pytest.skip("strace is missing: faults at each system call are not tested")
    run = subprocess.run(
        ["strace", "-f", "-qq", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    if "ptrace" in run.stderr.lower() and "not permitted" in run.stderr.lower():
        if os.environ.get("CI") == "true":
            pytest.fail("strace may not trace here: the fault tests may not be skipped in CI")
        pytest.skip("strace may not trace here: faults at each system call are not tested")
    return run


def runs(folder, call, fault, scenario="sound", first=1):
    """The outcome for k = first, first + step, ... where the k-th such call meets the fault."""
    log = folder / "strace.log"
    step = STEPS.get(call, 1)
    # Faster, since only this call stops the child; but strace 6.1 then injects no signal.
    fast = [] if "signal" in fault else ["--seccomp-bpf"]
    run = strace(
        *(*fast, "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={WHEN}"),
        *(sys.executable, CHILD, folder, call, WHEN, log, scenario, first, step),
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("fsync", "error=EIO"),
        ("fdatasync", "error=EIO"),
        ("pwrite64", "error=EIO"),
        ("pwrite64", "error=ENOSPC"),
        ("write", "error=EIO"),
        ("ftruncate", "error=EIO"),
        ("rename", "error=EIO"),
        ("fsync", "signal=SIGKILL"),
        ("fdatasync", "signal=SIGKILL"),
        ("pwrite64", "signal=SIGKILL"),
        ("rename", "signal=SIGKILL"),
        ("rename", "error=EIO:signal=SIGKILL"),
    ],
)
def test_nothing_is_gained_by_a_fault_at_any_call(tmp_path, call, fault):
    """From the first call, creation included, to the last: k grows until no call is left.

    Of the many writes each third in `make test`: a charge and a record are more than three.
    """
    outcomes = runs(tmp_path, call, fault)
    assert [o for o in outcomes if o["faults"]] == []
    assert [o["met"] for o in outcomes] == [True] * (len(outcomes) - 1) + [False]
    assert len(outcomes) > 1


@pytest.mark.parametrize("scenario", ["reply_before_record", "reply_before_charge"])
def test_control_a_reply_that_leaves_too_early_is_caught(tmp_path, scenario):
    """The same check finds a ledger used in the wrong order."""
    # The calls before the 30th make the ledger, and nothing is asked yet.
    outcomes = runs(tmp_path, "pwrite64", "signal=SIGKILL", scenario, first=30)
    assert outcomes[-1]["met"]
    assert any("not stored" in f or "not charged" in f for f in outcomes[-1]["faults"])


# -- the order of sync and reply --


ORDERLY = """
import os, sys, sqlite3
from sulq.ledger import Ledger, Request
if sys.argv[2] == "careless":
    connect = sqlite3.connect
    class Careless(sqlite3.Connection):
        def execute(self, sql, *rest):
            return super().execute(sql.replace("synchronous=FULL", "synchronous=OFF"), *rest)
    sqlite3.connect = lambda *a, **k: connect(*a, factory=Careless, **k)
ledger = Ledger.open(sys.argv[1], terms={}, cells=1, total=9, name="order")
for i in range(5):
    charge = ledger.charge([Request(f"q{i}", 1, None)])[0]
    os.write(1, b"paid\\n")      # stands for the scan of the rows
    ledger.record([(charge.number, "answer")])
    os.write(1, b"reply\\n")
"""


def unsynced(folder, how):
    """The marks (paid, reply) that left while the ledger had writes not yet synced."""
    log, path = folder / "order.log", folder / "ledger"
    calls = "trace=write,pwrite64,fsync,fdatasync"
    run = strace("-y", "-o", log, "-e", calls, sys.executable, "-c", ORDERLY, path, how)
    assert run.stdout.split() == ["paid", "reply"] * 5, run.stderr
    dirty, early, commits, since = False, [], 0, 0
    for line in log.read_text().splitlines():
        if re.search(rf"pwrite64\(\d+<{re.escape(str(path))}-wal>", line):
            dirty, since = True, since + 1
        elif re.search(rf"f(data)?sync\(\d+<{re.escape(str(path))}-wal>\) += 0", line):
            dirty = False
        elif mark := re.search(r'write\(1<.*"(paid|reply)', line):
            early += [mark[1]] if dirty or not since else []
            commits, since = commits + 1, 0
    assert commits == 10
    return early


def test_every_charge_is_synced_before_rows_are_read_and_every_answer_before_it_leaves(tmp_path):
    """In the trace of system calls, each mark follows writes to the log that are all synced."""
    assert unsynced(tmp_path, "careful") == []


def test_control_commits_without_sync_are_caught(tmp_path):
    """With synchronous=OFF the same reading of the trace objects to every mark."""
    assert unsynced(tmp_path, "careless") == ["paid", "reply"] * 5


# -- kill --


def forked(function):
    """Run in a child whose writes to the pipe are its replies; give its id and the pipe."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            function(theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    return pid, os.fdopen(ours)


def killed(pid):
    os.kill(pid, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_killed_between_charge_and_record(tmp_path):
    """The charge stands, the retry answers it, and it is paid once."""
    path = tmp_path / "ledger"

    def child(pipe):
        opened(path).charge([Request("count", 7, None, id="r")])
        os.write(pipe, b"charged\n")
        signal.pause()

    pid, replies = forked(child)
    assert replies.readline() == "charged\n"
    killed(pid)
    ledger = opened(path)
    charge, answer = ledger.find("count")
    assert answer is None
    assert ledger.charge([Request("count", 7, None, id="r")]) == [charge]
    assert ledger.record([(charge.number, "5")]) == ["5"]
    assert ledger.budget() == (1000, 7, 993)


def test_killed_at_any_moment(tmp_path):
    """Thirty kills, each wherever the child happens to be: every reply is in the ledger."""
    path = tmp_path / "ledger"
    delivered = {}

    def child(pipe):
        ledger = opened(path)
        for i in range(1000):
            charge = ledger.charge([Request(f"q{i}", 1, None, id=f"r{i}")])[0]
            answer = ledger.record([(charge.number, os.urandom(4).hex())])[0]
            os.write(pipe, f"q{i} {answer}\n".encode())

    for turn in range(30):
        pid, replies = forked(child)
        for _ in range(turn % 7):
            replies.readline()
        killed(pid)
        for line in replies:
            query, answer = line.split()
            assert delivered.setdefault(query, answer) == answer
    ledger = opened(path)
    assert all(ledger.find(query)[1] == answer for query, answer in delivered.items())
    assert len(delivered) <= len(ledger.history()) == ledger.budget()[1]
    ledger.verify()


# -- disk --


def test_a_file_size_limit_stops_the_ledger_and_gives_nothing(tmp_path):
    """The limit looks like an I/O error to SQLite: the process stops, a new one goes on."""
    path = tmp_path / "ledger"
    opened(path).close()

    def child(pipe):
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        ledger = opened(path)
        for i in range(1000):
            try:
                charge = ledger.charge([Request(f"q{i}" + "x" * 2000, 1, None)])[0]
                ledger.record([(charge.number, f"a{i}")])
                os.write(pipe, f"q{i} a{i}\n".encode())
            except LedgerDamaged as error:
                os.write(pipe, f"stopped {'restart the process' in str(error)}\n".encode())
                if i > 500:
                    return

    pid, pipe = forked(child)
    lines = pipe.read().split("\n")[:-1]
    assert os.waitpid(pid, 0)[1] == 0
    answers = [line for line in lines if not line.startswith("stopped")]
    assert lines[len(answers) :] == ["stopped True"] * (len(lines) - len(answers))
    assert 0 < len(answers) < 500
    ledger = opened(path)
    assert len(answers) <= ledger.budget()[1] <= len(answers) + 1
    for line in answers:
        query, answer = line.split()
        assert ledger.find(query + "x" * 2000)[1] == answer
    ledger.charge([Request("goes on", 1, None)])


FULL = """
import os, sys
from sulq.errors import Refused
from sulq.ledger import Ledger, Request
null = os.open("/dev/null", os.O_WRONLY)
def full():
    try:
        return os.pwrite(null, b"x", 0) == 0
    except OSError as error:
        return "No space" in str(error)
ledger = Ledger.open(sys.argv[1], terms={}, cells=1, total=9, name="full")
paid = ledger.charge([Request("paid", 1, None)])[0]
while not full():
    pass
try:
    ledger.charge([Request("x" * 100_000, 1, None)])
except Refused as error:
    print(error)
print(ledger.budget()[1], full())
while full():
    pass
ledger.charge([Request("x" * 100_000, 1, None)])
print(ledger.record([(paid.number, "5")]), ledger.verify())
"""


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path):
    """From the 300th write to the 400th there is no space, whoever runs this."""
    path, full = tmp_path / "ledger", "inject=pwrite64:error=ENOSPC:when=300..400"
    log = ("-o", tmp_path / "log", "-e", "trace=pwrite64", "-e", full)
    run = strace(*log, sys.executable, "-c", FULL, path)
    assert run.stdout.splitlines() == [
        "The ledger 'ledger' cannot be written: the disk is full. Nothing was charged.",
        "1 True",
        "['5'] 4",
    ], run.stderr


def test_a_full_file_system_refuses_and_goes_on_when_there_is_room(tmp_path):
    """The same on a real full disk, where a small one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no small file system can be mounted here; the test above injects ENOSPC")
    try:
        ledger, filler = opened(disk / "ledger"), disk / "filler"
        paid = ledger.charge([Request("paid", 1, None)])[0]
        with pytest.raises(OSError, match="No space") as full:
            filler.write_bytes(b"x" * 4_000_000)
        assert full.value.errno == errno.ENOSPC
        with pytest.raises(Refused, match=r"the disk is full. Nothing was charged"):
            ledger.charge([Request("x" * 100_000, 1, None)])
        assert ledger.budget()[1] == 1
        filler.unlink()
        ledger.charge([Request("x" * 100_000, 1, None)])
        assert ledger.record([(paid.number, "5")]) == ["5"]
        assert ledger.verify() == 4
        ledger.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_failed_sync_poisons_the_ledger_for_this_process_only(tmp_path):
    """Afterwards even opening again is refused, until the process is restarted."""
    script = """
import sys
from sulq.errors import LedgerDamaged
from sulq.ledger import Ledger, Request
open = lambda: Ledger.open(sys.argv[1], terms={}, cells=1, total=9, name="sync")
ledger = open()
paid = []
for attempt in (lambda: [paid.append(ledger.charge([Request(f"q{i}", 1, None)])) for i in range(9)],
                lambda: ledger.find("q0"), lambda: ledger.budget(), open):
    try:
        attempt()
        print("passed")
    except LedgerDamaged as error:
        print("restart the process" in str(error))
print(len(paid))
"""
    path = tmp_path / "ledger"
    Ledger.open(path, terms={}, cells=1, total=9, name="sync").close()
    calls = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=6")
    run = strace("-o", tmp_path / "log", *calls, sys.executable, "-c", script, path)
    *stopped, paid = run.stdout.split()
    assert stopped == ["True"] * 4, run.stderr
    assert 0 < int(paid) < 9
    again = Ledger.open(path, terms={}, cells=1, total=9, name="sync")
    assert again.budget()[1] - int(paid) in (0, 1)
    again.charge([Request(f"q{i}", 1, None) for i in range(9)])
