"""Bytes -> strict JSON within limits.

Python's parser is more lenient than the standard: it reads NaN, keeps the last of two equal
names, and takes numbers of any length. Two readers of one body must not see two things, so all
of that is refused here.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from sulq.errors import LimitReached, QueryNotAllowed

LONGEST_NUMBER = 400  # digits, as exact numbers in queries may have
MAX_NAMES = 100  # in the outermost object: each unknown one is an error of its own
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a character, which no text may hold
BRACKETS = re.compile(rb"[\[\]{}]")


def parsed(body: bytes, nesting: int) -> Any:
    """One JSON document; QueryNotAllowed or LimitReached if it is none we take."""
    check_nesting(body, nesting)
    try:
        found = json.loads(
            body.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant,
            parse_int=_whole, parse_float=_number,
        )  # fmt: skip
        if HALF.search(body):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise _malformed("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise LimitReached("the body is nested too deeply. Nothing was charged.") from None
    if isinstance(found, dict) and len(found) > MAX_NAMES:
        raise _malformed(f"it has {len(found):,} names, and no body here has {MAX_NAMES}")
    return found


def check_nesting(body: bytes, most: int) -> None:
    """Refuse brackets within brackets before a parser meets them."""
    depth = 0
    for match in BRACKETS.finditer(STRING.sub(b"", body)):
        depth += 1 if match[0] in (b"[", b"{") else -1
        if depth > most:
            raise LimitReached(
                f"the body is nested more than {most} deep. Nothing was charged.\nWrite it flatter."
            )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _malformed(f"{name[:60]!r} is given twice")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise _malformed(f"{name} is no JSON number")


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise _malformed(f"a number has more than {LONGEST_NUMBER} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text) if len(text) <= LONGEST_NUMBER else math.inf
    if not math.isfinite(value):
        raise _malformed("a number is too large or too long")
    return value


def _malformed(why: str) -> QueryNotAllowed:
    return QueryNotAllowed(f"the body is not JSON as wanted here: {why}. Nothing was charged.")
