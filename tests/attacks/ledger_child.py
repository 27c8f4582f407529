"""Run under strace: the same questions again and again, with the k-th system call failing.

    python ledger_child.py FOLDER CALL WHEN LOG SCENARIO FIRST STEP

strace counts calls per process and injects at number WHEN. For k = FIRST, FIRST + STEP, ... a
fresh child makes WHEN - k harmless calls and then asks, so its k-th call is the one that
fails; another child then looks at what is left. One line of JSON for each k, until a k meets
no injection or something was gained.
"""

import gc
import json
import os
import sys
import traceback
from pathlib import Path

from sulq.errors import BudgetExceeded, SulqError
from sulq.ledger import Ledger, Request
from sulq.ledger.seal import Seal

TOTAL = 2  # answers that may be given
QUESTIONS = ("q0", "q1", "q2")
SETTINGS = {"terms": {"promise": {}, "schema": {}}, "cells": 2, "total": TOTAL, "name": "faults"}


def opened(folder):
    path = folder / "ledger"
    return Ledger.open(path, seal=Seal.open(path), **SETTINGS)


def reply(folder, query, answer):
    handle = os.open(folder / "replies", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, f"{query} {answer}\n".encode())
    finally:
        os.close(handle)


def sound(folder, ledger, query):
    """Charge, compute, record, reply: the order the product keeps."""
    charge = ledger.charge([Request(query, 1, None, id=query)])[0]
    reply(folder, query, ledger.record([(charge.number, os.urandom(4).hex())])[0])


def reply_before_record(folder, ledger, query):
    """Broken on purpose: the answer leaves before it is stored."""
    charge = ledger.charge([Request(query, 1, None, id=query)])[0]
    answer = ledger.find(query)[1] or os.urandom(4).hex()
    reply(folder, query, answer)
    ledger.record([(charge.number, answer)])


def reply_before_charge(folder, ledger, query):
    """Broken on purpose: the answer leaves before it is paid."""
    found = ledger.find(query)
    if found is None and not ledger.budget()[2]:
        return
    answer = (found and found[1]) or os.urandom(4).hex()
    reply(folder, query, answer)
    charge = ledger.charge([Request(query, 1, None, id=query)])[0]
    ledger.record([(charge.number, answer)])


SCENARIOS = {f.__name__: f for f in (sound, reply_before_record, reply_before_charge)}


def ask_all(folder, answer):
    """Open, ask every question, and go on after refusals as a stubborn analyst would."""
    ledger = None
    for query in QUESTIONS * 2:
        try:
            ledger = ledger or opened(folder)
            answer(folder, ledger, query)
        except (SulqError, OSError):
            ledger = None


def gained(folder):
    """What was delivered that the ledger does not have. Empty if all is well."""
    replies = folder / "replies"
    lines = replies.read_text().splitlines() if replies.exists() else []
    delivered = dict(line.split() for line in lines)
    ledger = opened(folder)
    ledger.verify()
    faults = []
    if len({tuple(line.split()) for line in lines}) > len(delivered):
        faults.append("two answers to one question")
    for query, text in delivered.items():
        found = ledger.find(query)
        if found is None:
            faults.append(f"{query} answered, not charged")
        elif found[1] != text:
            faults.append(f"{query} answered, not stored")
    return faults + goes_on(folder, ledger, delivered)


def goes_on(folder, ledger, delivered):
    """After the fault every charged question can be answered, and none beyond the total."""
    charged = {charge.query for charge in ledger.history()}
    for query in QUESTIONS:
        try:
            charge = ledger.charge([Request(query, 1, None, id=query)])[0]
            delivered[query] = ledger.record([(charge.number, "later")])[0]
        except BudgetExceeded:
            continue
    faults = [f"{query} charged, not answerable" for query in charged - delivered.keys()]
    if len(delivered) != TOTAL or ledger.budget() != (TOTAL, TOTAL, 0):
        faults.append(f"{len(delivered)} answers for a total of {TOTAL}")
    return faults


def in_child(function, *arguments):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid, os.waitpid(pid, 0)[1]


def harmless(call, times):
    """Make the call without effect, only to be counted."""
    null = os.open("/dev/null", os.O_WRONLY)
    for _ in range(times):
        try:
            if call in ("fsync", "fdatasync"):
                getattr(os, call)(null)
            elif call == "pwrite64":
                os.pwrite(null, b"", 0)
            elif call == "write":
                os.write(null, b"")
            elif call == "ftruncate":
                os.ftruncate(null, 0)
            elif call == "rename":
                os.rename("/dev/null/a", "/dev/null/b")
            else:
                raise AssertionError(call)
        except OSError:
            continue
    os.close(null)


def faulty(call, skip, folder, answer):
    harmless(call, skip)
    ask_all(folder, answer)


def look(folder):
    (folder / "verdict").write_text(json.dumps(gained(folder)))


def hit(log, pid):
    """Did strace inject into this process?"""
    marks = ("(INJECTED)", "SIGKILL")
    return any(
        line.startswith(f"{pid} ") and any(mark in line for mark in marks)
        for line in log.read_text(errors="replace").splitlines()
    )


def main(folder, call, when, log, scenario, first, step):
    gc.freeze()  # so that children do not copy the parent's memory only to look through it
    for k in range(first, when, step):
        place = folder / str(k)
        place.mkdir()
        pid, _ = in_child(faulty, call, when - k, place, SCENARIOS[scenario])
        met = hit(log, pid)
        in_child(look, place)
        verdict = place / "verdict"
        faults = json.loads(verdict.read_text()) if verdict.exists() else ["does not start again"]
        print(json.dumps({"k": k, "met": met, "faults": faults}), flush=True)
        if faults or not met:
            return


if __name__ == "__main__":
    folder, call, when, log, scenario, first, step = sys.argv[1:]
    main(Path(folder), call, int(when), Path(log), scenario, int(first), int(step))
