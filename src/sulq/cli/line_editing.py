"""A prompt with arrow keys, completion and a history, where the system has readline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_LINES = 1000  # of the history file


def confirmed(question: str) -> bool:
    """Ask, y or n; an interrupted question is a no."""
    with _unrecorded():
        try:
            return input(question).strip().lower() in ("y", "yes")
        except (KeyboardInterrupt, EOFError):
            print()  # the end of the line that was not typed
            return False


@contextmanager
def _unrecorded() -> Iterator[None]:
    """Keep y and n out of the history."""
    try:
        import readline
    except ImportError:
        yield
        return
    readline.set_auto_history(False)
    try:
        yield
    finally:
        readline.set_auto_history(True)


@contextmanager
def line_editing(words: list[str]) -> Iterator[None]:
    """Arrow keys, completion, and a history file that only its owner can read."""
    try:
        import readline
    except ImportError:  # not on every system
        yield
        return
    path = history_file()
    if path is not None:
        with suppress(OSError):
            readline.read_history_file(path)
    readline.set_completer_delims(" \t\n,()=<>+-*/")
    readline.set_completer(completer(words))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        if path is not None:
            with suppress(OSError):
                readline.set_history_length(MAX_LINES)
                readline.write_history_file(path)
                path.chmod(0o600)


def completer(words: list[str]) -> Callable[[str, int], str | None]:
    """What Tab offers for the beginning of a word."""

    def complete(start: str, number: int) -> str | None:
        found = [w for w in words if w.lower().startswith(start.lower())]
        return found[number] if number < len(found) else None

    return complete


def history_file() -> Path | None:
    """The file of past lines, readable by its owner only; None where it cannot be."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "sulq" / "history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except (OSError, RuntimeError):  # no home, or not ours to write
        return None
    return path
