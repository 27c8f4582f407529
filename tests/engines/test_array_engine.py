"""Rows of an array, read where they lie, give the integers of the same rows as a table."""

import numpy as np
import pyarrow as pa
import pytest
from helpers import SilentNoise, opened, reference_engine, sums

import sulq
from sulq.engines import array_engine
from sulq.engines.array_engine import ArrayEngine
from sulq.kernel.batch import ONE, to_whole_steps
from sulq.sources.frames import ArrayRows
from sulq.sources.source import open_source
from sulq.values.schema import Schema

N = 5000
NAMES = ("a", "b", "c", "d")


def made(seed=0):
    """Numbers in and around [0, 1], on and between the grid's steps, and what is no number."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.2, 1.2, (N, 4))
    X[::7] = rng.integers(-5, 70000, X[::7].shape) / 2**17  # halves of steps
    X[::61, 1] = np.nan
    X[5, 0], X[6, 0], X[7, 2], X[8, 3] = np.inf, -np.inf, 1e300, -1e300
    return X


def schema(nullable=True):
    ends = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (-0.5, 3.0), "d": (0.25, 0.26)}
    columns = {
        name: {"type": "number", "low": low, "high": high, "nullable": nullable}
        for name, (low, high) in ends.items()
    }
    columns |= {"y": {"type": "boolean"}, "t": {"type": "number", "low": -1.0, "high": 1.0}}
    return {"columns": columns}


def shapes(X, folder):
    """One array of numbers in all the ways it may lie."""
    small = np.where(np.abs(X) == 1e300, np.sign(X) * 6e4, X)
    wide = np.zeros((N, 9))
    wide[:, 1:8:2] = X
    mapped = np.memmap(folder / "rows.dat", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    return {
        "C": X,
        "Fortran": np.asfortranarray(X),
        "float32": small.astype(np.float32),
        "float16": small.astype(np.float16),
        "whole": np.nan_to_num(X * 3, nan=0.0, posinf=9.0, neginf=-9.0).clip(-9, 9).astype(np.int8),
        "Booleans": X > 0.5,
        "every other": wide[:, 1:8:2],
        "backwards": X[::-1],
        "other end first": X.astype(">f8"),
        "mapped": mapped,
    }


def test_rounding_is_to_the_nearest_step_halves_to_even():
    """Adding a large number and taking it away is what rint does, for all that is in range."""
    rng = np.random.default_rng(0)
    some = rng.uniform(-2, ONE + 2, 100_000)
    halves = np.arange(-2.5, ONE + 2, 0.5)
    near = np.nextafter(halves, np.inf)
    odd = [np.inf, -np.inf, 1e300, -1e300, 2.0**52 + 1, -(2.0**53), 5e-324, -0.0]
    x = np.concatenate([some, halves, near, np.nextafter(halves, -np.inf), odd])
    for centre in (0, ONE // 2):
        found = x.copy()
        to_whole_steps(found, centre)
        assert np.array_equal(found, np.rint(np.clip(x, 0, ONE)) - centre)
    unknown = np.array([np.nan])
    to_whole_steps(unknown)
    assert np.isnan(unknown).all()


CENTRES = tuple(map(tuple, np.random.default_rng(3).random((5, 4)).tolist()))
SIDE = sulq.Side(NAMES, (1.0, -1.0, 0.5, 0.2), 0.1)
QUERIES = [
    sulq.Query(sulq.Products(NAMES, 0.5, None, 1.5, 2.0)),
    sulq.Query(sulq.Products((*NAMES, "t"), 0.5, 0.8, 1.5, 2.0)),
    sulq.Query(sulq.Products(("t", "b", "c", "y"), 0.0)),
    sulq.Query(sulq.Products(("d", "b"), 0.5)),
    sulq.Query(sulq.Sums(NAMES, 0.5), by=sulq.NearestCentre(NAMES, CENTRES)),
    sulq.Query(sulq.Sums(("b", "c"), 0.5, 0.3), by=(SIDE, "y")),
    sulq.Query(sulq.Sums(("a * b", "c"), 0.5), where="b IS NOT NULL AND a > 0.3"),
]


def beside(seed=1):
    rng = np.random.default_rng(seed)
    missing = rng.random(N) < 0.05
    t = rng.uniform(-1.5, 1.5, N)
    return {"y": pa.array(t > 0, mask=missing), "t": pa.array(t, mask=missing)}


@pytest.mark.parametrize("nullable", [True, False])
def test_the_integers_are_those_of_the_table(tmp_path, nullable):
    """Arrays of every layout give the sums of the same columns in a table."""
    declared = schema(nullable)
    for name, X in shapes(made(), tmp_path).items():
        given = ArrayRows(X, NAMES, beside())
        engine = ArrayEngine(open_source(given), Schema.load(declared))
        columns = dict(zip(NAMES, np.asarray(X).astype(np.float64).T, strict=True))
        table = pa.table(
            {n: pa.array(np.ascontiguousarray(c), from_pandas=True) for n, c in columns.items()}
            | beside()
        )
        other = reference_engine(table, declared)
        assert sums(engine, *QUERIES) == sums(other, *QUERIES), name
        assert engine.rows == N
        engine.close()


def test_any_number_of_batches_gives_the_same(monkeypatch):
    """A batch ends anywhere, and there may be no row."""
    X, declared = made(), Schema.load(schema())
    for rows in (0, 1, 2, 777, N):
        given = ArrayRows(X[:rows], NAMES, {n: c[:rows] for n, c in beside().items()})
        engine = ArrayEngine(open_source(given), declared)
        want = sums(engine, *QUERIES)
        for size in (1, 100, 4096):
            if rows // size < 1000:
                monkeypatch.setattr(array_engine, "batch_rows", lambda *_, size=size: 2 * size)
                assert sums(engine, *QUERIES) == want
        monkeypatch.undo()


def test_what_sql_answers_is_asked_of_a_table():
    """Histograms, counts and expressions, in one batch with what the kernel answers."""
    given = ArrayRows(made(), NAMES, beside())
    engine = ArrayEngine(open_source(given), Schema.load(schema()))
    other = reference_engine(given.table(), schema())
    queries = [
        sulq.Query(by=("y", sulq.Bins("a", (0, 0.5, 1)))),
        sulq.Query(where="c > 1"),
        QUERIES[0],
    ]
    assert sums(engine, *queries) == sums(other, *queries)
    engine.probe()
    engine.interrupt()
    engine.close()


def test_a_database_of_an_array_charges_and_answers_as_one_of_a_table():
    """Answers and spending are the same."""
    given = ArrayRows(made(), NAMES, beside())
    answers = []
    for source in (given, given.table()):
        db = opened(source, schema())
        db._pipeline.noise = SilentNoise()
        with db:
            found = db.ask(QUERIES)
            answers.append(([a.values.tolist() for a in found], db.budget.remaining))
    assert answers[0] == answers[1]


def test_no_other_engine_reads_an_array():
    """engine= is refused for an array."""
    with pytest.raises(sulq.SchemaError, match="read where it lies"):
        opened(ArrayRows(made(), NAMES, beside()), schema(), engine="duckdb")
