"""A server with one thing broken on purpose, as a process: what tests must notice, for controls.

python tests/server/altered.py WHAT serve FOLDER --port 0     as `sulq serve`, with that alteration
"""

from __future__ import annotations

import os
import sys

from sulq.server import app
from sulq.server.connections import Timely
from sulq.server.door import Door
from sulq.server.services import admission, beat, threads, work_meter
from sulq.server.services.scan_times import ScanTimes
from sulq.server.services.slots import Slots


def never_longer():
    """A slow machine does not lengthen the slot."""
    Slots.lengthen = lambda self, times=2.0: False


def rows_are_blamed():
    """Nobody looks whether made-up rows are slow too."""
    ScanTimes.seconds = lambda self, questions: 0.0


def one_line():
    """Whoever comes first is served first, whatever it is and how much, as servers did before."""
    run, one_more, line = threads.FairThreads.run, admission.AtOnce.one_more, threads.FairThreads(1)
    Door.who = lambda self, data, address: "everybody"
    threads.FairThreads.run = lambda self, who, *work: run(line, "everybody", *work)
    admission.AtOnce.one_more = lambda self, who: one_more(self, object())
    admission.Seconds.check = lambda self, who: None
    admission.Spaced.wait = lambda self, who: 0.0
    work_meter.WorkMeter.is_flood = lambda self, who: False
    add = beat.Line.add

    def in_one_line(self, place):
        place.who = "everybody"
        add(self, place)

    beat.Line.add = in_one_line


def no_room():
    """A connection on which nothing happens is kept, whoever comes."""
    Timely._make_room = lambda self: False


class LoadedModules:
    """Writes down the name of each module that is looked for, into the file LOADED."""

    def find_spec(self, name, path=None, target=None):
        with open(os.environ["LOADED"], "a") as file:
            file.write(f"{name}\n")


def tells_what_it_loads():
    """Nothing is broken."""
    sys.meta_path.insert(0, LoadedModules())


def loads_late():
    """Nothing is loaded before it is asked for."""
    tells_what_it_loads()
    app.LOADED_AT_START = ()


ALTERATIONS = {
    "never longer": never_longer,
    "rows are blamed": rows_are_blamed,
    "one line": one_line,
    "no room": no_room,
    "tells what it loads": tells_what_it_loads,
    "loads late": loads_late,
}

if __name__ == "__main__":
    ALTERATIONS[sys.argv.pop(1)]()
    from sulq.cli import app as command

    command()
