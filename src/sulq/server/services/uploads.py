"""Files of rows that owners send: streamed into their folder for data, under a plain name.

Nobody chooses a path. A file is written beside its place, read as what it says it is, synced, and
only then there, under a name that nothing had before; whatever goes wrong leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sulq.errors import LimitReached, NotFound, Refused, SchemaError, SulqError
from sulq.ledger.seal import sync_folder
from sulq.server.services.allowed_sources import Sources
from sulq.server.services.people import Person
from sulq.server.services.settings import Settings
from sulq.sources.draft import stored_types
from sulq.sources.parquet_bounds import check_footer, check_unpacked
from sulq.sources.source import PARQUET, open_source

KINDS = (".csv", ".tsv", *PARQUET)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PART = ".upload-"  # of the folder that a file is in while it arrives
OLD_SECONDS = 86_400  # after which what is left of such a folder is cleared away
SPARE_BYTES = 200_000_000  # that a disk keeps for ledgers


class TooLarge(LimitReached):
    """A file that is larger than what is taken."""


class Uploads:
    """What owners send to one server."""

    def __init__(self, sources: Sources, settings: Settings) -> None:
        self._sources = sources
        self._settings = settings

    @property
    def most_bytes(self) -> int:
        """How large a file may be; 0: none is taken."""
        return self._settings.upload_bytes if self._sources.has_folder else 0

    def begin(self, owner: Person, name: str) -> Upload:
        """A file that arrives, or a refusal before any of it does."""
        if not self.most_bytes:
            raise Refused("this server takes no uploads. Nothing was kept.")
        if not NAME.fullmatch(name) or not name.lower().endswith(KINDS):
            raise SchemaError(
                f"file={name[:120]!r}: want letters, digits, dots, dashes or underscores, at most "
                f"100, ending in {', '.join(KINDS)}. Nothing was kept."
            )
        folder = self._sources.folder_of(owner)
        if (folder / name).exists():
            raise _taken(name)
        _clear(folder)
        part = folder / f"{PART}{secrets.token_hex(8)}"
        part.mkdir(mode=0o700)
        file = os.open(part / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        return Upload(part / name, os.fdopen(file, "wb"), self.most_bytes)

    def remove(self, owner: Person, source: str) -> None:
        """Take away a file that no dataset was ever made of."""
        path = self._sources.upload(owner, source)
        if path is None:
            raise NotFound(f"there is no upload {source[:120]!r} of yours.")
        if self._sources.offered(path):
            raise Refused(
                f"file={source[:120]!r}: a dataset is or was made of it. Nothing was removed."
            )
        path.unlink(missing_ok=True)


@dataclass(slots=True)
class Upload:
    """One file on its way."""

    path: Path
    file: BinaryIO
    most: int
    size: int = 0

    def write(self, chunk: bytes) -> None:
        """A bit more of it, or LimitReached."""
        self.size += len(chunk)
        if self.size > self.most:
            raise TooLarge(
                f"the file is larger than {self.most:,} bytes (`upload_bytes`). Nothing was kept.\n"
                "Whoever runs the server can put it into the folder for data."
            )
        if shutil.disk_usage(self.path.parent).free < SPARE_BYTES + len(chunk):
            raise TooLarge("the server's disk is nearly full. Nothing was kept.")
        self.file.write(chunk)

    def finish(self) -> Path:
        """Its place, once it is whole, readable and on disk."""
        if not self.size:
            raise SchemaError("the file is empty. Nothing was kept.")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        try:
            check_footer(self.path)
            stored_types(open_source(self.path))
            check_unpacked(self.path)
        except SulqError as error:
            raise SchemaError(f"{error}\nNothing was kept.") from None
        place = self.path.parent.parent / self.path.name
        try:
            os.link(self.path, place)  # unlike a rename, it replaces nothing
        except FileExistsError:
            raise _taken(self.path.name) from None
        sync_folder(place.parent)
        return place

    def clear(self) -> None:
        """Take away what is no longer needed, also if it went wrong."""
        self.file.close()
        shutil.rmtree(self.path.parent, ignore_errors=True)


def _taken(name: str) -> Refused:
    return Refused(f"file={name!r} is there already. Nothing was kept. Give it another name.")


def _clear(folder: Path) -> None:
    """Take away what uploads of a server that ended have left."""
    for part in folder.glob(f"{PART}*"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > OLD_SECONDS:
                shutil.rmtree(part, ignore_errors=True)
