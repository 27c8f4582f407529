"""Which function of DuckDB's reads a file or a folder of them. Nothing is guessed from rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sulq.errors import SchemaError
from sulq.expressions.quoting import text
from sulq.sources.source import TEXTS, Source, check_quotes, csv_header, files_of, partitions_of
from sulq.sources.text_files import in_utf8, json_names
from sulq.values.column import PLAIN
from sulq.values.schema import Schema


@dataclass(frozen=True, slots=True)
class Reader:
    """The files that may be read, and the call that reads them."""

    paths: tuple[Path, ...]
    sql: str
    delimiter: str | None = None  # of a CSV

    @property
    def allowed(self) -> str:
        """The files as DuckDB's setting takes them."""
        return ", ".join(text(str(path)) for path in self.paths)

    def check(self) -> None:
        """Refuse a CSV whose quotes do not close."""
        if self.delimiter is not None:
            check_quotes(self.paths[0], self.delimiter)


def reader_of(source: Source, schema: Schema | None, spill: str, numbered: bool) -> Reader:
    """How a file or folder is read; `numbered` where rows are told apart by their place."""
    paths, file = files_of(source), PLAIN if schema is None else schema.file
    if source.kind == "csv":
        if file.encoding not in (None, "utf-8"):
            paths = [in_utf8(paths[0], str(file.encoding), Path(spill))]
        delimiter, names = csv_header(paths[0], file.delimiter)
        sql = f"read_csv({text(str(paths[0]))}, {_csv_options(delimiter, names)})"
        return Reader(tuple(paths), sql, delimiter)
    if source.kind == "json":
        names = json_names(paths[0]) if schema is None else schema.names
        return Reader(tuple(paths), f"read_json({text(str(paths[0]))}, {_json_options(names)})")
    listed = ", ".join(text(str(path)) for path in paths)
    folders = "true, hive_types_autocast = false" if file.hive_partitions else "false"
    place = ", file_row_number = true" if numbered else ""
    sql = f"read_parquet([{listed}], hive_partitioning = {folders}{place})"
    return Reader(tuple(paths), sql)


def texts_of(source: Source, schema: Schema | None, names: list[str]) -> list[str]:
    """The columns whose values are texts, to be read as they are declared."""
    if source.kind in TEXTS:
        return names
    if source.kind != "parquet" or schema is None or not schema.file.hive_partitions:
        return []
    _check_above(source, schema)
    folders = [name for name in partitions_of(source) if name in schema.names]
    private = next((name for name in folders if not schema[name].public), None)
    if private is not None:
        raise SchemaError(
            f"column {private!r} is the name of folders, which everybody may read who sees the "
            "files: declare it public = true, or leave it out of the schema."
        )
    return folders


def _check_above(source: Source, schema: Schema) -> None:
    """Refuse a column that a folder above the source names: a rename would move all rows.

    Inside the source a folder's name is part of what the rows are known by; above it is not.
    """
    assert source.path is not None
    root = source.path if source.path.is_dir() else source.path.parent
    above = (part.partition("=")[0] for part in root.parts if "=" in part)
    name = next((name for name in above if name in schema.names), None)
    if name is not None:
        raise SchemaError(
            f"column {name!r} is the name of a folder above the source, and a folder that is "
            "renamed would put all rows under another value. Open the folder above it, or leave "
            "the column out of the schema."
        )


def _csv_options(delimiter: str, names: list[str]) -> str:
    """A line is a row, short ones padded, long ones cut."""
    return (
        f"auto_detect = false, header = true, delim = {text(delimiter)}, quote = '\"', "
        f"escape = '\"', columns = {_texts(names)}, null_padding = true, strict_mode = false, "
        "parallel = false"  # with it, a line break inside quotes is an error
    )


def _json_options(names: list[str]) -> str:
    """A line is a row: what is no object, and names that an object has not, are missing."""
    return (
        f"format = 'newline_delimited', auto_detect = false, columns = {_texts(names)}, "
        "ignore_errors = true"
    )


def _texts(names: list[str]) -> str:
    columns = ", ".join(f"{text(n)}: 'VARCHAR'" for n in names)
    return f"{{{columns}}}"
