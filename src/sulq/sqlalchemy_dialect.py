"""A SQLAlchemy dialect over the DB-API: pandas, Superset, JupySQL and whatever else speaks it.

    sulq://analyst:KEY@host:8707/people?spend=5     a dataset of a server
    sulq:///sulq.toml?spend=5                       what a settings file opens

Table and column names and types come from the schema: looking is free. An engine pays for nothing
but what fits into `spend`, in queries, over all its connections; without it new statements are
refused with their price. What was asked before is free either way.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, types
from sqlalchemy.engine import default, reflection

from sulq import dbapi
from sulq.client import connect as connect_to_server
from sulq.client.wire import LOCAL
from sulq.database import Database
from sulq.dbapi.pep249 import translated
from sulq.open_database import open as open_database
from sulq.settings_file import Settings
from sulq.spending_limit import SpendingLimit

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy import URL
    from sqlalchemy.engine.interfaces import ConnectArgsType

    from sulq.values.column import Column

SCHEMA = "main"  # the only one; a statement may leave it out
OPTIONS = ("spend", "free", "intervals", "insecure", "certificate")
HOW = (
    "EXPLAIN SELECT ... shows the price, free. To allow it put a limit behind the address: "
    "sulq://...?spend=5 (queries)."
)
TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "integer": types.Integer, "number": types.Float, "boolean": types.Boolean,
    "date": types.Date, "text": types.String, "category": types.String,
}  # fmt: skip


class SulqDialect(default.DefaultDialect):
    """SELECT of aggregates over one private table, each paid within a limit."""

    name = "sulq"
    driver = "sulq"
    default_paramstyle = "qmark"
    default_schema_name = SCHEMA
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = False
    supports_alter = False
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_default_values = False
    supports_empty_insert = False
    postfetch_lastrowid = False

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self._shared = _Shared()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """DB-API 2.0, as sulq has it."""
        return dbapi

    # ---- connections ------------------------------------------------------------------------

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """What `connect` is called with."""
        unknown = [name for name in url.query if name not in OPTIONS]
        if unknown:
            known = ", ".join(OPTIONS)
            raise exc.ArgumentError(f"{unknown[0]}=: not an option of sulq://. There are {known}.")
        # The password is hidden wherever SQLAlchemy shows an address; a name alone is the key too.
        key = str(url.password) if url.password else url.username
        place = {"host": url.host, "port": url.port, "key": key, "name": url.database}
        return (), place | {name: str(value) for name, value in url.query.items()}

    def connect(self, *_: Any, **said: Any) -> Any:
        """One more connection to the database of this engine."""
        spend, free = said.pop("spend", None), _switch(said.pop("free", "off"))
        intervals = _switch(said.pop("intervals", "on"))
        with translated():
            return self._shared.connect(said, spend, free=free, intervals=intervals)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Is it open? Nothing is asked for it."""
        return dbapi_connection.db is not None

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:
        """Each answer stands by itself."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """The only one there is."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """It is that already."""

    # ---- what there is: free, from the schema -----------------------------------------------

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """One, for those who want one."""
        return [SCHEMA]

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The private table."""
        return [_db(connection).name] if schema in (None, SCHEMA) else []

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Is it the private table?"""
        names = self.get_table_names(connection, schema)
        return table_name.lower() in [name.lower() for name in names]

    @reflection.cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """The declared columns: their types, and in words what is declared of them."""
        columns = self._table(connection, table_name, schema).schema.columns
        return [_reflected(column) for column in columns]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """The key, if one is declared."""
        columns = self._table(connection, table_name, schema).schema.columns
        return {"constrained_columns": [c.name for c in columns if c.key], "name": None}

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """How many rows it has, which is public, and that rows themselves are not shown."""
        rows = self._table(connection, table_name, schema).rows
        return {"text": f"{rows:,} private rows: ask for counts, sums, means and other aggregates."}

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """None: there is one table."""
        self._table(connection, table_name, schema)
        return []

    get_indexes = get_unique_constraints = get_check_constraints = get_foreign_keys

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """None."""
        return []

    get_temp_table_names = get_temp_view_names = get_materialized_view_names = get_view_names
    get_sequence_names = get_view_names

    def _get_server_version_info(self, connection: Any) -> Any:
        return None

    def _get_default_schema_name(self, connection: Any) -> str:
        return SCHEMA

    def _table(self, connection: Any, name: str, schema: str | None) -> Database:
        if not self.has_table(connection, name, schema):
            raise exc.NoSuchTableError(name)
        return _db(connection)


class _Shared:
    """One database and one limit for all connections of an engine; closed with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._db: Database | None = None
        self._users = 0
        self._limit: SpendingLimit | None = None

    def connect(self, place: dict[str, Any], spend: Any, **said: Any) -> dbapi.Connection:
        with self._lock:
            if self._limit is None:
                self._limit = SpendingLimit(spend, HOW)
            if self._db is None:
                self._db = _opened(**place)
            self._users += 1
            return _Connection(self, self._db, owned=False, limit=self._limit, **said)

    def let_go(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._db is not None:
                self._db.close()
                self._db = None


class _Connection(dbapi.Connection):
    """A connection that has a part in its engine's database."""

    def __init__(self, shared: _Shared, db: Database, **said: Any) -> None:
        super().__init__(db, **said)
        self._shared = shared

    def close(self) -> None:
        """Let go of the database; twice is once."""
        was_open = self._db is not None
        super().close()
        if was_open:
            self._shared.let_go()


def _opened(
    host: str | None, port: int | None, key: str | None, name: str | None,
    insecure: str = "off", certificate: str | None = None,
) -> Database:  # fmt: skip
    """The dataset of a server, or what a settings file opens."""
    if host is None:
        if name is None or not name.endswith(".toml"):
            raise exc.ArgumentError(
                "sulq:///PATH: want the path of a sulq.toml, or sulq://analyst:KEY@host/dataset."
            )
        return open_database(**Settings.load(name).arguments)
    plain = host in LOCAL or _switch(insecure)
    at = f"[{host}]" if ":" in host else host
    url = f"{'http' if plain else 'https'}://{at}" + (f":{port}" if port else "")
    return connect_to_server(
        url, key or None, name or None, certificate=certificate, insecure=_switch(insecure)
    )


def _switch(said: str) -> bool:
    if said.lower() not in ("on", "off", "true", "false", "1", "0"):
        raise exc.ArgumentError(f"{said!r}: want on or off.")
    return said.lower() in ("on", "true", "1")


def _db(connection: Any) -> Database:
    found: Database = connection.connection.dbapi_connection.db
    return found


def _reflected(column: Column) -> dict[str, Any]:
    said = ["public"] if column.public or column.key else []
    if column.bounded:
        said.append(f"{column.low} to {column.high}")
    kind = TYPES[column.type]
    if column.type == "category" and column.values:
        said.append("one of " + ", ".join(map(str, column.values[:20])))
        kind = _type_of(column.values)
    return {
        "name": column.name, "type": kind(), "nullable": column.nullable, "default": None,
        "autoincrement": False, "comment": "; ".join(said) or None,
    }  # fmt: skip


def _type_of(values: Sequence[Any]) -> type[types.TypeEngine[Any]]:
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return types.Integer
    return types.Float if all(isinstance(v, float) for v in values) else types.String
