"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a key is proved without being sent.

The registry keeps a verifier beside a key's hash: who reads it can check a proof and cannot make
one. A key of which there is no verifier, or no such key, goes through the same messages and fails
at the end, as in PostgreSQL. Names and keys are ASCII, so SASLprep changes nothing of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096  # as PostgreSQL has it; a secret of 256 random bits needs none
SALT_BYTES = 16
MAX_MESSAGE = 2000  # bytes
NONCE_BYTES = 18
FIRST = re.compile(r"(n|y),(?:a=[^,]*)?,(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]{8,500}))")
FINAL = re.compile(r"(c=([A-Za-z0-9+/=]*),r=([\x21-\x2b\x2d-\x7e]+)),p=([A-Za-z0-9+/=]+)")


class NotProved(Exception):
    """The messages are not as the RFC has them, or the proof is wrong."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a key, in PostgreSQL's own spelling."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, key: str) -> Verifier:
        """A new verifier for a key."""
        salt = secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac("sha256", key.encode(), salt, ITERATIONS)
        client_key = _hmac(salted, b"Client Key")
        stored = hashlib.sha256(client_key).digest()
        return cls(ITERATIONS, salt, stored, _hmac(salted, b"Server Key"))

    @classmethod
    def read(cls, text: str) -> Verifier:
        """A verifier as the registry has it."""
        _, counted, keys = text.split("$")
        count, salt = counted.split(":")
        stored, server = keys.split(":")
        return cls(int(count), *(base64.b64decode(part) for part in (salt, stored, server)))

    @classmethod
    def mock(cls, name: str, secret: bytes) -> Verifier:
        """One that nothing satisfies, with one salt whenever and wherever this name is tried.

        `secret` is known to all processes of a server: a salt that changes would tell that there is
        no such key.
        """
        salt = _hmac(secret, name.encode())[:SALT_BYTES]
        return cls(ITERATIONS, salt, secrets.token_bytes(32), secrets.token_bytes(32))

    def __str__(self) -> str:
        salt, stored, server = map(_text, (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"


class Exchange:
    """The server's side of one exchange: `first`, then `final`."""

    def __init__(self, verifier: Verifier, nonce: str | None = None) -> None:
        self._verifier = verifier
        self._own = nonce or base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        self._binding = self._bare = self._said = self._nonce = ""

    def first(self, message: bytes) -> bytes:
        """The reply to the client's first message: a nonce, the salt, the number of rounds."""
        found = FIRST.fullmatch(_ascii(message))
        if found is None:  # 'p=': a channel binding that was not offered
            raise NotProved
        self._binding, self._bare = f"{found[1]},,", found[2]
        self._nonce = found[3] + self._own
        salt, rounds = _text(self._verifier.salt), self._verifier.iterations
        self._said = f"r={self._nonce},s={salt},i={rounds}"
        return self._said.encode()

    def final(self, message: bytes) -> bytes:
        """The server's own proof, if the client's is right."""
        found = FINAL.fullmatch(_ascii(message))
        if found is None:
            raise NotProved
        binding, nonce, proof = _bytes(found[2]), found[3], _bytes(found[4])
        said = f"{self._bare},{self._said},{found[1]}".encode()
        signature = _hmac(self._verifier.stored_key, said)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        same = hmac.compare_digest(nonce.encode(), self._nonce.encode())
        if not (right and same and len(proof) == 32 and binding == self._binding.encode()):
            raise NotProved
        return f"v={_text(_hmac(self._verifier.server_key, said))}".encode()


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _ascii(message: bytes) -> str:
    if len(message) > MAX_MESSAGE or not message.isascii():
        raise NotProved
    return message.decode("ascii")


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise NotProved from None
