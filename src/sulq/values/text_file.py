"""The text of a file that someone named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sulq.errors import SulqError


def read_text(path: Path, refused: Callable[[str], SulqError]) -> str:
    """What stands in a file; if it cannot be read, the error that `refused` makes of why."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # a path may hold a NUL, a file what is no UTF-8
        raise refused(getattr(error, "strerror", None) or "it is not UTF-8 text") from None
