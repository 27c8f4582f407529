"""The tables of a registry, step by step, in words that SQLite and PostgreSQL both take.

A registry of an older version is brought up to date by the steps it lacks. What is written in
SQLite's way is put into PostgreSQL's by `for_server`: numbers and bytes have other names there, and
a table in which rows are listed in the order they came gets a `rowid` of its own.
"""

from __future__ import annotations

import re

TABLES = """
CREATE TABLE people (
  id INTEGER PRIMARY KEY,
  house INTEGER NOT NULL,            -- the tenant: its owner's id
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('owner', 'analyst')),
  created TEXT NOT NULL,
  removed TEXT
);
CREATE UNIQUE INDEX owner_names ON people (name) WHERE role = 'owner';
CREATE UNIQUE INDEX analyst_names ON people (house, name) WHERE role = 'analyst';
CREATE TABLE keys (
  id TEXT PRIMARY KEY,               -- the public half
  hash BLOB NOT NULL,                -- SHA-256 of the secret half
  person INTEGER NOT NULL REFERENCES people (id),
  label TEXT NOT NULL,
  datasets TEXT,                     -- a JSON list of names; NULL: all that the person may see
  created TEXT NOT NULL,
  expires TEXT NOT NULL,
  revoked TEXT
);
CREATE TABLE datasets (
  id INTEGER PRIMARY KEY,
  house INTEGER NOT NULL REFERENCES people (id),
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  arguments TEXT NOT NULL,           -- of sulq.open, as JSON
  pace TEXT,                         -- what was measured for deadlines, as JSON
  state TEXT NOT NULL CHECK (state IN ('open', 'frozen', 'closed')),
  created TEXT NOT NULL
);
CREATE UNIQUE INDEX dataset_names ON datasets (house, name) WHERE state <> 'closed';
CREATE TABLE members (
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  PRIMARY KEY (dataset, person)
) WITHOUT ROWID;
CREATE TABLE late (                  -- replies that left as noise, by request id
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  analyst TEXT NOT NULL,
  request TEXT NOT NULL,
  asked TEXT NOT NULL,               -- a hash of the question
  body BLOB NOT NULL,
  PRIMARY KEY (dataset, analyst, request)
) WITHOUT ROWID;
CREATE TABLE alarms (
  id INTEGER PRIMARY KEY,
  house INTEGER NOT NULL REFERENCES people (id),
  dataset INTEGER REFERENCES datasets (id),
  kind TEXT NOT NULL,
  message TEXT NOT NULL,
  time TEXT NOT NULL,
  seen TEXT
);
"""

SINCE_2 = """
CREATE TABLE sessions (              -- of the console
  id BLOB PRIMARY KEY,               -- SHA-256 of what the cookie holds
  key TEXT NOT NULL REFERENCES keys (id),
  begun TEXT NOT NULL,
  seen TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE entrances (             -- one-time sign-in links of the console
  id BLOB PRIMARY KEY,               -- SHA-256 of what the link holds
  key TEXT NOT NULL REFERENCES keys (id),
  expires TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE asked (                 -- questions of the console, with the answers that were paid
  id TEXT PRIMARY KEY,               -- their request id
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  created TEXT NOT NULL,
  question TEXT NOT NULL,            -- as JSON
  answer TEXT NOT NULL               -- noisy numbers, as JSON
);
CREATE TABLE models (                -- learned through the console, from noisy answers alone
  id TEXT PRIMARY KEY,
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  asked TEXT NOT NULL,               -- kind, columns and parameters, as JSON
  created TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'ready', 'failed')),
  seen TEXT NOT NULL,                -- when whoever learns it last said so
  progress TEXT NOT NULL,            -- as JSON
  body TEXT                          -- the model as JSON, or why there is none
);
"""

# The newest entry that was seen of each ledger, as JSON: its number and hash.
SINCE_3 = "ALTER TABLE datasets ADD COLUMN seen TEXT"

# The latest time that was seen, in seconds since 1970, so that a clock set back revives no key.
SINCE_4 = """
CREATE TABLE clock (
  latest INTEGER NOT NULL
);
INSERT INTO clock (latest) VALUES (0)
"""

SINCE_5 = """
CREATE TABLE boards (                -- answers under names, in an order
  id TEXT PRIMARY KEY,
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  name TEXT NOT NULL,
  created TEXT NOT NULL
);
CREATE TABLE board_items (
  board TEXT NOT NULL REFERENCES boards (id),
  place INTEGER NOT NULL,
  answer TEXT NOT NULL,              -- its id in asked
  title TEXT NOT NULL,
  chart TEXT NOT NULL,
  PRIMARY KEY (board, answer)
);
CREATE TABLE shares (                -- what everybody of the dataset may look at
  kind TEXT NOT NULL CHECK (kind IN ('answer', 'model', 'board')),
  item TEXT NOT NULL,
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  person INTEGER NOT NULL REFERENCES people (id),
  created TEXT NOT NULL,
  PRIMARY KEY (kind, item)
);
"""

SINCE_6 = """
CREATE TABLE events (                -- freezes and invitations, for timelines and reports
  id INTEGER PRIMARY KEY,
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  time TEXT NOT NULL,
  kind TEXT NOT NULL,
  person TEXT,                       -- whom it is about
  decided TEXT NOT NULL              -- by whom; '': at the server
);
CREATE INDEX events_of ON events (dataset);
"""

# What a key may spend in all, and what it spent since that was said, in micro-queries.
SINCE_7 = """
ALTER TABLE keys ADD COLUMN spend_cap BIGINT;
ALTER TABLE keys ADD COLUMN spent BIGINT NOT NULL DEFAULT 0
"""

# By which a key is proved to the door for PostgreSQL's clients; keys made before have none.
SINCE_8 = "ALTER TABLE keys ADD COLUMN scram TEXT"

SINCE_9 = """
CREATE TABLE audit_log (             -- who was let in, who decided what: chained, for each owner
  house INTEGER NOT NULL REFERENCES people (id),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,                -- as JSON
  previous TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (house, number)
) WITHOUT ROWID;
CREATE TABLE identities (            -- accounts of an institution, and who they are here
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  person INTEGER NOT NULL REFERENCES people (id),
  created TEXT NOT NULL,
  PRIMARY KEY (issuer, subject)
) WITHOUT ROWID;
CREATE TABLE oidc_begun (            -- sign-ins on their way to the institution and back
  id BLOB PRIMARY KEY,               -- SHA-256 of the state
  browser BLOB NOT NULL,             -- SHA-256 of what the browser's cookie holds
  nonce TEXT NOT NULL,
  verifier TEXT NOT NULL,
  onward TEXT NOT NULL,
  expires TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE oidc_used (             -- tokens that were exchanged: none is worth a second key
  id BLOB PRIMARY KEY,
  expires TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE webhooks (              -- where an owner hears what happens
  house INTEGER PRIMARY KEY REFERENCES people (id),
  url TEXT NOT NULL,
  salt TEXT NOT NULL,                -- of the secret that signs; the secret itself is kept nowhere
  created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE outbox (                -- messages that are to be sent
  id TEXT PRIMARY KEY,
  house INTEGER NOT NULL REFERENCES people (id),
  body TEXT NOT NULL,
  tries INTEGER NOT NULL,
  due TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE told (                  -- what was said once and is not said again
  house INTEGER NOT NULL REFERENCES people (id),
  what TEXT NOT NULL,
  PRIMARY KEY (house, what)
) WITHOUT ROWID;
"""

# How often the machine's clock was accepted: a server that runs then goes on from it.
SINCE_10 = "ALTER TABLE clock ADD COLUMN accepted BIGINT NOT NULL DEFAULT 0"

# Kept when the key is forgotten: the audit log names keys for good.
SINCE_11 = """
CREATE TABLE key_accounts (          -- keys that an institution's accounts signed in for
  key TEXT PRIMARY KEY,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  name TEXT NOT NULL                 -- as the institution wrote it then
) WITHOUT ROWID;
CREATE TABLE key_questions (         -- what was asked with a key that a program holds
  key TEXT NOT NULL,
  dataset INTEGER NOT NULL REFERENCES datasets (id),
  question TEXT NOT NULL,            -- SHA-256 of its canonical text
  PRIMARY KEY (key, dataset, question)
) WITHOUT ROWID
"""

# What each key and invitation rests on (grounds.py). Sign-ins of before are not known by account.
SINCE_12 = """
CREATE TABLE accounts (              -- of an institution, with the roles of their newest token
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  name TEXT NOT NULL,
  roles TEXT NOT NULL,               -- a JSON list
  seen TEXT NOT NULL,
  PRIMARY KEY (issuer, subject)
) WITHOUT ROWID;
ALTER TABLE keys ADD COLUMN ground TEXT NOT NULL DEFAULT 'terminal';
ALTER TABLE keys ADD COLUMN parent TEXT;
ALTER TABLE keys ADD COLUMN successor TEXT;
ALTER TABLE keys ADD COLUMN ended TEXT;
ALTER TABLE keys ADD COLUMN why TEXT;
CREATE INDEX keys_made_with ON keys (parent);
ALTER TABLE members ADD COLUMN ground TEXT NOT NULL DEFAULT 'owner';
UPDATE keys SET revoked = created WHERE label = 'signed in by the institution' AND revoked IS NULL;
UPDATE members SET ground = 'role' WHERE EXISTS (
  SELECT 1 FROM events e JOIN people p ON p.name = e.person WHERE e.dataset = members.dataset
  AND p.id = members.person AND e.kind = 'invite' AND e.decided = 'the institution''s roles'
)
"""

# A sign-in on its way is in a signed cookie of its browser (institution.py), not here.
SINCE_13 = "DROP TABLE oidc_begun"

STEPS = (
    TABLES, SINCE_2, SINCE_3, SINCE_4, SINCE_5, SINCE_6, SINCE_7, SINCE_8, SINCE_9, SINCE_10,
    SINCE_11, SINCE_12, SINCE_13,
)  # fmt: skip
VERSION = len(STEPS)

COMMENT = re.compile(r" *--[^\n]*")
ROWS = re.compile(r"CREATE TABLE (\w+) \(\n(.*?)\n\)( WITHOUT ROWID)?", re.DOTALL)
NUMBERED = "INTEGER PRIMARY KEY"
OTHERS = {
    NUMBERED: "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", "INTEGER": "BIGINT",
    "BLOB": "BYTEA", "TEXT": 'TEXT COLLATE "C"',
}  # fmt: skip


def statements(step: str) -> list[str]:
    """The statements of a step, one by one."""
    plain = COMMENT.sub("", step)
    return [found for found in (part.strip() for part in plain.split(";\n")) if found]


def for_server(step: str) -> list[str]:
    """The same for PostgreSQL."""
    return [ROWS.sub(_table, statement) for statement in statements(step)]


def _table(found: re.Match[str]) -> str:
    name, columns, bare = found.groups()
    own = "" if bare or NUMBERED in columns else ",\n  rowid BIGINT GENERATED ALWAYS AS IDENTITY"
    for ours, theirs in OTHERS.items():
        columns = columns.replace(ours, theirs)
    return f"CREATE TABLE {name} (\n{columns}{own}\n)"
