"""What happened, one JSON object a line, without values or secrets.

A line has the time, the route, the status, who (by name), which dataset, the id of the request and
the address it came from. It never has a key,
a body, a question, an answer, or how long anything took: a time may depend on rows.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from traceback import walk_tb
from types import MappingProxyType
from typing import Any

from sulq.ledger.chain import now

# The request that is under way: its id and where it came from.
about: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))

_log = logging.getLogger("sulq.server")


def start() -> None:
    """Write lines to stderr; uvicorn's own words too, in the same form."""
    handler = _Stderr()
    handler.setFormatter(_Lines())
    for log in (_log, logging.getLogger("uvicorn"), logging.getLogger("uvicorn.error")):
        log.handlers[:] = [handler]
        log.setLevel(logging.INFO if log is _log else logging.WARNING)
        log.propagate = False


class _Stderr(logging.Handler):
    """Lines to whatever stderr is now; what nobody can read any more is no failure."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):
            print(self.format(record), file=sys.stderr, flush=True)


class _Lines(logging.Formatter):
    """A record as one line of JSON; of an exception only its type, since words may quote rows."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {"time": now(), "level": record.levelname.lower()}
        said |= getattr(record, "said", None) or {"event": record.getMessage()[:500]}
        if record.exc_info and record.exc_info[0] is not None:
            said["exception"] = record.exc_info[0].__name__
        return json.dumps(said)


def event(name: str, level: int = logging.INFO, **said: Any) -> None:
    """Log one event."""
    _log.log(level, name, extra={"said": {"event": name, **said, **about.get()}})


def failure(error: BaseException, **said: Any) -> None:
    """Log where something unexpected was raised, but not its words."""
    walked = ((frame.f_code, line) for frame, line in walk_tb(error.__traceback__))
    frames = [f"{Path(code.co_filename).name}:{line} {code.co_name}" for code, line in walked]
    event("failure", logging.ERROR, exception=type(error).__name__, frames=frames[-8:], **said)
