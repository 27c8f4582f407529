"""What bodies hold, for the reader of /v1/openapi.json and for the check of a body.

A query's own fields are checked by sulq.Query.from_json, which says more about what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_QUERIES = 10_000  # whatever `batch` of the settings says

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Letters, digits, dots, dashes, underscores.",
        examples=["people"],
    ),
]
Days = Annotated[int, Field(ge=1, le=3650, description="Days until the key expires.")]
Reason = Annotated[str, Field(min_length=1, max_length=1000, description="Why; it is logged.")]

QUERY = (
    "A query, as `sulq.Query(...).to_json()` writes it: `values` (a list of SQL expressions, or "
    "an object with `kind`), `by` (a column, a partition or a list), `where` (a SQL predicate), "
    "`rows` (a public set of rows), `error` (the wanted 95% half-width), `weights`."
)
QueryJson = Annotated[
    dict[str, Any],
    Field(description=QUERY, examples=[{"where": "smoker"}, {"values": ["1"], "by": "region"}]),
]


class Body(BaseModel):
    """A body: nothing unknown in it, no type guessed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Ask(Body):
    """One query, or a list of them as one batch."""

    query: QueryJson | None = None
    queries: list[QueryJson] | None = Field(
        None, max_length=MOST_QUERIES, description="A batch: paid all or none."
    )
    share: bool = Field(True, description="Answer counts from shared histograms where cheaper.")
    together: bool = Field(False, description="The list is one question of the ledger.")


class Sql(Body):
    """One SELECT."""

    sql: str = Field(
        max_length=100_000, examples=["select region, count(*) from people group by region"]
    )


class ToPrice(Ask):
    """What to price: a query, a list of them, or a SELECT."""

    sql: str | None = Field(None, max_length=100_000)


class Sizes(Body):
    """Public sets of rows, or queries, of which the public part of `where` counts."""

    rows: list[dict[str, Any]] = Field(
        [], max_length=100, description="Each as `sulq.Rows...to_json()` writes it."
    )
    queries: list[QueryJson] = Field([], max_length=100)


class NewDataset(Body):
    """A dataset: where its rows are, what is declared, what is promised."""

    name: Name
    source: str = Field(max_length=500, description="A file in the server's folder for data.")
    schema_: dict[str, Any] | str = Field(
        alias="schema", description="The schema: an object, or the text of a TOML file."
    )
    epsilon: float = Field(description="How far confidence in a fact about a row may grow.")
    delta: float = Field(1e-6, description="Except with this probability.")
    queries: int = Field(description="T: queries of the dataset's whole life.")
    noise: Literal["gaussian", "laplace", "binomial", "stitched"] = "gaussian"
    guarantee: Literal["beliefs", "dp"] = "beliefs"
    pricing: Literal["geometry", "paper"] = "geometry"
    table: str | None = Field(None, max_length=200, description="The table of a DuckDB file.")
    description: str = Field("", max_length=10_000)
    refresh: Reason | None = Field(
        None, description="Go on with the ledger of this name although the rows are others."
    )
    override: Reason | None = Field(
        None, description="Begin a new ledger although these rows have one. Shown for good."
    )


class ToDraft(Body):
    """Where the rows are."""

    source: str = Field(max_length=500, description="A file in the server's folder for data.")
    table: str | None = Field(None, max_length=200, description="The table, where there are some.")


class Change(Body):
    """What to change; what is left out stays."""

    description: str | None = Field(None, max_length=10_000)
    state: Literal["open", "frozen"] | None = None


class Refresh(Body):
    """Go on with changed rows or a changed schema."""

    reason: Reason
    schema_: dict[str, Any] | str | None = Field(None, alias="schema")


class NewAnalyst(Body):
    """An analyst of this house."""

    name: Name


class Allot(Body):
    """How much of T an analyst may spend."""

    queries: int | float | str | None = Field(
        description="At most so many queries in all; null: no limit of their own.",
        examples=[100, "12.5", None],
    )


class NewKey(Body):
    """A key: for yourself, or for one of your analysts."""

    analyst: Name | None = None
    datasets: list[Name] | None = Field(
        None, max_length=1000, description="Only for these; null: all that the person may see."
    )
    days: Days | None = None
    label: str = Field("", max_length=200)


# ---- replies --------------------------------------------------------------------------------


class ErrorDetail(BaseModel):
    """What went wrong."""

    type: str = Field(description="The name of the error, as in Python.")
    message: str = Field(description="What was asked, what is allowed, how to mend it.")
    charged: bool | None = Field(description="Was a charge made? null: that cannot be told.")
    price_micro: int | None = None
    remaining_micro: int | None = None
    retry_after_seconds: int | None = None


class ErrorReply(BaseModel):
    """The one shape of every error."""

    error: ErrorDetail


class AnswerJson(BaseModel):
    """Noisy numbers. `exact` has them as fractions, cells x values; nothing is lost in it."""

    value: Any
    std: Any
    low: Any = Field(description="The lower end of a 95% interval for the noise.")
    high: Any
    exact: list[list[str]]
    names: list[str]
    axes: list[str]
    cells: list[Any] | None = None
    price_micro: int
    remaining_micro: int
    note: str | None = None


class AnswerReply(BaseModel):
    """The answer to one query, or `answers` to a list of them."""

    answer: AnswerJson | None = None
    answers: list[AnswerJson] | None = None


class TableReply(BaseModel):
    """Rows of noisy numbers, each with a low and a high beside it."""

    table: dict[str, Any]


class PriceReply(BaseModel):
    """A price, known before it is paid."""

    price_micro: int = Field(description="Millionths of a query.")
    price: str
    half_widths_95: list[float]
    deadline_seconds: float | None = Field(
        description="The reply leaves so long after admission; null: as soon as it can."
    )


class KeyReply(BaseModel):
    """A new key. `key` is shown this once."""

    key: str
    id: str
    expires: str
