"""Messages of JSON-RPC 2.0, read strictly: a request, a notification, or why it is neither."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PARSE, INVALID, NO_METHOD, NO_PARAMS, FAILED = -32700, -32600, -32601, -32602, -32603
MAX_ID = 200  # letters
MAX_DEPTH = 40  # of nested lists and objects


class RpcError(Exception):
    """A message that cannot be served: a code of JSON-RPC, and words."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Request:
    """A method and what it takes; without an id it is a notification, which gets no reply."""

    id: int | str | None
    method: str
    params: dict[str, Any]


def parsed(text: str | bytes) -> Any:
    """One JSON value; refused if it is none, or says a name twice."""
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise RpcError(PARSE, "this is not JSON, or names a field twice.") from None
    if _depth(found) > MAX_DEPTH:
        raise RpcError(INVALID, "the message is nested too deeply.")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("twice")
    return found


def _no_constant(_: str) -> Any:
    raise ValueError("JSON has no NaN")


def _depth(value: Any) -> int:
    """How deep lists and objects are nested, without recursion."""
    level, deep = [value], 0
    while level := [
        each for v in level if isinstance(v, dict | list)
        for each in (v.values() if isinstance(v, dict) else v)
    ]:  # fmt: skip
        deep += 1
        if deep > MAX_DEPTH:
            break
    return deep


def request_of(message: Any) -> Request | None:
    """What a message asks; None if it is a reply, of which none is awaited here."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID, 'want one object with "jsonrpc": "2.0"; lists are not taken.')
    if "method" not in message and ("result" in message or "error" in message):
        return None
    method, params, id = message.get("method"), message.get("params", {}), message.get("id")
    if not isinstance(method, str) or not isinstance(params, dict):
        raise RpcError(INVALID, "want a method as text and params as an object.")
    if "id" in message and not _is_id(id):
        raise RpcError(INVALID, f"want an id: a whole number, or at most {MAX_ID} letters.")
    if not message.keys() <= {"jsonrpc", "id", "method", "params"}:
        raise RpcError(INVALID, "want jsonrpc, id, method and params, and nothing else.")
    return Request(id, method, params)


def id_of(message: Any) -> int | str | None:
    """The id to answer a broken message with, if it has one."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if _is_id(found) else None


def _is_id(id: Any) -> bool:
    if isinstance(id, str):
        return len(id) <= MAX_ID
    return type(id) is int and abs(id) < 2**63


def result_of(id: int | str | None, result: dict[str, Any]) -> dict[str, Any]:
    """A reply with a result."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error_of(id: int | str | None, error: RpcError) -> dict[str, Any]:
    """A reply with an error."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": error.code, "message": str(error)}}
