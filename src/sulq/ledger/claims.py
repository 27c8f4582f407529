"""Which ledger is about which rows: opened, begun, recognised when rows come again.

Rows have one ledger. The same data under another name, a copy of a ledger, and a ledger that was
brought here without its seal are all refused. What may change when rows are refreshed is here too.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sulq.engines.base import Engine
from sulq.engines.open_engine import open_engine
from sulq.errors import MICRO, LedgerDamaged, Refused, SchemaError
from sulq.expressions.spelling import listed
from sulq.ledger.group_ledger import GroupLedger
from sulq.ledger.guard import Guard, changed, guard_of
from sulq.ledger.ledger import Ledger
from sulq.ledger.location import (
    beside,
    called,
    check_alone,
    check_together,
    exists,
    sealed,
    shown,
    strangers,
)
from sulq.ledger.open_periods import ORDER, cell_order, is_order_known, schema_of
from sulq.ledger.period_rows import PeriodRows, present
from sulq.ledger.postgres_seal import ServerSeal
from sulq.ledger.seal import Seal
from sulq.ledger.terms import ASSIGNMENT
from sulq.ledger.types import MEMORY, Group
from sulq.sources.source import Source, open_source, settled
from sulq.sources.star_source import star_source
from sulq.values.assignment import Assignment, persons_of
from sulq.values.schema import Schema

LINE_FORMATS = ("csv", "json")  # the same bytes are other rows as another of these
READ_AS = "read_as"  # which of them, among the terms


def open_ledger(
    where: str, source: Source, engine: Engine, promise: Mapping[str, Any], pricing: str,
    by_default: bool, group: Group | None = None,
) -> tuple[Ledger, Guard]:  # fmt: skip
    """Open or begin the ledger; the same data under another name is recognised.

    With a group it is entered too, and rows that have a ledger beside the group's go on with it.
    """
    if group is not None:
        return _open_in_group(group, where, source, engine, promise, pricing)
    return _open_ledger(where, source, engine, promise, pricing, by_default)


def _open_in_group(
    group: Group, where: str, source: Source, engine: Engine, promise: Mapping[str, Any],
    pricing: str,
) -> tuple[Ledger, Guard]:  # fmt: skip
    check_together(where, group.ledger)
    if engine.schema.unit is not None and engine.schema.period is not None:
        raise Refused(
            f"group={group.name!r}: a table with [unit] and [period] cannot be in one: what its "
            "periods spent does not say what a person spent. Nothing was charged."
        )
    unit = engine.schema.unit
    terms = {"promise": {**promise, "pricing": pricing}, "unit": unit.column if unit else None}
    total = promise["queries"] * MICRO
    with ExitStack() as held:
        known: GroupLedger | None = None
        if exists(group.ledger):  # what does not fit it begins nothing
            known = GroupLedger.open(group.ledger, group.name, terms, total)
            held.callback(known.close)
        own = where if exists(where) else _own_place(where, source, engine)
        book, guard = _open_ledger(own, source, engine, promise, pricing, False)
        try:
            book.check_may_join(group.name, called(group.ledger))
            if known is None:
                known = GroupLedger.open(group.ledger, group.name, terms, total)
                held.callback(known.close)
            book.join(known)
        except BaseException:
            book.close()
            raise
    return book, guard


def _own_place(where: str, source: Source, engine: Engine) -> str:
    """The ledger that these rows have where this one would begin, or this one."""
    seal = sealed(where)
    claims = guard_of(source, engine, seal).claims
    other = next((name for c in claims if (name := seal.other(c)) is not None), None)
    if other is None:
        return where
    if isinstance(seal, ServerSeal):
        return beside(seal.server, other)
    path = seal.folder.parent / other
    return str(path) if path.exists() else where


def _open_ledger(
    where: str, source: Source, engine: Engine, promise: Mapping[str, Any], pricing: str,
    by_default: bool,
) -> tuple[Ledger, Guard]:  # fmt: skip
    terms = terms_of(engine, promise, pricing, source)
    facts: dict[str, Any] = {
        "terms": terms,
        "cells": engine.schema.cell_count,
        "total": promise["queries"] * MICRO,
        "name": source.name,
    }
    if where == MEMORY:
        if by_default:  # who says ":memory:" knows
            warnings.warn(
                "the ledger is in memory: spending is forgotten when the program ends, so this "
                "makes no lifetime promise. Give ledger='people.ledger' to keep it.",
                stacklevel=4,
            )
        return Ledger.open(MEMORY, **facts), guard_of(source, engine, None)
    seal = sealed(where)
    guard = guard_of(source, engine, seal)
    # Held from looking to remembering: of two openings at once, one finds the other's.
    with seal.held():
        check_unclaimed(seal, guard)
        check_begun(where, seal)
        before = seal.current()
        if before is not None and exists(where, seal) and before not in guard.known_as:
            raise changed(source.path.name if source.path else source.name)
        new = not exists(where, seal)
        book = Ledger.open(where, seal=seal, **facts)
        if new:
            know_periods(seal, engine)
        if before is None and book.charges(limit=1):
            book.close()
            raise LedgerDamaged(
                f"The ledger {Path(shown(where)).name!r} has charges, but the folder '.sulq' "
                "beside it does not know which rows they were about: it was lost, or the ledger "
                "was brought here alone. Nothing is answered.\nRestore the folder with the "
                "ledger, or run `sulq refresh`: it is logged, and what was spent stays spent."
            )
        began, now = book.terms.get("table"), terms.get("table")
        if None not in (began, now) and began != now:
            book.close()
            raise changed(f"{source.name}, table={now}")
        began, now = book.terms.get(READ_AS), terms.get(READ_AS)
        if None not in (began, now) and began != now:
            book.close()
            raise changed(f"{source.name}, read as {now}")
        remember(seal, guard)
    return book, guard


def check_begun(where: str, seal: Seal) -> None:
    """Raise if the ledger is a copy, or begins beside one that may be about the same rows."""
    if isinstance(seal, ServerSeal):
        if not exists(where, seal) or seal.current() is None:
            check_no_strangers(seal)
        return  # no copy: every machine uses the one ledger
    check_alone(seal)
    others = [] if exists(where) else strangers(seal)
    if others:
        raise LedgerDamaged(
            f"The folder '.sulq' knows nothing of {', '.join(map(repr, others))}, which has "
            "charges: it was lost, or the ledger was brought here alone. Whether it is about these "
            "rows cannot be told, so no ledger begins beside it.\nRestore the folder with the "
            "ledger, or run `sulq refresh` on its rows: it is logged, and what was spent stays "
            "spent."
        )


def check_no_strangers(seal: Seal) -> None:
    """Raise if a database has ledgers of which it cannot be told whether rows are theirs."""
    others = seal.strangers() if isinstance(seal, ServerSeal) else []
    if others:
        names = listed([repr(other) for other in others])
        raise Refused(
            f"the database has other ledgers, {names}, whose rows cannot be compared with these: "
            "they were begun with another secret, or this role may not read them. Nothing was "
            f"charged.\nCopy {str(seal.folder / 'secret')!r} from a machine that uses them; as "
            f"their owner run GRANT USAGE ON SCHEMA and GRANT SELECT ON {others[0]}.sources to "
            "this ledger's role; or keep this ledger in a database of its own."
        )


def remember(seal: Seal, guard: Guard) -> None:
    """Keep with the ledger what it is about; the rows as they are now come last."""
    for claim in guard.claims[:-1]:
        if not seal.remembers(claim):
            seal.remember(claim)
    seal.remember(guard.claims[-1])


def ledger_of_rows(
    source: Any, ledger: str | Path, table: str | None = None, schema: Any = None
) -> str | None:
    """Name the other ledger of this ledger's folder that is about these rows, if there is one.

    A table on a server says what it is through its engine, which wants a schema.
    """
    seal = sealed(ledger)
    claims = _claims(seal, source, table, schema)
    return next((other for c in claims if (other := seal.known(c)) is not None), None)


def is_about(ledger: str | Path, source: Any, table: str | None = None, schema: Any = None) -> bool:
    """Was this ledger ever about these rows?"""
    seal = sealed(ledger)
    return any(seal.remembers(claim) for claim in _claims(seal, source, table, schema))


def _claims(seal: Seal, source: Any, table: str | None, schema: Any) -> tuple[str, ...]:
    """All that belongs to one ledger only, keyed with this seal's secret."""
    found = settled(open_source(source, table))
    if schema is not None:
        found = star_source(found, Schema.load(schema))
    if found.url is None:
        return Guard(found, seal).claims
    running = open_engine(found, Schema.load(schema))
    try:
        return guard_of(found, running, seal).claims
    finally:
        running.close()


def check_refreshed(seal: Seal, guard: Guard) -> None:
    """Raise if rows that are new to this ledger belong to another, or if that cannot be told."""
    check_unclaimed(seal, guard)
    if not any(map(seal.remembers, guard.claims)):
        check_no_strangers(seal)


def check_unclaimed(seal: Seal, guard: Guard) -> None:
    """Raise if another ledger of the folder is about these rows."""
    for claim in guard.claims:
        other = seal.known(claim)
        if other is None:
            continue
        place = seal.folder.parent / other
        how = f" with ledger={str(place)!r}" if place.exists() else ""
        raise Refused(
            f"these rows already have a ledger in this folder, {other!r}. Nothing was charged.\n"
            f"Continue it{how}, so that what was spent stays spent."
        )


def terms_of(
    engine: Engine, promise: Mapping[str, Any], pricing: str, source: Source | None = None
) -> dict[str, Any]:
    """The promise, the declarations, and how texts are read: what the ledger begins with."""
    terms = {
        "promise": {**promise, "pricing": pricing},
        "schema": engine.schema.to_json(),
        "rows": engine.rows,
        ASSIGNMENT: Assignment.of(engine.schema).digest,
    }
    if engine.schema.period is not None:
        terms["periods"] = present(engine)
    if len(order := cell_order(engine.schema)) > 1:
        terms[ORDER] = order
    if source is not None and source.kind in LINE_FORMATS:
        terms[READ_AS] = source.kind
    table = engine.table_name  # a DuckDB file has several
    return terms if table is None else terms | {"table": table}


# ---- refreshing -----------------------------------------------------------------------------


def same_rows(
    seal: Seal, guard: Guard, found: Source, terms: Mapping[str, Any], new: Schema
) -> bool:
    """True if it is proved that each row kept its cell: the same bytes and the same assignment.

    Keys prove less: a table may number its rows anew, and a person may get another key. Nor does
    a ledger without an assignment prove anything.
    """
    whole = found.kind in ("parquet", "csv", "json", "arrow")  # one table, whatever its name
    same = whole and seal.current() == guard.fingerprint
    alike = terms.get(READ_AS) == (found.kind if found.kind in LINE_FORMATS else None)
    return same and alike and terms.get(ASSIGNMENT) == Assignment.of(new).digest


def forget_periods(seal: Seal, engine: Engine) -> None:
    """Before a refresh: what the rows of each period were is no longer what they are."""
    if engine.schema.period is not None:
        PeriodRows.of(seal).forget()


def know_periods(seal: Seal, engine: Engine) -> None:
    """From now on, the rows of each period are these."""
    if engine.schema.period is not None:
        PeriodRows.of(seal).know(engine)


def check_people(old: Schema, new: Schema) -> None:
    """Raise unless the promise stays about a row, or about the same persons throughout."""
    before, after = persons_of(old), persons_of(new)
    tables, now = before.pop("tables", None), after.pop("tables", None)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            raise _other_persons(name, before, after)
    if (tables is None) != (now is None) or any(
        (now or {}).get(t, person) != person for t, person in (tables or {}).items()
    ):
        raise SchemaError(
            "tables: whose rows are whose stays as the ledger promised. Nothing was charged.\nKeep "
            "the columns that name the person in each table; tables of events may come and go."
        )


def _other_persons(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> SchemaError:
    """The refusal of a schema in which somebody else is a person."""
    if before["column"] != after["column"]:
        return SchemaError(
            f"unit: column={after['column']!r} but the ledger promised for {before['column']!r}. "
            "Nothing was charged.\nKeep the [unit] of the schema; its max_rows may change."
        )
    if name == "max_periods":
        return SchemaError(
            f"unit: max_periods={after[name]} but the ledger counts people in {before[name]}. "
            "Nothing was charged.\nKeep it as it is."
        )
    if name == "people" and None not in (before.get(name), after.get(name)):
        return SchemaError(
            f"tables: {after[name]!r} is the table of people, but the ledger promised for those of "
            f"{before[name]!r}. Nothing was charged."
        )
    if name == "reading":
        was, now = before[name], after[name]
        changes = [
            f"{field}={now[field]!r} but the ledger has {was[field]!r}"
            for field in was if was[field] != now[field]
        ]  # fmt: skip
        return SchemaError(
            f"unit: column {before['column']!r} is read as {', '.join(changes)}: another reading "
            "makes other persons, and what was spent on them could not be carried over. Nothing "
            "was charged.\nDeclare it as it was."
        )
    return SchemaError(
        "tables: whose rows are whose stays as the ledger promised. Nothing was charged.\nKeep "
        "[tables] as they were, or one table as it was."
    )


def check_cells(terms: Mapping[str, Any], new: Schema) -> None:
    """Raise unless the public values are those by whose places spending is kept."""
    before, after = (Assignment.of(s).labels for s in (schema_of(terms), new))
    if not is_order_known(terms):  # of an older ledger: their order was never written down
        before, after = (json.dumps(sorted(json.loads(labels))) for labels in (before, after))
    if before != after:
        raise SchemaError(
            f"public columns {after} but the ledger has {before}: what each cell spent could not "
            "be carried over. Nothing was charged.\nKeep the public columns, their values and "
            "their order."
        )
