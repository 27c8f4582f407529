"""[server] of a folder's sulq.toml, and the environment -> Settings.

Every setting may also be given as SULQ_SERVER_NAME, which wins over the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sulq.config import FILE
from sulq.errors import Refused

PREFIX = "SULQ_SERVER_"
MOST = {"port": 65_535, "workers": 64, "nesting": 100, "batch": 10_000, "key_days": 3650}
MAY_BE_ZERO = ("port", "queue", "most_late")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs. Sizes in bytes, times in seconds."""

    folder: Path

    host: str = "127.0.0.1"
    port: int = 8707  # 0: any that is free
    workers: int = 1  # processes, on one machine and one folder
    certificate: str | None = None  # TLS: a PEM file, and its private key
    private_key: str | None = None
    beyond_loopback: bool = False  # plain HTTP for other machines: behind a proxy with TLS
    sources: tuple[str, ...] = ("data",)  # folders whose files owners may name over HTTP

    body_bytes: int = 1_000_000
    nesting: int = 40  # brackets within brackets of a JSON body
    batch: int = 1000  # queries in one request
    rate: float = 50.0  # requests a second of one person, in the long run,
    burst: int = 200  # and at once
    at_once: int = 16  # requests of one person that are under way
    slots: int = 2  # questions to one dataset that are under way
    queue: int = 200  # questions to one dataset that wait
    wait_seconds: float = 30.0  # before a question that waits is refused
    read_seconds: float = 10.0  # for a request to arrive
    connections: int = 1000
    key_days: int = 90  # until a new key expires, unless said otherwise

    padding: bool = True  # replies leave at a deadline
    deadline_seconds: float | None = None  # the same for every question, instead of measured
    longest_seconds: float = 60.0  # a question that would need more is refused
    random_delay: bool = False  # the paper's, on top of the deadline
    most_late: int = 10  # late replies after which a dataset freezes; 0: never

    @classmethod
    def load(cls, folder: str | Path, **said: Any) -> Settings:
        """The settings of a server's folder; `said` wins over all."""
        folder = Path(folder).resolve()
        given = {name: value for name, value in said.items() if value is not None}
        values = _from_file(folder / FILE) | _from_environment() | given
        known = _kinds()
        for name in values:
            if name not in known:
                raise Refused(f"[server] has no {name!r}. Known: {', '.join(known)}.")
        return cls(folder, **{n: _checked(n, v) for n, v in values.items()})

    @property
    def loopback(self) -> bool:
        """Can only this machine reach it?"""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check_listening(self) -> None:
        """Refuse to send keys and answers in the clear to other machines, unless told to."""
        if bool(self.certificate) != bool(self.private_key):
            raise Refused("certificate and private_key: give both, as PEM files, or neither.")
        if not (self.loopback or self.certificate or self.beyond_loopback):
            raise Refused(
                f"host={self.host!r} is more than this machine, and without TLS keys and answers "
                "could be read on the way.\nGive --certificate and --private-key; or, behind a "
                "proxy that does TLS, --beyond-loopback."
            )


def _kinds() -> dict[str, str]:
    return {f.name: str(f.type) for f in fields(Settings) if f.name != "folder"}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(
            f"{str(path.parent)!r} is no server's folder: it has no {FILE}. "
            "`sulq init DIR` makes one."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Refused(f"{path.name} cannot be read: {error}.") from None
    server = found.get("server")
    if not isinstance(server, dict):
        raise Refused(f"{str(path)!r} has no [server]. `sulq init DIR` makes a server's folder.")
    return server


def _from_environment(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    found = os.environ if environment is None else environment
    said = {k[len(PREFIX) :].lower(): v for k, v in found.items() if k.startswith(PREFIX)}
    return {name: _read(name, text) for name, text in said.items()}


def _read(name: str, text: str) -> Any:
    """A setting from the environment, where everything is text."""
    kind = _kinds().get(name, "")
    if kind.startswith("tuple"):
        return [part for part in text.split(os.pathsep) if part]
    if kind == "bool":
        known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        return known.get(text.lower(), text)
    try:
        return int(text) if kind == "int" else float(text) if "float" in kind else text
    except ValueError:
        return text


def _checked(name: str, value: Any) -> Any:
    kind = _kinds()[name]
    if kind.startswith("tuple"):
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise _wrong(name, value, 'a list of folders, such as ["data"]')
        return tuple(value)
    if kind == "bool":
        if not isinstance(value, bool):
            raise _wrong(name, value, "true or false")
        return value
    if kind.startswith("str"):
        if not isinstance(value, str) or not value:
            raise _wrong(name, value, "text")
        return value
    whole = kind == "int"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise _wrong(name, value, "a whole number" if whole else "a number")
    least, most = 0 if name in MAY_BE_ZERO else 1e-3, MOST.get(name, 2**31)
    if not least <= value <= most:
        raise _wrong(name, value, f"{'0' if least == 0 else 'more than 0'}, at most {most:,}")
    return value if whole else float(value)


def _wrong(name: str, value: Any, want: str) -> Refused:
    return Refused(f"[server] {name} = {value!r}, want {want}.")
