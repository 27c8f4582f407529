"""Exact sums. A checked query in, Python integers out, equal on every engine.

array_engine.py       an array in memory, read where it lies
base.py               Engine: what every engine is
bounded.py            scans that end by a moment known beforehand (PODS 05, 3.1.5); what stops them
cubes.py              the distinct combinations of few-valued columns, and their counts
duckdb.py             the embedded default: files of many kinds, or an Arrow table
duckdb_connection.py  connections that reach one source and nothing else
duckdb_files.py       which function of DuckDB's reads a file, or the files of a folder
duckdb_people.py      which rows of a person count, and several tables as one
enlarged.py           few rows that stand for many, in rehearsals
failures.py           ways a scan fails, told without a word of what the engine said
function_sql.py       how each function is written in SQL
open_engine.py        which engine reads a source
first_rows.py         which rows of a person do not count
people_rows.py        one row for each person, as a SELECT over the stored rows
read_once.py          SQL for many questions, below which each column is read once
reference.py          the numpy engine: the definition of what is right
scan_progress.py      how far DuckDB is with a scan, told while it runs
select.py             a batch of checked queries -> one SELECT, and its rows -> cells
sql_engine.py         what engines that speak SQL have in common
store.py              the encoded store: rows already clamped and on their grids
stored_keys.py        rows grouped by a column as it is stored, before it is read
text_values_found.py  values of a text that enough rows have, and how many
writer.py             expressions and values -> SQL text
postgres/             rows that stay in PostgreSQL
spark/                rows that stay in a cluster
"""
