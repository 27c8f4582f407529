"""The product as a service: an owner runs it, outsiders ask over HTTP.

A request goes one way: connection -> gate -> route -> access -> admission -> answer -> reply at
its deadline. The API and the console stand side by side, both over services/.

    app.py          settings -> the application: api/ and console/ mounted side by side
    process.py      uvicorn, TLS, signals
    workers.py      several processes, which end with their parent
    connections.py  sockets that must speak in time
    door.py         whose request is read next: persons take turns
    front.py        what every request passes first: proxies, an id, compression
    telemetry.py    spans for OpenTelemetry, where they are wanted
    gate.py         what every request to the API passes: limits, key, body, headers, log
    body_reader.py  a request's body, within limits, parsed aside if it is long
    bounded_http.py  h11's reader, with limits on heads and chunks
    strict_json.py  bytes -> strict JSON within limits
    api/            the routes under /v1
    console/        the pages under /console
    pgwire/         PostgreSQL's protocol, on a port of its own
    services/       what both work on: people, datasets, answers, limits

Nothing here is imported by `import sulq`. It needs `pip install 'sulq[server]'`.
"""
