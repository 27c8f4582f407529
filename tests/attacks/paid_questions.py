"""Questions of every kind under terms from the whole range, drawn at random, with their tables."""

from __future__ import annotations

import functools
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
from attacks.degenerate_questions import CALLS, LEARNERS, NOBODY, STATEMENTS, Questions
from attacks.degenerate_rows import schema_of, table_of
from engines.star_statements import SCHEMA as STAR
from engines.star_statements import about_events, rows_of, tables_of

import sulq
from sulq import Query
from sulq.values.marginals import Marginals
from sulq.values.query import Bins, Blocks, Discover, Mean, Percentile, Running, Strategy

MONTHS = [f"2026-{m:02}" for m in range(1, 13)]
MANY = 20_001  # rows
PLAIN = {
    "id": {"type": "integer", "key": True},
    "age": {"type": "integer", "low": 0, "high": 100, "nullable": False},
    "cents": {"type": "integer", "low": -(10**6), "high": 3_000_000},
    "income": {"type": "number", "low": 0, "high": 1e5},
    "far": {"type": "number", "low": -1e12, "high": 1e12},
    "fine": {"type": "number", "low": 0, "high": 1e-6},
    "since": {"type": "date", "low": "1990-01-01", "high": "2026-12-31"},
    "smoker": {"type": "boolean"},
    "sure": {"type": "boolean", "nullable": False},
    "sort": {"values": ["x"], "nullable": False},
    "kind": {"values": ["a", "b", "c"]},
    "stage": {"values": [1, 2, 3], "nullable": False},
    "word": {"type": "text"},
    "region": {"values": ["n", "s"], "public": True, "nullable": False},
    "month": {"values": MONTHS, "public": True, "nullable": False},
}
FLAGS = ("smoker", "sure", "kind", "stage", "sort", "region", "month", "age", "age < 50")
NUMBERS = ("age", "cents", "income", "far", "fine", "age + 1", "income / 3", "stage", "exp(fine)")
WHERE = (
    "smoker", "not smoker", "age > 30", "age between 20 and 40", "kind = 'a'", "kind is null",
    "region = 'n'", "region = 'n' and smoker", "month = '2026-03'", "month < '2026-05' and sure",
    "cents > 1000 or sure", "far > 0", "income >= 5e4", "since > '2000-01-01'", "sort = 'x'",
)  # fmt: skip
EMPTY = (
    "age is null", "sure is null", "age > 60 and age < 20", "sure and not sure", "sort is null",
    "month = '2026-01' and month = '2026-02'", "region = 'n' and region = 's' and smoker", "false",
    "kind = 'a' and kind = 'b'", "stage is null and smoker", "age > 200", "region is null",
)  # fmt: skip


# ---- tables and terms -----------------------------------------------------------------------


def terms(pick):
    """A promise from the whole range; some of them are refused when a table is opened."""
    noise = pick.choice(["gaussian"] * 3 + ["laplace"] * 2 + ["binomial", "stitched"])
    found = {
        "epsilon": 10 ** pick.uniform(-6, 2), "queries": max(round(10 ** pick.uniform(0, 7)), 1),
        "delta": 10 ** pick.uniform(-12, -1.5), "noise": noise,
        "guarantee": pick.choice(["beliefs", "dp"]),
        "pricing": pick.choice(["geometry"] * 5 + ["paper"]),
    }  # fmt: skip
    if pick.random() < 0.6:  # usual ones, which fewer questions are refused under
        found |= {"epsilon": pick.choice([0.1, 1.0, 4.0, 20.0]),
                  "queries": pick.choice([1, 100, 1000, 10**5, 10**6])}  # fmt: skip
    if noise in ("gaussian", "laplace") and pick.random() < 0.5:
        found["discoveries"] = pick.choice([1, 10, 1000])
        found["share"] = pick.choice([None, found["delta"] * pick.random()])
    return found


@functools.lru_cache(maxsize=8)
def plain_rows(rows):
    """A table of so many rows with a key, people, and periods."""
    draw = np.random.default_rng(rows)

    def missing():
        return draw.random(rows) < 0.1

    return pa.table({
        "id": np.arange(rows), "age": draw.integers(-3, 104, rows),
        "cents": pa.array(draw.integers(-(10**6), 3 * 10**6, rows), mask=missing()),
        "income": pa.array(draw.lognormal(8, 3, rows), mask=missing()),
        "far": draw.normal(0, 1e12, rows), "fine": draw.random(rows) / 10**6,
        "since": pa.array(draw.integers(7000, 20000, rows), pa.int32()).cast(pa.date32()),
        "smoker": pa.array(draw.random(rows) < 0.3, mask=missing()),
        "sure": draw.random(rows) < 0.5, "sort": pa.array(["x"] * rows, pa.string()),
        "kind": pa.array(draw.choice(["a", "b", "c", "zz"], rows).tolist(), pa.string()),
        "stage": draw.integers(1, 4, rows),
        "word": pa.array([f"w{x}" for x in draw.zipf(1.5, rows)], pa.string()),
        "region": pa.array(draw.choice(["n", "s"], rows).tolist(), pa.string()),
        "month": pa.array([MONTHS[i % 12] for i in range(rows)], pa.string()),
        "person": pa.array([f"p{i // 3}" for i in range(rows)], pa.string()),
    })  # fmt: skip


def plain_schema(pick):
    """Its schema: rows, shards, people, periods, or both."""
    found = {"columns": PLAIN}
    kind = pick.choice(["rows", "rows", "shards", "people", "periods", "people in periods"])
    if kind == "shards":
        found["shards"] = pick.choice([2, 7])
    if kind.startswith("people"):
        found["columns"] = PLAIN | {"person": {"type": "text"}}
        found["unit"] = {"column": "person", "max_rows": pick.choice([1, 2, 3])}
    if kind.endswith("periods"):
        found["period"] = {"column": "month"}
    if kind == "people in periods" and pick.random() < 0.7:
        found["unit"]["max_periods"] = pick.choice([1, 2, 12])
    return found


def world(pick):
    """What to open, its schema, and questions about it."""
    kind = pick.choice(["plain"] * 5 + ["hardly"] * 2 + ["star"])
    if kind == "star":
        rows = rows_of(pick.randrange(99), people=pick.choice([1, 2, 25]))
        return tables_of(rows), STAR, star_questions
    if kind == "hardly":
        person = pick.random() < 0.3
        schema = schema_of(person)
        return table_of(pick, person), schema, functools.partial(hardly_questions, person)
    rows = pick.choice([0, 1, 2, 3, 40, 40, 500, 500, MANY])
    return plain_rows(rows), plain_schema(pick), plain_questions


# ---- questions ------------------------------------------------------------------------------


def star_questions(pick):
    """Joins of people and their events."""
    text = about_events(pick)
    text = text[0] if isinstance(text, tuple) else text
    return text, lambda db: db.sql(text)


@functools.lru_cache(maxsize=16)
def _hardly(person, number):
    return Questions(random.Random(f"paid {number} {person}"), schema_of(person), count=60)


def hardly_questions(person, pick):
    """The questions of the fuzz of degenerate rows, with errors of any size."""
    kind = pick.random()
    if kind < 0.1:
        name, call = pick.choice([*LEARNERS.items(), *CALLS.items()])
        return name, call
    if kind < 0.3:
        text = pick.choice(STATEMENTS)
        return text, lambda db: db.sql(text)
    some = _hardly(person, pick.randrange(4)).written
    query = pick.choice(some)
    if pick.random() < 0.4:
        query = sulq.Query(query.values, by=query.by, where=pick.choice([query.where, *NOBODY]),
                           rows=query.rows, error=_error(pick))  # fmt: skip
    return repr(query)[:500], lambda db: db.ask(query)


def _error(pick):
    return pick.choice([None, 10 ** pick.uniform(-4, 4), 10 ** pick.uniform(-12, 14)])


def _where(pick):
    return pick.choice([None, None, *WHERE[:6], pick.choice(WHERE), pick.choice(EMPTY)])


def _edges(pick):
    return pick.choice([[0, 50, 101], list(range(0, 102)), [0, 20, 40, 60, 80, 100], [-5, 200]])


def _partition(pick):
    return pick.choice([
        lambda: pick.choice(FLAGS[:7]), lambda: Bins("age", _edges(pick)),
        lambda: Bins("income", [0, 10, 1e4, 1e5]), lambda: Blocks(pick.randrange(5), 4),
        lambda: Bins("since", ["2000-01-01", "2010-01-01", "2020-06-01"]), lambda: "age % 5",
    ])()  # fmt: skip


def _axes(pick):
    return [_partition(pick) for _ in range(pick.choice([1, 1, 2, 3]))]


def _query(pick):
    values = pick.choice([
        lambda: ("1",), lambda: (pick.choice(NUMBERS),), lambda: Mean(pick.choice(NUMBERS)),
        lambda: tuple(pick.sample(NUMBERS, 3)), lambda: sulq.Sums(["age", "income"], 0.5, 0.3),
        lambda: sulq.Products(["age", "far"]),
    ])()  # fmt: skip
    return Query(values, by=pick.choice([None, None, _axes(pick)]), where=_where(pick),
                 error=_error(pick) if pick.random() < 0.4 else None)  # fmt: skip


def _list(pick):
    """Counts or tables that may be asked together."""
    if pick.random() < 0.5:
        return [
            Query(
                where=f"{pick.choice(('age', 'cents'))} > {pick.randrange(90)} and "
                f"{pick.choice(WHERE + EMPTY)}"
            )
            for _ in range(pick.randint(2, 9))
        ]
    where = _where(pick)
    return [Query(by=_axes(pick), where=where) for _ in range(pick.randint(2, 5))]


def _shared(pick):
    queries = pick.choice([_list(pick), [_query(pick) for _ in range(pick.randint(1, 4))]])
    settings = pick.choice([{}, {}, {"share": False}, {"together": True}])
    return lambda db: db.ask(queries, **settings), f"ask {queries} {settings}"


def _marginals(pick):
    columns = pick.sample(FLAGS[:7], pick.randint(2, 4))
    asked = {"where": _where(pick), "consistent": pick.random() < 0.3}
    if pick.random() < 0.3:
        asked["budget"] = Fraction(pick.choice([1, 3]), pick.choice([1, 100, 10**6]))
    found = Marginals(columns, pick.randint(1, 2), **asked)
    return lambda db: db.answer(db.question(found)), f"{found}"


def _share(pick):
    return pick.choice(["0.5", "0.1234", "0.95", "0.0001", "0.9999", f"{pick.random():.4f}"])


def _percentile(pick):
    name = pick.choice(["percentile_disc", "percentile_cont"])
    chosen = pick.choice(NUMBERS[:6])
    group, where = pick.choice([None, None, "kind", "region"]), _where(pick)
    text = f"{name}({_share(pick)}) within group (order by {chosen})"
    text = f"select {f'{group}, ' if group else ''}{text} as v from people"
    text += (f" where {where}" if where else "") + (f" group by {group}" if group else "")
    return lambda db: db.sql(text), text


def _choice(pick):
    axes = _axes(pick)
    over = pick.randint(1, len(axes))
    query = Query(Percentile(Fraction(_share(pick)), over), by=axes, where=_where(pick))
    return lambda db: db.ask(query), repr(query)


def _strategy(pick):
    axes = [*(_axes(pick) if pick.random() < 0.4 else []), Bins("age", _edges(pick))]
    workload = pick.choice([("ranges",), ("prefixes",), ("suffixes",), ("cdf",), ("marginals",)])
    query = Query(Strategy(workload), by=axes, where=_where(pick), error=_error(pick))
    return lambda db: db.ask(query), repr(query)


AGGREGATES = (
    "count(*)", "sum({x})", "avg({x})", "stddev({x})", "variance({x})", "median({x})", "min({x})",
    "count(distinct kind)", "corr({x}, age)", "covar_pop({x}, income)",
    "count(*) filter (where {w})",
    "sum({x}) / count(*)", "100.0 * avg({x})", "quantile_cont({x}, 0.3)", "mode(kind)", "max(age)",
    "regr_slope({x}, age)", "count({x})", "bool_or(smoker)", "sum(case when {w} then {x} end)",
)  # fmt: skip
GROUPS = (
    "", "", "kind", "region", "kind, sure", "month", "rollup (kind, sure)", "cube (kind, region)",
    "grouping sets ((kind), (sure), ())", "year(since)", "sort, stage", "floor(age / 10)",
)  # fmt: skip


def _select(pick):
    aggregates = [
        a.format(x=pick.choice(NUMBERS), w=pick.choice(WHERE))
        for a in pick.sample(AGGREGATES, pick.choice([1, 1, 2, 3]))
    ]
    group, where = pick.choice(GROUPS), _where(pick)
    named = "" if "(" in group else group
    text = f"select {', '.join([*([named] if named else []), *aggregates])} from people"
    text += (f" where {where}" if where else "") + (f" group by {group}" if group else "")
    text += pick.choice(["", "", " having count(*) > 5", " order by 1 limit 3"]) if group else ""
    return lambda db: db.sql(text), text


def _running(pick):
    if pick.random() < 0.5:
        text = ("select month, sum(count(*)) over (order by month) as n from people "
                f"where {pick.choice(WHERE)} group by month")  # fmt: skip
        return lambda db: db.sql(text), text
    asked = Running(pick.choice(["1", "age", "income"]), over=pick.choice([None, "month"]))
    query = Query(asked, where=_where(pick))
    return lambda db: db.answer(db.question(query)), repr(query)


def _discover(pick):
    least = pick.choice([None, 1, 5, 50, 10**6])
    if pick.random() < 0.3:
        text = "select word(discover => true), count(*) from people group by 1"
        return lambda db: db.sql(text), text
    query = Query(Discover("word", least), where=_where(pick))
    return lambda db: db.ask(query), repr(query)


def _person(pick):
    features = {"n": "count(*)", "most": "max(age)", "some": f"sum({pick.choice(NUMBERS[:3])})"}
    query, where = pick.choice([Query(["n"]), Query(by="most % 3"), Query(["some", "n"])]), None
    if pick.random() < 0.4:
        where = pick.choice(WHERE)
    return lambda db: db.per_person(features, where=where).ask(query), f"people {features} {query}"


def _view(pick):
    name, text = pick.choice([("old", "age > 65"), ("half", "income / 2"), ("both", "age + stage")])
    query = Query([name] if pick.random() < 0.5 else ["1"], where=_where(pick), error=_error(pick))
    return lambda db: db.define(**{name: text}).ask(query), f"{name}={text} {query}"


def _short(pick):
    x, where = pick.choice(NUMBERS[:6]), _where(pick)
    kinds = {
        "count": lambda db: db.count(where or "sure"), "mean": lambda db: db.mean(x, where=where),
        "sum": lambda db: db.sum(x, where=where), "median": lambda db: db.median(x),
        "std": lambda db: db.std(x), "corr": lambda db: db.corr(x, "age"),
        "describe": lambda db: db.describe(), "histogram": lambda db: db.histogram(pick_of(x)),
        "crosstab": lambda db: db.crosstab(["kind", "sure"], where=where),
        "ecdf": lambda db: db.ecdf("age", where), "profile": lambda db: db.profile(),
        "combine": lambda db: db.ask(Query([x], where=where), combine=True),
        "estimate": lambda db: db.estimate(Query([x], where=where)),
        "sizes": lambda db: db.sizes(sulq.Rows.where("region = 'n'"), sulq.Rows.blocks(1, 3)),
        "rows_of": lambda db: db.rows_of(Query(where=where)),
    }  # fmt: skip
    name = pick.choice(list(kinds))
    return kinds[name], f"{name} {x} where {where}"


def pick_of(x):
    """A column for a histogram, where the expression is not one."""
    return x if x.isidentifier() else "age"


def _one(pick):
    query = _query(pick)
    return lambda db: db.ask(query), repr(query)


KINDS = (
    [_one] * 5 + [_shared] * 3 + [_select] * 5 + [_percentile] * 3 + [_short] * 3
    + [_marginals, _marginals, _choice, _strategy, _strategy, _running, _discover, _person, _view]
)  # fmt: skip


def plain_questions(pick):
    """A question of any kind: its text, and the call that asks it."""
    call, text = pick.choice(KINDS)(pick)
    return text, call
