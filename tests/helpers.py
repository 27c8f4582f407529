"""What several test files share: silent noise, engines by name, databases with both."""

from __future__ import annotations

import warnings

import sulq
from sulq.check import check
from sulq.engines.duckdb import DuckDBEngine
from sulq.engines.reference import ReferenceEngine
from sulq.schema import Schema
from sulq.sources import open_source


class SilentNoise:
    """Draws 0, so that an answer is the exact sum."""

    def draw(self, law, count):
        return [0] * count


def duckdb_engine(source, schema, table=None):
    declared = None if schema is None else Schema.load(schema)
    return DuckDBEngine(open_source(source, table), declared)


def reference_engine(source, schema, table=None):
    reader = duckdb_engine(source, schema, table)
    return ReferenceEngine(reader.arrow(), reader.schema)


# One line per engine: a function from a source and a schema to an engine.
ENGINES = {"reference": reference_engine, "duckdb": duckdb_engine}


def checked(queries, engine, noise="gaussian", guarantee="beliefs"):
    return [check(q, engine.schema, noise, guarantee) for q in queries]


def sums(engine, *queries, **promise):
    """The exact matrices of some queries, asked as one batch."""
    return engine.sums(checked(queries, engine, **promise))


def opened(source, schema=None, *, quiet=True, **settings):
    """A database in memory; quiet ones draw no noise."""
    settings = {"epsilon": 1.0, "queries": 1000, "ledger": ":memory:"} | settings
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the ledger is in memory")
        db = sulq.open(source, schema, **settings)
    if quiet:
        db._noise = SilentNoise()
    return db
