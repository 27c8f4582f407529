"""Where the tables of a schema lie: files of a folder, frames by name, tables of one database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sulq.errors import SchemaError
from sulq.sources.source import ENDINGS, Source, open_source
from sulq.sources.spark import find_tables, is_spark
from sulq.sources.stacked_rows import stacked_frames
from sulq.values.schema import Schema
from sulq.values.star import Star


def star_source(source: Source, schema: Schema | None) -> Source:
    """The same source, knowing what the tables of the schema are in it."""
    star = None if schema is None else schema.star
    if star is None:
        if source.kind == "tables":
            what = "a dict of frames" if source.path is None else "a folder with no Parquet file"
            raise SchemaError(
                f"source={source.name!r}: {what} is read as several tables, the schema has one. "
                "Say how they belong together: [unit] with column, and [tables.NAME] for each; see "
                "docs/howto/people.md."
            )
        return source
    if source.kind == "tables" and source.path is None:
        return _frames(source, star)
    if source.kind in ("tables", "parquet") and source.path is not None and source.path.is_dir():
        return _files(source, star)
    if source.kind in ("duckdb", "postgres"):
        if source.table is not None:
            raise SchemaError("table=: the schema names its tables itself, under [tables].")
        return source
    if source.kind == "spark" and source.path is None:
        return source
    raise SchemaError(
        f"source={source.name!r}: the schema has several tables. Give a folder with a file for "
        "each, a DuckDB file or a postgresql:// address that has them, or a dict of frames by name."
    )


def _missing(star: Star, there: Mapping[Any, Any], what: str) -> None:
    for table in star.tables:
        if table.source not in there:
            names = ", ".join(sorted(map(str, there))[:20]) or "nothing"
            raise SchemaError(
                f"tables.{table.name}: there is no {what} {table.source!r}, but {names}. Name it "
                "so, or say source = its name under [tables]."
            )


def _frames(source: Source, star: Star) -> Source:
    given: Mapping[Any, Any] = source.frame
    _missing(star, given, "table")
    chosen = {t.source: given[t.source] for t in star.tables}
    if any(map(is_spark, chosen.values())):
        return Source("spark", source.name, frame=find_tables(chosen))
    if any(isinstance(frame, str | Path) for frame in chosen.values()):
        raise SchemaError(
            "source: give frames by name, or the folder that has a file for each of the tables."
        )
    frames = {name: open_source(frame).frame for name, frame in chosen.items()}
    return replace(source, kind="arrow", frame=stacked_frames(frames, star))


def _files(source: Source, star: Star) -> Source:
    """The file of each table: by its whole name, or without its ending."""
    assert source.path is not None
    there: dict[str, Path] = {}
    for path in sorted(source.path.iterdir()):
        ending = next((e for e in ENDINGS if path.name.lower().endswith(e)), "")
        if ending and path.is_file():
            there[path.name] = there[path.name[: -len(ending)]] = path
    _missing(star, there, "file")
    parts = {t.source: open_source(there[t.source]) for t in star.tables}
    for name, part in parts.items():
        if part.kind in ("store", "duckdb"):
            raise SchemaError(f"tables: {name!r} is a {part.kind} file; open that alone.")
    return replace(source, kind="star", frame=parts)
