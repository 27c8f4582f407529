"""Rows of new periods -> the same ledger; what was spent stays with older periods.

The rows are written beside those that are there, then taken in: every older period must be as it
was, bit by bit. A program that is killed on the way leaves rows that are refused until `append` is
run again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from sulq.engines.open_engine import open_engine
from sulq.errors import Refused, SchemaError
from sulq.ledger.guard import guard_of
from sulq.ledger.open_periods import check_alone, check_in_order, schema_of
from sulq.progress import show
from sulq.sources.source import Source, files_of, open_source, settled
from sulq.values.schema import Schema

if TYPE_CHECKING:
    from sulq.ledger import Ledger
    from sulq.ledger.seal import Seal


def take_in(
    source: Any, rows: Any, where: str, table: str | None, name: str | None, reason: str
) -> None:
    """Write rows into the source, if there are some, and note the new periods in the ledger."""
    from sulq.ledger import claims
    from sulq.ledger.period_rows import PeriodRows

    book, seal = of_other_rows(where)
    try:
        check_alone(bool(book.group))
        schema, before = schema_of(book.terms), book.terms.get("periods")
        if before is None:
            raise SchemaError(
                "append: the ledger's schema has no [period]. Nothing was charged.\nNew rows of "
                "such a table are a refresh: `sulq refresh`."
            )
        if rows is not None:
            with seal.held():  # of two at once, one writes beside the rows of the other
                _write(open_source(source, table, name), rows, schema, set(before), book.in_order())
        found = settled(open_source(source, table, name))
        with closing(open_engine(found, schema, None, show("scanning"))) as running:
            guard, known = guard_of(found, running, seal), PeriodRows.of(seal)
            recorded = dict(book.terms["promise"])
            terms = claims.terms_of(running, recorded, recorded["pricing"], found)
            with seal.held():
                claims.check_refreshed(seal, guard)
                after = known.begin(running, before)
                if terms["periods"] != before:
                    book.renew(terms, {"reason": reason}, new_periods=True)
                claims.remember(seal, guard)
                known.end(after)
    finally:
        book.close()


def of_other_rows(where: str) -> tuple[Ledger, Seal]:
    """The ledger there, to go on with other rows or more of them; not where answers are exact."""
    from sulq.ledger import Ledger, claims
    from sulq.ledger.location import sealed

    seal = sealed(where)
    claims.check_begun(where, seal)
    book = Ledger.reopen(where, seal=seal)
    if book.terms["promise"].get("mode") == "audited":
        book.close()
        raise Refused(
            "audited answers are exact: sums before and after a change would tell the rows that "
            "changed. Nothing was charged.\nRestore the rows, or open the new ones elsewhere with "
            "a ledger of their own, if nobody can take one for the other."
        )
    return book, seal


def _write(found: Source, rows: Any, schema: Schema, opened: set[Any], ordered: bool) -> None:
    """Put the rows beside the others, whole or not at all; refuse those of periods that have some.

    The owner's own rows, on their own machine: what is said of them goes to nobody else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sulq.ledger.seal import sync_folder

    if found.kind != "parquet" or found.path is None or found.pattern is not None:
        raise Refused(
            "append: rows are written into a Parquet file or a folder of them. Nothing was "
            "charged.\nAdd them to the source yourself, then append without rows."
        )
    if schema.file.hive_partitions:
        raise Refused(
            "append: the names of folders are columns here, so the rows need folders of their own. "
            "Nothing was written.\nWrite them into those yourself, then append without rows."
        )
    table = _read(found, rows, schema, opened, ordered)
    path, old = found.path, None
    if path.is_dir():
        stem = f"period-{len(opened) + 1:05d}-{secrets.token_hex(4)}"
        target = path / f"{stem}.parquet"
        stored = pq.read_schema(files_of(found)[0])  # which says how the whole folder is read
        table = _fitting(table, pa.schema([stored.field(n) for n in table.column_names]), False)
    else:
        target, old = path, pq.ParquetFile(path)
        table = _fitting(table, old.schema_arrow, True)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with pq.ParquetWriter(beside, table.schema) as file:
            for batch in old.iter_batches() if old is not None else ():  # never whole in memory
                file.write_table(pa.Table.from_batches([batch]).cast(table.schema))
            file.write_table(table)
        if old is not None:
            old.close()
            shutil.copymode(target, beside)
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(beside, target)
        sync_folder(target.parent)
    except OSError as error:
        raise Refused(
            f"append: {target.name!r} cannot be written: {error.strerror or error}. Nothing was "
            "written.\nMake its folder writable, or add the rows yourself and append without rows."
        ) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _read(found: Source, rows: Any, schema: Schema, opened: set[Any], ordered: bool) -> Any:
    """The new rows as a table; refused unless all are of periods that can open now."""
    with closing(open_engine(settled(open_source(rows)), schema)) as new:
        table: Any = new.every_row()  # type: ignore[attr-defined]
    periods = set(table.column(str(schema.period)).to_pylist())
    wrong = sorted(map(str, periods & opened)) + ["(other)"] * bool(
        periods - set(schema[str(schema.period)].listed or ())
    )
    if wrong:
        raise Refused(
            f"append: the rows are of periods that cannot open now: {', '.join(wrong)}. Nothing "
            "was written.\nA period opens once, with all its rows, and is declared in the schema."
        )
    check_in_order(schema, opened, periods, ordered)
    _check_absent(found, periods, schema)
    return table


def _fitting(table: Any, stored: Any, copied: bool) -> Any:
    """The rows in the columns and types of those that are there.

    Whole numbers may become wider where the older rows are `copied` too. Other types stay: a column
    that is stored otherwise is read otherwise, and so would the older rows be.
    """
    import pyarrow as pa

    columns = {
        field.name: _as_stored(table[field.name], field, copied)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, _plain(field.type))
        for field in stored
    }
    return pa.table(columns).replace_schema_metadata(stored.metadata)


def _as_stored(column: Any, field: Any, copied: bool) -> Any:
    """A column in the type in which it is stored, or a refusal."""
    import pyarrow as pa

    kind = _plain(field.type)
    if pa.types.is_null(kind) and copied:
        return column
    whole = pa.types.is_integer(kind) and pa.types.is_integer(column.type)
    for each in (kind, *([pa.int64()] if copied and whole else [])):
        with suppress(pa.ArrowException):
            return column.cast(each)
    raise Refused(
        f"append: column {field.name!r} is stored as {kind}, and not every value of the new rows "
        "is one. Nothing was written.\nConvert the column, or write the rows yourself and append "
        "without rows."
    )


def _plain(kind: Any) -> Any:
    """The type of the values that a dictionary stands for."""
    return kind.value_type if hasattr(kind, "value_type") and hasattr(kind, "index_type") else kind


def _check_absent(found: Source, periods: set[Any], schema: Schema) -> None:
    """Refuse to write rows a second time, after a program was killed on the way."""
    from sulq.ledger.period_rows import present

    with closing(open_engine(settled(found), schema)) as running:
        there = periods & set(present(running))
    if there:
        raise Refused(
            f"append: the source has rows of {', '.join(map(str, sorted(there)))} already. Nothing "
            "was written.\nIf they are these, append without rows."
        )
