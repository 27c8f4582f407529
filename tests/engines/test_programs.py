"""Programs give the same integers on every engine, and each row its own, whoever is beside it."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from helpers import ENGINES, sums
from programs.modules import module, plainly, wasm
from programs.random_modules import RandomModule
from soak import times

import sulq

DAY = datetime.date(2020, 1, 1)
REGIONS = ("north", "south", "east")
SCHEMA = {"columns": {
    "id": {"key": True},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "kids": {"type": "integer", "low": 0, "high": 9},
    "income": {"type": "number", "low": -1e6, "high": 1e6},
    "height": {"type": "number", "low": 0, "high": 3, "nullable": False},
    "smoker": {"type": "boolean"},
    "born": {"type": "date", "low": datetime.date(1900, 1, 1), "high": datetime.date(2030, 1, 1)},
    "region": {"values": list(REGIONS), "public": True},
    "city": {"values": ["x", "y"]},
}}  # fmt: skip
N = 900


def table(seed=1):
    rng = np.random.default_rng(seed)

    def some(values):
        return [None if rng.random() < 0.1 else v for v in values]

    days = [DAY + datetime.timedelta(days=int(d)) for d in rng.integers(-9000, 3000, N)]
    return pa.table({
        "id": np.arange(N),
        "age": rng.integers(0, 121, N),
        "kids": pa.array(some(rng.integers(0, 10, N).tolist()), pa.int64()),
        "income": pa.array(some((rng.standard_normal(N) * 1e4).tolist()), pa.float64()),
        "height": rng.random(N) * 3,
        "smoker": pa.array(some((rng.random(N) < 0.4).tolist()), pa.bool_()),
        "born": pa.array(some(days), pa.date32()),
        "region": rng.choice(REGIONS, N),
        "city": pa.array(some(rng.choice(["x", "y", "elsewhere"], N).tolist()), pa.string()),
    })  # fmt: skip


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return ENGINES[request.param](table(), SCHEMA)


SCORE = module(
    "(param i32 f64 i32) (result f64) (f64.mul (f64.div (local.get 1) (f64.convert_i32_s "
    "(i32.rem_u (local.get 0) (i32.const 7)))) (f64.convert_i32_s (local.get 2)))"
)
COUNT = module(
    "(param i32) (result i32) (local i32) (loop (local.set 1 (i32.add (local.get 1) (i32.rem_s "
    "(local.get 0) (i32.const 3)))) (br_if 0 (i32.gt_s (local.tee 0 (i32.div_s (local.get 0) "
    "(i32.const 3))) (i32.const 0)))) (local.get 1)"
)
SAME = module("(param i32) (result i32) (local.get 0)")


def programs():
    return {
        "score": sulq.Program(SCORE, "f", columns=["age", "income", "smoker"], low=-9, high=9),
        "digits": sulq.Program(COUNT, "f", columns=["age"], low=0, high=12),
        "region": sulq.Program(SAME, "f", columns=["city"], low=0, high=2),
        "days": sulq.Program(SAME, "f", columns=["born"], low=0, high=20_000),
    }


def by_hand(program, columns):
    """The sum of a program over the rows that have all of its arguments, by plain wasmtime."""
    rows = table().to_pydict()
    place = {"city": ["x", "y"].index, "born": lambda d: (d - datetime.date(1970, 1, 1)).days}
    known = {"city": {"x", "y"}}
    whole = isinstance(program.spec.low, int)
    given = []
    for values in zip(*(rows[c] for c in columns), strict=True):
        if any(
            v is None or v not in known.get(c, {v}) for v, c in zip(values, columns, strict=True)
        ):
            continue
        given.append(
            tuple(place.get(c, lambda v: v)(v) for v, c in zip(values, columns, strict=True))
        )
    found = plainly(program.spec.code, given, program.spec.low, program.spec.high)
    if whole:
        return sum(found)
    steps = 2**40
    return sum(round(x * steps) for x in found) / steps


@pytest.mark.parametrize("name", programs())
def test_every_engine_adds_what_plain_wasmtime_gives(engine, name):
    """A row with a missing argument is left out; dates are days, categories their places."""
    program = programs()[name]
    query = sulq.Query((program,))
    ((found,),) = sums(engine, query)[0]
    from sulq.questions.check import check

    value = check(query, engine.schema, "gaussian", "beliefs").values[0]
    expected = by_hand(program, program.parameters)
    assert found / 2**value.scale == pytest.approx(expected, abs=N * 2.0**-value.scale)
    if isinstance(program.spec.low, int):
        assert found == expected


def test_engines_agree_on_every_way_to_ask(engine):
    """In values, where, by, bins, conditions, and mixed with expressions: the same integers."""
    score, digits = programs()["score"], programs()["digits"]
    old = sulq.Program(module("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 65))"),
                       "f", columns=["age"])  # fmt: skip
    queries = [
        sulq.Query((score,)),
        sulq.Query((score,), where=old),
        sulq.Query(where=f"{score} > 1 and region = 'north'"),
        sulq.Query(("income",), where=f"not {old} or smoker"),
        sulq.Query(by=(old, "region")),
        sulq.Query(by=sulq.Bins(digits, (0, 3, 6, 12))),
        sulq.Query((f"case when {old} then {score} else {digits} end", "kids")),
        sulq.Query((f"greatest({score}, {digits} / 2)",), by="region"),
        sulq.Query((score, digits, "income"), rows=sulq.Rows.where("region = 'east'")),
    ]
    reference = ENGINES["reference"](table(), SCHEMA)
    assert sums(engine, *queries) == sums(reference, *queries)
    assert [sums(engine, q)[0] for q in queries] == sums(reference, *queries)


def test_a_sum_is_that_of_its_parts(engine):
    """Rows of one region and of the others add up to all, for random programs."""
    for seed in range(times(4, 60)):
        made = RandomModule(seed)
        names = {"i32": "age", "i64": "kids", "f32": "height", "f64": "income"}
        program = sulq.Program(
            wasm(made.text), "f", columns=[names[k] for k in made.parameters],
            low=made.low, high=made.high, name="random",
        )  # fmt: skip
        if made.low < -1e9:
            continue  # too wide a range for its grid to be compared
        parts = [sulq.Query((program,), where=f"region = '{r}'") for r in REGIONS]
        private = [sulq.Query((program,), where=w) for w in ("age < 40", "age >= 40")]
        whole, *found = sums(engine, sulq.Query((program,), where="height >= 0"), *parts, *private)
        assert sum(m[0][0] for m in found[:3]) == whole[0][0]
        assert sum(m[0][0] for m in found[3:]) == whole[0][0]


def test_order_and_batches_change_nothing(monkeypatch):
    """The rows shuffled, and in batches of 1, 7 and 100 rows: the same integers."""
    from sulq.engines import reference
    from sulq.engines.reference import ReferenceEngine
    from sulq.values.schema import Schema

    schema = Schema.load(SCHEMA)
    queries = [sulq.Query((p,)) for p in programs().values()]
    expected = sums(ReferenceEngine(table(), schema), *queries)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(N)
        assert sums(ReferenceEngine(table().take(order), schema), *queries) == expected
    for rows in (1, 7, 100):
        monkeypatch.setattr(reference, "batch_rows", lambda *_, rows=rows: rows)
        assert sums(ReferenceEngine(table(), schema), *queries) == expected


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(rows):
    """No row at all, one row, and none that is selected are sums like any other."""
    program = programs()["score"]
    queries = [sulq.Query((program,)), sulq.Query((program,), where="age > 119 and age < 0"),
               sulq.Query((program,), where=f"{program} > 100")]  # fmt: skip
    for make in ENGINES.values():
        found = sums(make(table().slice(0, rows), SCHEMA), *queries)
        assert [m[0][0] for m in found[1:]] == [0, 0]
