"""A clock that is set back revives nothing that has expired; one that is ahead locks nobody out."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from cli.calls import run, run_json
from server.instance import made

from sulq.errors import KeyRefused, NotFound
from sulq.server.console.sessions import Sessions
from sulq.server.services import high_water
from sulq.server.services.high_water import AHEAD_SECONDS, LEAP, SETTLES

NOW = datetime(2031, 5, 1, tzinfo=UTC).timestamp()
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONG = timedelta(days=400)


class Machine:
    """The two clocks of a machine: one may be set, the other only goes on."""

    def __init__(self, monkeypatch):
        self.wall, self.passed = NOW, 50.0
        monkeypatch.setattr(high_water, "time", self)

    def time(self):
        return self.wall

    def monotonic(self):
        return self.passed

    def set(self, span):
        """Set the clock by so much."""
        self.wall += span.total_seconds()

    def go_on(self, span):
        """Let so much time pass, by both clocks."""
        self.wall += span.total_seconds()
        self.passed += span.total_seconds()


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


@pytest.fixture
def instance(tmp_path, machine):
    return made(tmp_path / "instance")


def works(services, key):
    try:
        services.access.principal(f"Bearer {key}")
    except KeyRefused:
        return False
    return True


def bob_of(services):
    return services.people.analyst(services.people.owner("anna").tenant, "bob")


def alarms_of(services, owner="anna"):
    rows = services.registry.alarms(services.people.owner(owner).tenant)
    return [row["message"] for row in rows if row["kind"] == "clock"]


# ---- set back -----------------------------------------------------------------------------------


def test_a_clock_set_back_revives_no_expired_key(instance, machine):
    """Neither while the server runs nor after it was started again."""
    with instance.services() as services:
        key = services.people.new_key(bob_of(services), days=1).text
        assert works(services, key)
        machine.go_on(2 * DAY)
        assert not works(services, key)
        machine.wall = NOW
        assert not works(services, key)
    with instance.services() as services:
        assert not works(services, key)


@pytest.mark.parametrize("off", [HOUR, 20 * HOUR, LEAP - timedelta(minutes=10)])
def test_nor_if_the_server_was_off_for_less_than_a_leap(instance, machine, off):
    """What a start sees of a night's rest is believed, and kept."""
    with instance.services() as services:
        key = services.people.new_key(bob_of(services), days=1).text
        machine.go_on(DAY - timedelta(minutes=5))
        assert works(services, key)
    machine.set(off)
    with instance.services() as services:
        assert not works(services, key)
        assert services.registry.clock.doubt is None
    machine.wall = NOW
    with instance.services() as services:
        assert not works(services, key)


def test_a_key_that_nobody_tried_in_time_is_expired_too(instance, machine):
    """The mark is kept some seconds ahead: whatever request came last, it is not below it."""
    with instance.services() as services:
        bob = bob_of(services)
        short, long = (services.people.new_key(bob, days=days).text for days in (1, 9))
        machine.go_on(timedelta(days=1, minutes=1))
        assert works(services, long)
    machine.wall = NOW
    with instance.services() as services:
        assert works(services, long)
        assert not works(services, short)


def test_time_goes_on_while_the_clock_stands_in_the_past(instance, machine):
    """By the seconds that pass; and new keys are good for as long as they say."""
    with instance.services() as services:
        before = services.registry.clock.time()
        machine.set(-30 * DAY)
        machine.passed += timedelta(hours=5).total_seconds()
        assert services.registry.clock.time() - before == timedelta(hours=5)
        assert works(services, services.people.new_key(bob_of(services), days=1).text)


def test_control_the_machines_clock_would_revive_it(machine):
    """What is compared with the wall alone is good again when it is set back."""
    expires = NOW + 86_400
    machine.wall += 2 * 86_400
    assert machine.time() > expires
    machine.wall = NOW
    assert machine.time() < expires


# ---- ahead --------------------------------------------------------------------------------------


def test_one_start_with_a_clock_far_ahead_locks_nobody_out(instance, machine):
    """While it is ahead keys have expired; once it is right they work, after a start too."""
    with instance.services() as services:
        assert works(services, instance.keys["bob"])
    machine.set(LONG)
    with instance.services() as services:
        assert not works(services, instance.keys["bob"])
        machine.go_on(SETTLES - HOUR)
        assert not works(services, instance.keys["bob"])
        machine.set(-LONG)
        assert works(services, instance.keys["bob"])
        assert services.registry.clock.doubt is None
    with instance.services() as services:
        assert works(services, instance.keys["bob"])


def test_a_server_whose_clock_lets_nobody_in_is_not_ready(instance, machine):
    """A leap by which keys still work is no reason to send nobody there."""
    with instance.services() as services:
        assert services.states.server_fault() == ""
        machine.set(30 * DAY)
        assert services.states.server_fault() == ""
        machine.set(LONG)
        assert services.states.server_fault() == "a right clock"


def test_control_a_mark_without_a_bound_locks_everybody_out(instance, machine, monkeypatch):
    """As it was: whatever the clock says is kept, and every key is lost with one start."""
    monkeypatch.setattr(high_water, "LEAP", timedelta(days=10_000))
    machine.set(LONG)
    with instance.services() as services:
        assert not works(services, instance.keys["bob"])
    machine.set(-LONG)
    with instance.services() as services:
        assert not works(services, instance.keys["bob"])


def test_it_is_said_in_the_log_and_in_every_owners_alarms(instance, machine, caplog):
    """Once a day for each owner, however many processes start; both ways; and how to go on."""
    with instance.services() as services:
        assert alarms_of(services) == []
        assert services.registry.clock.doubt is None
    for ahead, words in ((LONG, "400.0 days ahead"), (-LONG, "400.0 days behind")):
        machine.set(ahead)
        for _ in range(3):
            with instance.services() as services, caplog.at_level(logging.WARNING, "sulq.server"):
                assert words in str(services.registry.clock.doubt)
                for owner in ("anna", "carl"):
                    assert [m for m in alarms_of(services, owner) if words in m] == [
                        next(m for m in alarms_of(services, owner) if words in m)
                    ]
        said = [r.said["why"] for r in caplog.records if r.said["event"] == "clock"]
        assert any(words in why and "sulq clock --accept" in why for why in said)
        machine.set(-ahead)


def test_a_leap_that_lasts_is_believed(instance, machine):
    """After a day that went on as clocks go on: from then on it is kept like any time seen."""
    with instance.services() as services:
        clock = services.registry.clock
        key = services.people.new_key(bob_of(services), days=20).text
        machine.set(30 * DAY)
        for _ in range(25):
            assert not works(services, key)
            machine.go_on(HOUR)
        assert clock.doubt is None
        machine.set(-30 * DAY)
        assert not works(services, key)
    with instance.services() as services:
        assert not works(services, key)


def test_a_leap_that_does_not_stand_still_is_not_believed(instance, machine):
    """A clock that goes on leaping begins its day anew."""
    with instance.services() as services:
        clock = services.registry.clock
        for _ in range(6):
            machine.set(5 * DAY)
            assert clock.doubt is not None
            machine.go_on(SETTLES - HOUR)
        machine.wall = NOW + 6 * (SETTLES - HOUR).total_seconds()
        assert works(services, instance.keys["bob"])


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_an_hours_mistake_is_harmless(instance, machine, wrong):
    """Keys, new keys and tokens are good before, during and after it; nobody is alarmed."""
    with instance.services() as services:
        for span in (wrong, -wrong):
            machine.set(span)
            machine.go_on(timedelta(minutes=20))
            clock = services.registry.clock
            assert works(services, instance.keys["bob"])
            assert works(services, services.people.new_key(bob_of(services), days=1).text)
            assert clock.doubt is None
            # A token of the institution's is judged by the machine's clock, as issuers write it.
            assert abs(clock.machine_time().timestamp() - machine.wall) < AHEAD_SECONDS
        assert alarms_of(services) == []


def test_a_clock_far_behind_takes_no_old_token(instance, machine):
    """Times that others wrote are judged by a clock that is at most a day behind the latest."""
    with instance.services() as services:
        machine.set(-LONG)
        clock = services.registry.clock
        assert clock.machine_time() == clock.time() - LEAP


# ---- what was begun while it was ahead --------------------------------------------------------


def test_what_was_made_with_a_clock_ahead_lasts_no_longer_for_it(instance, machine):
    """A key, a session and a link of then are over once the clock is right: 490 days are none."""
    with instance.services() as services:
        sessions = Sessions(services.registry, services.access)
        machine.set(LONG)
        key = services.people.new_key(bob_of(services))
        secret, link = sessions.begin(key.text).secret, sessions.link(key.id)
        assert sessions.find(secret) is not None
        machine.set(-LONG)
        with pytest.raises(KeyRefused, match="clock was ahead"):
            services.access.principal(f"Bearer {key.text}")
        assert sessions.find(secret) is None
        with pytest.raises(NotFound):
            sessions.enter(link.rpartition("/")[2])
        assert works(services, instance.keys["bob"])


def test_a_message_put_off_by_a_clock_ahead_is_sent(instance, machine, monkeypatch):
    """It does not wait for 400 days."""
    with instance.services() as services:
        anna, due = services.people.owner("anna"), services.registry.clock.now(LONG)
        with services.registry.writing() as run:
            run("INSERT INTO webhooks (house, url, salt, created) VALUES (?, 'x', 's', '')",
                anna.id)  # fmt: skip
            run("INSERT INTO outbox (id, house, body, tries, due) VALUES ('m', ?, '{}', 0, ?)",
                anna.id, due)  # fmt: skip
        monkeypatch.setattr(services.webhooks, "_arrives", lambda row: True)
        assert services.webhooks.send() == 1


# ---- accepted ---------------------------------------------------------------------------------


def test_whoever_runs_the_server_accepts_a_leap(instance, machine):
    """From then on it is kept: a clock that is set back revives nothing. The log says so."""
    with instance.services() as services:
        key = services.people.new_key(bob_of(services), days=20).text
        machine.set(30 * DAY)
        services.registry.clock.accept()
        assert services.registry.clock.doubt is None
        machine.set(-30 * DAY)
        assert not works(services, key)
    with instance.services() as services:
        assert not works(services, key)


def test_a_mark_from_a_clock_ahead_is_taken_back(instance, machine):
    """By one command, for a server that runs too; it is in each owner's audit log."""
    machine.set(LONG)
    with instance.services() as services:
        services.registry.clock.accept()  # as an older version did by itself
    machine.set(-LONG)
    with instance.services() as running:
        assert not works(running, instance.keys["bob"])
        here = ("--dir", instance.folder, "--owner", "anna")
        assert "400.0 days behind" in run_json("clock", *here)["doubt"]
        run("clock", "--accept", *here, code=2)
        found = run_json("clock", "--accept", "--reason", "the battery was empty", *here)
        assert found["time"] < "2031-06" < found["before"]
        assert (found["keys_before"], found["keys"]) == (0, 5)
        machine.go_on(timedelta(minutes=1))
        assert works(running, instance.keys["bob"])
        for owner in ("anna", "carl"):
            entry = list(running.log.all(running.people.owner(owner).tenant))[-1].shown()
            assert entry["kind"] == "clock"
            assert entry["body"]["reason"] == "the battery was empty"
    with instance.services() as services:
        assert works(services, instance.keys["bob"])


def test_a_start_says_so(instance, machine, monkeypatch):
    """On the terminal, before anybody finds every key refused."""
    from sulq.server import process

    monkeypatch.setattr(process, "serve", lambda *said: None)
    with instance.services():
        pass
    machine.set(LONG)
    assert "400.0 days ahead" in run("serve", instance.folder, "--port", "0").output
