"""Which clauses of a SELECT are read, and why the others are not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.parse import shorten

# What a SELECT may consist of; for the rest, why not, and what is nearest.
CLAUSES = {
    "with_", "expressions", "from_", "joins", "where", "group", "having", "order", "limit",
}  # fmt: skip
REFUSED = {
    "distinct": "SELECT DISTINCT would return rows; use GROUP BY and COUNT(*)",
    "windows": "window functions return a number per row; use GROUP BY",
    "qualify": "QUALIFY works on rows; use HAVING",
    "laterals": "LATERAL works on rows; name expressions with WITH",
    "pivots": "PIVOT is not supported; use GROUP BY and FILTER",
    "sample": "SQL samples are not supported; use rows=sulq.Rows.sample(seed, rate)",
    "into": "SELECT INTO would write; the result is a table in Python, see to_arrow",
    "locks": "there is nothing to lock: every SELECT reads the same rows",
    "offset": "OFFSET is not supported; use ORDER BY and LIMIT",
}


def only_supported(select: Any) -> None:
    """Refuse every clause that is not read: nothing may change the meaning unseen."""
    unread = _unread(select, CLAUSES, "is not supported; use WHERE, GROUP BY and HAVING")
    if unread is not None:
        raise QueryNotAllowed(f"{unread}.")
    group = select.args.get("group")
    if group is not None:
        kinds = {name.replace("_", "") for name, value in group.args.items() if value}
        if kinds & {"groupingsets", "cube", "rollup", "totals"}:
            raise QueryNotAllowed(
                "WITH ROLLUP, WITH CUBE and WITH TOTALS: write GROUP BY ROLLUP (...) or CUBE (...)."
            )
    if not select.expressions:
        raise QueryNotAllowed("SELECT what? Name aggregates such as COUNT(*).")


def _unread(e: Any, known: Collection[str], otherwise: str) -> str | None:
    """Why something is refused that a node says beside the parts that are read."""
    for name, value in e.args.items():
        if value and name not in known:
            plain = name.rstrip("_").replace("_", " ").upper()
            return REFUSED.get(name, f"{plain} {otherwise}")
    return None


def nothing_else(e: Any, *known: str) -> None:
    """Refuse what a part of FROM says beside the parts that are read."""
    unread = _unread(e, known, "is not supported here")
    if unread is not None:
        raise QueryNotAllowed(f"FROM {shorten(written(e))}: {unread}.")
    alias = e.args.get("alias")
    if alias is not None and getattr(alias, "args", {}).get("columns"):
        raise QueryNotAllowed(
            f"{shorten(written(e))}: name columns inside it with AS, not beside its alias."
        )


def limit_of(select: Any) -> int | None:
    """How many rows LIMIT leaves; None: all."""
    limit = select.args.get("limit")
    if limit is None:
        return None
    e = limit.args.get("expression") or limit.args.get("count")
    options = limit.args.get("limit_options")
    said = limit.args | (options.args if options is not None else {})
    extra = any(said.get(n) for n in ("offset", "expressions", "percent", "with_ties"))
    if extra or type(e).__name__ != "Literal" or e.is_string or not e.this.isdecimal():
        raise QueryNotAllowed("LIMIT wants a whole number.")
    return int(e.this[:18])
