"""What replies to questions hold; tests hold every reply to it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from sulq.server.api.replies import Micro, Reply, Time, holding


class AnswerJson(BaseModel):
    """Noisy numbers. `exact` has them as fractions, cells x values; nothing is lost in it."""

    value: Any = Field(examples=[64.03])
    std: Any = Field(examples=[37.83])
    low: Any = Field(description="The lower end of a 95% interval.", examples=[-10.12])
    high: Any = Field(examples=[138.17])
    exact: list[list[str]] = Field(examples=[[["65563/1024"]]])
    names: list[str] = Field(examples=[["1"]])
    axes: list[str] = Field(description="The columns it is by.", examples=[[]])
    cells: list[Any] | None = None
    price_micro: int = Field(examples=[1_000_000])
    remaining_micro: int = Field(examples=[999_000_000])
    note: str | None = None
    factors: list[Any] | None = Field(
        None, description="Of an estimate: how the errors of a cell's numbers hang together."
    )


class AnswerReply(BaseModel):
    """The answer to one query, or `answers` to a list of them."""

    answer: AnswerJson | None = None
    answers: list[AnswerJson] | None = None


class EstimateReply(AnswerReply):
    """What stored answers say, as an answer, `answers` or a `table`; `price_micro` is 0."""

    table: dict[str, Any] | None = None


class TableReply(BaseModel):
    """Rows of noisy numbers, each with a low and a high beside it."""

    table: dict[str, Any] = Field(
        examples=[
            {
                "columns": ["region", "n", "n_low", "n_high"],
                "by": ["region"],
                "rows": [{"region": "north", "n": 96.2, "n_low": 22.1, "n_high": 170.3}],
                "price_micro": 1_000_000,
                "remaining_micro": 999_000_000,
            }
        ]
    )


class PriceReply(BaseModel):
    """A price, known before it is paid."""

    price_micro: int = Field(description="Millionths of a query.", examples=[1_000_000])
    price: str = Field(examples=["1 query, +/- 74.15"])
    half_widths_95: list[float | None] = Field(examples=[[74.15]])
    unpaid_micro: int = Field(
        description="What asking it now would charge: what was paid before is free.",
        examples=[1_000_000],
    )
    left_micro: int = Field(
        description="The most that a question about the same rows may have now.",
        examples=[1_000_000_000],
    )
    deadline_seconds: float | None = Field(
        description="The reply leaves so long after admission; null: as soon as it can."
    )


SizesReply = holding(
    "SizesReply",
    "The number of rows in each public set: for each set a list, one number for each cell.",
    sizes=(list[list[int]], Field(examples=[[[96]]])),
)


class KeyCountsReply(Reply):
    """How well keys name rows."""

    rows: int = Field(examples=[200])
    missing: int = Field(description="Rows without a key.", examples=[0])
    repeated: int = Field(description="Rows whose key was seen before.", examples=[0])


class AnswerPart(Reply):
    """The noisy numbers of one question, cells x values."""

    cells: list[Any] = Field(examples=[["all"]])
    names: list[str] = Field(examples=[["count"]])
    values: list[list[float | None]] = Field(examples=[[[64.03]]])
    half_widths_95: list[float | None] = Field(examples=[[74.15]])


class AskedLine(Reply):
    """One question of yours, as the ledger has it."""

    number: int = Field(description="Its entry in the ledger.", examples=[1])
    query: str = Field(
        description="The question as it is kept, in its one form.", examples=['{"kind":"list"}']
    )
    question: str = Field(description="The same in words.", examples=["count where secret"])
    price: Micro
    remaining: Micro
    own: int | None = Field(None, description="What was left of your allotment.")
    request: str | None = Field(description="The Idempotency-Key it was asked with.")
    time: Time
    analyst: str | None = Field(examples=["alice"])
    answer: list[AnswerPart] | None = Field(description="null while it may not be shown yet.")


class AnswersReply(Reply):
    """A page of your questions."""

    answers: list[AskedLine]
    next: int | None = Field(description="Pass it as `after` for the next page; null: no more.")
