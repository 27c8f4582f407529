"""PostgreSQL's protocol: psql, drivers and dashboards ask as they ask any database.

A message goes one way: socket -> listener (TLS, key) -> session -> statement -> the catalogues, or
the same services that the HTTP API asks. Browsing is free, a price is shown by EXPLAIN, and nothing
is spent that neither `set sulq.spend` nor a cap of the key allows.

    listener.py       who is let in, and how many; cancelling
    client_socket.py  one socket: messages in time and within limits
    messages.py       the messages, bytes to values and back
    session.py        one connection: simple and extended queries
    statement_kinds.py  text -> statements, and what kind each is
    commands.py       settings, transactions, cursors, EXPLAIN's layout
    variables.py      what `set` and `show` know, and what may be spent
    selects.py        a SELECT: what it is about, its parameters and columns
    service_calls.py  what a connection asks of the services
    catalogue.py      pg_catalog and information_schema, from schemas alone
    catalogue_sql.py  a client's question about them -> what DuckDB runs
    catalogue_words.py  what such a question may be made of
    copy_out.py       COPY (SELECT ...) TO STDOUT
    result_types.py   values as text and in binary
    problems.py       errors, with SQLSTATE and hint
"""
