"""Release 2's rules of which rows kept their cells, and persons their names. For controls only."""

from sulq.errors import SchemaError
from sulq.ledger import claims
from sulq.ledger.open_periods import schema_of


def same_rows(seal, guard, found, terms, new):
    """The same bytes, and the same of what it looked at."""
    old = schema_of(terms)
    return seal.current() == guard.fingerprint and (old.cell_columns, old.file) == (
        new.cell_columns, new.file
    )  # fmt: skip


def check_people(old, new):
    """Names alone: how a column is read decided nothing."""

    def named(schema):
        tables = schema.star and {t.name: t.person for t in schema.star.tables}
        return schema.unit and (schema.unit.column, schema.unit.max_periods), tables

    if named(old) != named(new):
        raise SchemaError("other people")


def with_the_old_rule(monkeypatch):
    """Put release 2's comparison back."""
    monkeypatch.setattr(claims, "same_rows", same_rows)
    monkeypatch.setattr(claims, "check_people", check_people)
