"""A session of an analyst: 200 questions, each asked alone, or what is known first.

The questions come as they do: histograms to begin with, tables of two or three columns, drill-downs
into their cells, age ranges, means by groups, and the same again in other words. One analyst asks
each of them; what was asked before in the same canonical form is free for them too. The other
begins with the tables and means that such a session is about, asked together, then looks at the
estimate beside every price, takes it where it is about as close as an answer would be, and else
pays for an answer that is combined with all earlier ones.

The error of a question is the root mean square of its numbers' errors, in standard deviations that
they have when it is asked alone; of a session, the mean over its questions.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sulq
from benchmarks.measure import Line
from sulq import Query

Numbers = np.ndarray[Any, Any]

ROWS = 200_000
AGES = tuple(range(0, 91, 10))
VALUES = {
    "region": ("north", "south", "east", "west"),
    "education": ("none", "school", "college", "degree", "doctorate"),
    "sex": ("f", "m"),
}
SCHEMA = {
    "columns": {
        "id": {"key": True},
        "age": {"type": "integer", "low": 0, "high": 99, "bins": [*AGES, 99], "nullable": False},
        "smoker": {"type": "boolean", "nullable": False},
        "income": {"type": "number", "low": 0, "high": 200_000, "nullable": False},
        **{n: {"values": list(v), "nullable": False} for n, v in VALUES.items()},
    }
}
GROUPS = ("age", "smoker", "region", "education", "sex")
PAIRS = tuple(itertools.combinations(GROUPS, 2))
TRIPLES = (
    *itertools.combinations(GROUPS[1:], 3), ("age", "smoker", "sex"), ("age", "smoker", "region"),
)  # fmt: skip
CLOSE = 1.35  # an estimate is taken up to so many times the error of an answer
TABLES = {"dp": 15, "beliefs": 24}  # queries spent on all tables of three columns together


def lines() -> Iterator[Line]:
    exact = Session.of(_silent(opened("dp")), questions())
    for guarantee in ("dp", "beliefs"):
        plain = Session.of(opened(guarantee), questions())
        better = known_first(guarantee, plain)
        spent = f"{better.charges} charges instead of {plain.charges}"
        yield Line(
            f"200 questions of an analyst, {guarantee}: what is spent", better.spent, plain.spent,
            "each asked", 1 / 3, spent, "queries",
        )  # fmt: skip
        yield Line(
            f"200 questions of an analyst, {guarantee}: mean error, as stated",
            better.stated(plain), plain.stated(plain), "each asked", 1.0,
            f"as measured {better.measured(exact, plain):.2f} and "
            f"{plain.measured(exact, plain):.2f}", "std",
        )  # fmt: skip


def people() -> pa.Table:
    """Rows in which columns hang together."""
    rng = np.random.default_rng(11)
    age = rng.integers(0, 100, ROWS)
    level = np.clip(rng.integers(0, 5, ROWS) - (age < 20) * 2, 0, 4)
    return pa.table({
        "id": np.arange(ROWS),
        "age": age,
        "smoker": rng.random(ROWS) < 0.35 - 0.05 * level,
        "income": np.clip(rng.gamma(2.0, 8_000.0 * (1 + level)), 0, 200_000),
        "region": np.array(VALUES["region"])[rng.choice(4, ROWS, p=[0.4, 0.3, 0.2, 0.1])],
        "education": np.array(VALUES["education"])[level],
        "sex": np.array(VALUES["sex"])[rng.integers(0, 2, ROWS)],
    })  # fmt: skip


# ---- the questions --------------------------------------------------------------------------


def questions() -> list[Query | str]:
    """Two hundred of them, in the order of a session."""
    made = [*_first_looks(), *_tables(), *_drill_downs(), *_ranges(), *_means(), *_again()]
    assert len(made) == 200, len(made)
    return made


def _first_looks() -> Iterator[Query | str]:
    for name in GROUPS:
        yield Query(by=name)
    yield Query(by=sulq.Bins("income", tuple(range(0, 200_001, 10_000))))
    yield "select avg(income) from people"
    yield "select avg(age) from people"


def _tables() -> Iterator[Query | str]:
    yield from (Query(by=pair) for pair in PAIRS)
    yield from (Query(by=three) for three in TRIPLES)
    yield from (Query(by=name, where="smoker") for name in ("age", "region", "education", "sex"))


def _drill_downs() -> Iterator[Query | str]:
    for region, level in itertools.product(VALUES["region"], VALUES["education"]):
        yield Query(where=f"region = '{region}' and education = '{level}' and smoker")
    for region, sex in itertools.product(VALUES["region"], VALUES["sex"]):
        yield Query(where=f"smoker and region = '{region}' and sex = '{sex}'")
    for region, sex in itertools.product(VALUES["region"], VALUES["sex"]):
        yield Query(by="age", where=f"region = '{region}' and sex = '{sex}'")
    for level in VALUES["education"]:
        yield Query(where=f"education = '{level}' and age >= 60")
        yield Query(where=f"education = '{level}' and age < 30 and sex = 'f'")
        yield Query(by="region", where=f"education = '{level}' and not smoker")


def _ranges() -> Iterator[Query | str]:
    for age in range(10, 90, 10):
        yield Query(where=f"age >= {age}")
        yield Query(where=f"age between {age} and {age + 9}")
        yield Query(where=f"smoker and age < {age}")
        yield Query(where=f"age >= {age} and sex = 'f'")
    for age in range(20, 80, 20):
        yield f"select count(*) from people where age >= {age} and age < {age + 20} and smoker"


def _means() -> Iterator[Query | str]:
    for name in ("smoker", "region", "education", "sex"):
        yield f"select {name}, avg(income) from people group by {name}"
    for name in ("region", "education", "sex"):
        yield f"select {name}, avg(income) from people where smoker group by {name}"
        yield f"select {name}, avg(smoker) from people group by {name}"
    for level in VALUES["education"]:
        yield f"select avg(income) from people where education = '{level}'"
        yield f"select sum(income) from people where education = '{level}'"
    for region in VALUES["region"]:
        yield f"select avg(income) from people where region = '{region}'"
        yield f"select avg(income) from people where region = '{region}' and smoker"
    yield "select avg(income) from people where education in ('degree', 'doctorate')"
    yield "select sum(income) from people where region <> 'west'"
    yield "select sum(income) from people where smoker"


def _again() -> Iterator[Query | str]:
    """What is known by now, asked once more in other words."""
    yield Query(where="not smoker")
    yield "select count(*) from people where smoker = true"
    yield "select smoker, count(*) from people group by smoker"
    yield "select avg(smoker) from people"
    for name in ("region", "education", "sex"):
        for value in VALUES[name]:
            yield Query(where=f"{name} = '{value}'")
            yield f"select avg(smoker) from people where {name} = '{value}'"
            yield f"select count(*) from people where {name} <> '{value}' and smoker"
    yield Query(by=sulq.Bins("age", (0, 30, 60, 99)))
    yield Query(by=sulq.Bins("income", tuple(range(0, 200_001, 50_000))))
    yield Query(where="income >= 100000")
    yield Query(where="income < 30000")
    yield Query(where="age >= 30 and age < 60 and sex = 'm'")
    for region, level in itertools.product(VALUES["region"], ("college", "degree")):
        yield Query(where=f"region = '{region}' and education = '{level}'")
    yield from (Query(by=("region", name)) for name in ("smoker", "sex"))
    yield from (f"select sum(income) from people where sex = '{sex}'" for sex in VALUES["sex"])
    yield "select count(*) from people where region in ('north', 'east') and not smoker"


# ---- the two analysts -----------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """What came of it: what was spent, and of each question its numbers and their errors."""

    spent: float
    charges: int
    numbers: list[Numbers]
    stds: list[Numbers]

    @classmethod
    def of(cls, db: sulq.Database, asked: list[Query | str]) -> Session:
        """Every question asked, as it comes."""
        return cls.read(db, [db.answer(db.question(q)) for q in asked])

    @classmethod
    def read(cls, db: sulq.Database, found: list[sulq.Answer | sulq.Table]) -> Session:
        """What a database spent on what was found."""
        read = [numbers_of(f) for f in found]
        charges = sum(charge.price > 0 for charge in db.history())
        return cls(float(db.budget.spent), charges, [n for n, _ in read], [s for _, s in read])

    def stated(self, alone: Session) -> float:
        """The mean error that the intervals say."""
        return _mean(zip(self.stds, alone.stds, strict=True))

    def measured(self, exact: Session, alone: Session) -> float:
        """The mean error that there was."""
        off = [n - t for n, t in zip(self.numbers, exact.numbers, strict=True)]
        return _mean(zip(off, alone.stds, strict=True))


def known_first(guarantee: str, alone: Session) -> Session:
    """The tables of a session together, then only what is not known well enough."""
    with opened(guarantee) as db:
        db.marginals(GROUPS, 3, budget=TABLES[guarantee])
        for first, second in itertools.combinations(GROUPS[1:], 2):
            db.sql(f"select {first}, {second}, avg(income) from people group by 1, 2")
        found: list[sulq.Answer | sulq.Table] = []
        for q, std in zip(questions(), alone.stds, strict=True):
            known = db.price(q).estimate
            if known is None or _mean([(numbers_of(known)[1], std)]) > CLOSE:
                known = db.sql(q, combine=True) if isinstance(q, str) else db.ask(q, combine=True)
            found.append(known)
        return Session.read(db, found)


def _mean(pairs: Iterable[tuple[Numbers, Numbers]]) -> float:
    """Root mean squares of what is in units of something, their mean."""
    return float(np.mean([np.sqrt(np.mean((x / unit) ** 2)) for x, unit in pairs]))


def numbers_of(found: sulq.Answer | sulq.Table) -> tuple[Numbers, Numbers]:
    """Numbers, and the standard deviations that their intervals say."""
    table = found.table() if isinstance(found, sulq.Answer) else found
    (name,) = table.numbers
    ends = np.array(table[f"{name}_high"]) - np.array(table[f"{name}_low"])
    return np.array(table[name]), ends / (2 * 1.96)


def opened(guarantee: str) -> sulq.Database:
    """The same people, nothing asked yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(
            people(), SCHEMA, epsilon=1.0, delta=1e-6, queries=1000, guarantee=guarantee,
            ledger=":memory:", name="people",
        )  # fmt: skip


class _Silence:
    """Draws 0, so that an answer is the exact sum."""

    def draw(self, law: Any, count: int) -> list[int]:
        return [0] * count


def _silent(db: sulq.Database) -> sulq.Database:
    db._pipeline.noise = _Silence()
    return db
