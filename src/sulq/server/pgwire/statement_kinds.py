"""Text -> statements, and what kind each is. Only a SELECT is read further; nothing is run here."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

MAX_STATEMENTS = 100  # in one message
SPACE = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]+")
NAME = r'("(?:[^"]|"")+"|[A-Za-z_][A-Za-z0-9_$.]*)'
KINDS = {
    "begin": "begin", "start": "begin", "commit": "commit", "end": "commit", "rollback": "rollback",
    "abort": "rollback", "savepoint": "savepoint", "release": "release", "set": "set",
    "reset": "reset", "show": "show", "discard": "discard", "deallocate": "deallocate",
    "close": "close", "fetch": "fetch", "move": "fetch", "declare": "declare", "copy": "copy",
    "explain": "explain", "select": "select", "with": "select", "values": "select",
    "table": "select", "(": "select", "unlisten": "unlisten",
}  # fmt: skip
SET = re.compile(
    rf"set\s+(?:session\s+|local\s+)?(?:{NAME}(?:\s*=|\s+to\s+)|(time\s+zone|names)\s+)(.*)",
    re.IGNORECASE | re.DOTALL,
)
MODES = re.compile(
    r"set\s+(?:session\s+characteristics\s+as\s+|local\s+|session\s+)?transaction\b.*",
    re.IGNORECASE | re.DOTALL,
)
SESSION_ROLE = re.compile(
    r"set\s+(?:session\s+|local\s+)?(?:role|session\s+authorization)\b.*", re.IGNORECASE | re.DOTALL
)
RESET = re.compile(rf"reset\s+(all|time\s+zone|{NAME})", re.IGNORECASE)
SHOW = re.compile(
    rf"show\s+(all|time\s+zone|transaction\s+isolation\s+level|{NAME})", re.IGNORECASE
)
DECLARE = re.compile(
    rf"declare\s+{NAME}\s+(?:binary\s+|insensitive\s+|asensitive\s+|no\s+scroll\s+|scroll\s+)*"
    r"cursor\s+(?:with\s+hold\s+|without\s+hold\s+)?for\s+(.*)", re.IGNORECASE | re.DOTALL,
)  # fmt: skip
FETCH = re.compile(
    r"(fetch|move)\s+(?:(next|forward\s+all|all|forward\s+\d+|forward|\d+)\s+)?(?:from\s+|in\s+)?"
    rf"{NAME}", re.IGNORECASE,
)  # fmt: skip
CLOSE = re.compile(rf"close\s+{NAME}", re.IGNORECASE)
DEALLOCATE = re.compile(rf"deallocate\s+(?:prepare\s+)?{NAME}", re.IGNORECASE)
COPY = re.compile(r"copy\s*\((.*)\)\s*to\s+stdout\s*(.*)", re.IGNORECASE | re.DOTALL)
EXPLAIN = re.compile(
    r"explain\s*(?:\(([^()]*)\)\s*|((?:analyze\s+|analyse\s+|verbose\s+)*))(.*)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ClientStatement:
    """One statement as a client sent it."""

    kind: str  # '': nothing at all; 'other': nothing that is known
    text: str

    @property
    def word(self) -> str:
        """Its first word, as PostgreSQL names what was done."""
        found = WORD.match(self.text)
        return found[0].upper() if found else ""


def statement(text: str) -> ClientStatement:
    """What kind of statement this is."""
    bare = _bare(text)
    found = WORD.match(bare)
    first = found[0].lower() if found else bare[:1]
    return ClientStatement(KINDS.get(first, "other") if bare else "", bare)


def _bare(text: str) -> str:
    """Without what stands before and after it."""
    found = SPACE.match(text)
    text = text[found.end() :] if found else text
    return text.rstrip(" \t\r\n\f\v;")


def statements(text: str) -> list[ClientStatement] | None:
    """The statements of a message; None if there are too many."""
    parts = [text]
    if ";" in _bare(text):
        try:
            ends = [t.start for t in tokens_of(text) if t.token_type == TokenType.SEMICOLON]
        except SqlglotError:
            ends = []  # a quote is left open: it is refused as a whole
        if len(ends) > MAX_STATEMENTS:
            return None
        places = [-1, *ends, len(text)]
        parts = [text[a + 1 : b] for a, b in itertools.pairwise(places)]
    found = [made for made in map(statement, parts) if made.kind]
    return found or [ClientStatement("", "")]


def tokens_of(text: str) -> list[Any]:
    """The words of a text, as PostgreSQL divides it."""
    return list(sqlglot.tokenize(text, read="postgres"))


def parameters(tokens: list[Any]) -> list[tuple[int, int, int]]:
    """Where $1, $2, ... stand: the number, the beginning and the end of each."""
    found = []
    for sign, number in itertools.pairwise(tokens):
        beside = number.start == sign.end + 1 and number.token_type == TokenType.NUMBER
        if sign.token_type == TokenType.PARAMETER and beside and number.text.isdecimal():
            found.append((int(number.text[:6]), sign.start, number.end + 1))
    return found


def substituted(text: str, tokens: list[Any], literals: list[str]) -> str:
    """The text with a literal in the place of each parameter."""
    parts, at = [], 0
    for number, start, end in parameters(tokens):
        parts += [text[at:start], f" {literals[number - 1]} "]
        at = end
    return "".join([*parts, text[at:]])


def unquoted(name: str) -> str:
    """A name or a value without the quotes around it."""
    text = name.strip()
    for sign in "\"'":
        if len(text) >= 2 and text[0] == text[-1] == sign:
            return text[1:-1].replace(sign * 2, sign)
    return text
