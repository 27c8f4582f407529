"""Messages by lines: JSON-RPC on stdin and stdout, as programs that start an agent's tools do."""

from __future__ import annotations

import asyncio
import json
from typing import BinaryIO

from sulq.mcp.jsonrpc import INVALID, RpcError, error_of, parsed
from sulq.mcp.methods import reply_to
from sulq.mcp.tools import Backend

MAX_LINE = 1_000_000  # bytes
TOO_LONG = error_of(None, RpcError(INVALID, f"a message has at most {MAX_LINE:,} bytes."))


def serve_lines(backend: Backend, source: BinaryIO, target: BinaryIO) -> None:
    """Reply to each line until there are no more."""
    while line := source.readline(MAX_LINE + 1):
        too_long = len(line) > MAX_LINE
        while too_long and not line.endswith(b"\n") and line:
            line = source.readline(MAX_LINE)
        if not too_long and not line.strip():
            continue
        reply = TOO_LONG if too_long else asyncio.run(_reply(line, backend))
        if reply is not None:
            target.write(json.dumps(reply, allow_nan=False).encode() + b"\n")
            target.flush()


async def _reply(line: bytes, backend: Backend) -> dict[str, object] | None:
    try:
        message = parsed(line)
    except RpcError as error:
        return error_of(None, error)
    return await reply_to(message, backend)
