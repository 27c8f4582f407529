"""A generator of people with events, and of statements about them: ours, and in plain DuckDB.

Each statement is a pair that means the same: as an analyst writes it, with the ranges that the
schema declares, and as DuckDB is asked it, with the same ranges spelled out.
"""

from __future__ import annotations

import datetime
import random

import pyarrow as pa

import sulq
from sulq.values.query import People

MOST = 4
MONTHS, WARDS, FIRST = ["jan", "feb", "mar"], ["a", "b", "c"], datetime.date(2024, 1, 1)
TYPES = {
    "id": pa.int64(), "person": pa.int64(), "month": pa.string(), "sev": pa.int64(),
    "cost": pa.float64(), "ward": pa.string(), "day": pa.date32(), "urgent": pa.bool_(),
    "sure": pa.int64(),
}  # fmt: skip
SCHEMA = {
    "columns": {
        "id": {"type": "integer", "key": True},
        "person": {"type": "integer"},
        "month": {"values": MONTHS, "public": True},
        "sev": {"type": "integer", "low": -2, "high": 5},
        "cost": {"type": "number", "low": -8, "high": 100},
        "ward": {"values": WARDS},
        "day": {"type": "date", "low": "2024-01-01", "high": "2024-12-31", "public": True},
        "urgent": {"type": "boolean"},
        "sure": {"type": "integer", "low": 1, "high": 9, "nullable": False},
    },
    "unit": {"column": "person", "max_rows": MOST},
}


def event(pick, number, person):
    """One row; whatever is declared may be missing."""
    return {
        "id": number,
        "person": person,
        "month": pick.choice(MONTHS),
        "sev": pick.choice([None, *range(-2, 6)]),
        "cost": pick.choice([None, pick.randrange(-32, 401) / 4]),
        "ward": pick.choice([*WARDS, None]),
        "day": pick.choice([None, *(FIRST + datetime.timedelta(days=d) for d in range(6))]),
        "urgent": pick.choice([True, False, None]),
        "sure": pick.randint(1, 9),
    }


def events(seed, people=30):
    """Everybody has some rows, some people many; some rows are nobody's."""
    pick = random.Random(seed)
    owners = [p for p in range(people) for _ in range(pick.choice([1, 1, 2, 3, 5, 9, 30]))]
    owners += [None] * pick.randrange(4)
    numbers = pick.sample(range(10 * len(owners)), len(owners))
    return [event(pick, n, p) for n, p in zip(numbers, owners, strict=True)]


def table_of(rows):
    return pa.table({n: pa.array([r[n] for r in rows], kind) for n, kind in TYPES.items()})


# --- features: ours, in DuckDB, and what kind of thing it is ------------------------------------

NUMBERS = {"sev": (-2, 5), "cost": (-8, 100), "sure": (1, 9)}
TESTS = ["sev > 1", "cost < 20", "urgent", "not urgent", "ward = 'a'", "ward in ('a', 'c')",
         "sev is null", "cost >= 10 and urgent", "month = 'jan'", "sure <> 3"]  # fmt: skip


def clamped(sql, low, high):
    """Within a range; missing stays missing, unlike LEAST's."""
    return f"case when {sql} < {low} then {low} when {sql} > {high} then {high} else {sql} end"


def feature(pick):
    column = pick.choice(list(NUMBERS))
    low, high = NUMBERS[column]
    test = pick.choice(TESTS)
    kept = pick.choice(["", "", f" filter (where {test})"])
    by, tie = pick.choice(["day", "sev"]), "id"
    known = f"{by} is not null and {{}} is not null"
    if kept:
        known += f" and ({test})"
    word = pick.choice(["ward", "cost", "urgent", "sev"])
    order = f"{by}, {tie}"
    back = f"{by} desc, {tie} desc"
    choices = [
        (f"count(*){kept}", f"least(count(*){kept}, {MOST})", "number"),
        (f"least(count(*){kept}, 7)", f"least(count(*){kept}, 7)", "number"),
        (f"count({column}){kept}", f"least(count({column}){kept}, {MOST})", "number"),
        # DuckDB's own count_if is missing where its argument is on every row.
        (f"count_if({test})", f"least(count(*) filter (where {test}), {MOST})", "number"),
        (
            f"sum({column}){kept}",
            clamped(f"sum({column}){kept}", min(0, low * MOST), max(0, high * MOST)),
            "number",
        ),
        (
            f"least(greatest(sum({column}){kept}, -3), 50)",
            f"least(greatest(sum({column}){kept}, -3), 50)",
            "number",
        ),
        (f"avg({column}){kept}", f"avg({column}){kept}", "number"),
        (f"min({column}){kept}", f"min({column}){kept}", "number"),
        (f"max({column} + 1){kept}", f"max({column} + 1){kept}", "number"),
        (f"max(day){kept}", f"max(day){kept}", "date"),
        (f"any({test}){kept}", f"bool_or({test}){kept}", "boolean"),
        (f"bool_and({test}){kept}", f"bool_and({test}){kept}", "boolean"),
        (f"count(distinct ward){kept}", f"count(distinct ward){kept}", "number"),
        (f"count(distinct urgent){kept}", f"count(distinct urgent){kept}", "number"),
        (
            f"first({word} order by {by}){kept}",
            f"first({word} order by {order}) filter (where {known.format(word)})",
            word,
        ),
        (
            f"arg_max({word}, {by}){kept}",
            f"first({word} order by {back}) filter (where {known.format(word)})",
            word,
        ),
        (
            f"sum({column}){kept} / count(*)",
            "{} / least(count(*), {})".format(
                clamped(f"sum({column}){kept}", min(0, low * MOST), max(0, high * MOST)), MOST
            ),
            "number",
        ),
    ]  # fmt: skip
    ours, plain, kind = pick.choice(choices)
    kind = {"ward": "word", "urgent": "boolean", "cost": "number", "sev": "number"}.get(kind, kind)
    return ours, f"({plain})", kind


def statement(pick):
    """A pair of statements over `events`: ours and DuckDB's."""
    made = [feature(pick) for _ in range(pick.randint(1, 4))]
    names = [f"x{i}" for i in range(len(made))]
    where = pick.choice(["", "", f" where {pick.choice(TESTS)}", " where month = 'feb'",
                         f" where month <> 'jan' and {pick.choice(TESTS)}"])  # fmt: skip
    having = pick.choice(["", "", "", " having count(*) > 1", " having max(sev) >= 2"])
    key = pick.choice(["person", "1", "p"])
    chosen = [
        ", ".join(f"{m[at]} as {n}" for m, n in zip(made, names, strict=True)) for at in (0, 1)
    ]
    inner = [
        f"select person as p, {each} from events{where} group by {key}{having}" for each in chosen
    ]
    by = [n for n, m in zip(names, made, strict=True) if m[2] in ("boolean", "word")]
    outputs = ["count(*) as n"]
    for name, (_, _, kind) in zip(names, made, strict=True):
        if kind == "number":
            outputs += [f"sum({name}) as s{name}", f"count({name}) as c{name}"]
        elif kind == "date":
            outputs += [
                f"count({name}) as c{name}",
                f"count_if({name} > date '2024-01-03') as d{name}",
            ]
        elif kind == "boolean":
            outputs += [f"count_if({name}) as c{name}"]
        else:
            outputs += [f"count_if({name} = 'b') as c{name}"]
    numbers = [n for n, m in zip(names, made, strict=True) if m[2] == "number"]
    outer = pick.choice(["", f" where {numbers[0]} > 1" if numbers else ""])
    group = by[0] if by and pick.random() < 0.5 else None
    chosen = ", ".join([*([group] if group else []), *outputs])
    end = f" group by {group}" if group else ""
    return tuple(f"select {chosen} from ({text}) as people{outer}{end}" for text in inner), group


FEATURES = sulq.PerPerson({
    "visits": "least(count(*), 9)", "worst": "max(sev)", "spent": "sum(cost)", "mean": "avg(cost)",
    "first_ward": "first(ward order by day)", "latest": "last(day order by sev)",
    "urgent": "any(urgent)",
})  # fmt: skip
EVERY_KIND = [
    sulq.Query(["exp(worst)", "ln(1 + visits)"], where="spent > 0", per_person=FEATURES),
    sulq.Query(sulq.Sums(["visits", "spent"]), per_person=FEATURES),
    sulq.Query(sulq.Products(["visits", "mean"]), by="urgent", per_person=FEATURES),
    sulq.Query(by=sulq.NearestCentre(["visits", "spent"], [[0, 0], [1, 0.5]]), per_person=FEATURES),
    sulq.Query(by=sulq.Blocks(3, 5), where="worst > 1", per_person=FEATURES),
    sulq.Query(rows=sulq.Rows.sample(1, 0.5), values=["spent"], per_person=FEATURES),
    sulq.Query(rows=sulq.Rows.where("person < 9"), by="first_ward", per_person=FEATURES),
    sulq.Query(by=sulq.Bins("mean", [-8, 0, 20, 100]), per_person=FEATURES),
    sulq.Query(People(), where="latest > date '2024-01-02'", per_person=FEATURES),
    sulq.Query(["extract(day from latest)"], by=("urgent", "first_ward"), per_person=FEATURES),
]


def statements(seed, count):
    pick = random.Random(seed)
    return [statement(pick) for _ in range(count)]
