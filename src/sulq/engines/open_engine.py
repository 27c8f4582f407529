"""Which engine reads a source."""

from __future__ import annotations

from sulq.engines.base import Engine, Progress
from sulq.errors import SchemaError
from sulq.sources.source import Source
from sulq.values.schema import Schema


def open_engine(
    source: Source,
    schema: Schema | None,
    engine: str | None = None,
    progress: Progress | None = None,
    programs: bool = False,
) -> Engine:
    """Open the rows where they are: the engine asked for, or the one that their place wants.

    With `programs`, refuse one that could not run them.
    """
    if source.kind == "spark":
        _check(engine, "spark", "a frame of Spark's is read by 'spark'")
        from sulq.engines.spark.engine import SparkEngine

        assert schema is not None
        cluster = SparkEngine(source, schema)
        if programs:
            cluster.check_programs()
        return cluster
    if source.url is not None:
        _check(engine, "postgres", "rows in PostgreSQL are read by 'postgres'")
        from sulq.engines.postgres.engine import PostgresEngine

        assert schema is not None
        return PostgresEngine(source, schema)
    if source.kind == "array":
        _check(engine, "numpy", "an array is read where it lies")
        from sulq.engines.array_engine import ArrayEngine

        assert schema is not None
        return ArrayEngine(source, schema)
    if engine not in (None, "duckdb", "reference"):
        raise SchemaError(f"engine={engine!r}, want 'duckdb', 'reference' or 'spark'.")
    from sulq.engines.duckdb import DuckDBEngine

    running = DuckDBEngine(source, schema, progress)
    if engine == "reference":
        from sulq.engines.reference import ReferenceEngine

        running.read_through()
        return ReferenceEngine(running.arrow(), running.schema, running.every_row())
    return running


def _check(engine: str | None, fitting: str, why: str) -> None:
    if engine not in (None, fitting):
        raise SchemaError(f"engine={engine!r}: {why}.")
