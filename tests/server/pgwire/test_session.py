"""Statements and results: simple and extended, parameters, transactions, cursors, COPY, cancel."""

import datetime
import threading

import psycopg
import pytest
from server.instance import columns
from server.pgwire.wired import SMOKERS, fields, message, messages, wired

AGE = "select count(*) from people where age > {} and city = {}"


def test_parameters_mean_what_literals_mean(pg):
    """Text or binary, prepared or not: one question, paid once, one answer."""
    with pg.connect() as connection:
        connection.execute("set sulq.spend = 1")
        first = connection.execute(AGE.format(40, "'rome'")).fetchone()
        for binary in (False, True):
            for prepare in (False, True):
                said = connection.execute(
                    AGE.format("%s", "%s"), (40, "rome"), binary=binary, prepare=prepare
                )
                assert said.fetchone() == first


def test_a_parameter_is_a_value_and_never_sql(pg):
    """Quotes, comments and a whole statement inside of it stay text."""
    with pg.connect() as connection:
        before = pg.spent()
        connection.execute("set sulq.spend = 9")
        for said in ("rome' or 'a'='a", "'; drop table people; --", "rome'--", "\\'", "$1", "%s"):
            with pytest.raises(psycopg.Error) as error:
                connection.execute("select count(*) from people where city = %s", (said,))
            assert error.value.sqlstate == "42000"
        assert connection.execute("select %s", ("'; select 2; --",)).fetchone() == (
            "'; select 2; --",
        )
        assert pg.spent() == before


def test_every_type_comes_back_as_text_and_in_binary(tmp_path):
    """Groups of booleans, integers and texts, dates as parameters, what is missing as NULL."""
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)]
    table = columns(
        flag=[True, False] * 5, size=[1, 2] * 5, day=days * 5, name=["a", "b"] * 5, x=[0.5] * 10
    )
    schema = {
        "flag": {"type": "boolean", "public": True},
        "size": {"values": [1, 2], "public": True},
        "day": {"type": "date", "low": "2024-01-01", "high": "2024-12-31", "public": True},
        "name": {"values": ["a", "b"], "public": True},
        "x": {"type": "number", "low": 0, "high": 1},
    }
    with wired(tmp_path / "instance", table=table, schema=schema) as pg, pg.connect() as connection:
        for binary in (False, True):

            def asked(column, binary=binary):
                text = f"select {column}, count(*) from people group by {column}"
                return connection.execute(text, binary=binary).fetchall()

            assert asked("flag")[:2] == [(False, 5.0), (True, 5.0)]
            assert asked("size") == [(1, 5.0), (2, 5.0), (None, 0.0)]
            assert asked("name") == [("a", 5.0), ("b", 5.0), ("(other)", 0.0)]
        text = "select count(*) from people where day = %s and flag = %s and size = %s"
        assert connection.execute(text, (days[0], True, 1)).fetchone() == (5.0,)


def test_a_transaction_holds_nothing_and_fails_as_a_whole(pg):
    """After an error only its end is heard; savepoints go back behind it."""
    with pg.connect(autocommit=False) as connection:
        connection.execute("select 1")
        with pytest.raises(psycopg.Error):
            connection.execute("select nope from people")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("select 1")
        connection.rollback()
        with connection.transaction(), pytest.raises(psycopg.Error), connection.transaction():
            connection.execute("select nope from people")
        assert connection.execute("select 2").fetchone() == (2,)


def test_cursors_and_copy_give_the_rows_of_a_select(pg):
    """DECLARE and FETCH bit by bit; COPY as text and as CSV."""
    with pg.connect(autocommit=False) as connection:
        text = "select region, count(*) as n from people group by region"
        rows = connection.execute(text).fetchall()
        with connection.cursor("one") as cursor:
            cursor.execute(text)
            assert cursor.fetchmany(2) + cursor.fetchall() == rows
        with connection.cursor().copy(f"copy ({text}) to stdout") as copy:
            assert [(a, float(b)) for a, b in copy.rows()] == rows
        with connection.cursor().copy(f"copy ({text}) to stdout (format csv, header)") as copy:
            lines = b"".join(bytes(part) for part in copy).decode().splitlines()
        assert lines[0] == "region,n"
        assert lines[1:] == [f"{name},{n:g}" for name, n in rows]


def test_a_portal_is_fetched_a_few_rows_at_a_time(pg):
    """Execute with a limit suspends; the question was asked and paid once."""
    with pg.connect() as connection:
        wire = _Raw(connection)
        wire.send("P", b"\0select typname from pg_type order by oid\0\0\0")
        wire.send("B", b"\0\0\0\0\0\0\0\0")
        wire.send("E", b"\0\0\0\0\2")
        wire.send("E", b"\0\0\0\0\1")
        wire.send("S")
        kinds = "".join(kind for kind, _ in wire.until("Z"))
        assert kinds == "12DDsDsZ"


def test_what_follows_an_error_is_skipped_up_to_sync(pg):
    """As PostgreSQL does: one error, then ready; the connection goes on."""
    with pg.connect() as connection:
        wire = _Raw(connection)
        wire.send("P", b"a\0select nope from people\0\0\0")
        wire.send("D", b"Sa\0")
        wire.send("B", b"\0a\0\0\0\0\0\0\0")
        wire.send("E", b"\0\0\0\0\0")
        wire.send("S")
        found = wire.until("Z")
        assert [kind for kind, _ in found] == ["1", "t", "E", "Z"]
        assert fields(found[2][1])["C"] == "42000"
        wire.send("Q", b"select 7\0")
        assert "".join(kind for kind, _ in wire.until("Z")) == "TDCZ"


def test_several_statements_in_one_message_run_until_one_fails(pg):
    """Each with its own reply."""
    with pg.connect() as connection:
        wire = _Raw(connection)
        wire.send("Q", b"select ';' as a; /* ; */ set extra_float_digits = 3; nope; select 2\0")
        assert "".join(kind for kind, _ in wire.until("Z")) == "TDCCEZ"
        wire.send("Q", b" ; -- nothing\0")
        assert "".join(kind for kind, _ in wire.until("Z")) == "IZ"


def test_a_statement_under_way_is_cancelled(tmp_path):
    """The client hears of it at once, and the connection goes on."""
    slow = {"padding": True, "deadline_seconds": 30}
    with wired(tmp_path / "instance", slow) as pg, pg.connect() as connection:
        connection.execute("set sulq.spend = 9")
        timer = threading.Timer(0.5, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled) as error:
            connection.execute(SMOKERS)
        assert "asking the same again is free" in error.value.diag.message_detail
        connection.execute("set statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="timeout"):
            connection.execute(SMOKERS)
        connection.execute("reset statement_timeout")
        assert connection.execute("select 1").fetchone() == (1,)


def test_settings_are_told_and_kept_apart(pg):
    """What one connection sets, another does not see; changes that matter are told."""
    with pg.connect() as one, pg.connect() as other:
        one.execute("set application_name = 'mine'")
        assert one.info.parameter_status("application_name") == "mine"
        assert other.execute("show application_name").fetchone() == ("",)
        assert one.info.server_version // 10_000 == 15
        assert one.execute("select set_config('sulq.intervals', 'on', false)").fetchone() == ("on",)
        assert dict((n, v) for n, v, _ in one.execute("show all"))["sulq.intervals"] == "on"


class _Raw:
    """The protocol by hand, on a connection that was let in."""

    def __init__(self, connection):
        import socket

        self._socket = socket.socket(fileno=connection.fileno())
        self._socket.setblocking(True)
        self._socket.settimeout(20)

    def send(self, kind, body=b""):
        self.send_all(message(kind, body))

    def send_all(self, data):
        self._socket.sendall(data)

    def until(self, last):
        data = b""
        while not (found := messages(data)) or found[-1][0] != last:
            part = self._socket.recv(65536)
            assert part
            data += part
        return found

    def some(self):
        """What comes until it is ready again, or hangs up."""
        data = b""
        while not (found := messages(data)) or found[-1][0] != "Z":
            if not (part := self._socket.recv(65536)):
                break
            data += part
        return data

    def __del__(self):
        self._socket.detach()
