"""Superset's own layer over a database: connect, list, describe, ask. Prints JSON.

Run by the Python of Superset's environment, with an address of SQLAlchemy and a SELECT.
"""

import json
import sys

from superset.app import create_app

with create_app().app_context():
    from superset.models.core import Database
    from superset.sql.parse import Table

    database = Database(database_name="sulq")
    database.set_sqlalchemy_uri(sys.argv[1])
    spec, table = database.db_engine_spec, Table("people", "public")
    with database.get_sqla_engine() as engine:
        alive = engine.dialect.do_ping(engine.raw_connection())
        found = {"engine": spec.engine_name, "alive": alive}
    with database.get_inspector() as inspector:
        found["tables"] = sorted(spec.get_table_names(database, inspector, "public"))
        found["views"] = sorted(spec.get_view_names(database, inspector, "public"))
    found["schemas"] = sorted(database.get_all_schema_names())
    found["columns"] = [[c["column_name"], str(c["type"])] for c in database.get_columns(table)]
    found["keys"] = database.get_pk_constraint(table)
    found["comment"] = database.get_table_comment(table)
    for text in sys.argv[2:]:
        found[text] = database.get_df(text).astype(str).values.tolist()
    print(json.dumps(found))
