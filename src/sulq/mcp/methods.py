"""The protocol itself: one message in, at most one out. Nothing is kept between messages."""

from __future__ import annotations

import json
from typing import Any

import sulq
from sulq.errors import EngineFailed, Refused, SchemaError, SourceChanged, SulqError, public_kind
from sulq.mcp.jsonrpc import (
    FAILED,
    NO_METHOD,
    NO_PARAMS,
    Request,
    RpcError,
    error_of,
    id_of,
    request_of,
    result_of,
)
from sulq.mcp.tools import BY_NAME, TOOLS, Backend, called
from sulq.values.number_text import finite

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
INSTRUCTIONS = (
    "Private tables that answer aggregate SQL with noise; every answer is paid from a budget that "
    "is never refilled. Look at schema, rehearse the statement, look at price, then ask with its "
    "price_token. Give each number with its interval. What was asked before is free."
)
BLOCKED = "this dataset cannot be used until its owner has looked at it."
UNEXPECTED = (
    "it failed. Whether a charge was made is in history; asking the same again does not pay again."
)


async def reply_to(message: Any, backend: Backend) -> dict[str, Any] | None:
    """The reply to one message, as plain values; None if it wants none."""
    try:
        request = request_of(message)
        if request is None:
            return None
        result = await _served(request, backend)
        return None if request.id is None else result_of(request.id, result)
    except RpcError as error:
        wants_none = isinstance(message, dict) and "id" not in message and "method" in message
        return None if wants_none else error_of(id_of(message), error)


async def _served(request: Request, backend: Backend) -> dict[str, Any]:
    if request.method == "tools/call" and request.id is None:
        return {}  # nobody would hear what it found, and it might spend
    match request.method:
        case "initialize":
            return _welcome(request.params)
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [tool.to_json() for tool in TOOLS]}
        case "tools/call":
            return await _call(request.params, backend)
        case method if method.startswith("notifications/"):
            return {}
    raise RpcError(NO_METHOD, "there is no such method.")


def _welcome(params: dict[str, Any]) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "sulq", "title": "SuLQ", "version": sulq.__version__},
        "instructions": INSTRUCTIONS,
    }


async def _call(params: dict[str, Any], backend: Backend) -> dict[str, Any]:
    name = params.get("name")
    tool = BY_NAME.get(name) if isinstance(name, str) else None
    if tool is None:
        raise RpcError(NO_PARAMS, f"there is no such tool. There are {', '.join(BY_NAME)}.")
    try:
        return _content(await called(backend, tool, params.get("arguments")), False)
    except SulqError as error:
        said = {"error": public_kind(error), "message": heard(error), "charged": error.charged}
        return _content(said, True)
    except Exception as error:
        raise RpcError(FAILED, UNEXPECTED) from error


def _content(found: dict[str, Any], is_error: bool) -> dict[str, Any]:
    values = finite(found)
    text = values.pop("as_text", None)
    shown = json.dumps(values, ensure_ascii=False)
    return {
        "content": [{"type": "text", "text": part} for part in (text, shown) if part],
        "structuredContent": values,
        "isError": is_error,
    }


def heard(error: SulqError) -> str:
    """What an agent hears: what is about its question, never places or damage."""
    owners = isinstance(error, SourceChanged | SchemaError) or error.names_place
    if owners or not isinstance(error, Refused | EngineFailed):
        return BLOCKED
    return str(error)
