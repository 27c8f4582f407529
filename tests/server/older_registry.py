"""A registry as an older version left it: the steps since then undone, read off the steps."""

import re

from sulq.server.services.registry_tables import STEPS, statements

INDEX = re.compile(r"CREATE (UNIQUE )?INDEX (\w+)")
TABLE = re.compile(r"CREATE TABLE (\w+)")
DROPPED = re.compile(r"DROP TABLE (\w+)")
COLUMN = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")


def step_down(run, version):
    """Undo what came after this version; `run` executes one statement in SQLite."""
    for step in reversed(STEPS[version:]):
        for said in reversed(statements(step)):
            if made := TABLE.match(said):
                run(f"DROP TABLE {made[1]}")
            elif added := COLUMN.match(said):
                run(f"ALTER TABLE {added[1]} DROP COLUMN {added[2]}")
            elif dropped := DROPPED.match(said):
                run(next(s for step in STEPS for s in statements(step)
                         if s.startswith(f"CREATE TABLE {dropped[1]} (")))  # fmt: skip
            elif index := INDEX.match(said):
                run(f"DROP INDEX IF EXISTS {index[2]}")
            else:
                assert re.match("INSERT|UPDATE", said), said  # goes with its table
    run(f"PRAGMA user_version = {version}")
