"""What every engine must do: the same integers, whatever the question, source or storage."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from helpers import CONTRACT as ENGINES
from helpers import duckdb_engine, reference_engine, sums

import sulq
from sulq.questions.partitions import PRIME, hash_numbers

FIXTURES = Path(__file__).parents[1] / "fixtures"
DAY = datetime.date

# --- expressions, from tests/fixtures/expressions.sql -------------------------------------

_TEN = {"type": "integer", "low": -10, "high": 10}
_TENTHS = {"type": "number", "low": -10, "high": 10}
_HUNDRED = {"type": "number", "low": -100, "high": 100}
_DATE = {"type": "date", "low": DAY(1990, 1, 1), "high": DAY(2030, 12, 31)}
_CITY = {"values": ["north", "south"]}
SURE = {"nullable": False}

# name: the declaration, how it is stored, what it holds
ONE_ROW = {
    "zero": (_TEN, pa.int64(), 0),
    "one": (_TEN | SURE, pa.int32(), 1),
    "seven": (_TEN | SURE, pa.int64(), 7),
    "minus_seven": (_TEN, pa.int8(), -7),
    "two_to_31": ({"type": "integer"}, pa.int64(), 2**31),
    "two_to_53": ({"type": "integer"}, pa.int64(), 2**53),
    "beyond": ({"type": "integer"}, pa.uint64(), 2**63),
    "half": (_TENTHS, pa.float64(), 0.5),
    "minus_half": (_TENTHS, pa.float32(), -0.5),
    "third": (_TENTHS | SURE, pa.float64(), 1 / 3),
    "nan": (_HUNDRED, pa.float64(), math.nan),
    "plus_inf": (_HUNDRED, pa.float64(), math.inf),
    "minus_inf": (_HUNDRED, pa.float32(), -math.inf),
    "cents": (_HUNDRED, pa.decimal128(10, 2), Decimal("12.34")),
    "above": (_TEN, pa.int64(), 1000),
    "below": (_TEN, pa.int16(), -1000),
    "missing": (_TEN, pa.int64(), None),
    "absent": (_TENTHS, pa.float64(), None),
    "gone": ({"type": "boolean"}, pa.bool_(), None),
    "unsaid": ({"type": "text"}, pa.string(), None),
    "never": (_DATE, pa.date32(), None),
    "nowhere": (_CITY, pa.string(), None),
    "stray": ({"type": "integer", "low": 3, "high": 9} | SURE, pa.int64(), None),
    "yes": ({"type": "boolean"} | SURE, pa.bool_(), True),
    "no": ({"type": "boolean"}, pa.int8(), 0),
    "name": ({"type": "text"}, pa.string(), "Zoë"),
    "blank": ({"type": "text"}, pa.string(), ""),
    "greek": ({"type": "text"}, pa.large_string(), "ΑΒΓ αβγ"),
    "leap": (_DATE | SURE, pa.date32(), DAY(2024, 2, 29)),
    "newyear": (_DATE, pa.timestamp("us"), datetime.datetime(2000, 1, 1, 23, 59)),
    "city": (_CITY, pa.string(), "north"),
    "elsewhere": (_CITY, pa.string(), "east"),
}


def _cases():
    lines = (FIXTURES / "expressions.sql").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line and not line.startswith("--"):
            expression, expected, _ = line.rsplit(";", 2)
            yield expression.strip(), expected.strip()


@pytest.fixture(scope="module", params=sorted(ENGINES))
def one_row(request):
    table = pa.table({n: pa.array([v], kind) for n, (_, kind, v) in ONE_ROW.items()})
    return ENGINES[request.param](table, {n: d for n, (d, _, _) in ONE_ROW.items()})


@pytest.mark.parametrize(("expression", "expected"), list(_cases()), ids=str)
def test_expression_has_its_documented_value(one_row, expression, expected):
    """Each expression of expressions.sql is worth what stands beside it, to half a grid step."""
    queries = [sulq.Query([expression]), sulq.Query(where=f"({expression}) is null")]
    check, absent = _checked(one_row, *queries)
    alone = [one_row.sums([check])[0][0][0], one_row.sums([absent])[0][0][0]]
    assert alone == [m[0][0] for m in one_row.sums([check, absent])]
    if expected == "NULL":
        assert alone == [0, 1]
        return
    value, step = alone[0], check.releases[0].step
    wanted = Fraction({"TRUE": "1", "FALSE": "0"}.get(expected, expected))
    near = 0 if step == 1 else step / 2 + Fraction(1, 10**10)
    assert alone[1] == 0
    assert abs(value * step - wanted) <= near


def _checked(engine, *queries, **promise):
    from helpers import checked

    return checked(queries, engine, **promise)


# --- a table with every edge, and a plain oracle ------------------------------------------

SCHEMA = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south", "east", "west"], "public": True},
    "smoker": {"type": "boolean"},
    "member": {"type": "boolean", "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 120},
    "level": {"values": [3, 1, -2]},
    "income": {"type": "number", "low": -50, "high": 1000},
    "height": {"type": "number", "low": 0.5, "high": 2.5, "nullable": False},
    "born": {"type": "date", "low": DAY(1930, 1, 1), "high": DAY(2020, 12, 31)},
    "note": {"type": "text"},
}


def _rows(count=300, seed=4):
    """Rows as plain Python, with edges and undeclared values among them."""
    pick = random.Random(seed)
    ids = [0, 1, -1, -5, None, 2**31 - 1, 2**31, 2**53 + 1, 2**62 + 7, -(2**62), 2**63 - 1]
    for i in range(count):
        yield {
            "id": ids[i] if i < len(ids) else 1000 + i,
            "region": pick.choice(["north", "south", "east", "west", "moon", None, "NORTH"]),
            "smoker": pick.choice([True, False, None]),
            "member": pick.choice([True, False, None]),
            "age": pick.choice(
                [None, 0, 17, 18, 64, 65, 120, 121, -1, 10**6, pick.randint(0, 120)]
            ),
            "level": pick.choice([3, 1, -2, 0, None]),
            "income": pick.choice(
                [
                    None,
                    math.nan,
                    math.inf,
                    -math.inf,
                    -50.0,
                    -50.1,
                    1000.0,
                    1e300,
                    0.1,
                    1 / 3,
                    pick.uniform(-60, 1100),
                ]
            ),
            "height": pick.choice([None, math.nan, 0.5, 2.5, 0.0, 3.0, pick.uniform(0.4, 2.6)]),
            "born": pick.choice(
                [
                    None,
                    DAY(1, 1, 1),
                    DAY(9999, 12, 31),
                    DAY(1930, 1, 1),
                    DAY(1970, 1, 1),
                    DAY(2020, 12, 31),
                    DAY(1960, 2, 29),
                    DAY(2000, 1, pick.randint(1, 31)),
                ]
            ),
            "note": pick.choice([None, "x", "Ünï", "a'b", 'a"b', "%_\\", "select", "日本"]),
        }


TYPES = {
    "id": pa.int64(),
    "region": pa.string(),
    "smoker": pa.bool_(),
    "member": pa.bool_(),
    "age": pa.int64(),
    "level": pa.int64(),
    "income": pa.float64(),
    "height": pa.float64(),
    "born": pa.date32(),
    "note": pa.string(),
}


def _table(rows):
    rows = list(rows)
    return pa.table({n: pa.array([r[n] for r in rows], kind) for n, kind in TYPES.items()})


def _declared(row):
    """A row as its declarations read it: clamped, undeclared values missing. Independent code."""
    out = dict(row)
    for name, d in SCHEMA.items():
        x = row[name]
        if x is not None and x != x:
            x = None
        if "values" in d and x not in d["values"]:
            x = None
        if x is not None and "low" in d:
            x = min(max(x, d["low"]), d["high"])
        if x is None and d.get("nullable") is False:
            x = d.get("low", False)
        out[name] = x
    return out


@pytest.fixture(scope="module")
def rows():
    return list(_rows())


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(request, rows):
    return ENGINES[request.param](_table(rows), SCHEMA)


def tally(rows, cells, cell, values=lambda r: (1,)):
    """The oracle: a plain loop over plain rows."""
    width = len(values(_declared(rows[0])))
    out = [[0] * width for _ in range(cells)]
    for row in map(_declared, rows):
        for j, x in enumerate(values(row)):
            out[cell(row)][j] += x
    return out


# --- partitions ---------------------------------------------------------------------------


def test_no_partition_is_one_cell(engine, rows):
    """Without by=, the answer has one cell."""
    assert sums(engine, sulq.Query()) == [[[len(rows)]]]


@pytest.mark.parametrize("column", ["region", "level"])
def test_a_category_has_its_values_and_other(engine, rows, column):
    """Cells come in declared order; undeclared and missing values are the last one."""
    values = SCHEMA[column]["values"]
    (found,) = sums(engine, sulq.Query(by=column))
    assert found == tally(
        rows,
        len(values) + 1,
        lambda r: len(values) if r[column] is None else values.index(r[column]),
    )


def test_a_boolean_has_false_true_and_missing(engine, rows):
    """A nullable Boolean has three cells, one that is never missing two."""
    smoker, member = sums(engine, sulq.Query(by="smoker"), sulq.Query(by="member"))
    assert smoker == tally(rows, 3, lambda r: {False: 0, True: 1, None: 2}[r["smoker"]])
    assert member == tally(rows, 2, lambda r: int(r["member"]))


def test_a_whole_number_has_a_cell_for_each_value(engine, rows):
    """Out of range counts as the nearer end; missing is last."""
    (found,) = sums(engine, sulq.Query(by="age"))
    assert found == tally(rows, 122, lambda r: 121 if r["age"] is None else r["age"])


def test_an_expression_can_be_a_partition(engine, rows):
    """Any expression with few known values forms cells, also where only the kernel has it."""
    plain, kernel = sums(
        engine, sulq.Query(by="age % 7 - 3"), sulq.Query(by="floor(exp(least(age, 3) * 0.5))")
    )
    assert plain == tally(rows, 8, lambda r: 7 if r["age"] is None else r["age"] % 7)
    cuts = [math.floor(math.exp(x / 2)) for x in range(4)]  # 1, 1, 2, 4
    assert cuts == [1, 1, 2, 4]
    # A missing age is left out of LEAST, so it counts as 3 there.
    assert kernel == tally(
        rows, 3, lambda r: [0, 0, 1, 2][3 if r["age"] is None else min(r["age"], 3)]
    )


EDGES = [
    ("age", [0, 18, 65, 120]),
    ("age", [-5, 17.5, 500]),
    ("income", [-50, 0, 0.1, 1000]),
    ("income", [0.1, 1 / 3]),
    ("height", [0.5, 1.5, 2.0, 2.5]),
]


@pytest.mark.parametrize(("column", "edges"), EDGES)
def test_bins_are_closed_below_and_the_last_above(engine, rows, column, edges):
    """[e0, e1), ..., the last bin closed; outside and missing are 'other'."""

    def cell(row):
        x = row[column]
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            if x is not None and (low <= x < high or x == high == edges[-1]):
                return i
        return len(edges) - 1

    (found,) = sums(engine, sulq.Query(by=sulq.Bins(column, edges)))
    assert found == tally(rows, len(edges), cell)


def test_bins_of_dates(engine, rows):
    """Dates are binned as dates, given as dates or as text."""
    edges = [DAY(1930, 1, 1), DAY(1960, 2, 29), DAY(2000, 1, 15), DAY(2020, 12, 31)]

    def cell(row):
        day = row["born"]
        if day is None:
            return 3
        return sum(day >= e for e in edges[1:-1])

    found, again = sums(
        engine,
        sulq.Query(by=sulq.Bins("born", edges)),
        sulq.Query(by=sulq.Bins("born", [e.isoformat() for e in edges])),
    )
    assert found == again == tally(rows, 4, cell)


def _block(key, seed, count):
    return _hash(key, seed) % count


def _hash(key, seed):
    if isinstance(key, str):
        k = int(hashlib.md5(key.encode()).hexdigest()[:7], 16)
    else:
        k = 0 if key is None else key % PRIME
    c3, c2, c1, c0 = hash_numbers(seed)
    return (c3 * k**3 + c2 * k**2 + c1 * k + c0) % PRIME


@pytest.mark.parametrize("seed", [0, 1, -7, 2**70])
def test_blocks_are_the_stated_arithmetic(engine, rows, seed):
    """(c3*k^3 + c2*k^2 + c1*k + c0) mod (2^31 - 1) mod count, for odd and missing keys too."""
    by, chosen = sums(
        engine,
        sulq.Query(by=sulq.Blocks(seed, 5)),
        sulq.Query(rows=sulq.Rows.blocks(seed, 5)),
    )
    assert by == chosen == tally(rows, 5, lambda r: _block(r["id"], seed, 5))


KEYS = {
    "int8": (pa.int8(), [1, -1, 127, -128, None, 0]),
    "int32": (pa.int32(), [1, -1, 2**31 - 1, -(2**31), None, 5]),
    "uint8": (pa.uint8(), [1, 255, None, 0]),
    "uint32": (pa.uint32(), [1, 2**32 - 1, 2**31 - 1, 2**31, None]),
    "int64": (pa.int64(), [2**63 - 1, -(2**63), 2**53 + 1, None, -1]),
    "uint64": (pa.uint64(), [2**64 - 1, 2**63, 2**53 + 1, None, 1]),
    "text": (pa.string(), ["a", "", "日本", "1", None, "a'b"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "a"]),
}


@pytest.mark.parametrize("stored", KEYS)
def test_blocks_of_every_kind_of_key(make_engine, stored):
    """However a key is stored, its block is the same arithmetic of the same number."""
    kind, keys = KEYS[stored]
    engine = make_engine(pa.table({"id": pa.array(keys, kind)}), {"id": {"key": True}})
    for seed in (0, 3):
        wanted = [[0] for _ in range(7)]
        for key in keys:
            wanted[_block(key, seed, 7)][0] += 1
        assert sums(engine, sulq.Query(by=sulq.Blocks(seed, 7))) == [wanted]


@pytest.mark.parametrize("stored", KEYS)
def test_the_kernel_hashes_keys_as_sql_does(make_engine, stored):
    """Blocks and samples of what SQL cannot say exactly: exp, sums of columns, products, centres.

    Each engine asks its kernel alone here; a plain count by block is SQL's on all but one.
    """
    kind, keys = KEYS[stored]
    x = [float(i) for i in range(len(keys))]
    table = pa.table({"id": pa.array(keys, kind), "x": x})
    schema = {"id": {"key": True}, "x": {"type": "number", "low": 0, "high": 8, "nullable": False}}
    engine = make_engine(table, schema)
    blocks = sulq.Blocks(3, 7)
    for values in (sulq.Sums(["x"], 0), sulq.Products(["x"], 0)):
        (found,) = sums(engine, sulq.Query(values, by=blocks))
        power = 1 if isinstance(values, sulq.Sums) else 2
        wanted = [0] * 7
        for key, value in zip(keys, x, strict=True):
            wanted[_block(key, 3, 7)] += _steps(value, 0, 8) ** power
        assert [row[-1] for row in found] == wanted
    in_block = [_block(key, 3, 7) for key in keys]
    (found,) = sums(engine, sulq.Query(["exp(x) > 0"], by=blocks))
    assert found == [[in_block.count(i)] for i in range(7)]
    centres = sulq.NearestCentre(["x"], [(0.0,), (1.0,)])
    sampled = sulq.Query(["1"], by=centres, rows=sulq.Rows.sample(9, 0.5))
    (found,) = sums(engine, sampled)
    inside = [_hash(key, 9) < PRIME // 2 for key in keys]
    assert found[0][0] + found[1][0] == sum(inside)
    assert found[1][0] == sum(i for i, v in zip(inside, x, strict=True) if v > 4)


def test_blocks_of_hugeint_keys(make_engine, tmp_path):
    """128-bit keys of a DuckDB file are not rounded."""
    keys = [2**100 + 1, 2**100 + 2, -(2**90), 3, None, 2**127 - 1]
    path = tmp_path / "huge.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (id HUGEINT)")
        connection.executemany("INSERT INTO t VALUES (?)", [[k] for k in keys])
    engine = make_engine(path, {"id": {"key": True}})
    wanted = [[0] for _ in range(97)]
    for key in keys:
        wanted[_block(key, 1, 97)][0] += 1
    assert sums(engine, sulq.Query(by=sulq.Blocks(1, 97))) == [wanted]


def _unit(row, name):
    """A column on [0, 1] in steps of 2^-16. Independent code."""
    d = SCHEMA[name]
    low, high = (0, 1) if d["type"] == "boolean" else (d["low"], d["high"])
    return _steps(row[name], low, high)


def _steps(value, low, high):
    return round((value - low) * (65536 / (high - low)))


def _complete(rows, columns):
    """The rows that have all these columns: the others are left out of everything."""
    return [r for r in rows if all(_declared(r)[c] is not None for c in columns)]


def test_nearest_centre(engine, rows):
    """The nearest centre in scaled columns; ties go to the first, missing values nowhere."""
    columns, centres = (
        ["age", "income"],
        [(0.25, 0.5), (0.25, 0.5), (0.75, 0.5), (0.0, 0.0), (2, -1)],
    )

    def cell(row):
        point = [_unit(row, c) for c in columns]
        gaps = [
            sum((p - c * 65536) ** 2 for p, c in zip(point, centre, strict=True))
            for centre in centres
        ]
        return gaps.index(min(gaps))

    (found,) = sums(engine, sulq.Query(by=sulq.NearestCentre(columns, centres)))
    assert found == tally(_complete(rows, columns), 5, cell)
    assert found != tally(rows, 5, lambda r: 0 if None in (r["age"], r["income"]) else cell(r))
    assert found[1] == [0], "an equal centre later in the list never wins a tie"


def test_side_of_a_plane(engine, rows):
    """True where weights . x + bias > 0, in scaled columns; on it is False, missing neither."""
    (found,) = sums(engine, sulq.Query(by=sulq.Side(["age", "smoker"], [1, -1], 0.0)))
    known = _complete(rows, ["age", "smoker"])
    assert found == tally(known, 2, lambda r: int(_unit(r, "age") - _unit(r, "smoker") > 0))


TREE = {
    "column": "age",
    "threshold": 18,
    "below": {"column": "smoker", "branches": [[True, None]], "other": None},
    "above": {
        "column": "region",
        "branches": [["north", None], ["south", {"column": "born", "threshold": "1970-01-01"}]],
        "other": {"column": "income", "threshold": 0.1, "below": None, "above": None},
    },
}


def test_leaves_of_a_tree(engine, rows):
    """Leaves are numbered from left to right; missing goes below, undeclared to other."""

    def cell(r):
        if r["age"] is None or r["age"] < 18:
            return 0 if r["smoker"] is True else 1
        if r["region"] == "north":
            return 2
        if r["region"] == "south":
            return 3 if r["born"] is None or r["born"] < DAY(1970, 1, 1) else 4
        return 5 if r["income"] is None or r["income"] < 0.1 else 6

    assert sums(engine, sulq.Query(by=sulq.Leaf(TREE))) == [tally(rows, 7, cell)]


def test_a_leaf_may_have_many_branches(make_engine):
    """A category with many values splits into as many leaves; a value named twice is the first."""
    names = [f"v{i}" for i in range(60)]
    table = pa.table({"c": pa.array([*names, None, "zzz"] * 2)})
    engine = make_engine(table, {"c": {"values": names}})
    tree = {"column": "c", "branches": [[n, None] for n in names] + [["v1", None]], "other": None}
    (found,) = sums(engine, sulq.Query(by=sulq.Leaf(tree)))
    assert found == [[2]] * 60 + [[0], [4]]


def test_partitions_cross(engine, rows):
    """Several partitions form all combinations, the last one fastest."""
    by = ["region", sulq.Blocks(3, 2), sulq.Bins("age", [0, 65, 120]), "member"]
    regions = SCHEMA["region"]["values"]

    def cell(r):
        region = 4 if r["region"] is None else regions.index(r["region"])
        age = 2 if r["age"] is None else int(r["age"] >= 65)
        return ((region * 2 + _block(r["id"], 3, 2)) * 3 + age) * 2 + int(r["member"])

    assert sums(engine, sulq.Query(by=by)) == [tally(rows, 60, cell)]


def test_one_batch_groups_by_the_same_partitions_in_every_order(engine, rows):
    """Each question of a batch has its own sums: none is added once more for another's order."""
    axes = ["region", sulq.Blocks(3, 2), sulq.Bins("age", [0, 65, 120])]
    queries = [sulq.Query(["income", "1"], by=list(by)) for by in itertools.permutations(axes)]
    queries += [
        sulq.Query(["income"], by=sulq.Blocks(3, 2)),
        sulq.Query(["income"], by=sulq.Blocks(3, 2), rows=sulq.Rows.blocks(3, 2)),
        sulq.Query(["income"], by=["region", sulq.Blocks(3, 2)], where="smoker"),
        sulq.Query(["income"], by=[sulq.Blocks(3, 2), "region"], where="smoker"),
    ]
    together = sums(engine, *queries)
    assert together == [sums(engine, q)[0] for q in queries]
    for matrix in together[:6]:
        assert sum(row[1] for row in matrix) == len(rows)


# --- values -------------------------------------------------------------------------------


def test_sums_of_whole_numbers_and_predicates(engine, rows):
    """Missing values add nothing."""
    query = sulq.Query(["age", "smoker", "age * age - 3 * age", "1", "level"], by="region")
    regions = SCHEMA["region"]["values"]
    assert sums(engine, query) == [
        tally(
            rows,
            5,
            lambda r: 4 if r["region"] is None else regions.index(r["region"]),
            lambda r: (
                r["age"] or 0,
                int(r["smoker"] or 0),
                0 if r["age"] is None else r["age"] ** 2 - 3 * r["age"],
                1,
                r["level"] or 0,
            ),
        )
    ]


def test_numbers_are_summed_on_their_grid(engine, rows):
    """Each row is rounded to the grid, halves up, and clamped to its ends last."""
    (check,) = _checked(engine, sulq.Query(["income", "height"]))
    income, height = check.values

    def on(value, x):
        if x is None:
            return 0
        return min(
            max(math.floor(Fraction(x) * 2**value.scale + Fraction(1, 2)), value.low), value.high
        )

    wanted = tally(
        rows, 1, lambda r: 0, lambda r: (on(income, r["income"]), on(height, r["height"]))
    )
    assert engine.sums([check]) == [wanted]


def test_mean_counts_known_values_and_sums_them(engine, rows):
    """Mean gives the number of known values and their sum."""
    (found,) = sums(engine, sulq.Query(sulq.Mean("age"), where="smoker"))
    known = [r["age"] for r in map(_declared, rows) if r["smoker"] and r["age"] is not None]
    assert found == [[len(known), sum(known)]]


@pytest.mark.parametrize("row_norm", [None, 0.3, 5])
@pytest.mark.parametrize("centre", [0.5, 0, 0.25])
def test_sums_and_products_of_columns(engine, rows, centre, row_norm):
    """Sums and symmetric products of centred, clipped rows that miss nothing, and their count."""
    columns = ["age", "income", "smoker"]

    def point(r):
        y = [_unit(r, c) - round(centre * 65536) for c in columns]
        size = math.isqrt(sum(x * x for x in y) * 10**30)
        limit = None if row_norm is None else round(row_norm * 65536)
        if limit is None or size <= limit * 10**15:
            return y
        return [
            math.trunc(Fraction(x * limit * 10**15, size) * (1 - Fraction(1, 2**45))) for x in y
        ]

    def products(r):
        y = point(r)
        return (1, *y, *(y[i] * y[j] for i in range(3) for j in range(i, 3)))

    plain, moments, counted = sums(
        engine,
        sulq.Query(sulq.Sums(columns, centre, row_norm), by="member"),
        sulq.Query(sulq.Products(columns, centre, row_norm, 0.5), by="member"),
        sulq.Query(sulq.Products(columns, centre, row_norm, 0.5, 0.25), by="member"),
    )
    known = _complete(rows, columns)
    assert 0 < len(known) < len(rows)
    assert plain == tally(known, 2, lambda r: int(r["member"]), lambda r: (1, *point(r)))
    assert counted == tally(known, 2, lambda r: int(r["member"]), products)
    assert moments == [row[1:] for row in counted]


def test_expressions_as_coordinates(engine, rows):
    """Centres, sides, sums and products of expressions, put on [0, 1] by their interval."""
    a, i = SCHEMA["age"], SCHEMA["income"]
    coordinates = ["100 - age", "age + 0.25 * income"]
    ends = [(100 - a["high"], 100 - a["low"]),
            (a["low"] + 0.25 * i["low"], a["high"] + 0.25 * i["high"])]  # fmt: skip

    def point(row):
        r = _declared(row)
        age, income = r["age"], r["income"]
        return [_steps(v, *e) for v, e in zip((100 - age, age + 0.25 * income), ends, strict=True)]

    def nearest(row):
        x, y = point(row)
        return int((x - 52429) ** 2 + (y - 52429) ** 2 < x * x + y * y)  # 52429: 0.8

    by = [sulq.NearestCentre(coordinates, [(0, 0), (0.8, 0.8)]),
          sulq.Side(coordinates, [1, -1])]  # fmt: skip
    sides, planes, moments = sums(
        engine,
        sulq.Query(sulq.Sums(coordinates, 0), by=by[0]),
        sulq.Query(by=by[1]),
        sulq.Query(sulq.Products(coordinates, 0, mean_weight=1)),
    )
    known = _complete(rows, ["age", "income"])
    assert sides == tally(known, 2, nearest, lambda r: (1, *point(r)))
    assert planes == tally(known, 2, lambda r: int(point(r)[0] > point(r)[1]))
    products = [(x, y, x * x, x * y, y * y) for x, y in map(point, known)]
    assert moments == [[sum(column) for column in zip(*products, strict=True)]]


def test_products_without_means(engine, rows):
    """mean_weight = 0 leaves the sums of y out."""
    (found,) = sums(engine, sulq.Query(sulq.Products(["age", "income"])))
    assert len(found[0]) == 3


# --- rows ---------------------------------------------------------------------------------


def test_where_keeps_rows_that_satisfy_it(engine, rows):
    """A predicate that is missing is not satisfied, be it public or private."""
    queries = [
        sulq.Query(where="age >= 18 and region = 'north'"),
        sulq.Query(where="not (smoker or age < 18)"),
        sulq.Query(rows=sulq.Rows.where("region <> 'north'"), where="smoker"),
        sulq.Query(rows=sulq.Rows.where("id >= 0")),
        sulq.Query(where="note = 'a''b' or note like '%\"%'"),
    ]
    tests = [
        lambda r: r["age"] is not None and r["age"] >= 18 and r["region"] == "north",
        lambda r: r["smoker"] is False and r["age"] is not None and r["age"] >= 18,
        lambda r: r["region"] not in (None, "north") and r["smoker"] is True,
        lambda r: r["id"] is not None and r["id"] >= 0,
        lambda r: r["note"] in ("a'b", 'a"b'),
    ]
    wanted = [[[sum(1 for r in map(_declared, rows) if t(r))]] for t in tests]
    assert sums(engine, *queries) == wanted
    assert [sums(engine, q)[0] for q in queries] == wanted


@pytest.mark.parametrize("rate", [0.5, 1, Fraction(1, 3), 1e-9])
def test_a_sample_is_by_hashed_key(engine, rows, rate):
    """A row is in the sample if its hash is below rate * (2^31 - 1)."""
    c3, c2, c1, c0 = hash_numbers(9)
    threshold = int(Fraction(rate) * PRIME)
    keys = [(r["id"] or 0) % PRIME for r in rows]
    wanted = sum((c3 * k**3 + c2 * k**2 + c1 * k + c0) % PRIME < threshold for k in keys)
    assert sums(engine, sulq.Query(rows=sulq.Rows.sample(9, rate))) == [[[wanted]]]


def test_rows_named_by_key_are_joined(engine, rows):
    """A set of keys, those that no row has among them; a row without a key is in none."""
    keys = [r["id"] for r in rows if r["id"] is not None]
    for named in (keys[::3], [*keys[:2], *range(10**6, 10**6 + 20_000)]):
        wanted = sum(r["id"] in set(named) for r in rows)
        found = sums(engine, sulq.Query(rows=sulq.Rows.keys(named)), sulq.Query())
        assert found == [[[wanted]], [[len(rows)]]]


def test_shards_are_stretches_of_the_hashed_key(make_engine):
    """Shard i has the keys with i p <= h * shards < (i + 1) p; scattered shards and a category."""
    keys = [*range(60), None, -3, 2**40]
    schema = {"id": {"key": True, "shards": 7}, "kind": {"values": ["a", "b"]}}
    table = pa.table({"id": pa.array(keys, pa.int64()), "kind": ["a", "b", "a"] * 21})
    engine = make_engine(table, sulq.Schema.load(schema))
    shards = [_hash(0 if k is None else k, 0) * 7 // PRIME for k in keys]
    chosen = [{0}, {6}, {1, 2, 3}, {0, 2, 5}]
    queries = [sulq.Query(by="kind", rows=sulq.Rows.shard(sorted(which))) for which in chosen]
    kinds = table.column("kind").to_pylist()
    wanted = [
        [[sum(s in which and k == kind for s, k in zip(shards, kinds, strict=True))]
         for kind in ("a", "b", None)]
        for which in chosen
    ]  # fmt: skip
    assert sums(engine, *queries) == wanted


# --- small tables -------------------------------------------------------------------------

EVERY_KIND = [
    sulq.Query(),
    sulq.Query(["age", "income", "smoker"]),
    sulq.Query(by="region"),
    sulq.Query(by=["smoker", "level"]),
    sulq.Query(["exp(least(income, 3))"], by="age % 5"),
    sulq.Query(by=sulq.Bins("income", [0, 1, 2])),
    sulq.Query(by=sulq.Bins("born", ["1950-01-01", "1980-01-01"])),
    sulq.Query(by=sulq.Blocks(1, 3)),
    sulq.Query(by=sulq.NearestCentre(["age", "income"], [(0, 0), (1, 1)])),
    sulq.Query(by=sulq.Side(["age"], [1], -0.5)),
    sulq.Query(by=sulq.Leaf(TREE)),
    sulq.Query(sulq.Mean("income"), where="smoker"),
    sulq.Query(sulq.Sums(["age", "height"]), by="region"),
    sulq.Query(sulq.Products(["age", "height"], row_norm=0.5)),
    sulq.Query(rows=sulq.Rows.sample(1, 0.5), where="age > 3"),
    sulq.Query(rows=sulq.Rows.where("region = 'north'")),
    sulq.Query(where="note = 'x'"),
]


def _alone(engine):
    return [sums(engine, q)[0] for q in EVERY_KIND]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows(count, rows):
    """No row, one row and two rows: every kind of query, alone or in one batch."""
    table = _table(rows[:count])
    both = [make(table, SCHEMA) for make in ENGINES.values()]
    answers = [x for e in both for x in (_alone(e), sums(e, *EVERY_KIND))]
    assert all(a == answers[0] for a in answers)
    assert answers[0][0] == [[count]]
    if count == 0:
        assert all(x == 0 for matrix in answers[0] for row in matrix for x in row)


def test_all_missing(make_engine):
    """A table of NULLs has its rows in 'other' and adds nothing else."""
    empty = {name: None for name in SCHEMA}
    engine = make_engine(_table([empty] * 3), SCHEMA)
    count, ages, regions, *_ = _alone(engine)
    assert (count, ages) == ([[3]], [[0, 0, 0]])
    assert regions == [[0], [0], [0], [0], [3]]


def test_no_row_selected_sums_to_zero(engine):
    """SUM over no rows is 0, by every path."""
    for where in ("age > 500", "income > 2000 and smoker", "exp(least(age, 9)) < 0", "false"):
        for values in (["1", "age"], ["income"], sulq.Mean("income")):
            (found,) = sums(engine, sulq.Query(values, where=where, by="region"))
            assert found == [[0] * len(found[0])] * 5


# --- batches ------------------------------------------------------------------------------


def test_a_batch_gives_what_its_queries_give_alone(engine):
    """Mixed kinds in one scan, in any order, and repeated."""
    alone = _alone(engine)
    assert sums(engine, *EVERY_KIND) == alone
    assert sums(engine, *reversed(EVERY_KIND)) == alone[::-1]
    assert sums(engine, *EVERY_KIND, *EVERY_KIND) == alone * 2


def test_few_valued_columns_share_a_cube(engine):
    """The cube, one statement with grouping sets and the kernel give the same integers."""
    few = [
        sulq.Query([f"age > {i}", "smoker", "level"], by=by, where=where)
        for i in (3, 18, 64)
        for by in (None, "region", ["smoker", "member"], "age")
        for where in (None, "member", "region = 'south' or smoker")
    ]
    wide = sulq.Query(["income"], by="smoker")
    kernel = sulq.Query(["exp(least(income, 1))"], by="smoker")
    cube = sums(engine, *few)
    assert sums(engine, *few, wide)[:-1] == cube
    assert sums(engine, *few, kernel)[:-1] == cube
    assert [sums(engine, q)[0] for q in few] == cube


def test_a_key_may_also_be_summed(engine, rows):
    """The same expression as cell and as value, beside other groupings."""
    by_age = sulq.Query(["age", "income"], by="age")
    plain, other = sulq.Query(["age", "income"]), sulq.Query(["age", "income"], by="region")
    found, total, regions = sums(engine, by_age, plain, other)
    assert [sum(c) for c in zip(*found, strict=True)] == total[0]
    assert [sum(c) for c in zip(*regions, strict=True)] == total[0]
    assert total[0][0] == sum(_declared(r)["age"] or 0 for r in rows)


def test_row_order_does_not_matter(rows):
    """Permuted rows give equal sums, on every engine and by every path."""
    mixed = list(rows)
    random.Random(1).shuffle(mixed)
    for make in ENGINES.values():
        assert _alone(make(_table(mixed), SCHEMA)) == _alone(make(_table(rows), SCHEMA))


def test_many_batches_and_threads(make_engine):
    """More rows than one batch holds: sums stay exact, far above 2^53."""
    count = 2**20 + 5
    big = np.full(count, 2**40 - 1)
    table = pa.table({"x": big, "y": np.linspace(0, 1, count), "c": np.arange(count) % 3})
    schema = {
        "x": {"type": "integer", "low": 0, "high": 2**40},
        "y": {"type": "number", "low": 0, "high": 1},
        "c": {"values": [0, 1, 2]},
    }
    engine = make_engine(table, schema)
    (whole, split, products) = sums(
        engine,
        sulq.Query(["x"]),
        sulq.Query(["x"], by="c"),
        sulq.Query(sulq.Products(["y"], centre=0)),
    )
    y = np.floor(np.linspace(0, 1, count) * 65536 + 0.5).astype(np.int64)
    assert whole == [[count * (2**40 - 1)]]
    assert [x for (x,) in split] == [n * (2**40 - 1) for n in (349527, 349527, 349527, 0)]
    assert products == [[int(sum(int(x) ** 2 for x in y))]]


# --- sources ------------------------------------------------------------------------------


def _sources(table, folder):
    """The same rows in every kind of source."""
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    header = ",".join(table.column_names)
    lines = [
        ",".join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()
    ]
    (folder / "t.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    tabs = [line.replace(",", "\t") for line in [header, *lines]]
    (folder / "t.tsv").write_text("\n".join(tabs) + "\n", encoding="utf-8")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("frame", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    yield from (folder / name for name in ("t.parquet", "t.csv", "t.tsv", "t.duckdb"))
    yield table
    yield table.combine_chunks().to_batches()[0]
    yield table.to_pandas()
    yield table.to_pandas(types_mapper=pandas.ArrowDtype)
    yield polars.from_arrow(table)
    yield polars.from_arrow(table).lazy()


def test_every_source_gives_the_same_integers(rows, tmp_path):
    """Parquet, CSV, TSV, DuckDB, Arrow, pandas and Polars, on every engine."""
    # No quotes, which CSV writes otherwise, and no keys that pandas would round.
    plain = [r for r in rows if '"' not in (r["note"] or "") and abs(r["id"] or 0) <= 2**53]
    table = _table(plain)
    wanted = _alone(reference_engine(table, SCHEMA))
    for source in _sources(table, tmp_path):
        for name, make in ENGINES.items():
            assert _alone(make(source, SCHEMA)) == wanted, (name, type(source), source)


CSV_FILES = {
    "plain": "a,t\n1,x\n,y\n3,\n",
    "windows": "a,t\r\n1,x\r\n,y\r\n3,\r\n",
    "byte order mark": "\ufeffa,t\n1,x\n,y\n3,\n",
    "semicolons": "a;t\n1;x\n;y\n3;\n",
    "quoted": '"a","t"\n"1","x"\n"","y"\n"3",""\n',
    "no last line break": "a,t\n1,x\n,y\n3,",
    "a failing cast": "a,t\n1,x\none,y\n3,\n",
    "blanks": "a,t\n 1 ,x\n,y\n3 ,\n",
    "short and long lines": "a,t\n1,x,9,9\n,y\n3\n",
    "more columns": "t,z,a\nx,7,1\ny,,\n,8,3\n",
}


@pytest.mark.parametrize("name", CSV_FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_csv_in_all_its_spellings(make_engine, tmp_path, name, packed):
    """A line is a row, whatever is in it; what is no number is missing."""
    import gzip

    body = CSV_FILES[name].encode()
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(body) if packed else body)
    engine = make_engine(
        path, {"a": {"type": "integer", "low": 0, "high": 9}, "t": {"type": "text"}}
    )
    assert engine.rows == 3
    query = sulq.Query(["a", "a is null", "t = 'x'", "t is null"])
    assert sums(engine, query) == [[[4, 1, 1, 1]]]
    assert sums(engine, sulq.Query([*query.values, "exp(a)"]))[0][0][:4] == [4, 1, 1, 1]


def test_csv_values_with_quotes_and_line_breaks(make_engine, tmp_path):
    """Doubled quotes, delimiters and line breaks inside quotes belong to the value."""
    path = tmp_path / "t.csv"
    path.write_text('a,t\n1,"x ""y"", z"\n2,"two\nlines"\n3,plain\n', encoding="utf-8")
    engine = make_engine(
        path, {"a": {"type": "integer", "low": 0, "high": 9}, "t": {"type": "text"}}
    )
    query = sulq.Query(["t = 'x \"y\", z'", "t = 'two\nlines'", "t = 'plain'", "a"])
    assert sums(engine, query) == [[[1, 1, 1, 6]]]


@pytest.mark.parametrize("body", ["", "\n\n", "a,a\n1,2\n", "a,A\n1,2\n"])
def test_csv_without_usable_names_is_refused(tmp_path, body):
    """The first line must name the columns, each once."""
    path = tmp_path / "t.csv"
    path.write_text(body)
    with pytest.raises(sulq.SchemaError, match="columns"):
        duckdb_engine(path, {"a": {"type": "text"}})


@pytest.mark.parametrize("kind", ["float64", "float32", "int8", "uint16", "bool", ">f8", "float16"])
def test_a_bare_array_has_columns_in_the_unit_interval(make_engine, kind):
    """A 2-D array of any numbers needs no schema."""
    array = np.array([[0, 1], [1, 1], [0.5, 0.25], [7, -7]]).astype(kind)
    engine = make_engine(array, None)
    (check,) = _checked(engine, sulq.Query(["x0", "x1"]))
    clamped = np.clip(array.astype("float64"), 0, 1).sum(axis=0) * 2 ** check.values[0].scale
    assert engine.sums([check])[0][0] == clamped.tolist()


NARROW = [
    (kind, values, declared)
    for kind, values in [
        (pa.int8(), [-128, 127, 0, None]),
        (pa.int16(), [-(2**15), 2**15 - 1, None]),
        (pa.int32(), [-(2**31), 2**31 - 1, None, 7]),
        (pa.int64(), [-(2**63), 2**63 - 1, 2**53, 2**53 + 1, None]),
        (pa.uint8(), [255, 0, None]),
        (pa.uint16(), [2**16 - 1, None]),
        (pa.uint32(), [2**32 - 1, None]),
        (pa.uint64(), [2**64 - 1, 2**63, 2**53, 0, None]),
        (pa.float32(), [0.1, 16777217.0, math.inf, -math.inf, math.nan, None, -2.5, 3.5]),
        (pa.float64(), [0.1, 2.0**53, 2.5, -0.5, math.inf, math.nan, 1e300, None]),
        (pa.decimal128(38, 10), [Decimal("0.1"), Decimal("-99.5"), Decimal(10) ** 27, None]),
        (pa.decimal128(5, 2), [Decimal("0.07"), Decimal("-999.99"), None]),
    ]
    for declared in (
        {"type": "integer", "low": -5, "high": 10},
        {"type": "integer", "low": -(2**40), "high": 2**40},
        {"type": "integer", "low": -(2**53), "high": 2**53},
        {"type": "integer", "low": 3, "high": 16777217, "nullable": False},
        {"type": "number", "low": -5, "high": 1e6},
        {"type": "number", "low": -1e20, "high": 1e20},
        {"type": "number", "low": 1, "high": 4, "nullable": False},
    )
    if not (pa.types.is_decimal(kind) and declared["type"] == "integer")
]


@pytest.mark.parametrize(("kind", "values", "declared"), NARROW, ids=str)
def test_narrow_and_wide_numbers(kind, values, declared):
    """However a number is stored, it is clamped to its declaration and summed exactly."""
    table = pa.table({"x": pa.array(values, kind)})
    sure = not declared.get("nullable", True)
    query = sulq.Query(["x", "x > 3"] if sure else ["x", "x > 3", "x is null"])
    answers = []
    for make in ENGINES.values():
        engine = make(table, {"x": declared})
        (check,) = _checked(engine, query)
        answers.append(engine.sums([check]))
        kernel = sulq.Query([*query.values, "exp(least(greatest(x, 0), 1))"])
        assert sums(engine, kernel)[0][0][:-1] == answers[-1][0][0]
        if sure:  # what is missing all the same is at the low end, and counted so
            assert sums(engine, sulq.Query(where="x is null")) == [[[0]]]
            with pytest.raises(sulq.QueryNotAllowed, match="always 0"):
                _checked(engine, sulq.Query(["x is null"]))
    assert all(a == answers[0] for a in answers)
    low, high, whole = declared["low"], declared["high"], declared["type"] == "integer"
    total, scale = 0, Fraction(2) ** check.values[0].scale
    for x in values:
        if x is None or x != x:
            total += low * scale if sure else 0
            continue
        exact = (
            Fraction(float(np.float32(x)) if kind == pa.float32() and math.isfinite(x) else x)
            if math.isfinite(x)
            else x
        )
        x = min(max(exact, low), high)
        if whole and scale == 1:
            total += math.floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)
        else:
            total += math.floor(Fraction(float(x)) * scale + Fraction(1, 2))
    assert answers[0][0][0][0] == total


@pytest.mark.parametrize(("precision", "scale"), [(4, 2), (9, 3), (18, 6), (20, 6), (38, 10)])
def test_decimals_are_the_nearest_number(make_engine, precision, scale):
    """A decimal is worth the float64 nearest to it, by every path."""
    pick = random.Random(precision)
    most = 10 ** min(precision, scale + 6) - 1
    values = [Decimal(pick.randint(-most, most)).scaleb(-scale) for _ in range(300)]
    table = pa.table({"x": pa.array(values, pa.decimal128(precision, scale))})
    engine = make_engine(table, {"x": {"type": "number", "low": -1e6, "high": 1e6}})
    listed = ", ".join(repr(float(v)) for v in values)
    known = f"x in ({listed})"
    assert sums(engine, sulq.Query([known])) == [[[300]]]
    assert sums(engine, sulq.Query([known, "exp(x / 1e6)"]))[0][0][0] == 300


def test_booleans_and_categories_stored_as_numbers(make_engine):
    """0 and 1 are Booleans, anything else is missing; dictionaries are plain text."""
    table = pa.table(
        {
            "b": pa.array([0, 1, 2, None, 1], pa.uint64()),
            "c": pa.array([3, 1, 4, None, 1], pa.uint64()),
            "d": pa.array(["x", "y", "z", None, "x"]).dictionary_encode(),
            "t": pa.array(["x", "y", "z", None, "x"]).dictionary_encode(),
        }
    )
    schema = {
        "b": {"type": "boolean"},
        "c": {"values": [1, -3, 3]},
        "d": {"values": ["x", "q"]},
        "t": {"type": "text"},
    }
    b, c, d, t = sums(
        make_engine(table, schema),
        sulq.Query(by="b"),
        sulq.Query(by="c"),
        sulq.Query(by="d"),
        sulq.Query(["t = 'x'", "t = 'nobody'", "length(lower(t))", "t like '_'"]),
    )
    assert b == [[1], [2], [2]]
    assert c == [[2], [0], [1], [2]]
    assert d == [[2], [0], [3]]
    assert t == [[2, 0, 4, 4]]


def test_enums_of_a_duckdb_file(make_engine, tmp_path):
    """An enum's own words do not matter: a constant it does not know is just not equal."""
    path = tmp_path / "e.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        connection.execute("CREATE TABLE t (m mood, c mood, k mood)")
        connection.execute(
            "INSERT INTO t VALUES ('sad','sad','sad'), ('ok','ok','ok'), (NULL,NULL,NULL)"
        )
    schema = {"m": {"type": "text"}, "c": {"values": ["ok", "great"]}, "k": {"key": True}}
    engine = make_engine(path, schema)
    found = sums(
        engine,
        sulq.Query(["m = 'nobody'", "m in ('sad', 'x')", "coalesce(m, 'zz') = 'zz'", "length(m)"]),
        sulq.Query(by="c"),
        sulq.Query(by=sulq.Blocks(1, 3)),
        sulq.Query(["case when m = 'ok' then c else 'z' end = 'z'"]),
    )
    blocks = [[0], [0], [0]]
    for key in ("sad", "ok", None):
        blocks[_block(key, 1, 3)][0] += 1
    assert found == [[[0, 1, 1, 5]], [[1], [0], [2]], blocks, [[2]]]


MOMENT = datetime.datetime(2020, 6, 15, 23, 59, 59, 999999)


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("s"),
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.date32(),
        pa.date64(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us", "Asia/Tokyo"),
    ],
    ids=str,
)
def test_moments_are_dates(make_engine, monkeypatch, kind):
    """A moment is the date it has in UTC, whatever the machine's time zone."""
    monkeypatch.setenv("TZ", "America/New_York")
    table = pa.table({"d": pa.array([MOMENT, None]).cast(kind, safe=False)})
    engine = make_engine(table, {"d": {"type": "date", "low": "2020-01-01", "high": "2021-01-01"}})
    query = sulq.Query(["d = '2020-06-15'", "dayofyear(d)", "d is null"])
    slow = sulq.Query(["d = '2020-06-15'", "dayofyear(d)", "d is null", "exp(d is null)"])
    assert sums(engine, query) == [[[1, 167, 1]]]
    assert sums(engine, slow)[0][0][:3] == [1, 167, 1]


def test_moments_finer_than_microseconds_or_far_away(make_engine):
    """Nanoseconds and moments at the edge of their type are dates too, or missing."""
    for unit, number in (("ns", 1592265599999999999), ("ns", 2**63 - 1), ("s", 2**40), ("ns", -1)):
        table = pa.table({"d": pa.array([number], pa.timestamp(unit))})
        engine = make_engine(
            table, {"d": {"type": "date", "low": "1960-01-01", "high": "2021-01-01"}}
        )
        day = {1592265599999999999: 167, -1: 365}.get(number, 1)
        assert sums(engine, sulq.Query(["dayofyear(d)"])) == [[[day]]]
        assert sums(engine, sulq.Query(["dayofyear(d)", "exp(year(d) - 2021)"]))[0][0][0] == day


def test_infinite_dates_of_a_duckdb_file(make_engine, tmp_path):
    """infinity is the last day declared; without a range it is missing."""
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (d DATE, m TIMESTAMP, u TIMESTAMP)")
        connection.execute("INSERT INTO t VALUES ('infinity', '-infinity', 'infinity')")
    ends = {"type": "date", "low": "1990-01-01", "high": "2020-12-31"}
    engine = make_engine(path, {"d": ends, "m": ends, "u": {"type": "date"}})
    query = sulq.Query(["year(d)", "year(m)", "u is null"])
    slow = sulq.Query(["year(d)", "year(m)", "u is null", "exp(d is null)"])
    assert sums(engine, query) == [[[2020, 1990, 1]]]
    assert sums(engine, slow)[0][0][:3] == [2020, 1990, 1]


def test_a_column_without_any_value(make_engine):
    """A frame's column of nothing but None fits any declaration."""
    frame = pandas.DataFrame({"a": [None, None], "b": [1, 2]})
    for declared in (
        {"type": "integer", "low": 0, "high": 5},
        {"type": "text"},
        {"values": ["x"]},
        {"type": "boolean"},
        {"type": "date"},
        {"type": "number", "low": 0, "high": 1},
    ):
        schema = {"a": declared, "b": {"type": "integer", "low": 0, "high": 5}}
        engine = make_engine(frame, schema)
        assert sums(engine, sulq.Query(["a is null", "b"])) == [[[2, 3]]]
        assert sums(engine, sulq.Query(["a is null", "b", "exp(b)"]))[0][0][:2] == [2, 3]


ODD_NAMES = [
    "select",
    "a b",
    'a"b',
    "a'b",
    "ünï",
    "日本",
    "k0",
    "k1",
    "v0",
    "v1",
    "s0",
    "s2",
    "gk0",
    "rows",
    "source",
    "one",
    "raw_source",
    "owner",
    "count",
    "count_star()",
    "*",
    "a.b",
    "a;b",
    "--",
    "$1",
    "x'); DROP TABLE source; --",
    "NULL",
    "true",
    "1",
    "rowid",
    "%",
    "{}",
    "\\",
    " ",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_column_names(make_engine, name):
    """Any printable name works, also one our own SQL uses inside."""
    table = pa.table({name: [1, 2, 3], "z": [1, 1, 2], "w": [0.5, 0.5, 1.0]})
    whole = {"type": "integer", "low": 0, "high": 9}
    schema = {name: whole, "z": whole, "w": {"type": "number", "low": 0, "high": 1}}
    engine = make_engine(table, schema)
    quoted = '"' + name.replace('"', '""') + '"'
    x = quoted
    batch = [
        sulq.Query([f"{x} + z", "w"], where=f"{x} > 1"),
        sulq.Query([x], by=name, where="z = 1"),
        sulq.Query([x, "z"], by="z"),
        sulq.Query(by=sulq.Bins(name, [0, 2, 9])),
        sulq.Query(sulq.Sums([name])),
    ]
    values = 2 ** engine_scale(engine, "w")
    wanted = [
        [[8, int(1.5 * values)]],
        [[0], [1], [2], *[[0]] * 8],
        [[0, 0], [3, 2], [3, 2], *[[0, 0]] * 8],
        [[1], [2], [0]],
    ]
    assert sums(engine, *batch)[:4] == wanted
    assert sums(engine, *batch[:4]) == wanted
    assert [sums(engine, q)[0] for q in batch[:4]] == wanted


def engine_scale(engine, column):
    (check,) = _checked(engine, sulq.Query([column]))
    return check.values[0].scale


def test_every_odd_name_at_once(make_engine):
    """All the odd names in one table, in one statement."""
    table = pa.table({n: [i, i + 1] for i, n in enumerate(ODD_NAMES)})
    schema = {n: {"type": "integer"} for n in ODD_NAMES}
    engine = make_engine(table, schema)
    values = ['least(greatest("' + n.replace('"', '""') + '", 0), 99)' for n in ODD_NAMES]
    assert sums(engine, sulq.Query(values)) == [[[2 * i + 1 for i in range(len(ODD_NAMES))]]]


# --- expressions too long for SQL -----------------------------------------------------------


def test_what_is_too_long_for_sql_runs_in_the_kernel(engine):
    """A checked question is answered, however long its SQL would be."""
    deep = "abs(income)"
    for _ in range(25):
        deep = f"sqrt({deep} + age)"
    edges = np.linspace(0, 100, 5001).tolist()
    found = sums(engine, sulq.Query([deep]), sulq.Query(by=sulq.Bins(deep, edges)))
    assert found[0][0][0] > 0
    assert sum(x for (x,) in found[1]) == len(list(_rows()))


def test_many_centres_do_not_need_much_memory():
    """Ten thousand centres over many rows are looked at in parts."""
    import tracemalloc

    count = 2**13
    table = pa.table({"x": np.linspace(0, 1, count), "y": np.linspace(1, 0, count)})
    unit = {"type": "number", "low": 0, "high": 1}
    centres = [(i / 9999, 1 - i / 9999) for i in range(10_000)]
    engine = duckdb_engine(table, {"x": unit, "y": unit})
    (check,) = _checked(engine, sulq.Query(by=sulq.NearestCentre(["x", "y"], centres)))
    tracemalloc.start()
    (found,) = engine.sums([check])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(x for (x,) in found) == count
    assert peak < 300e6, "all at once would be 655 MB"


@pytest.mark.parametrize("kernel", ["", " and exp(one * 0) > 0"])
def test_of_a_text_only_its_declared_length_is_looked_at(make_engine, kernel):
    """What lies behind is as if it were not there, by SQL and by the kernel; in characters."""
    notes = ["abcxyz", "abc", "ab", "äöüx", None, "x"]
    schema = {
        "note": {"type": "text", "max_length": 3},
        "one": {"type": "integer", "low": 0, "high": 1},
    }
    engine = make_engine(pa.table({"note": notes, "one": [1] * 6}), schema)
    found = {
        where: sums(engine, sulq.Query(where=where + kernel))[0][0][0]
        for where in ("note = 'abc'", "note like '%x%'", "length(note) = 3", "note is null")
    }
    assert found == {
        "note = 'abc'": 2, "note like '%x%'": 1, "length(note) = 3": 3, "note is null": 1,
    }  # fmt: skip
