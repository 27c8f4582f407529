"""`sulq postgres grant`: the SQL that an administrator runs, printed and never run by us.

Nothing is connected to. A role made this way can read one table and nothing else, or keep one
ledger and nothing else.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sulq.cli.common import Said
from sulq.errors import Refused
from sulq.sources.postgres import DEFAULT_LEDGER

Table = Annotated[
    str | None, typer.Option("--table", help="The table, as schema.name; without a dot, public.")
]
Role = Annotated[str | None, typer.Option("--role", help="The role to make.")]
SchemaFile = Annotated[
    str | None, typer.Option("--schema", help="Only the columns that this schema file declares.")
]
LedgerName = Annotated[
    str | None, typer.Option("--ledger", help="For a ledger instead: the schema that holds it.")
]


def postgres_grant(
    table: Table = None, role: Role = None, schema: SchemaFile = None, ledger: LedgerName = None
) -> Said:
    """Print the SQL that an administrator runs, once, in the database itself.

    For a source: a role that may read one table. For a ledger: a role that owns one schema.

    Example: sulq postgres grant --table clinic.people --schema people.toml
    """
    from sulq import Schema

    if ledger is not None and table is None:
        text = ledger_rights(role or "sulq_ledger", ledger or DEFAULT_LEDGER)
    elif table is not None and ledger is None:
        columns = Schema.load(schema).names if schema else []
        text = table_rights(role or "sulq_reader", table, columns)
    else:
        raise Refused("say --table NAME for a source, or --ledger NAME for a ledger.")
    return Said({"sql": text}, text)


def table_rights(role: str, table: str, columns: list[str]) -> str:
    """A role that may read one table, or some columns of it."""
    who = _quote(role)
    namespace, _, relation = table.rpartition(".")
    listed = f" ({', '.join(map(_quote, columns))})" if columns else ""
    place = f"{_quote(namespace or 'public')}.{_quote(relation)}"
    return f"""\
-- Run this as an administrator, in the database that holds the rows.
CREATE ROLE {who} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
-- Give it a password: \\password {who}
{_settings(who, default_transaction_read_only="on", search_path="pg_catalog")}
{_connect(role)}
GRANT USAGE ON SCHEMA {_quote(namespace or "public")} TO {who};
GRANT SELECT{listed} ON TABLE {place} TO {who};{_numbers(place, who) if columns else ""}
-- If the table has row security, give the role BYPASSRLS, or a view without it: rows hidden
-- from one role and not from another are not one table."""


def ledger_rights(role: str, ledger: str) -> str:
    """A role that owns the schema of one ledger."""
    who = _quote(role)
    return f"""\
-- Run this as an administrator, in the database that will hold the ledger.
CREATE ROLE {who} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
-- Give it a password: \\password {who}
{_settings(who, synchronous_commit="on")}
{_connect(role)}
CREATE SCHEMA {_quote(ledger)} AUTHORIZATION {who};
REVOKE ALL ON SCHEMA {_quote(ledger)} FROM PUBLIC;"""


def _numbers(place: str, who: str) -> str:
    """The right to see which transaction wrote a row, in a table; a view has no such column."""
    name = "'" + place.replace("'", "''") + "'"
    return f"""
-- Which transaction wrote a row: after writes elsewhere rows are counted by it, and not all hashed.
DO $$BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attname = 'xmin'
  AND attrelid = pg_catalog.to_regclass({name})) THEN
  GRANT SELECT (xmin) ON TABLE {place} TO {who};
END IF; END$$;"""


def _settings(who: str, **settings: str) -> str:
    return "\n".join(f"ALTER ROLE {who} SET {name} = {text};" for name, text in settings.items())


def _connect(role: str) -> str:
    """GRANT CONNECT needs a name; the database that this is run in knows its own."""
    text = "'" + role.replace("'", "''") + "'"
    return (
        "DO $$BEGIN EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO %I', "
        f"pg_catalog.current_database(), {text}); END$$;"
    )


def _quote(name: str) -> str:
    if not name.isprintable() or not name or "$$" in name:
        raise Refused(f"{name!r} is not a name that can be written here.")
    return '"' + name.replace('"', '""') + '"'
