"""Which files and addresses an owner may name over HTTP.

Owners see their own rows, not the server's disk. A source is a file under one of the folders of
`sources` in the settings, links followed before the check; or an address whose scheme, host and
port are listed there. Whoever runs the server may name anything, from the command line.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sulq.errors import SchemaError
from sulq.server.settings import Settings
from sulq.sources import CSV, DUCKDB, PARQUET, STORE

LONGEST = 500
ENDINGS = {e for e in (*PARQUET, *CSV, *DUCKDB, *STORE) if e.count(".") == 1}
MOST_LOOKED_AT = 10_000
MOST_LISTED = 500


def allowed(source: Any, settings: Settings) -> str:
    """The source as sulq.open takes it, or a refusal that says nothing of the disk."""
    if not isinstance(source, str) or not 0 < len(source) <= LONGEST or "\0" in source:
        raise SchemaError(f"source: want the name of a file, at most {LONGEST} letters.")
    if "://" in source:
        return _address(source, settings)
    if source.lower().endswith(".gz"):
        raise SchemaError("source: a packed file may unpack to anything. Unpack it first.")
    for name in settings.sources:
        if "://" in name:
            continue
        root = (settings.folder / name).resolve()
        try:
            path = (root / source).resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        if path.is_relative_to(root) and path.is_file():
            return str(path)
    raise SchemaError(
        f"source={source!r} is no file in the server's folders for data. Nothing was made.\n"
        "Ask whoever runs the server to put it there."
    )


def listed(settings: Settings, files: bool) -> dict[str, list[str]]:
    """What an owner may choose from: files if all are theirs, and servers without passwords."""
    found: list[str] = []
    servers: list[str] = []
    for name in settings.sources:
        if "://" in name:
            with suppress(ValueError):
                at = urlsplit(name)
                port = "" if at.port is None else f":{at.port}"
                servers.append(f"{at.scheme}://{at.hostname}{port}")
        elif files:
            found += _files((settings.folder / name).resolve())
    return {"files": sorted(set(found)), "servers": sorted(set(servers))}


def _files(root: Path) -> list[str]:
    """The files with rows under a folder, as `allowed` takes them; not every one of very many."""
    inside = (p for p in islice(root.rglob("*"), MOST_LOOKED_AT) if p.suffix.lower() in ENDINGS)
    real = (p for p in inside if p.is_file() and p.resolve().is_relative_to(root))
    return sorted(str(p.relative_to(root)) for p in real)[:MOST_LISTED]


def _address(source: str, settings: Settings) -> str:
    """An address on the list: nothing may follow the path, since options could lead elsewhere."""
    refused = SchemaError("source: this address is not one that the server may open.")
    try:
        asked = urlsplit(source)
        place = (asked.scheme, asked.hostname, asked.port)
        listed = [urlsplit(s) for s in settings.sources if "://" in s]
        known = {(s.scheme, s.hostname, s.port) for s in listed}
    except ValueError:
        raise refused from None
    if place not in known or asked.query or asked.fragment or "," in asked.netloc:
        raise refused
    return source


def without_paths(message: str, folder: Path) -> str:
    """A message without the places of the server's disk."""
    return message.replace(f"{folder}/", "").replace(str(folder), ".")
