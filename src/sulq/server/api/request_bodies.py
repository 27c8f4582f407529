"""What bodies hold, for the reader of /v1/openapi.json and for the check of a body.

A query's own fields are checked by sulq.Query.from_json, which says more about what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field

from sulq.expressions.program import MAX_SENT
from sulq.expressions.row_function import MAX_SOURCE
from sulq.privacy.promise_terms import MAX_DISCOVERIES
from sulq.programs.library import FUEL, MAX_FUEL

MAX_QUERIES = 10_000  # whatever `batch` of the settings says

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Letters, digits, dots, dashes, underscores.",
        examples=["people"],
    ),
]
Days = Annotated[int, Field(ge=1, le=3650, description="Days until the key expires.")]
Reason = Annotated[
    str,
    Field(
        min_length=1, max_length=1000, description="Why; it is logged.",
        examples=["the rows of June were added"],
    ),
]  # fmt: skip

QUERY = (
    "A query, as `sulq.Query(...).to_json()` writes it: `values` (a list of SQL expressions, or "
    "an object with `kind`), `by` (a column, a partition or a list), `where` (a SQL predicate), "
    "`rows` (a public set of rows), `error` (the wanted 95% half-width), `weights`."
)
QueryJson = Annotated[
    dict[str, Any],
    Field(description=QUERY, examples=[{"where": "smoker"}, {"values": ["1"], "by": "region"}]),
]


class FirstWrong(FailFast):
    """Pydantic's FailFast, which can be part of a union."""

    __hash__ = object.__hash__


Item = TypeVar("Item")
ListOf = Annotated[list[Item], FirstWrong()]  # checked up to the first item that is wrong


class Body(BaseModel):
    """A body: nothing unknown in it, no type guessed.

    Each list in it is a `ListOf`: a hundred thousand items that are wrong are one error.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


Programs = Field(
    None,
    max_length=MAX_SENT,
    description="WebAssembly modules that it names by their SHA-256, each in base64.",
)


Define = Field(
    None,
    max_length=MAX_SOURCE,
    description="Row functions that it calls, as Python text. It is read, never run.",
    examples=["def old(age):\n    return age > 65"],
)
Most = Field(
    None,
    ge=0,
    description="Refuse it if more micro-queries would be charged; null: its price.",
)


class Ask(Body):
    """One query, or a list of them as one batch."""

    query: QueryJson | None = None
    queries: ListOf[QueryJson] | None = Field(
        None, max_length=MAX_QUERIES, description="A batch: paid all or none."
    )
    share: bool = Field(True, description="Measure counts together where cheaper.")
    together: bool = Field(False, description="The list is one question of the ledger.")
    define: str | None = Define
    programs: ListOf[str] | None = Programs
    most_micro: int | None = Most


class Sql(Body):
    """One SELECT."""

    sql: str = Field(
        max_length=100_000, examples=["select region, count(*) from people group by region"]
    )
    define: str | None = Define
    programs: ListOf[str] | None = Programs
    most_micro: int | None = Most


class ToPrice(Ask):
    """What to price: a query, a list of them, or a SELECT."""

    sql: str | None = Field(None, max_length=100_000)


class Sizes(Body):
    """Public sets of rows, or queries, of which the public part of `where` counts."""

    rows: ListOf[dict[str, Any]] = Field(
        [],
        max_length=100,
        description="Each as `sulq.Rows...to_json()` writes it.",
        examples=[[{"predicate": "region = 'north'"}]],
    )
    queries: ListOf[QueryJson] = Field([], max_length=100)


class ToDraft(Body):
    """Where the rows are."""

    source: str = Field(
        min_length=1,
        max_length=500,
        description="A file in the server's folder for data.",
        examples=["people.parquet"],
    )
    table: str | None = Field(None, max_length=200, description="The table, where there are some.")


class ToGuess(ToDraft):
    """Where the rows are, and whether a CSV's first rows may be read for its types."""

    guess: bool = Field(False, description="Guess the types of a CSV from its first rows.")


class ToCheck(ToDraft):
    """Where the rows are, and what would be declared of them."""

    schema_: dict[str, Any] | str = Field(
        alias="schema",
        description="The schema: an object, or the text of a TOML file.",
        examples=[{"columns": {"age": {"type": "integer", "low": 0, "high": 100}}}],
    )


class NewDataset(ToCheck):
    """A dataset: where its rows are, what is declared, what is promised."""

    name: Name
    epsilon: float = Field(
        description="How far confidence in a fact about a row may grow.", examples=[1.0]
    )
    delta: float = Field(1e-6, description="Except with this probability.")
    queries: int = Field(description="T: queries of the dataset's whole life.", examples=[1000])
    noise: Literal["gaussian", "laplace", "binomial", "stitched"] = "gaussian"
    guarantee: Literal["beliefs", "dp"] = "beliefs"
    pricing: Literal["geometry", "paper"] = "geometry"
    discoveries: int = Field(
        0, ge=0, le=MAX_DISCOVERIES, description="How often values nobody listed may be named."
    )
    share: float | None = Field(None, description="Of delta, for all discoveries; null: a tenth.")
    mode: Literal["noise", "audited"] = Field(
        "noise", description="audited: exact counts, or a refusal; what follows belongs to it."
    )
    rule: Literal["classes", "duan"] = "classes"
    dither: float = Field(2, description="Standard deviation of the dither, in rows; 0: none.")
    known: float = Field(0.5, description="The share of rows that an attacker may know.")
    independent_rows: bool = Field(False, description="Rows say nothing about one another.")
    independent_columns: bool = Field(
        False, description="Each prior holds whatever the row's other private values are."
    )
    priors: dict[str, Any] | None = Field(
        None,
        description="How likely private values are: a number or [low, high] for a Boolean, an "
        'object of them for a category; "a, b" with "true, false" for columns jointly.',
        examples=[{"smoker": [0.2, 0.4]}],
    )
    simulate: str | None = Field(
        None, max_length=500, description="A file of public rows that rule=duan decides from."
    )
    programs: bool = Field(False, description="May questions run WebAssembly?")
    program_fuel: int = Field(
        FUEL, ge=1, le=MAX_FUEL, description="Instructions that a program may take for a row."
    )
    description: str = Field("", max_length=10_000)
    group: Name | None = Field(
        None, description="Datasets about the same people, with one T for all of them, for good.",
        examples=["patients"],
    )  # fmt: skip
    refresh: Reason | None = Field(
        None, description="Go on with the ledger of this name although the rows are others."
    )
    override: Reason | None = Field(
        None, description="Begin a new ledger although these rows have one. Shown for good."
    )


class ToReview(Body):
    """Questions that an auditor looks at beforehand."""

    queries: ListOf[QueryJson | str] = Field(
        max_length=MAX_QUERIES,
        description="In order: each a query, a SELECT of one number, or a predicate to count.",
        examples=[["smoker", {"where": "smoker and id <> 17"}]],
    )


class Change(Body):
    """What to change; what is left out stays."""

    description: str | None = Field(None, max_length=10_000, examples=["A survey of 2026."])
    state: Literal["open", "frozen"] | None = None
    programs: bool | None = Field(None, description="May questions run WebAssembly?")
    program_fuel: int | None = Field(
        None, ge=1, le=MAX_FUEL, description="Instructions that a program may take for a row."
    )
    reason: Reason | None = Field(
        None, description="Why it may go on, if it is thawed after a scan that failed."
    )


class Refresh(Body):
    """Go on with changed rows or a changed schema."""

    reason: Reason
    schema_: dict[str, Any] | str | None = Field(None, alias="schema")


class Append(Body):
    """Go on with rows of new periods."""

    reason: Reason
    rows: str | None = Field(
        None, max_length=4096, description="A file whose rows are written into the source.",
        examples=["march.parquet"],
    )  # fmt: skip


class NewAnalyst(Body):
    """An analyst of this tenant."""

    name: Name = Field(examples=["alice"])


class Allot(Body):
    """How much of T an analyst may spend."""

    queries: int | float | str | None = Field(
        description="At most so many queries in all; null: no limit of their own.",
        examples=[100, "12.5", None],
    )


class NewKey(Body):
    """A key: for yourself, or for one of your analysts."""

    analyst: Name | None = Field(None, examples=["alice"])
    datasets: ListOf[Name] | None = Field(
        None, max_length=1000, description="Only for these; null: all that the person may see."
    )
    days: Days | None = None
    label: str = Field("", max_length=200)
    cap: int | float | str | None = Field(
        None, description="Queries that the key may spend in all; null: no cap of its own."
    )


class SetCap(Body):
    """What a key may spend in all, at every door."""

    queries: int | float | str | None = Field(
        description="From 0 on; null: no cap of its own.", examples=[5]
    )
