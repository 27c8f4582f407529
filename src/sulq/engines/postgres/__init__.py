"""Rows that stay in PostgreSQL.

engine.py  PostgresEngine: a table, a view or a partitioned table
stream.py  rows for the kernel, in batches, by binary COPY
writer.py  expressions -> PostgreSQL's SQL, in which no row can raise an error
"""
