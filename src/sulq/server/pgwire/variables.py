"""What `set` and `show` know: PostgreSQL's settings as clients expect them, and those of sulq.

sulq.spend       queries that this connection may spend from now on
sulq.spent       queries that it spent
sulq.intervals   on: columns _low and _high beside each number
"""

from __future__ import annotations

import re

from sulq.errors import MICRO, Refused, in_queries
from sulq.server.pgwire.problems import Problem
from sulq.values.price import micro_of

VERSION = "15.0"
NUMBER = "150000"
SPEND, SPENT, INTERVALS = "sulq.spend", "sulq.spent", "sulq.intervals"
DEFAULTS = {
    "server_version": VERSION, "server_version_num": NUMBER, "server_encoding": "UTF8",
    "client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
    "IntervalStyle": "postgres", "integer_datetimes": "on", "standard_conforming_strings": "on",
    "is_superuser": "off", "session_authorization": "", "application_name": "",
    "in_hot_standby": "off", "default_transaction_read_only": "off", "role": "none",
    "search_path": '"$user", public', "extra_float_digits": "1", "bytea_output": "hex",
    "client_min_messages": "notice", "statement_timeout": "0", "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0",
    "transaction_isolation": "read committed", "default_transaction_isolation": "read committed",
    "transaction_read_only": "on", "transaction_deferrable": "off",
    "default_transaction_deferrable": "off", "row_security": "on", "max_identifier_length": "63",
    "lc_collate": "C.UTF-8", "lc_ctype": "C.UTF-8", "lc_messages": "C.UTF-8",
    "lc_monetary": "C.UTF-8", "lc_numeric": "C.UTF-8", "lc_time": "C.UTF-8", "jit": "off",
    "geqo": "on", "work_mem": "4MB", "max_index_keys": "32", "block_size": "8192",
    "escape_string_warning": "on", "synchronous_commit": "on", "xmloption": "content",
    "check_function_bodies": "on", "default_tablespace": "", "default_table_access_method": "heap",
    "array_nulls": "on", "max_connections": "100", "enable_seqscan": "on", "cursor_tuple_fraction":
    "0.1", "ssl_renegotiation_limit": "0", "quote_all_identifiers": "off", "temp_buffers": "8MB",
    "default_with_oids": "off", "backslash_quote": "safe_encoding", "log_statement": "none",
    "password_encryption": "scram-sha-256", "max_parallel_workers_per_gather": "0",
    "force_parallel_mode": "off", "constraint_exclusion": "partition", "seed": "unavailable",
    SPEND: "", SPENT: "0", INTERVALS: "off",
}  # fmt: skip
FIXED = ("server_version", "server_version_num", "server_encoding", "integer_datetimes",
         "is_superuser", "session_authorization", "in_hot_standby", "max_identifier_length",
         "max_index_keys", "block_size", "max_connections", SPENT)  # fmt: skip
TOLD = ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone",
        "IntervalStyle", "integer_datetimes", "standard_conforming_strings", "is_superuser",
        "session_authorization", "application_name", "in_hot_standby",
        "default_transaction_read_only")  # fmt: skip
FOLDED = {name.lower(): name for name in DEFAULTS}
UTF8 = ("utf8", "utf-8", "unicode", "utf_8", "default")
ON = ("on", "true", "yes", "1", "t", "y")
OFF = ("off", "false", "no", "0", "f", "n", "default", "")
MAX_VALUE = 1000  # letters
EXTENSION = re.compile(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*", re.IGNORECASE)
MILLISECONDS = re.compile(r"(\d{1,9})\s*(ms|s|min|h)?")
UNITS = {None: 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


class Variables:
    """The settings of one connection, and what it may spend."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._begun: dict[str, str] = {}  # as the connection was opened
        self._now: dict[str, str] = {}
        self.spent = 0  # micro-queries
        self._most: int | None = None  # of `spent`; None: nothing may be spent

    @property
    def left(self) -> int | None:
        """The micro-queries that may still be spent; None: none was allowed."""
        return None if self._most is None else max(self._most - self.spent, 0)

    @property
    def intervals(self) -> bool:
        """Are columns _low and _high wanted?"""
        return self._now.get(INTERVALS) == "on"

    @property
    def timeout_seconds(self) -> float | None:
        """After which a statement is given up; None: never."""
        found = MILLISECONDS.fullmatch(self.get("statement_timeout") or "0")
        seconds = 0.0 if found is None else int(found[1]) * UNITS[found[2]] / 1000
        return seconds or None

    @property
    def quiet(self) -> bool:
        """Are notices unwanted?"""
        return (self.get("client_min_messages") or "").lower() in ("warning", "error")

    def begin(self, name: str, value: str) -> None:
        """A setting that the connection was opened with."""
        self._begun[self.set(name, value)] = value

    def get(self, name: str) -> str | None:
        """What a setting is now; None: there is none of that name."""
        known = FOLDED.get(name.lower())
        if known == SPENT:
            return _queries(self.spent)
        if known == SPEND:
            return "" if self.left is None else _queries(self.left)
        if known == "session_authorization":
            return self._user
        if known is None:
            return self._now.get(name.lower())
        return self._now.get(known, DEFAULTS[known])

    def all(self) -> list[tuple[str, str]]:
        """Every setting, by name."""
        return [(name, self.get(name) or "") for name in sorted(DEFAULTS, key=str.lower)]

    def set(self, name: str, value: str) -> str:
        """Change a setting; gives its name as PostgreSQL spells it."""
        known = FOLDED.get(name.lower())
        if known is None and EXTENSION.fullmatch(name) and not name.lower().startswith("sulq."):
            known = name.lower()  # of somebody's own, as PostgreSQL lets them have
        if known is None:
            raise Problem("42704", f'unrecognized configuration parameter "{name[:60]}"')
        if known in FIXED:
            raise Problem("55P02", f'parameter "{known}" cannot be changed')
        if len(value) > MAX_VALUE or len(self._now) > 200:
            raise Problem("22023", f'the value of "{known}" is too long')
        if known == SPEND:
            self._allow(value)
        else:
            self._now[known] = self._checked(known, value)
        return known

    def _checked(self, name: str, value: str) -> str:
        small = value.strip(" '\"").lower()
        if name == INTERVALS:
            if small not in ON + OFF:
                raise Problem("22023", f"{INTERVALS}: want on or off")
            return "on" if small in ON else "off"
        if name == "client_encoding":
            if small not in UTF8:
                raise Problem("22023", "client_encoding: only UTF8 is spoken here")
            return "UTF8"
        if name == "DateStyle":
            if not small.startswith(("iso", "default")):
                raise Problem("22023", "DateStyle: only ISO is spoken here")
            return DEFAULTS[name]
        if name == "standard_conforming_strings" and small not in (*ON, "default"):
            raise Problem("22023", "standard_conforming_strings: only on is spoken here")
        return DEFAULTS.get(name, "") if small == "default" else value

    def _allow(self, value: str) -> None:
        if value.strip().lower() in ("default", "", "none"):
            self._most = None
            return
        try:
            self._most = self.spent + micro_of(value)
        except Refused as error:
            raise Problem("22023", f"{SPEND}: {error}", "for example: set sulq.spend = 5") from None
        if self._most < self.spent:
            raise Problem("22023", f"{SPEND}: want 0 or more queries")

    def reset(self, name: str | None) -> list[str]:
        """Back to what it was when the connection was opened; gives what changed.

        What was spent since then stays spent: whoever reuses a connection gets no new allowance.
        """
        names = [*self._now, SPEND] if name is None else [FOLDED.get(name.lower(), name.lower())]
        for known in names:
            self._now.pop(known, None)
            if known == SPEND:
                begun = self._begun.get(SPEND)
                self._most = None if begun is None else micro_of(begun)
            elif known in self._begun:
                self.set(known, self._begun[known])
        return names


def _queries(micro: int) -> str:
    return in_queries(micro).split()[0].replace(",", "") if micro % MICRO or micro else "0"
