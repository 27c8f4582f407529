"""Several tables as one: the SELECT that stacks people and their events.

An event stands beside its person's row. Events of nobody who is in the table of people are left
out: who is there is public, and it is those people. Two rows of people with one name would double
events; they make keys repeat, which is refused when the stack is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sulq.errors import SchemaError
from sulq.expressions.quoting import quote, text
from sulq.sources.frames import readable
from sulq.values.star import KEY, TABLE, Star, StarTable

# Whole numbers that always fit 64 bits, in DuckDB's words; other keys are read as texts.
FITTING = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
WORDS = ("VARCHAR", "ENUM")


@dataclass(frozen=True)
class Part:
    """A table where it lies: how it is named behind FROM, and its columns' types and SQL."""

    name: str
    types: Mapping[str, str]  # in the words that declarations are compared with
    read: Callable[[str], str] | None = None  # a column's SQL, where it is not its name


def check_parts(star: Star, parts: Mapping[str, Part]) -> None:
    """Refuse what is declared but not there, and people who are named in two ways."""
    for table in star.tables:
        there = parts[table.name].types
        for name in (table.person, *(c.name for c in table.columns)):
            if name not in there:
                raise SchemaError(
                    f"tables.{table.name}: column {name!r} is declared but not in the source. It "
                    f"has: {', '.join(list(there)[:20])}."
                )
    kinds = {_plain(parts[t.name], t.person) in WORDS for t in star.tables}
    if len(kinds) > 1:
        names = ", ".join(f"{t.name}.{t.person}" for t in star.tables)
        raise SchemaError(
            f"tables: {names} name people, some as numbers and some as text. Give them one type "
            "in the source."
        )


def stack_types(star: Star, parts: Mapping[str, Part]) -> dict[str, str]:
    """The stored type of each column of the stack."""
    found = {TABLE: "VARCHAR", KEY: "BIGINT" if _is_whole(star, parts) else "VARCHAR"}
    found[star.person.name] = parts[star.people.name].types[star.people.person]
    for table in star.tables:
        types = parts[table.name].types
        found |= {star.stacked(table, c.name): types[c.name] for c in table.columns}
    return found


def stack_sql(
    star: Star, parts: Mapping[str, Part], texts: str = "VARCHAR",
    nothing: Callable[[StarTable, str], str] = lambda table, name: "NULL",
    named: Callable[[str], str] = quote,
) -> str:  # fmt: skip
    """A SELECT of the stack. `nothing` is a missing value of a column of another table."""
    check_parts(star, parts)
    keys = "BIGINT" if _is_whole(star, parts) else texts
    people = star.people
    branches = []
    for table in star.tables:
        letter = "p" if table is people else "e"
        chosen = [
            f"CAST({text(table.name)} AS {texts}) AS {named(TABLE)}",
            f"CAST({letter}.{named(table.key)} AS {keys}) AS {named(KEY)}",
            f"p.{named(people.person)} AS {named(star.person.name)}",
        ]
        for t in star.tables:
            held = {people.name: "p", table.name: letter}.get(t.name)
            chosen += [
                f"{f'{held}.{named(c.name)}' if held else nothing(t, c.name)} "
                f"AS {named(star.stacked(t, c.name))}"
                for c in t.columns
            ]
        rows = _rows(people, parts, "p", named)
        if table is not people:
            same = f"e.{named(table.person)} = p.{named(people.person)}"
            rows = f"{_rows(table, parts, 'e', named)} JOIN {rows} ON {same}"
        branches.append(f"SELECT {', '.join(chosen)} FROM {rows}")
    return " UNION ALL ".join(branches)


def _rows(
    table: StarTable, parts: Mapping[str, Part], letter: str, named: Callable[[str], str]
) -> str:
    part = parts[table.name]
    read = part.read or named
    columns = [f"{read(n)} AS {named(n)}" for n in (table.person, *(c.name for c in table.columns))]
    return f"(SELECT {', '.join(columns)} FROM {part.name}) AS {letter}"


def _plain(part: Part, name: str) -> str:
    return part.types[name].split("(")[0]


def _is_whole(star: Star, parts: Mapping[str, Part]) -> bool:
    """Are the keys of all tables whole numbers?"""
    return all(_plain(parts[t.name], t.key) in FITTING for t in star.tables)


def stacked_frames(frames: Mapping[Any, Any], star: Star) -> Any:
    """Arrow tables by their names, as one."""
    import duckdb

    with duckdb.connect() as connection:
        parts = {}
        for i, table in enumerate(star.tables):
            names = [table.person, *(c.name for c in table.columns)]
            connection.register(f"t{i}", readable(frames[table.source], names))
            described = connection.execute(f"DESCRIBE SELECT * FROM t{i}").fetchall()
            parts[table.name] = Part(f"t{i}", {row[0]: str(row[1]) for row in described})
        return connection.sql(stack_sql(star, parts)).to_arrow_table()
