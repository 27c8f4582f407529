"""Text that others chose, made safe for where it goes: a terminal, a page, a spreadsheet, Markdown.

Control characters move a terminal's cursor, bidirectional marks turn a line around, a formula runs
in a spreadsheet, markup becomes a page's own. None is dropped: each is shown as what it is.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from typing import Any

from sulq.errors import Refused

# Controls but tab and newline; marks that turn, hide or break text; halves of a pair; tags.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
BREAKS = re.compile("[\t\n]")
# A number, or the two ends of a bin: nothing that a spreadsheet could run.
_AMOUNT = r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?"
NUMBER = re.compile(rf"{_AMOUNT}( to {_AMOUNT})?", re.ASCII)
# What a spreadsheet may run, at the start or behind what it may take for the end of a cell.
FORMULA = re.compile("(^|[,;:|\"'\t\r\n])([\\s\ufeff]*)([=+\\-@\uff1d\uff0b\uff0d\uff20\u2212])")
MARKUP = re.compile(r"[\\<`|]|\](?=[(\[])")  # a tag, code, the end of a cell, a link


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    """The text for a terminal or a page: what would not be seen is spelled out; lines stay."""
    return UNSAFE.sub(_spelled, text)


def one_line(text: str) -> str:
    """Return safe text on one line: for a cell of a table, a name, a title."""
    return BREAKS.sub(lambda found: "\\t" if found[0] == "\t" else "\\n", visible(text))


def csv_cell(value: Any) -> Any:
    """A cell of a file that a spreadsheet may open: it runs nothing, whatever separates its cells.

    Numbers stay numbers. An apostrophe stands before whatever a spreadsheet could take for the
    begin of a formula.
    """
    if not isinstance(value, str):
        return value
    plain = UNSAFE.sub(_spelled, BREAKS.sub(" ", value))
    return plain if NUMBER.fullmatch(plain) else FORMULA.sub(r"\1\2'\3", plain)


def csv_text(rows: Iterable[Iterable[Any]], end: str = "\n") -> str:
    """Rows as comma-separated text, each cell made safe."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end).writerows([csv_cell(x) for x in row] for row in rows)
    return out.getvalue()


def json_text(body: Any, indent: int | None = 2) -> str:
    """JSON that people may read in a terminal: letters as they are, the rest as escapes."""
    written = json.dumps(body, indent=indent, ensure_ascii=False)
    return UNSAFE.sub(_as_json, written)


def _as_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def markdown_text(text: str) -> str:
    """Text in a line of Markdown, which is no markup there."""
    return MARKUP.sub(lambda found: f"\\{found[0]}", one_line(text))


def checked_text(text: Any, what: str, most: int, *, lines: bool = False) -> str:
    """A text that somebody enters, or a refusal: too long, or with what cannot be seen in it."""
    if not isinstance(text, str) or len(text) > most:
        raise Refused(f"{what}: want at most {most:,} letters.")
    found = UNSAFE.search(text) or (None if lines else BREAKS.search(text))
    if found is not None:
        raise Refused(
            f"{what}: it has {one_line(found[0])} in it, which cannot be seen. Want letters, "
            f"digits, signs and spaces{' and lines' if lines else ''}."
        )
    return text
