"""Random, mutated, split and slow messages: no crash, no hang, no growth, nothing unpriced."""

import random
import socket
import struct
import time
from contextlib import suppress

import psutil
import pytest
from server.pgwire.wired import message, startup, wired
from soak import times

STATEMENTS = [
    b"select 1", b"select count(*) from people", b"select count(*) from people where secret",
    b"select region, avg(income) from people where age > 30 group by region", b"begin", b"rollback",
    b"select * from pg_class", b"select relname from pg_class where oid = 'people'::regclass",
    b"explain select count(*) from people where age > 3", b"show all", b"set sulq.intervals = on",
    b"declare c cursor for select 1", b"fetch all from c", b"copy (select 1) to stdout", b"",
    b"select count(*) from people where age > $1 and city = $2", b"select '", b"select ((((((((1",
    b"set application_name = 'x'", b"discard all", b"select generate_series(1, 100000000)",
]  # fmt: skip
LARGEST = 150_000_000  # bytes that memory may grow by, whatever was sent
QUIET_SECONDS = 30.0  # for one reply


def valid(rng):
    """A message as clients send it, or nearly."""
    text, name = rng.choice(STATEMENTS), rng.choice([b"", b"a", b"b"])
    values = [struct.pack("!i", len(v)) + v for v in (b"40", b"rome")[: rng.randint(0, 2)]]
    bound = struct.pack("!hh", 0, len(values)) + b"".join(values) + struct.pack("!h", 0)
    return rng.choice([
        message("Q", text + b"\0"), message("P", name + b"\0" + text + b"\0\0\0"),
        message("B", b"\0" + name + b"\0" + bound),
        message("D", rng.choice([b"S", b"P"]) + name + b"\0"),
        message("E", b"\0" + struct.pack("!i", rng.choice([0, 1, -1]))), message("S"), message("H"),
        message("C", b"S" + name + b"\0"), message("F", b"\0" * 10), message("d", b"x" * 10),
        message("c"), message("f", b"x\0"), message("p", b"SCRAM\0"), message("x", b"?"),
    ])  # fmt: skip


def mutated(rng, data):
    """The same with some bytes changed, lost, doubled or lied about."""
    data = bytearray(data)
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place : place + rng.randint(1, 9)]
        elif kind == 2:
            data[place:place] = rng.randbytes(rng.randint(1, 9))
        elif kind == 3 and len(data) >= 5:
            data[1:5] = struct.pack("!i", rng.choice([0, -1, 3, 4, 2**31 - 1, len(data) + 3]))
        else:
            data += data[place:]
        if not data:
            return b""
    return bytes(data)


def sent(own, data, rng):
    """Send it, whole or in pieces."""
    while data:
        size = len(data) if rng.random() < 0.5 else rng.randint(1, len(data))
        own.sendall(data[:size])
        data = data[size:]


def one_connection(pg, rng, count):
    """Some messages on a connection that was let in; how many were sent.

    On most connections the frames are whole, so that each message is read and answered.
    """
    done, framed = 0, rng.random() < 0.8
    with pg.connect() as connection:
        own = socket.socket(fileno=connection.fileno())
        try:
            own.settimeout(QUIET_SECONDS)
            while done < count:
                data = valid(rng)
                bad = rng.random() < 0.5
                done += 1
                if bad and framed:
                    data = message(chr(data[0]), mutated(rng, data[5:] or b"?"))
                sent(own, mutated(rng, data) if bad and not framed else data, rng)
                sent(own, message("S"), rng)
                own.setblocking(False)
                with suppress(BlockingIOError):
                    while own.recv(1 << 20):
                        pass
                    break  # hung up
                own.settimeout(QUIET_SECONDS)
            own.settimeout(QUIET_SECONDS)
            if framed:
                own.sendall(message("X"))
            else:
                own.shutdown(socket.SHUT_WR)
            while own.recv(1 << 20):
                pass
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
        finally:
            own.detach()
    return done


@pytest.mark.parametrize("seed", [time.time_ns() if times(0, 1) else 7])
def test_messages_of_any_kind_are_answered_or_refused(tmp_path, seed):
    """Nothing hangs, nothing is spent, memory stays, and an honest client is answered after."""
    rng, process = random.Random(seed), psutil.Process()
    with wired(tmp_path / "instance", {"read_seconds": 2.0, "postgres_connections": 500}) as pg:
        before = pg.spent()
        sent_so_far, wanted = 0, times(250, 10_000)
        memory = 0
        while sent_so_far < wanted:
            sent_so_far += one_connection(pg, rng, 25)
            if not memory and sent_so_far > wanted / 5:
                memory = process.memory_info().rss
        assert pg.spent() == before, f"seed {seed}"
        assert process.memory_info().rss - memory < LARGEST, f"seed {seed}"
        with pg.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_first_messages_of_any_kind_end_in_time(tmp_path):
    """Before a key is proved: random bytes, mutated starts, and some that stop in the middle."""
    rng = random.Random(11)
    with wired(tmp_path / "instance", {"read_seconds": 1.0}) as pg:
        held = []
        for _ in range(times(40, 1000)):
            own = pg.raw()
            data = startup(user=pg.user(), database="sulq")
            data += (
                message("p", b"SCRAM-SHA-256\0\0\0\0\x08n,,n=,r=") if rng.random() < 0.5 else b""
            )
            with suppress(ConnectionError):
                own.sendall(rng.randbytes(40) if rng.random() < 0.3 else mutated(rng, data))
            held.append(own)
        begun = time.monotonic()
        for own in held:
            own.settimeout(QUIET_SECONDS)
            with suppress(ConnectionError):
                while own.recv(1 << 20):
                    pass
            own.close()
        assert time.monotonic() - begun < QUIET_SECONDS
        with pg.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_what_is_allowed_is_never_exceeded(tmp_path):
    """Random SELECTs within sulq.spend: the ledger has what was allowed at most."""
    rng = random.Random(13)
    with wired(tmp_path / "instance") as pg:
        for _ in range(times(2, 20)):
            before = pg.spent()
            with pg.connect() as connection:
                connection.execute("set sulq.spend = 2.5")
                for _ in range(8):
                    age = rng.randint(0, 99)
                    with suppress(Exception):
                        connection.execute(f"select count(*) from people where age > {age}")
            assert pg.spent() - before <= 2_500_000
