"""SCRAM-SHA-256: the example of the RFC, and every way to fail."""

import base64
import hashlib

import pytest

from sulq.server.services.scram import Exchange, NotProved, Verifier, _hmac

# RFC 7677, section 3: user 'user', password 'pencil'.
CLIENT, SERVER = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = f"n,,n=user,r={CLIENT}".encode()
FINAL = f"c=biws,r={CLIENT}{SERVER},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()


def verifier(password="pencil"):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, 4096)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return Verifier(4096, SALT, stored, _hmac(salted, b"Server Key"))


def test_the_example_of_the_rfc_is_proved():
    """The messages of RFC 7677, byte for byte."""
    exchange = Exchange(verifier(), SERVER)
    assert exchange.first(FIRST) == f"r={CLIENT}{SERVER},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert exchange.final(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("final", [
    FINAL.replace(b"p=d", b"p=e"), FINAL.replace(b"biws", b"eSws"), FINAL[:-8],
    FINAL.replace(CLIENT.encode(), b"somebodyElse"), b"", b"c=biws", FINAL + b",x=1", b"\xff" * 50,
    FINAL.replace(b"p=dHzb", b"p=!!!!"), b"c=" + b"b" * 5000,
])  # fmt: skip
def test_a_wrong_proof_is_refused(final):
    """Another proof, nonce or binding, or no message at all."""
    exchange = Exchange(verifier(), SERVER)
    exchange.first(FIRST)
    with pytest.raises(NotProved):
        exchange.final(final)


@pytest.mark.parametrize(
    "first", [b"", b"p=tls-unique,,n=a,r=abcdefgh", b"n,,n=a", b"n,,n=a,r=ab c,"]
)
def test_a_first_message_of_another_form_is_refused(first):
    """Channel binding was not offered, so it is not taken."""
    with pytest.raises(NotProved):
        Exchange(verifier(), SERVER).first(first)


def test_another_password_is_refused_and_a_mock_proves_nothing():
    """Neither a wrong key nor a key that is not there gets through."""
    for kept in (verifier("pen"), Verifier.mock("user", b"s")):
        exchange = Exchange(kept, SERVER)
        exchange.first(FIRST)
        with pytest.raises(NotProved):
            exchange.final(FINAL)


def test_a_verifier_is_read_as_it_was_written():
    """And two of one key have different salts."""
    one, other = Verifier.of("sulq_key"), Verifier.of("sulq_key")
    assert Verifier.read(str(one)) == one
    assert one.salt != other.salt
    salts = [Verifier.mock(*said).salt for said in (("x", b"s"), ("x", b"s"), ("y", b"s"))]
    assert salts[0] == salts[1] != salts[2]
