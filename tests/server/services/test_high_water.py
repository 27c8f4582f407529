"""A clock that is set back revives nothing that has expired."""

from datetime import UTC, datetime, timedelta

import pytest
from server.instance import made

from sulq.errors import KeyRefused
from sulq.server.services import high_water

NOW = datetime(2031, 5, 1, tzinfo=UTC).timestamp()


class Machine:
    """The two clocks of a machine: one may be set, the other only goes on."""

    def __init__(self, monkeypatch):
        self.wall, self.passed = NOW, 50.0
        monkeypatch.setattr(high_water, "time", self)

    def time(self):
        return self.wall

    def monotonic(self):
        return self.passed


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def works(services, key):
    try:
        services.access.principal(f"Bearer {key}")
    except KeyRefused:
        return False
    return True


def test_a_clock_set_back_revives_no_expired_key(tmp_path, machine):
    """Neither while the server runs nor after it was started again."""
    instance = made(tmp_path / "instance")
    with instance.services() as services:
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        key = services.people.new_key(bob, days=1).text
        assert works(services, key)
        machine.wall += timedelta(days=2).total_seconds()
        assert not works(services, key)
        machine.wall = NOW
        assert not works(services, key)
    with instance.services() as services:
        assert not works(services, key)


def test_a_key_that_nobody_tried_in_time_is_expired_too(tmp_path, machine):
    """The mark is kept some seconds ahead: whatever request came last, it is not below it."""
    instance = made(tmp_path / "instance")
    with instance.services() as services:
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        short, long = (services.people.new_key(bob, days=days).text for days in (1, 9))
        machine.wall += timedelta(days=1, minutes=1).total_seconds()
        assert works(services, long)
    machine.wall = NOW
    with instance.services() as services:
        assert works(services, long)
        assert not works(services, short)


def test_time_goes_on_while_the_clock_stands_in_the_past(tmp_path, machine):
    """By the seconds that pass; and new keys are good for as long as they say."""
    instance = made(tmp_path / "instance")
    with instance.services() as services:
        before = services.registry.clock.time()
        machine.wall -= timedelta(days=30).total_seconds()
        machine.passed += timedelta(hours=5).total_seconds()
        assert services.registry.clock.time() - before == timedelta(hours=5)
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        assert works(services, services.people.new_key(bob, days=1).text)


def test_control_the_machines_clock_would_revive_it(machine):
    """What is compared with the wall alone is good again when it is set back."""
    expires = NOW + 86_400
    machine.wall += 2 * 86_400
    assert machine.time() > expires
    machine.wall = NOW
    assert machine.time() < expires
