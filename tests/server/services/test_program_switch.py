"""The owner's word on programs holds in every process of a server, from the next question on."""

import pytest
from programs.modules import module
from server.instance import made

import sulq
from sulq.errors import QueryNotAllowed, Refused

OLD = module("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 40))")


def test_another_process_switches_programs(tmp_path):
    """On and off again, with more fuel and less: what one process wrote, another goes by."""
    instance = made(tmp_path / "instance")
    query = sulq.Query(where=sulq.Program(OLD, "f", columns=["age"]))
    with instance.services() as here, instance.services() as there:

        def asked():
            record = here.datasets.find(1, "people")
            assert here.datasets.is_open(record) in (True, False)
            return here.datasets.opened(record).db.question(query)

        def switched(programs, fuel=None):
            record = there.datasets.find(1, "people")
            there.datasets.set_programs(record, programs, fuel)

        with pytest.raises(QueryNotAllowed, match="programs are off"):
            asked()
        switched(True)
        first = here.datasets.opened(here.datasets.find(1, "people"))
        assert asked().price.micro == 1_000_000
        assert here.datasets.opened(here.datasets.find(1, "people")) is first  # opened once
        switched(None, 100)
        with pytest.raises(QueryNotAllowed, match="a row may take 100"):
            asked()
        switched(False)
        with pytest.raises(QueryNotAllowed, match="programs are off"):
            asked()
        with pytest.raises(Refused, match="program_fuel=0"):
            switched(True, 0)
