"""How many rows a file has: public, so anyone who holds the file may be told."""

from __future__ import annotations

import csv

from sulq.errors import SchemaError
from sulq.sources.source import Source, csv_header, files_of, lines_of
from sulq.sources.text_files import opened_file, text_rows


def count_rows(source: Source) -> int:
    """n. A CSV is read to its end for it."""
    assert source.path is not None
    if source.kind == "csv":
        delimiter, _ = csv_header(source.path)
        with lines_of(source.path, "replace") as lines:
            return max(0, sum(1 for row in csv.reader(lines, delimiter=delimiter) if row) - 1)
    if source.kind == "json":
        with opened_file(source.path, "rb") as lines:
            return sum(1 for line in lines if line.strip())
    if source.kind in ("sqlite", "excel"):
        return int(text_rows(source.kind, source.path, source.table)[0].num_rows)
    import duckdb

    try:
        if source.kind == "parquet":
            listed = [str(path) for path in files_of(source)]
            found = duckdb.connect().execute("SELECT count(*) FROM read_parquet(?)", [listed])
        else:
            from sulq.sources.draft import only_table

            connection = duckdb.connect(str(source.path), read_only=True)
            found = connection.execute(f"SELECT count(*) FROM {only_table(connection, source)}")
        return int(found.fetchall()[0][0])
    except duckdb.Error:
        raise SchemaError(f"{source.name!r} cannot be read as {source.kind}.") from None
