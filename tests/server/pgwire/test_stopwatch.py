"""A stopwatch on PostgreSQL's protocol: the beat of a dataset holds at this door, too.

The stopwatch is that of tests/server/test_stopwatch.py, with its pairs, limits and controls; only
the question goes another way. A false alarm needs two in a row: 1e-8. Only in `make soak`, on a
quiet machine.
"""

import json
import socket
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest
from server import processes, test_stopwatch
from server.test_stopwatch import AT_ONCE, BEAT, SAME, TWINS, differences, first_and_repeated, told
from soak import in_soak

__all__ = ["told"]  # a fixture


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(autouse=True)
def through_postgres(monkeypatch):
    """Each question as a SELECT, on a connection that may spend enough."""
    ports, connections = {}, {}

    @contextmanager
    def served(folder, env):
        ports[folder] = free_port()
        said = env | {"SULQ_SERVER_POSTGRES": str(ports[folder])}
        with processes.served(folder, env=said) as found:
            yield found
            connections.pop(folder).close()

    def connected(server):
        if server.folder not in connections:
            key = server.keys["bob"]
            made = psycopg.connect(
                host="127.0.0.1", port=ports[server.folder], user=key[:21], password=key,
                dbname="sulq", autocommit=True, options="-c sulq.spend=100000",
            )  # fmt: skip
            connections[server.folder] = made
        return connections[server.folder]

    def taken(server, body):
        connection = connected(server)
        text = f"select count(*) from people where {json.loads(body)['query']['where']}"
        start = time.perf_counter()
        with suppress(psycopg.errors.SerializationFailure):  # late, which comes on the beat too
            connection.execute(text)
        return time.perf_counter() - start

    monkeypatch.setattr(test_stopwatch, "served", served)
    monkeypatch.setattr(test_stopwatch, "taken", taken)


@in_soak
@pytest.mark.parametrize("what", TWINS)
def test_time_does_not_tell_twins_apart(told, what):
    """On the beat the times of twins have one distribution."""
    assert not told(differences, TWINS[what], BEAT, False)


@in_soak
@pytest.mark.parametrize("what", TWINS)
def test_control_without_a_beat_it_does(told, what):
    """The same stopwatch tells the twins apart where replies leave at once."""
    assert told(differences, TWINS[what], AT_ONCE, False)


@in_soak
def test_control_the_same_rows_are_not_told_apart(told):
    """The same stopwatch sees nothing where there is nothing to see."""
    assert not told(differences, SAME, BEAT, False)


@in_soak
@pytest.mark.parametrize("settings", [BEAT, AT_ONCE], ids=["on a beat", "without"])
def test_first_and_repeated_questions_take_as_long_on_the_beat_alone(told, settings):
    """A stored answer leaves on the same beat; without one it is told apart from a new one."""
    assert told(first_and_repeated, settings) is (settings is AT_ONCE)
