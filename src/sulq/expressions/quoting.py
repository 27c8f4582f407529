"""Names and texts as SQL writes them; every statement of ours is made of these."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text constant."""
    return "'" + value.replace("'", "''") + "'"
