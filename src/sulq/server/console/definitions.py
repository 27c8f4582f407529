"""Row functions that stand beside a SELECT: written out into it, and where one is not read."""

from __future__ import annotations

import re

from sulq.expressions.row_function import expand, row_functions

BOX = "Functions"  # what the box is called, in refusals too
SENT = "define"  # what it is called in the body of a request
PLACE = re.compile(rf"{BOX}, line (\d+), column (\d+):")
EXAMPLE = "def {name}({column}):\n    return {column} >= {value}\n"


def written_out(sql: str, define: str) -> str:
    """The statement with the calls of its functions written out; nothing of them is run."""
    return expand(sql, *row_functions(define, BOX).values()) if define.strip() else sql


def in_the_box(message: str) -> str:
    """A refusal of the route, with the name that the text has here."""
    return re.sub(rf"^{SENT}(?=, line |:)", BOX, message)


def pointed_at(define: str, message: str) -> str:
    """The line that a refusal is about, with a mark below its column; "" if it is about none."""
    found, lines = PLACE.match(message), define.splitlines()
    if found is None or not 0 < int(found[1]) <= len(lines):
        return ""
    number, column = int(found[1]), int(found[2])
    line = lines[number - 1]
    head = f"{number:>3} | "
    space = "".join("\t" if c == "\t" else " " for c in line[: max(column - 1, 0)])
    return f"{head}{line}\n{' ' * len(head)}{space}^"
