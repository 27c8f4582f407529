"""A stranger at PostgreSQL's door: replays, downgrades, races, too much of something."""

import base64
import hashlib
import hmac
import struct
import threading

import psycopg
import pytest
from server.pgwire.test_session import _Raw as Raw
from server.pgwire.wired import fields, message, messages, received, startup, wired

from sulq.server.pgwire import listener, statement_kinds
from sulq.server.pgwire.copy_out import CopyOptions
from sulq.server.services.answers import Answers

N = 130_000  # letters, about as many as one message may have
COUNT = "select count(*) from people where age > {}"


# ---- proofs ---------------------------------------------------------------------------------


def proof(key, nonce, first):
    """The client's last message of an exchange, as it is made with the key."""
    said = first.decode()
    salt = base64.b64decode(said.split(",")[1][2:])
    salted = hashlib.pbkdf2_hmac("sha256", key.encode(), salt, int(said.split("i=")[1]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    bare = f"c=biws,r={said.split(',')[0][2:]}"
    signed = f"n=,r={nonce},{said},{bare}".encode()
    mask = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    mixed = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
    return f"{bare},p={base64.b64encode(mixed).decode()}".encode()


def exchange(pg, last, nonce="abcdefghijkl"):
    """What the server says to an exchange that ends with `last(first reply)`."""
    begun = f"n,,n=,r={nonce}".encode()
    with pg.raw() as own:
        own.sendall(startup(user=pg.user(), database="sulq"))
        own.sendall(message("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(begun)) + begun))
        data = b""
        while b",i=" not in data:
            data += own.recv(4096)
        first = messages(data)[-1][1][4:]
        own.sendall(message("p", last(first)) + message("X"))
        return received(own, 10)


def test_a_proof_that_was_overheard_is_worth_nothing(pg):
    """Each exchange has a nonce of the server's: what proved a key once proves nothing again."""
    kept = []

    def honest(first):
        kept.append(proof(pg.keys["bob"], "abcdefghijkl", first))
        return kept[0]

    assert messages(exchange(pg, honest))[1] == ("R", b"\0\0\0\0")
    for replayed in (lambda first: kept[0], lambda first: with_nonce(kept[0], first)):
        (found,) = [body for kind, body in messages(exchange(pg, replayed)) if kind == "E"]
        assert fields(found)["C"] == "28P01"


def with_nonce(old, first):
    """An old proof under the nonce of now."""
    return b"c=biws," + first.split(b",")[0] + b",p=" + old.split(b",p=")[1]


def test_from_elsewhere_nobody_is_let_in_without_tls(tmp_path, monkeypatch):
    """Whoever strips the request for TLS ends the connection before a key is proved."""
    import subprocess

    made = tmp_path / "tls"
    made.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-keyout", made / "key.pem", "-out", made / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    said = {"certificate": str(made / "cert.pem"), "private_key": str(made / "key.pem")}
    with wired(tmp_path / "instance", said) as pg:
        monkeypatch.setattr(listener, "is_loopback", lambda address: False)
        with pytest.raises(psycopg.OperationalError, match="connect with TLS"):
            pg.connect(sslmode="disable")
        with pg.raw() as own:  # a refusal of TLS by somebody between, then a start in the clear
            own.sendall(startup(user=pg.user(), database="sulq"))
            kinds = [kind for kind, _ in messages(received(own, 10))]
            assert kinds == ["E"]
        with pg.connect(sslmode="require") as connection:
            assert connection.execute("select 1").fetchone() == (1,)


# ---- spending -------------------------------------------------------------------------------


def test_a_refresh_between_price_and_charge_spends_nothing(tmp_path, monkeypatch):
    """A stored answer is free; if the rows change meanwhile, its new price was not allowed."""
    with wired(tmp_path / "instance") as pg, pg.connect() as connection:
        connection.execute("set sulq.spend = 1")
        connection.execute(COUNT.format(50))
        before, real = pg.spent(), Answers.unpaid

        async def refreshed(self, principal, record, question):
            found = await real(self, principal, record, question)
            db = (await self.dataset(record)).db
            db._ledger.renew(db._ledger.terms, {"reason": "somebody refreshed"})
            return found

        monkeypatch.setattr(Answers, "unpaid", refreshed)
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="refreshed") as error:
            connection.execute(COUNT.format(50))
        assert error.value.diag.message_detail == "Nothing was charged."
        assert pg.spent() == before


def test_a_prepared_statement_is_held_to_the_cap_of_now(tmp_path):
    """Not to that of when it was prepared, nor to what the connection may spend."""
    with wired(tmp_path / "instance") as pg, pg.connect() as connection:
        key = pg.keys["bob"].split("_")[1]
        pg.call("PUT", f"/v1/keys/{key}/cap", {"queries": 9}, who="anna")
        ask = "select count(*) from people where age > %s"
        connection.execute(ask, (1,), prepare=True)
        pg.call("PUT", f"/v1/keys/{key}/cap", {"queries": 1}, who="anna")
        connection.execute("set sulq.spend = 99")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute(ask, (2,), prepare=True)
        pg.call("PUT", f"/v1/keys/{key}/cap", {"queries": None}, who="anna")
        connection.execute("reset sulq.spend")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute(ask, (3,), prepare=True)
        assert pg.spent() == 1_000_000


def test_what_is_cancelled_counts_as_spent(tmp_path):
    """Ten statements cancelled at any moment: never more is charged than one may spend."""
    slow = {"padding": True, "deadline_seconds": 0.2}
    with wired(tmp_path / "instance", slow) as pg, pg.connect() as connection:
        connection.execute("set sulq.spend = 3")
        for turn in range(10):
            timer = threading.Timer(0.03 * turn, connection.cancel_safe)
            timer.start()
            try:
                connection.execute(COUNT.format(60 + turn))
            except psycopg.errors.QueryCanceled:
                assert connection.info.transaction_status == 0
            except (psycopg.errors.ConfigurationLimitExceeded, psycopg.errors.SerializationFailure):
                pass
            timer.join()
        assert pg.spent() <= 3_000_000
        assert pg.spent() <= 1e6 * float(connection.execute("show sulq.spent").fetchone()[0])


@pytest.mark.parametrize("text", [
    "begin; set sulq.spend = 0; {}; commit", "set local sulq.spend = 0; {}",
    "savepoint a; {}", "explain {0}; {0}", "declare c cursor for {}", "copy ({}) to stdout",
    "select set_config('sulq.spend', '0', true); {}", "do $$ begin {}; end $$", "prepare x as {}",
    "with x as ({}) select * from x", "table people; {}", "explain (analyze false) {0}; {0}",
    "select (select sulq_spend from pg_settings); {}", "set sulq.spend = -5; {}",
    "set sulq.spend = '1e400'; {}", "set sulq.spend = nan; {}", "set sulq.spend to default; {}",
])  # fmt: skip
def test_no_way_to_ask_spends_without_an_allowance(pg, text):
    """Several statements, cursors, COPY, settings inside of a SELECT: refused, nothing spent."""
    before = pg.spent()
    with pg.connect() as connection:
        wire = Raw(connection)
        wire.send("Q", text.format(COUNT.format(91)).encode() + b"\0")
        assert "E" in [kind for kind, _ in wire.until("Z")]
    assert pg.spent() == before


# ---- too much of something ------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [
    "set a" + " " * N + "b", "set session" + " " * N + "x", ";" * N, " ;" * (N // 2),
    "/**/" * (N // 4), "--\n" * (N // 3), "declare a" + " " * N, "fetch" + " " * N + "!",
    "explain " + "analyze " * (N // 8), "copy (" + ") " * (N // 2), "show transaction" + " " * N,
])  # fmt: skip
def test_dividing_a_message_takes_as_long_as_it_is(text):
    """100,000 spaces once took a minute, in which nobody else was answered."""
    for each in statement_kinds.statements(text) or ():
        for pattern in ("SET", "MODES", "SESSION_ROLE", "RESET", "SHOW", "DECLARE", "FETCH",
                        "CLOSE", "DEALLOCATE", "COPY", "EXPLAIN"):  # fmt: skip
            getattr(statement_kinds, pattern).fullmatch(each.text)


@pytest.mark.timeout(60)
def test_reading_the_options_of_copy_takes_as_long_as_they_are():
    """Spaces and brackets without end are refused, or read, at once."""
    for text in ("(" + " " * N + "x", ")" * N, "with" + " " * N, "delimiter" + " " * N + "x"):
        with pytest.raises(Exception, match="COPY"):
            CopyOptions.read(text + " nope")
    assert CopyOptions.read(" with (format csv, header)").csv
    assert CopyOptions.read("CSV HEADER").header


@pytest.mark.parametrize(("kind", "body"), [
    ("B", b"\0a\0" + struct.pack("!hhhhi", 2, 0, 0, 1, 2) + b"40" + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hhhi", 1, 7, 1, 2) + b"40" + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hhhi", 1, 1, 1, 3) + b"abc" + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hhi", 0, 1, 100_000) + b"9" * 100_000 + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hhi", 0, 1, 4) + b"1e99" + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hhi", 0, 1, 3) + b"\xff\xfe\x00" + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hhi", 0, 1, -5) + struct.pack("!h", 0)),
    ("B", b"\0a\0" + struct.pack("!hh", 0, -1) + struct.pack("!h", 0)),
    ("E", b"\0" + struct.pack("!i", -7)), ("D", b"Xa\0"), ("C", b"Xa\0"), ("D", b"S"), ("P", b"a"),
])  # fmt: skip
def test_values_that_are_none_are_refused_in_words(pg, capsys, kind, body):
    """Forms, lengths and numbers that cannot be: an error of the protocol, none of the server's."""
    before = pg.spent()
    with pg.connect() as connection:
        connection.execute("set sulq.spend = 1")
        wire = Raw(connection)
        parse = message("P", b"a\0" + COUNT.format("$1").encode() + b"\0\0\0")
        run = message("E", b"\0\0\0\0\0") + message("S")
        wire.send_all(parse + message(kind, body) + run)  # at once: it may be hung up on
        found = [fields(said)["C"] for k, said in messages(wire.some()) if k == "E"]
        assert found
        assert "XX000" not in found
    assert pg.spent() == before
