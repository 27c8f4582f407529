"""sulq.connect: the same calls against a server.

wire.py      requests and replies over one address, retried where that is safe
database.py  the front door: questions travel, models and prices stay here
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sulq.errors import KeyRefused, NotFound

if TYPE_CHECKING:
    from sulq.client.database import RemoteDatabase
    from sulq.client.wire import Wire

__all__ = ["connect"]


def connect(
    url: str,
    key: str | None = None,
    name: str | None = None,
    *,
    timeout_seconds: float = 120.0,
    patience_seconds: float = 30.0,
    certificate: str | None = None,
    insecure: bool = False,
) -> RemoteDatabase:
    """Open a dataset of a server: the calls of a Database, over HTTP.

    `key` is SULQ_KEY from the environment unless given; `name` the dataset, which may also
    stand at the end of the url, and may be left out where the key is for one only. A request
    that gets no reply is retried for `patience_seconds`; its request id makes that safe.
    `certificate` is a PEM file to trust beside the system's.
    """
    from sulq.client.database import remote
    from sulq.client.wire import Wire, split, transport

    key = key if key is not None else os.environ.get("SULQ_KEY")
    if not key:
        raise KeyRefused("key: give key=..., or set SULQ_KEY. The dataset's owner has one for you.")
    base, named = split(url)
    wire = Wire(
        base, key, transport(base, certificate=certificate, insecure=insecure),
        timeout_seconds=timeout_seconds, retry_seconds=patience_seconds,
    )  # fmt: skip
    name = name or named or _only(wire)
    return remote(wire, name)


def _only(wire: Wire) -> str:
    """The one dataset that the key is for."""
    names = [line["name"] for line in wire.get("/v1/datasets").get("datasets", ())]
    if len(names) != 1:
        raise NotFound(f"name: the key is for {len(names)} datasets: {', '.join(names) or 'none'}.")
    return str(names[0])
