"""Bytes -> strict JSON within limits.

What a body holds is counted first, by its brackets and commas: objects cost far more than their
bytes, to parse, to check and to refuse.

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
BYTES_EACH = 50  # of the most that a body may have, for each object or list in it,
BYTES_EACH_VALUE = 6  # and for each value: a list of keys has seven digits and a comma
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a character, which no text may hold
BRACKETS = re.compile(rb"[\[\]{}]")


def parsed(body: bytes, nesting: int, most: int) -> Any:
    """One JSON document; QueryNotAllowed or LimitReached if it is none we take.

    `most` is the number of bytes that a body may have.
    """
    check_count(body, most)
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


def check_count(body: bytes, most: int) -> None:
    """Refuse more objects or values than belong into a body, before a parser meets them.

    Brackets and commas in texts count only where there are too many of them otherwise.
    """
    lists, values = most // BYTES_EACH, most // BYTES_EACH_VALUE
    if _lists(body) <= lists and body.count(b",") <= values:
        return
    # To leave out many texts would take longer than to parse what may be there.
    bare = STRING.sub(b"", body) if body.count(b'"') <= 2 * lists else body
    if _lists(bare) > lists or bare.count(b",") > values:
        raise LimitReached(
            f"the body has more than {lists:,} objects and lists, or {values:,} values. Nothing "
            "was charged.\nSend it in parts."
        )


def _lists(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def check_nesting(body: bytes, most: int) -> None:
    """Refuse brackets within brackets before a parser meets them."""
    if _lists(body) <= most:
        return
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
