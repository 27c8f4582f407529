"""A SELECT under a short name: "count(*) by region where age >= 40"."""

from __future__ import annotations

import re

PLAIN = re.compile(
    r"select (?P<what>.+?) from (?P<table>\"[^\"]+\"|[^\s,()]+)"
    r"(?: where (?P<where>.+?))?(?: group by (?P<by>.+?))?"
    r"(?P<rest> (?:having|order by|limit) .+?)?\s*;?",
    re.IGNORECASE,
)
OPEN, CLOSED = "([", ")]"


def title_of(sql: str) -> str:
    """What is asked, by what and of which rows; the whole text where it is not that simple."""
    text = " ".join(sql.split())
    found = PLAIN.fullmatch(text)
    if found is None or len(re.findall(r"\bselect\b", text, re.IGNORECASE)) != 1:
        return text
    what, by = parts(found["what"]), parts(found["by"] or "")
    if not all(map(_whole, (*what, *by, found["where"] or ""))):
        return text
    asked = [item for item in what if item not in by] or what
    title = ", ".join(asked) + (f" by {', '.join(by)}" if by else "")
    return title + (f" where {found['where']}" if found["where"] else "") + (found["rest"] or "")


def parts(text: str) -> list[str]:
    """A list in SQL, at the commas that are in no parentheses and no text."""
    out, depth, quoted = [""], 0, ""
    for c in text:
        quoted = ("" if c == quoted else quoted) if quoted else (c if c in "'\"" else "")
        depth += 0 if quoted else (c in OPEN) - (c in CLOSED)
        if c == "," and not depth and not quoted:
            out.append("")
        else:
            out[-1] += c
    return [item.strip() for item in out if item.strip()]


def _whole(text: str) -> bool:
    """Does every parenthesis and every quote end in it?"""
    return (
        sum(map(text.count, OPEN)) == sum(map(text.count, CLOSED))
        and text.count("'") % 2 == 0
        and text.count('"') % 2 == 0
    )
