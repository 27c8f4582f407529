"""The seven tools: what they take, what they say they do, and what their results say.

Every argument is checked here, before anything is looked at. A result carries plain values for
programs and words for the model: intervals beside numbers, and what is promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from sulq.errors import MICRO, QueryNotAllowed, in_queries
from sulq.preview import Width
from sulq.values.schema import plain

MAX_SQL = 20_000
MAX_NAME = 200
MAX_HISTORY = 100
MAX_LINES = 200  # of a result in words; all rows are in its values
INTERVALS = "Intervals are 95% and of the noise alone. Report them with the numbers."
SQL = (
    "One SELECT of aggregates over the tables of the dataset: count(*), sum, avg, stddev, "
    "median, corr, with WHERE, GROUP BY declared columns, HAVING, ORDER BY, LIMIT. Tables that the "
    "schema lists are joined on their declared keys. No rows are returned."
)


class Backend(Protocol):
    """What the tools are asked of, by one agent. Each raises what a person would hear."""

    async def datasets(self) -> list[dict[str, Any]]:
        """Name and description of each dataset that this agent may ask."""
        ...

    async def schema(self, dataset: str) -> dict[str, Any]:
        """Rows, columns and the promise."""
        ...

    async def rehearse(self, dataset: str, sql: str) -> dict[str, Any]:
        """The answer from made-up rows."""
        ...

    async def price(self, dataset: str, sql: str) -> dict[str, Any]:
        """The price, and a token to ask with."""
        ...

    async def ask(self, dataset: str, sql: str, price_token: str) -> dict[str, Any]:
        """The answer, paid for within the cap."""
        ...

    async def budget(self, dataset: str) -> dict[str, Any]:
        """What is spent and left."""
        ...

    async def history(self, dataset: str, limit: int) -> dict[str, Any]:
        """What this agent asked so far."""
        ...


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: a text, or a whole number from 1 on."""

    name: str
    about: str
    most: int  # letters, or the number itself
    kind: str = "string"
    default: int | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON Schema has it."""
        if self.kind == "string":
            return {"type": "string", "description": self.about, "maxLength": self.most}
        return {
            "type": "integer", "description": self.about, "minimum": 1, "maximum": self.most,
            "default": self.default,
        }  # fmt: skip

    def checked(self, given: dict[str, Any]) -> Any:
        """Its value, or a refusal that says what is wanted."""
        if self.name not in given and self.default is not None:
            return self.default
        value = given.get(self.name)
        if self.kind == "string":
            if isinstance(value, str) and 0 < len(value) <= self.most and _is_text(value):
                return value
            raise _wrong(self.name, f"a text of at most {self.most:,} letters")
        if type(value) is int and 1 <= value <= self.most:
            return value
        raise _wrong(self.name, f"a whole number from 1 to {self.most}")


def _is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _wrong(name: str, want: str) -> QueryNotAllowed:
    return QueryNotAllowed(f"{name}: want {want}. Nothing was charged.")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    name: str
    title: str
    about: str
    arguments: tuple[Argument, ...] = ()
    spends: bool = False

    def to_json(self) -> dict[str, Any]:
        """As tools/list gives it."""
        required = [a.name for a in self.arguments if a.default is None]
        return {
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": {
                "type": "object", "properties": {a.name: a.schema for a in self.arguments},
                "required": required, "additionalProperties": False,
            },
            "annotations": {
                "readOnlyHint": not self.spends, "destructiveHint": self.spends,
                "idempotentHint": True, "openWorldHint": False,
            },
        }  # fmt: skip

    def checked(self, given: Any) -> list[Any]:
        """The values of its arguments, in order; or a refusal."""
        given = {} if given is None else given
        if not isinstance(given, dict):
            raise QueryNotAllowed("arguments: want an object. Nothing was charged.")
        unknown = given.keys() - {a.name for a in self.arguments}
        if unknown:
            names = ", ".join(a.name for a in self.arguments) or "nothing"
            raise QueryNotAllowed(f"{self.name} takes {names}. Nothing was charged.")
        return [argument.checked(given) for argument in self.arguments]


DATASET = Argument("dataset", "A name from the tool datasets.", MAX_NAME)
STATEMENT = Argument("sql", SQL, MAX_SQL)
TOKEN = Argument("price_token", "What price gave for the same dataset and sql.", 100)
LIMIT = Argument("limit", "How many, newest first.", MAX_HISTORY, "integer", 20)

TOOLS = (
    Tool("datasets", "Datasets", "The private tables that may be asked, by name. Free."),
    Tool(
        "schema", "Schema",
        "A dataset's columns (type, range or values, which are public), how many rows it has, and "
        "what it promises to the people in it. Free.", (DATASET,),
    ),
    Tool(
        "rehearse", "Rehearse",
        "Answer a SELECT from made-up rows, to get the statement right. The numbers mean nothing; "
        "the widths of the intervals are about those of the real answer. Free.",
        (DATASET, STATEMENT),
    ),
    Tool(
        "price", "Price",
        "The price of a SELECT, how exact the answer would be, and a price_token to ask it "
        "with. Free. to_pay is 0 for what was asked before.", (DATASET, STATEMENT),
    ),
    Tool(
        "ask", "Ask",
        "Answer a SELECT about the real rows. Needs the price_token that price gave. It spends "
        "to_pay queries of a budget that is never refilled, within the cap that a person set; the "
        "same question again is free and gives the same answer.",
        (DATASET, STATEMENT, TOKEN), spends=True,
    ),
    Tool("budget", "Budget", "What is spent and left of a dataset, and of your cap. Free.",
         (DATASET,)),
    Tool("history", "History", "What you asked so far and what was paid. Free.", (DATASET, LIMIT)),
)  # fmt: skip
BY_NAME = {tool.name: tool for tool in TOOLS}


async def called(backend: Backend, tool: Tool, arguments: Any) -> dict[str, Any]:
    """What a tool finds."""
    given = tool.checked(arguments)
    if tool.name == "datasets":
        return {"datasets": await backend.datasets()}
    found: dict[str, Any] = await getattr(backend, tool.name)(*given)
    return found


# ---- what results say -----------------------------------------------------------------------


def queries(micro: int) -> float:
    """Micro-queries as a number of queries."""
    return micro / MICRO


def answer_said(table: dict[str, Any], promise: str) -> dict[str, Any]:
    """An answer: rows with intervals, its price, what is left, and what is promised."""
    text = "\n".join([*rows_said(table["columns"], table["rows"]), INTERVALS])
    return {
        "columns": table["columns"], "rows": table["rows"],
        "price": queries(table["price_micro"]), "remaining": queries(table["remaining_micro"]),
        "note": table.get("note", ""), "notes": table.get("notes", []),
        "intervals": INTERVALS, "promise": promise, "as_text": text,
    }  # fmt: skip


def rows_said(columns: list[str], rows: list[dict[str, Any]]) -> list[str]:
    """Each row as a line: labels, and every number with the ends of its interval."""
    numbers = [c for c in columns if f"{c}_low" in columns and f"{c}_high" in columns]
    ends = {f"{name}{end}" for name in numbers for end in ("_low", "_high")}
    labels = [c for c in columns if c not in numbers and c not in ends]
    lines = []
    for row in rows[:MAX_LINES]:
        said = [f"{name}={row[name]}" for name in labels]
        said += [
            f"{name} {_short(row[name])} ({_short(row[f'{name}_low'])} to "
            f"{_short(row[f'{name}_high'])})"
            for name in numbers
        ]
        lines.append(", ".join(said))
    more = len(rows) - MAX_LINES
    return lines + ([f"and {more:,} more rows"] if more > 0 else [])


def _short(number: Any) -> str:
    return f"{number:,.6g}" if isinstance(number, int | float) else str(number)


def price_said(
    micro: int, unpaid: int, errors: dict[str, Width], left: Fraction, allowed: int | None,
    token: str,
) -> dict[str, Any]:  # fmt: skip
    """A price: what would be paid now, how exact it would be, and a token."""
    known = {n: None if math.isnan(x.usual) else x.usual for n, x in errors.items()}
    said = f"{in_queries(micro)}; to pay now: {in_queries(unpaid)}."
    if unpaid and (allowed is None or unpaid > allowed):
        have = "no cap was set" if allowed is None else f"{in_queries(allowed)} of the cap are left"
        said += f" It would be refused: {have}."
    return {
        "price": queries(micro), "to_pay": queries(unpaid), "expected_error_95": known,
        "remaining": float(left), "cap_left": None if allowed is None else queries(allowed),
        "price_token": token, "as_text": said,
    }  # fmt: skip


def column_said(column: Any) -> dict[str, Any]:
    """One declared column."""
    said: dict[str, Any] = {"name": column.name, "type": column.type}
    if column.bounded:
        said |= {"low": plain(column.low), "high": plain(column.high)}
    if column.values is not None:
        said["values"] = [plain(v) for v in column.values]
    said |= {"public": bool(column.public or column.key), "may_be_missing": column.nullable}
    return said | ({"key": True} if column.key else {})


def schema_said(name: str, rows: int, columns: Any, promise: str) -> dict[str, Any]:
    """A dataset: what there is to ask, and what is promised."""
    return {
        "dataset": name, "table": name, "rows": rows,
        "columns": [column_said(column) for column in columns], "promise": promise, "sql": SQL,
    }  # fmt: skip
