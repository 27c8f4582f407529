"""Who is let in: proofs, old keys, TLS, limits of what strangers may cost."""

import socket
import ssl
import struct
import subprocess
import time

import psycopg
import pytest
from server.pgwire.wired import fields, message, messages, received, startup, wired

from sulq.server.services.settings import Settings


def refused(pg, **said):
    with pytest.raises(psycopg.OperationalError) as error:
        pg.connect(**said)
    return str(error.value)


def test_a_key_is_proved_and_a_wrong_one_is_not(pg):
    """The same words for a wrong password, a wrong user and a revoked key."""
    with pg.connect() as connection:
        assert connection.execute("select current_user").fetchone() == (pg.user(),)
    wrong = "password authentication failed"
    assert wrong in refused(pg, password=pg.keys["bob"][:-1] + "x")
    assert wrong in refused(pg, user="sulq_0123456789abcdef")
    assert wrong in refused(pg, user="bob")
    assert wrong in refused(pg, user=pg.user("anna"))


def test_a_key_made_before_is_refused_with_what_to_do(tmp_path):
    """Its verifier cannot be made from a hash: it must be rotated, and then it works."""
    with wired(tmp_path / "instance") as pg:
        with pg.services() as services, services.registry.writing() as run:
            run("UPDATE keys SET scram = NULL")
        assert "rotate" in refused(pg)
        pg.keys["bob"] = pg.call("POST", "/v1/keys/rotate").json["key"]
        with pg.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)
            key = pg.keys["bob"].split("_")[1]
            pg.call("DELETE", f"/v1/keys/{key}", who="anna")
            with pytest.raises(psycopg.errors.InvalidPassword):
                connection.execute("select 1")
        assert "authentication failed" in refused(pg)


def test_one_sees_no_more_than_over_http(pg):
    """A dataset without an invitation is not there, in catalogues or in FROM."""
    with pg.connect("eve") as connection:
        assert connection.execute("select tablename from pg_tables").fetchall() == []
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("select count(*) from people")
    with pg.connect("dan") as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select count(*) from secrets")
    assert "does not exist" in refused(pg, dbname="secrets")
    with pg.connect(dbname="people") as connection:
        assert connection.execute("select current_database()").fetchone() == ("people",)


def test_tls_is_spoken_with_a_certificate_and_nothing_said_before_it_counts(tmp_path):
    """verify-full works; bytes that came in the clear behind the request for TLS end it."""
    folder = tmp_path / "instance"
    made = tmp_path / "tls"
    made.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", made / "key.pem",
         "-out", made / "cert.pem"], check=True, capture_output=True,
    )  # fmt: skip
    said = {"certificate": str(made / "cert.pem"), "private_key": str(made / "key.pem")}
    with wired(folder, said) as pg:
        certificate = str(made / "cert.pem")
        with pg.connect(host="localhost", sslmode="verify-full", sslrootcert=certificate) as found:
            assert found.pgconn.ssl_in_use
            assert found.execute("select 1").fetchone() == (1,)
        with pg.raw() as plain:
            plain.sendall(struct.pack("!ii", 8, 80877103) + startup(user="x"))
            assert received(plain, 5) in (b"", b"S")
        with pg.raw() as plain:
            plain.sendall(struct.pack("!ii", 8, 80877103))
            assert plain.recv(1) == b"S"
            context = ssl.create_default_context(cafile=certificate)
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                secure.sendall(startup(user="x", database="sulq"))
                assert secure.recv(1) == b"R"


def test_without_a_certificate_other_machines_are_not_served(tmp_path):
    """A proxy's TLS does not cover this protocol, so --beyond-loopback is not enough."""
    settings = Settings(tmp_path, host="0.0.0.0", postgres=5433, beyond_loopback=True)
    with pytest.raises(Exception, match="proxy's TLS does not cover"):
        settings.check_listening()


def test_what_proves_nothing_in_time_is_hung_up_on(tmp_path):
    """Silent, slow and garbled clients cost a moment; an honest one is answered beside them."""
    with wired(tmp_path / "instance", {"read_seconds": 1.0}) as pg:
        silent, slow = pg.raw(), pg.raw()
        slow.sendall(startup(user=pg.user(), database="sulq")[:9])
        with pg.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        begun = time.monotonic()
        assert received(silent) == received(slow) == b""
        assert time.monotonic() - begun < 60  # endless is longer than any load
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            struct.pack("!ii", 2**31 - 1, 196608),
            b"\0" * 64,
        ):
            with pg.raw() as connection:
                connection.sendall(garbage)
                found = messages(received(connection))
                assert [kind for kind, _ in found] in ([], ["E"])
        silent.close()
        slow.close()


def test_a_crowd_of_strangers_keeps_nobody_out(pg):
    """300 connections that say nothing: the oldest make room, and a key gets in."""
    crowd = [pg.raw() for _ in range(300)]
    with pg.connect() as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    for one in crowd:
        one.close()


def test_one_person_has_so_many_connections(tmp_path):
    """And when one is closed, another may be opened."""
    with wired(tmp_path / "instance", {"postgres_connections": 3}) as pg:
        held = [pg.connect() for _ in range(3)]
        assert "no more may be" in refused(pg)
        with pg.connect("anna") as other:
            assert other.execute("select 1").fetchone() == (1,)
        held.pop().close()
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                held.append(pg.connect())
                break
            except psycopg.OperationalError:
                pass
        assert len(held) == 3
        for one in held:
            one.close()


def test_a_message_that_is_too_long_is_not_read(pg):
    """It is refused by its length, before it arrives."""
    with pg.connect() as connection, socket.socket(fileno=connection.fileno()) as own:
        own.sendall(b"Q" + struct.pack("!i", 2**31 - 1))
        own.setblocking(True)
        found = messages(received(own, 10))
        assert fields(found[-1][1])["C"] == "54000"
        own.detach()


def test_a_request_for_what_is_newer_is_told_what_is_spoken(pg):
    """Protocol 3.2 and options of the future: version 3.0 is offered."""
    body = struct.pack("!i", 196610) + b"user\0x\0_pq_.new\0on\0\0"
    with pg.raw() as connection:
        connection.sendall(struct.pack("!i", len(body) + 4) + body + message("X"))
        kinds = [kind for kind, _ in messages(received(connection, 5))]
        assert kinds[:2] == ["v", "R"]
