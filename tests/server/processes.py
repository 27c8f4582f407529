"""`sulq serve` as a process of its own, and the workers it started, by their ids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

BOUND_SECONDS = 60


@contextmanager
def served(folder, *options, **more):
    """A server process and its address; ended at the end, if it still runs.

    `altered` names what is broken in it, for a control (altered.py).
    """
    program = [Path(sys.executable).with_name("sulq")]
    if (what := more.pop("altered", None)) is not None:
        program = [sys.executable, Path(__file__).with_name("altered.py"), what]
    command = [*program, "serve", str(folder), "--port", "0"]
    environment = os.environ | {"SULQ_SERVER_PADDING": "no"} | more.pop("env", {})
    child = subprocess.Popen(
        [*map(str, command), *map(str, options)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=environment, **more,
    )  # fmt: skip
    try:
        yield child, re.search(r"https?://\S+:\d+", child.stdout.readline())[0]
    finally:
        if child.poll() is None:
            child.terminate()
        child.wait(BOUND_SECONDS)
        child.stdout.close()


def children(pid):
    """The processes that this one started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(number) for number in file.read().split()]


def alive(pid):
    """Does it run? One that ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true, seconds=BOUND_SECONDS):
    """Wait until something is true; say whether it became so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return False
