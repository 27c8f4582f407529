"""People and their events in several private tables: one table of people, the others of events.

All of them are read as one table, a stack: each row of each table, which one it is of, and beside
every event what the table of people says of its person. So a question about events may use columns
of people, a question about people aggregates of several tables of events, and a person is protected
with all rows of all tables together. docs/proofs/per-person.md says why that is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sulq.errors import SchemaError
from sulq.values.column import Column, Unit
from sulq.values.declarations import Place, check_names, read_column

TABLE = "sulq_table"  # the column of the stack that says which table a row is of
KEY = "sulq_key"  # that table's key
FIELDS = ("max_rows", "column", "source", "columns")
MAX_TABLES = 20
MAX_ROWS = 1000


@dataclass(frozen=True)
class StarTable:
    """One table: of people, a row for each; or of events, of which a person has several."""

    name: str
    max_rows: int | None  # of a person; None: the table of people
    person: str  # its column that names the person
    source: str  # what it is called where it lies
    columns: tuple[Column, ...]  # by its own names, the person's left out

    @property
    def most(self) -> int:
        """How many rows of a person count."""
        return 1 if self.max_rows is None else self.max_rows

    @property
    def key(self) -> str:
        """The column by which its rows are told apart."""
        return next((c.name for c in self.columns if c.key), self.person)

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values."""
        said: dict[str, Any] = {} if self.max_rows is None else {"max_rows": self.max_rows}
        said |= {"column": self.person, "source": self.source}
        return said | {"columns": {c.name: c.to_json() for c in self.columns}}


@dataclass(frozen=True)
class Star:
    """The table of people first, then those of events; and the person, as all of them say it."""

    person: Column
    tables: tuple[StarTable, ...]
    keys: str = "key"  # what the stack's keys are, as far as that is known: key, integer or text

    @property
    def people(self) -> StarTable:
        """The table with a row for each person."""
        return self.tables[0]

    def table(self, name: str) -> StarTable | None:
        """The table of this name, as SQL finds it."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)

    @cached_property
    def _stacked(self) -> dict[tuple[str, str], str]:
        """What the stack calls each column of each table."""
        every = [c.name.lower() for t in self.tables for c in t.columns]
        often = Counter([*every, self.person.name.lower(), TABLE, KEY])
        return {
            (t.name, c.name): c.name if often[c.name.lower()] == 1 else f"{t.name}.{c.name}"
            for t in self.tables for c in t.columns
        }  # fmt: skip

    @cached_property
    def _home(self) -> dict[str, StarTable]:
        tables = {t.name: t for t in self.tables}
        return {stacked: tables[name] for (name, _), stacked in self._stacked.items()}

    def stacked(self, table: StarTable, name: str) -> str:
        """What the stack calls a table's column: by its own name, where no other table has it."""
        return self.person.name if name == table.person else self._stacked[table.name, name]

    def home(self, stacked: str) -> StarTable | None:
        """Whose column it is; None: the person, or what every row of the stack has."""
        return self._home.get(stacked)

    def named(self, table: StarTable) -> dict[str, str]:
        """What the stack calls the columns of a table and of its people, by names for both.

        A column of people that the table has one like keeps the stack's own name.
        """
        found = {table.person: self.person.name}
        found |= {c.name: self.stacked(table, c.name) for c in table.columns}
        taken = {n.lower() for n in found}
        for c in self.people.columns if table is not self.people else ():
            stacked = self.stacked(self.people, c.name)
            found[stacked if c.name.lower() in taken else c.name] = stacked
        return found

    def columns(self) -> tuple[Column, ...]:
        """The columns of the stack."""
        words = tuple(t.name for t in self.tables)
        own = [
            Column(TABLE, "category", values=words, public=True, nullable=False),
            Column(KEY, self.keys, public=True, key=True), self.person,
        ]  # fmt: skip
        for table in self.tables:
            own += [
                replace(c, name=self.stacked(table, c.name), key=False) for c in table.columns
            ]  # fmt: skip
        return tuple(own)

    def unit(self, names: Sequence[str] | None = None) -> Unit:
        """Whose rows are whose, and how many of a person count in some of the tables, or in all."""
        some = [t for t in self.tables if names is None or t.name in names]
        return Unit(self.person.name, max(1, sum(t.most for t in some)))

    def with_types(self, types: Mapping[str, str]) -> Star:
        """The same with the types of keys, by the names of the stack."""

        def typed(t: StarTable) -> StarTable:
            known = tuple(
                replace(c, type=types.get(self.stacked(t, c.name), "integer"))
                if c.type == "key" else c for c in t.columns
            )  # fmt: skip
            return replace(t, columns=known)

        keys = types.get(KEY, self.keys)
        return replace(self, tables=tuple(map(typed, self.tables)), keys=keys)

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values."""
        said = {k: v for k, v in self.person.to_json().items() if k not in ("public", "key")}
        return {
            "unit": {"column": self.person.name, "keys": self.keys} | said,
            "tables": {t.name: t.to_json() for t in self.tables},
        }


def read_star(mapping: Mapping[str, Any], text: str, where: str) -> Star | None:
    """The tables that a schema declares; None: it has [columns] of one table."""
    spec, unit = mapping.get("tables"), mapping.get("unit")
    at = f"{where}: " if where else ""
    if spec is None:
        return None
    if "columns" in mapping or "period" in mapping:
        raise SchemaError(
            f"{at}tables: with several tables each has columns of its own, [tables.NAME.columns], "
            "and there is no [columns] and no [period] beside them."
        )
    if not isinstance(spec, Mapping) or not 2 <= len(spec) <= MAX_TABLES:
        raise SchemaError(
            f"{at}tables: want a table of people and one or more of events, at most {MAX_TABLES}: "
            "[tables.people] with [tables.people.columns], and [tables.visits] with max_rows = 8."
        )
    if not isinstance(unit, Mapping) or not isinstance(unit.get("column"), str):
        raise SchemaError(f'{at}unit: want column = "person_id", who all rows are of.')
    if "max_rows" in unit:
        raise SchemaError(f"{at}unit: max_rows stands in each of [tables] that has events.")
    name = str(unit["column"])
    keys = unit.get("keys", "key")
    if keys not in ("key", "integer", "text"):
        raise SchemaError(f"{at}unit: keys = {keys!r}, want 'integer' or 'text', or leave it out.")
    said = {k: v for k, v in unit.items() if k not in ("column", "keys")}
    person = read_column(name, {"type": "integer"} | said, Place(text, where, name))
    person = replace(person, public=True, key=False, max_length=None, shards=None)
    read = [_table(str(n), body, name, text, where) for n, body in spec.items()]
    folded = [t.name.lower() for t in read]
    if len(set(folded)) < len(folded):
        raise SchemaError(f"{at}tables: two names differ in case alone. Rename one.")
    people = [t for t in read if t.max_rows is None]
    if len(people) != 1:
        raise SchemaError(
            f"{at}tables: one of them is of people and has no max_rows, the others are of events "
            f"and have one each; without are {', '.join(t.name for t in people) or 'none'}."
        )
    return Star(person, (people[0], *(t for t in read if t.max_rows is not None)), keys)


def _table(name: str, spec: Any, person: str, text: str, where: str) -> StarTable:
    at = f"{where}: tables.{name}" if where else f"tables.{name}"
    columns = spec.get("columns", {}) if isinstance(spec, Mapping) else None
    known = isinstance(spec, Mapping) and not set(spec) - set(FIELDS)
    if not name.isidentifier() or not known or not isinstance(columns, Mapping):
        raise SchemaError(
            f"{at}: want a plain name, columns, max_rows where it has events, and column = the "
            "one that names the person, source = what it is called, if these have other names."
        )
    most = spec.get("max_rows")
    if most is not None and (type(most) is not int or not 1 <= most <= MAX_ROWS):
        raise SchemaError(f"{at}: max_rows = {most!r}, want a whole number from 1 to {MAX_ROWS}.")
    said, source = spec.get("column", person), spec.get("source", name)
    if not isinstance(said, str) or not isinstance(source, str):
        raise SchemaError(f"{at}: column and source are names.")
    made = tuple(
        read_column(str(n), body, Place(text, where, str(n)))
        for n, body in columns.items() if n != said
    )  # fmt: skip
    check_names(made, where, text)
    if any(c.shards is not None for c in made):
        raise SchemaError(f"{at}: shards part rows, and a person has rows in several.")
    if most is None:  # a person is the key
        made = tuple(replace(c, key=False) for c in made)
        if not made:
            raise SchemaError(f"{at}: declare at least one column of people beside the person.")
    elif not any(c.key for c in made):
        raise SchemaError(
            f"{at}: which rows of a person count is fixed by a key. Declare the column that no two "
            "of its rows share with key = true."
        )
    return StarTable(name, most, said, source, made)
