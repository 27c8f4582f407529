"""What replies hold, for the reader of /v1/openapi.json; tests hold every reply to it.

Replies are written by the routes themselves, byte by byte, so nothing here touches a number.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

Time = Annotated[str, Field(description="UTC, ISO 8601.", examples=["2026-11-18T09:30:00+00:00"])]
Micro = Annotated[int, Field(description="Millionths of a query.", examples=[1_000_000])]
Named = Annotated[str, Field(examples=["people"])]
Who = Annotated[str, Field(examples=["alice"])]
State = Literal["open", "frozen", "stopped", "closed"]


class Reply(BaseModel):
    """A reply: what stands here and nothing else."""

    model_config = ConfigDict(extra="forbid")


def holding(name: str, about: str, /, **fields: Any) -> type[Reply]:
    """A reply that holds one thing, or one kind of things."""
    return create_model(name, __base__=Reply, __doc__=about, **fields)


# ---- errors ---------------------------------------------------------------------------------


class ErrorDetail(BaseModel):
    """What went wrong."""

    type: str = Field(description="The name of the error, as in Python.")
    message: str = Field(description="What was asked, what is allowed, how to mend it.")
    charged: bool | None = Field(description="Was a charge made? null: that cannot be told.")
    price_micro: int | None = None
    remaining_micro: int | None = None
    retry_after_seconds: float | None = None


class ErrorReply(BaseModel):
    """The one shape of every error."""

    error: ErrorDetail


# ---- datasets -------------------------------------------------------------------------------


class StopPart(Reply):
    """Why a dataset answers nothing although nobody froze it."""

    why: str = Field(examples=["rows-changed"])
    since: Time
    message: str = Field(description="For its owner with places and what to do.")


class DatasetLine(Reply):
    """A dataset in a list."""

    name: Named
    state: State
    stopped: StopPart | None = Field(description="Why it answers nothing; null: it does.")
    description: str = Field(examples=["A survey of 2026."])
    created: Time


DatasetsReply = holding(
    "DatasetsReply", "The datasets that this key sees.", datasets=list[DatasetLine]
)


class BudgetPart(Reply):
    """What there was, what is spent, what is left for you."""

    total_micro: Micro
    spent_micro: Micro
    remaining_micro: Micro
    group: str | None = Field(None, description="Of datasets about the same people, with one T.")
    elsewhere_micro: int | None = Field(None, description="Charged in others of the group.")
    each_micro: int | None = Field(
        None, description="The most for a question about all periods, if it is another number."
    )


class CellBudget(Reply):
    """What rows with one combination of public values have spent."""

    cell: dict[str, Any] = Field(examples=[{"region": "north"}])
    spent_micro: Micro
    remaining_micro: Micro


class BudgetReply(BudgetPart):
    """The same, and for each combination of public values."""

    cells: list[CellBudget]


class Decision(Reply):
    """Something that was decided about a dataset, for everybody to see."""

    number: int
    kind: str = Field(examples=["refresh"])
    time: str | None
    reason: str | None


class DatasetReply(Reply):
    """All that is public about a dataset, and what you may spend."""

    name: Named
    state: State
    stopped: StopPart | None = Field(description="Why it answers nothing; null: it does.")
    description: str = Field(examples=["A survey of 2026."])
    created: Time
    frozen: dict[str, Any] | None = Field(description="When and why a scan froze it.")
    rows: int = Field(examples=[200])
    stored_rows: int = Field(
        description="Of all tables together; of one table what `rows` is.", examples=[200]
    )
    periods: list[Any] | None = Field(
        description="Those that have rows, where they arrive by periods.", examples=[["2026-01"]]
    )
    schema_: dict[str, Any] = Field(
        alias="schema", examples=[{"columns": {"age": {"type": "integer", "low": 0, "high": 100}}}]
    )
    promise: dict[str, Any] = Field(examples=[{"epsilon": 1.0, "delta": 1e-6, "queries": 1000}])
    pricing: str = Field(examples=["geometry"])
    program_fuel: int | None = Field(
        description="Instructions that a program may take for a row; null: programs are off."
    )
    time_price: float = Field(
        description="Queries charged more where a program runs: its time is told after a delay."
    )
    budget: BudgetPart
    decisions: list[Decision]
    padding: bool = Field(description="Do replies leave at times that tell nothing?")
    late: Literal["retry", "noise"] = Field(description="What is said if it is not ready.")
    deadline_seconds_of_a_count: float | None = Field(
        description="The reply to a count leaves so long after it was asked, at most."
    )
    periods_longer: int = Field(description="Times as long as measured, on a slow machine.")
    sulq: str = Field(description="The server's version.", examples=["0.1.0"])


class FindingPart(Reply):
    """One question of a list, beside those before it that could be answered."""

    number: int = Field(description="From 1.")
    question: str = Field(examples=["count where smoker"])
    ok: bool
    kind: str = Field(examples=["too few alike"])
    why: str
    rows: int = Field(description="How many numbers were judged, if it could be answered.")


class ReviewReply(Reply):
    """Which of a list of questions an auditor would answer together."""

    rule: str = Field(examples=["classes"])
    together: int
    findings: list[FindingPart]
    limits: dict[str, Any] | None = Field(
        description="Under rule=duan: how near sums are to their Gaussian limit, and a sample."
    )


ClosedReply = holding("ClosedReply", "The dataset that was closed.", closed=Named)


class AllotmentPart(Reply):
    """What one analyst spent and may spend."""

    spent_micro: Micro
    allotted_micro: Micro | None = Field(description="null: no limit of their own.")
    invited: bool


AllotmentsReply = holding(
    "AllotmentsReply", "Each analyst's part of T, by name.", allotments=dict[str, AllotmentPart]
)


class AllottedReply(Reply):
    """What was allotted."""

    analyst: Who
    queries: int | float | str | None = Field(examples=[100])


class InvitedReply(Reply):
    """Who may ask what from now on."""

    dataset: Named
    analyst: Who
    invited: bool


# ---- owning ---------------------------------------------------------------------------------


class SourceFile(Reply):
    """A file of yours with rows."""

    name: str = Field(examples=["people.parquet"])
    bytes: int | None = Field(description="null: it has a ledger.", examples=[4096])
    changed: Time | None
    dataset: Named | None = Field(description="The dataset that is made of it.")


class FileReply(Reply):
    """The file that was sent, as it is named from now on."""

    source: str = Field(examples=["anna/people.csv"])
    bytes: int = Field(examples=[4096])


FileRemovedReply = holding(
    "FileRemovedReply", "The file that was removed.", removed=(str, Field(examples=["people.csv"]))
)


class SourcesReply(Reply):
    """What datasets may be made of."""

    files: list[str] = Field(examples=[["people.parquet"]])
    listed: list[SourceFile] = Field(description="The same files, with more about each.")
    upload_bytes: int = Field(description="How large a file you may send; 0: none is taken.")
    servers: list[str] = Field(examples=[["postgresql://db:5432"]])


class DraftColumn(Reply):
    """A column as it is stored."""

    name: str = Field(examples=["age"])
    stored: str | None = Field(examples=["BIGINT"])
    type: str | None = Field(description="What it may be declared as.", examples=["integer"])
    guessed: bool = Field(description="Is the type a guess from the first rows?")


class DraftReply(Reply):
    """A first draft of a schema."""

    columns: list[DraftColumn]
    rows: int | None = Field(description="As Parquet's metadata has it; null for other files.")


class WarningsReply(Reply):
    """A sentence for each column that cannot be read as declared."""

    warnings: list[str] = Field(examples=[[]])


class ColumnCheck(Reply):
    """How well one column fits its declaration: rows, and shares of all rows."""

    name: str = Field(examples=["age"])
    missing: int
    unreadable: int
    outside: int
    missing_share: float
    unreadable_share: float
    outside_share: float
    lost_share: float
    advice: str = Field(examples=[""])


class RowLimitCheck(Reply):
    """How many rows do not count, since their people have more than `max_rows`."""

    table: str = Field(examples=["visits"], description="Empty where there is one table.")
    max_rows: int
    people: int
    people_over: int = Field(description="Of whom some rows do not count.")
    rows: int
    rows_left_out: int


class CheckReply(WarningsReply):
    """The same for every column, exact, for the owner alone."""

    rows: int
    columns: list[ColumnCheck]
    limits: list[RowLimitCheck]


class TimelineEntry(Reply):
    """A charge or a decision, in words."""

    number: int | None = Field(description="Of the ledger; null: from the registry.")
    kind: str = Field(examples=["charge"])
    time: str | None
    what: str = Field(examples=["count where secret"])
    analyst: str | None
    key: str | None = Field(None, description="Which key it is about, by its id.")
    price_micro: Micro | None
    remaining_micro: Micro | None


class TimelineReply(Reply):
    """What happened, newest first, and how spending grew."""

    entries: list[TimelineEntry]
    next: int | None = Field(description="Pass it as `before` for earlier ones.")
    curve: list[tuple[str, int]] = Field(
        description="Time, and micro-queries spent by then.",
        examples=[[["2026-11-18T09:30:00+00:00", 1_000_000]]],
    )
    total_micro: Micro
    spent_micro: Micro
    people: list[str] = Field(examples=[["alice"]])
    first: int = Field(description="The first entry that was looked at.")
    last: int


class ReportReply(BaseModel):
    """The report for a reviewer: promise, columns, charges, budget, events and the chain."""

    name: Named
    began: Time
    promise: dict[str, Any]
    columns: dict[str, Any]
    charges: list[dict[str, Any]]
    budget: Any
    events: list[dict[str, Any]]
    access: list[dict[str, Any]] = Field(description="Freezes, invitations and keys.")
    chain: dict[str, Any]


# ---- people ---------------------------------------------------------------------------------


class MeReply(Reply):
    """Whose key this is."""

    name: Who
    role: Literal["owner", "analyst"]
    key: str = Field(description="The key's public half.", examples=["0123456789abcdef"])
    datasets: list[Named]


class AnalystLine(Reply):
    """An analyst of yours."""

    name: Who
    created: Time
    datasets: list[Named]


AnalystsReply = holding("AnalystsReply", "Your analysts.", analysts=list[AnalystLine])


NewAnalystReply = holding("NewAnalystReply", "The analyst who was added.", name=Who)


RemovedReply = holding("RemovedReply", "The analyst who was removed.", removed=Who)


class KeyReply(BaseModel):
    """A new key. `key` is shown this once."""

    key: str = Field(examples=["sulq_0123456789abcdef_..."])
    id: str = Field(examples=["0123456789abcdef"])
    expires: str = Field(examples=["2027-02-16T09:30:00+00:00"])


class KeyLine(Reply):
    """A key without its secret."""

    id: str = Field(examples=["0123456789abcdef"])
    person: Who
    role: Literal["owner", "analyst"]
    label: str = Field(examples=["laptop"])
    datasets: list[Named] | None = Field(description="null: all that the person may see.")
    created: Time
    expires: Time
    revoked: str | None = Field(description="When it was revoked.")
    ground: str = Field(
        description="What granted it, with which it ends: the server's terminal, another key, or "
        "a role at the institution.", examples=["the server's terminal"],
    )  # fmt: skip
    ended: str | None = Field(description="Why it works no longer; null: it works.")
    cap_micro: int | None = Field(description="What it may spend in all; null: it has no cap.")
    spent_micro: int = Field(description="What it spent under its cap.", examples=[0])


class CapReply(Reply):
    """What a key may spend in all."""

    key: str = Field(examples=["0123456789abcdef"])
    cap_micro: int | None = Field(description="null: it has no cap.", examples=[5_000_000])
    spent_micro: int = Field(examples=[0])


KeysReply = holding("KeysReply", "Keys without their secrets.", keys=list[KeyLine])


RevokedReply = holding(
    "RevokedReply", "The key that was revoked, or had been.",
    revoked=(str, Field(examples=["0123456789abcdef"])),
)  # fmt: skip


# ---- running --------------------------------------------------------------------------------


class HealthReply(Reply):
    """It is up."""

    status: Literal["ok"]
    sulq: str = Field(description="The server's version.", examples=["0.1.0"])
    padding: bool = Field(description="Do replies leave at times that tell nothing?")


ReadyReply = holding(
    "ReadyReply", "Questions may be sent here; how many datasets there are, stopped, and frozen.",
    status=Literal["ready"], datasets=int, stopped=int, frozen=int,
)  # fmt: skip


class AlarmLine(Reply):
    """Something that an owner should look at."""

    id: int
    kind: str = Field(examples=["late"])
    message: str = Field(examples=["A reply was late."])
    time: Time
    seen: str | None
    dataset: str | None = Field(examples=["people"])


AlarmsReply = holding("AlarmsReply", "Alarms, newest first.", alarms=list[AlarmLine])


SeenReply = holding("SeenReply", "All alarms are seen.", seen=Literal[True])
