"""Whether questions to a dataset may run programs: its owner's word, kept with its arguments."""

from __future__ import annotations

import json

from sulq.programs.library import FUEL
from sulq.questions.programs_used import check_switch
from sulq.server.services.access import Record
from sulq.server.services.datasets import Datasets
from sulq.server.services.registry import Registry


def set_programs(
    registry: Registry, datasets: Datasets, record: Record, programs: bool | None, fuel: int | None
) -> None:
    """Let questions run programs, or no longer, with so many instructions a row.

    What is under way is answered first; the next question opens the dataset anew.
    """
    said = json.loads(record.arguments)
    said |= {} if programs is None else {"programs": programs}
    said |= {} if fuel is None else {"program_fuel": fuel}
    mode = said.get("mode", "noise")
    check_switch(said.get("programs", False), said.get("program_fuel", FUEL), mode)
    with registry.writing() as run:
        run("UPDATE datasets SET arguments = ? WHERE id = ?", json.dumps(said), record.id)
    datasets.forget(record)
