"""Several frames of Spark's as one: people and their events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sulq.errors import SchemaError
from sulq.sources.spark import SparkRows
from sulq.sources.stacked_rows import Part, stack_sql
from sulq.values.star import Star


def stacked(found: SparkRows, star: Star, kind_of: Callable[[str], str]) -> SparkRows:
    """The rows of all tables, as the stack has them."""
    if found.parts is None:
        raise SchemaError(
            "source: the schema has several tables. Give a dict of Spark frames by their names."
        )
    parts = {}
    for i, table in enumerate(star.tables):
        frame = found.parts[table.source].frame
        view = f"sulq_part_{i}"
        frame.createOrReplaceTempView(view)
        types = {f.name: kind_of(f.dataType.simpleString()) for f in frame.schema.fields}
        parts[table.name] = Part(view, types)
    sql = stack_sql(star, parts, "STRING", named=_quoted)
    return replace(found, frame=found.session.sql(sql))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
