"""Which files and addresses an owner may name over HTTP.

Owners see their own rows, not the server's disk. A source is a file under one of the folders of
`sources` in the settings, links followed before the check; or an address whose scheme, host and
port are listed there. Each file has one owner: whoever offers it; or else whose name is that of
its folder in there; or else the server's first owner. To others it looks like a missing file.
Whoever runs the server may name anything, from the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sulq.errors import Refused, SchemaError
from sulq.server.services import locations
from sulq.server.services.people import Person
from sulq.server.services.registry import Registry
from sulq.server.services.settings import Settings
from sulq.sources.parquet_bounds import check_footer
from sulq.sources.source import CSV, DUCKDB, EXCEL, PARQUET, STORE
from sulq.sources.text_files import is_sqlite

LONGEST = 500
ENDINGS = {e for e in (*PARQUET, *CSV, *DUCKDB, *STORE) if e.count(".") == 1}
MAX_LOOKED_AT = 10_000
MAX_LISTED = 500


class NotTheirs(SchemaError):
    """Another owner's rows; for whoever runs the server. `as_missing` is for everybody else."""

    def __init__(self) -> None:
        super().__init__(
            "these rows are in a dataset of another owner of this server, and spending is kept "
            "there. Nothing was made."
        )


class Sources:
    """What each owner may make datasets of."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self._registry = registry
        self._settings = settings

    def allowed(self, source: Any, owner: Person) -> str:
        """The source as sulq.open takes it, or a refusal that says nothing of the disk."""
        if not isinstance(source, str) or not 0 < len(source) <= LONGEST or "\0" in source:
            raise SchemaError(f"source: want the name of a file, at most {LONGEST} letters.")
        if "://" in source:
            return _address(source, self._settings, trusted=self._is_first(owner))
        if source.lower().endswith(".gz"):
            raise SchemaError("source: a packed file may unpack to anything. Unpack it first.")
        theirs = self._theirs(owner)
        for root in self._roots():
            for path in (_inside(root, source), _inside(root, f"{owner.name}/{source}")):
                if path is not None and path.is_file() and theirs(path):
                    return str(_streamed(path))
        raise missing(source)

    def check_still(self, arguments: str, owner: Person) -> None:
        """Refuse rows whose file became a link to one that this owner may not name."""
        source = locations.found(json.loads(arguments), self._settings.folder)["source"]
        path = Path(source)
        if "://" in source or (real := path.resolve()) == path:
            return
        inside = any(real.is_relative_to(root) for root in self._roots())
        if not inside or not self._theirs(owner)(real):
            raise missing(path.name)

    def listed(self, owner: Person) -> dict[str, Any]:
        """What an owner may choose from: files of theirs, and servers without passwords."""
        theirs, used = self._theirs(owner), self._used(owner)
        found = {
            str(path.relative_to(root)): path
            for root in self._roots()
            for path in _files(root)
            if theirs(path) and theirs(path.resolve())
        }
        first = sorted(found.items())[:MAX_LISTED]
        return {
            "files": [name for name, _ in first],
            "listed": [_described(name, path, used) for name, path in first],
            "servers": sorted(
                f"{scheme}://{host}" + ("" if port is None else f":{port}")
                for scheme, host, port in set(_servers(self._settings))
            ),
        }

    @property
    def has_folder(self) -> bool:
        """Is there a folder for data at all?"""
        return bool(self._roots())

    def folder_of(self, owner: Person) -> Path:
        """The folder of this owner in the first folder for data; made if it is not there."""
        root = self._roots()[0]
        folder = root / owner.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.resolve() != folder:
            raise Refused("your folder for data leads elsewhere. Nothing was kept.")
        return folder

    def named(self, path: Path) -> str:
        """A file as its owner names it."""
        return str(path.relative_to(self._roots()[0]))

    def upload(self, owner: Person, name: str) -> Path | None:
        """The file of this name in the folder of this owner, if there is one and it is no link."""
        path = self.folder_of(owner) / name.removeprefix(f"{owner.name}/")
        plain = path.parent == self.folder_of(owner) and not path.is_symlink()
        return path if plain and path.is_file() and path.suffix.lower() in ENDINGS else None

    def offered(self, path: Path) -> bool:
        """Is or was a dataset made of this file?"""
        every = locations.every(self._registry, self._settings.folder)
        return any(str(path) in (said["source"], said.get("simulate")) for _, _, said in every)

    def _used(self, owner: Person) -> dict[str, str | None]:
        """The files that datasets of this owner are or were made of, and the dataset that is."""
        rows = self._registry.all(
            "SELECT name, state, arguments FROM datasets WHERE house = ?", owner.tenant
        )
        found: dict[str, str | None] = {}
        for row in rows:
            said = locations.found(json.loads(row["arguments"]), self._settings.folder)
            named = None if row["state"] == "closed" else str(row["name"])
            found[str(said["source"])] = named or found.get(str(said["source"]))
        return found

    def make_folders(self) -> list[Path]:
        """A folder for each owner in the folders for data that are there; those that are new."""
        there = [root for root in self._roots() if root.is_dir()]
        places = [root / name for root in there for name in self._owners()]
        new = [place for place in places if not place.exists()]
        for place in new:
            place.mkdir(mode=0o700)
        return new

    def files_of(self, name: str) -> int:
        """How many files with rows lie in the folders of this name."""
        return sum(len(_files(root / name)) for root in self._roots())

    def _roots(self) -> list[Path]:
        folder = self._settings.folder
        return [(folder / name).resolve() for name in self._settings.sources if "://" not in name]

    def _owners(self) -> dict[str, int]:
        """The owners' tenants by name, the first one first."""
        rows = self._registry.all("SELECT name, house FROM people WHERE role = 'owner' ORDER BY id")
        return {row["name"]: row["house"] for row in rows}

    def _is_first(self, owner: Person) -> bool:
        return owner.tenant == next(iter(self._owners().values()))

    def _theirs(self, owner: Person) -> Callable[[Path], bool]:
        """Whether a file, its links followed, is one of this owner's."""
        owners, roots, first = self._owners(), self._roots(), self._is_first(owner)
        offered: dict[str, set[int]] = {}  # whose the files of all datasets are, closed ones too
        for tenant, _, said in locations.every(self._registry, self._settings.folder):
            offered.setdefault(str(said["source"]), set()).add(tenant)

        def theirs(path: Path) -> bool:
            tenants = offered.get(str(path)) or {
                tenant
                for root in roots
                for name, tenant in owners.items()
                if path.is_relative_to(root / name)
            }
            return owner.tenant in tenants if tenants else first

        return theirs


def _streamed(path: Path) -> Path:
    """The same file, unless it would take far more memory than its size, in everybody's process."""
    if path.suffix.lower() in EXCEL or is_sqlite(path):
        raise SchemaError(
            "source: a server reads no SQLite and no Excel files, since these are read into memory "
            "whole. Write it as Parquet or CSV. Nothing was made."
        )
    check_footer(path)
    return path


TAKEN = "these rows are in another dataset of this server already"


def twice() -> Refused:
    """What an owner hears whose rows are in another dataset of theirs."""
    return Refused(
        f"{TAKEN}, and spending is kept there. "
        "Nothing was made.\nClose that dataset first; its ledger then goes on."
    )


def missing(source: Any) -> SchemaError:
    """What is said of a file that is not there, and of one that is not theirs."""
    return SchemaError(
        f"source={source!r} is no file in the server's folders for data. Nothing was made.\n"
        "Ask whoever runs the server to put it there."
    )


@contextmanager
def as_missing(source: Any) -> Iterator[None]:
    """Say of another owner's rows what is said of a file that is not there."""
    try:
        yield
    except NotTheirs:
        raise missing(source) from None


def _inside(root: Path, name: str) -> Path | None:
    """The file of this name under a folder, if there is one and no link leads out."""
    try:
        path = (root / name).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return path if path.is_relative_to(root) else None


def _servers(settings: Settings) -> Iterator[tuple[str, str | None, int | None]]:
    """The scheme, host and port of each address that may be read."""
    for name in settings.sources:
        if "://" in name:
            with suppress(ValueError):
                at = urlsplit(name)
                yield at.scheme, at.hostname, at.port


def _files(root: Path) -> list[Path]:
    """The files with rows under a folder; not every one of very many, nor what is hidden."""
    inside = (p for p in islice(root.rglob("*"), MAX_LOOKED_AT) if p.suffix.lower() in ENDINGS)
    seen = (p for p in inside if not any(n.startswith(".") for n in p.relative_to(root).parts))
    return [p for p in seen if p.is_file() and p.resolve().is_relative_to(root)]


def _described(name: str, path: Path, used: Mapping[str, str | None]) -> dict[str, Any]:
    """A file for a list. Of one with a ledger nothing is said that depends on its rows."""
    if str(path) in used:
        return {"name": name, "bytes": None, "changed": None, "dataset": used[str(path)]}
    found = path.stat()
    changed = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="seconds")
    return {"name": name, "bytes": found.st_size, "changed": changed, "dataset": None}


def _address(source: str, settings: Settings, *, trusted: bool) -> str:
    """An address on the list: nothing may follow the path, since options could lead elsewhere.

    Without a user and a password in it those of whoever runs the server would be taken, which is
    for the server's first owner only.
    """
    refused = SchemaError("source: this address is not one that the server may open.")
    try:
        asked = urlsplit(source)
        place = (asked.scheme, asked.hostname, asked.port)
    except ValueError:
        raise refused from None
    # libpq takes the first @ for the end of the password, urlsplit the last; and it reads %2C as a
    # comma between hosts. With one @ both mean the same host.
    several = "," in asked.netloc or asked.netloc.count("@") > 1
    if place not in _servers(settings) or asked.query or asked.fragment or several:
        raise refused
    if not trusted and not (asked.username and asked.password):
        raise SchemaError(
            "source: give the address with a user and a password of yours, as in "
            "postgresql://user:password@host/database. Nothing was made."
        )
    return source


def without_paths(message: str, folder: Path) -> str:
    """A message without the places of the server's disk."""
    return message.replace(f"{folder}/", "").replace(str(folder), ".")
