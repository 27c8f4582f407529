"""The product as a service: an owner runs it, outsiders ask over HTTP.

A request walks one way: connection -> gate -> route -> access -> admission -> corridor -> reply
at its deadline. Each file is a room on the way, or opens off it.

    settings.py     [server] of sulq.toml and the environment
    registry.py     one SQLite file: people, keys, datasets, alarms
    people.py       owners, analysts and their keys
    access.py       a key -> a Visitor, and what a Visitor may see
    datasets.py     datasets by name, and the databases behind them
    sources.py      which files an owner may name over HTTP
    admission.py    how often, how many, in which turn
    deadlines.py    how long a kind of question takes at most, and when its reply leaves
    crowding.py     questions that wait are worked on at once, where there are no deadlines
    asking.py       price, admission, corridor, deadline: one question from door to door
    bodies.py       bytes -> strict JSON within limits
    replies.py      results and errors -> the one shape they leave in
    gate.py         what every request passes: limits, key, body, headers, log
    connections.py  sockets that must speak in time
    logs.py         what happened, without values or secrets
    metrics.py      counts for owners
    app.py          the routes put together
    running.py      uvicorn, TLS, signals
    folder.py       a server's folder: begun, backed up, restored
    routes/         the routes under /v1

Nothing here is imported by `import sulq`. It needs `pip install 'sulq[server]'`.
"""
