"""What several test files share: silent noise, engines by name, databases with both."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import postgres

import sulq
from sulq.engines.duckdb import DuckDBEngine
from sulq.engines.enlarged import Enlarged
from sulq.engines.postgres.engine import PostgresEngine
from sulq.engines.reference import ReferenceEngine
from sulq.questions.check import check
from sulq.sources.source import open_source
from sulq.values.schema import Schema


class SilentNoise:
    """Draws 0, so that an answer is the exact sum."""

    def draw(self, law, count):
        return [0] * count


def duckdb_engine(source, schema, table=None):
    declared = None if schema is None else Schema.load(schema)
    return DuckDBEngine(open_source(source, table), declared)


def reference_engine(source, schema, table=None):
    reader = duckdb_engine(source, schema, table)
    return ReferenceEngine(reader.arrow(), reader.schema, reader.every_row())


def in_postgres(source, schema, table=None):
    """The rows of any source, put into a table that a role may only read: address and name."""
    declared = None if schema is None else Schema.load(schema)
    every = declared and replace(declared, unit=None)  # also those beyond max_rows
    rows = DuckDBEngine(open_source(source, table), every).arrow()
    return postgres.shared().url("reader"), postgres.load(rows, declared)


def postgres_engine(source, schema, table=None):
    address, name = in_postgres(source, schema, table)
    columns = source.shape[1] if schema is None else 0  # of a bare array
    declared = Schema.load(schema) if schema is not None else Schema.of_array(columns)
    return PostgresEngine(open_source(address, name), declared)


def enlarged_engine(source, schema, table=None):
    """A stand-in that stands for as many rows as it has: it must be what it wraps."""
    few = reference_engine(source, schema, table)
    return Enlarged(few, few.rows)


# One line per engine: a function from a source and a schema to an engine.
LOCAL = {"reference": reference_engine, "duckdb": duckdb_engine}  # of this machine's files
ENGINES = LOCAL | ({"postgres": postgres_engine} if postgres.here() else {})
CONTRACT = ENGINES | {"enlarged": enlarged_engine}  # and what stands in for one


def checked(queries, engine, noise="gaussian", guarantee="beliefs"):
    return [check(q, engine.schema, noise, guarantee) for q in queries]


def sums(engine, *queries, **promise):
    """The exact matrices of some queries, asked as one batch."""
    return engine.sums(checked(queries, engine, **promise))


def opened(source, schema=None, *, quiet=True, **settings):
    """A database in memory; quiet ones draw no noise. With engine="postgres", in a table."""
    if settings.get("engine") == "postgres":
        source, settings["table"] = in_postgres(source, schema)
    settings = {"epsilon": 1.0, "queries": 1000, "ledger": ":memory:"} | settings
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the ledger is in memory")
        warnings.filterwarnings("ignore", message="queries=.*one count is off by")
        db = sulq.open(source, schema, **settings)
    if quiet:
        db._pipeline.noise = SilentNoise()
    return db


def show_every_number(monkeypatch):
    """Show numbers in tables that are too noisy to say, and would be missing."""
    place = "sulq.sql.statement._vague"
    monkeypatch.setattr(place, lambda by, weak, *ends: np.zeros(len(weak), dtype=bool))
