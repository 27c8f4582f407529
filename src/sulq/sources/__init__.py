"""Where rows come from: paths, frames and addresses, and what their metadata says.

draft.py             a first draft of a schema, from metadata alone
frames.py            Arrow tables whose every declared value can be read; arrays where they lie
guess.py             types of a CSV's columns, guessed from its first rows
lake_tables.py       Parquet files of a table whose log says which of them count: refused
parquet_bounds.py    what Parquet files of others may unpack to
postgres.py          PostgreSQL's addresses, connections and pinned sessions
postgres_catalog.py  a table's columns, rights and version, from the catalogs
row_count.py         how many rows a file has
source.py            Source: a path, a frame or an array, bound to a schema
spark.py             a Spark session of our own, and rows found by name
stacked_rows.py      several tables as one: people and their events
star_source.py       where the tables of a schema lie
text_files.py        JSON lines, SQLite, Excel, encodings: files whose values are texts
text_values.py       texts read as their declared type, as SQL that cannot fail
"""
