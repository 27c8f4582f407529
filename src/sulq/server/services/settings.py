"""[server] of a folder's sulq.toml, and the environment -> Settings.

Every setting may also be given as SULQ_SERVER_NAME, which wins over the file. What
Kubernetes sets under such names by itself is left out.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
import warnings
from dataclasses import dataclass, fields
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from sulq.errors import Refused
from sulq.settings_file import FILE
from sulq.sources.postgres import is_address

PREFIX = "SULQ_SERVER_"
MAXIMA = {
    "time_price": 1,
    "port": 65_535,
    "postgres": 65_535,
    "workers": 64,
    "nesting": 100,
    "batch": 10_000,
    "key_days": 3650,
}
HIDDEN = "..."  # what may hold a password
SERVERS = ("registry", "ledgers")  # addresses of PostgreSQL
SECRETS, SHORTEST_TOKEN = ("metrics_token", "webhook_secret"), 16
LISTS = {
    "sources": """a list of folders and addresses, such as ["data", "postgresql://db:5432/"]""",
    "webhook_hosts": """a list of names, such as ["hooks.example.org"]""",
    "trusted_proxies": """a list of addresses, such as ["127.0.0.1", "10.0.0.0/8"]""",
}
ADDRESS = re.compile(  # scheme://user:password@host:port/path, which ends at a separator
    r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(?:\[[^\]]*\]|[^/:;@]*)(?::\d+)?(?:/[^:;]*)?", re.IGNORECASE
)
SERVICE_LINK = re.compile(
    r"SULQ_SERVER_([A-Z0-9_]+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
IS_PORT = re.compile(r"(?<!_SERVICE)_PORT$(?<!(TCP|UDP)_PORT)(?<!SCTP_PORT)")  # may be a setting
LINK = re.compile(r"(tcp|udp|sctp)://")
WANTED: dict[str, tuple[Any, str]] = {
    "bool": (bool, "true or false"),
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
}
LATE = ("retry", "noise")
MAY_BE_ZERO = ("port", "postgres", "queue", "most_late", "upload_bytes")
GONE = {"slots": "questions are answered in batches now"}  # settings that older files may have


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs. Sizes in bytes, times in seconds."""

    folder: Path

    host: str = "127.0.0.1"
    port: int = 8707  # 0: any that is free
    workers: int = 1  # processes, on one machine and one folder
    certificate: str | None = None  # TLS: a PEM file, and its private key
    private_key: str | None = None
    postgres: int | None = None  # a port for PostgreSQL's clients; None: none, 0: any that is free
    postgres_connections: int = 32  # of one person, at each process
    beyond_loopback: bool = False  # plain HTTP for other machines: behind a proxy with TLS
    sources: tuple[str, ...] = ("data",)  # folders whose files owners may name over HTTP

    registry: str | None = None  # a PostgreSQL that several servers share; None: a file here
    ledgers: str | None = None  # where new ledgers begin; None: with the registry
    trusted_proxies: tuple[str, ...] = ()  # addresses whose X-Forwarded-... is believed
    metrics_token: str | None = None  # what opens /metrics, with the counts of all owners

    webhook_hosts: tuple[str, ...] = ()  # at which owners may have messages taken
    webhook_secret: str | None = None  # of which each owner's is made, by which messages are signed
    telemetry: bool = False  # spans for OpenTelemetry, where its SDK is set up

    body_bytes: int = 1_000_000
    upload_bytes: int = 200_000_000  # of a file that an owner sends; 0: none is taken
    nesting: int = 40  # brackets within brackets of a JSON body
    batch: int = 1000  # queries in one request
    rate: float = 50.0  # requests a second of one person, in the long run,
    burst: int = 200  # and at once
    at_once: int = 16  # requests of one person that are under way
    queue: int = 200  # questions to one dataset that wait
    wait_seconds: float = 30.0  # before a question that waits is refused
    read_seconds: float = 10.0  # for a request to arrive
    connections: int = 1000
    key_days: int = 90  # until a new key expires, unless said otherwise

    own_estimates: bool = False  # estimates from an analyst's own answers, not from everybody's

    padding: bool = True  # replies leave at the end of a public slot
    deadline_seconds: float | None = None  # the same slot for all, instead of measured
    longest_seconds: float = 60.0  # a question that would need more is refused
    random_delay: bool = False  # the paper's, on top of the slot
    time_price: float = 0.01  # queries for the time of a question that runs a program, if delayed
    late: str = "retry"  # what is not ready in time: asked for again; "noise": noise, as an answer
    most_late: int = 10  # times real rows alone were late, after which it freezes; 0: never

    @classmethod
    def load(cls, folder: str | Path, **said: Any) -> Settings:
        """The settings of a server's folder; `said` wins over all."""
        folder = Path(folder).resolve()
        given = {name: value for name, value in said.items() if value is not None}
        values = _from_file(folder / FILE) | _from_environment() | given
        known = _kinds()
        for name in GONE.keys() & values.keys():
            warnings.warn(f"[server] {name} has no effect: {GONE[name]}.", stacklevel=2)
            del values[name]
        for name in values:
            if name not in known:
                raise Refused(f"[server] has no {name!r}. Known: {', '.join(known)}.")
        return cls(folder, **{n: _checked(n, v) for n, v in values.items()})

    @property
    def loopback(self) -> bool:
        """Can only this machine reach it?"""
        return self.host == "localhost" or is_loopback(self.host)

    @property
    def price_of_time(self) -> float:
        """Queries charged for the time of a question that runs a program, if that is told."""
        return self.time_price if self.random_delay else 0.0

    @property
    def behind_tls(self) -> bool:
        """Do browsers reach it over TLS, its own or a proxy's?"""
        return self.certificate is not None or self.beyond_loopback

    @property
    def ledger_server(self) -> str | None:
        """The PostgreSQL in which new ledgers begin; None: in the folder."""
        return self.registry if self.ledgers is None else self.ledgers

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
        if self.postgres is not None and not (self.loopback or self.certificate):
            raise Refused(
                f"postgres={self.postgres}: host={self.host!r} is more than this machine, and a "
                "proxy's TLS does not cover PostgreSQL's protocol.\nGive --certificate and "
                "--private-key."
            )


def is_loopback(address: str) -> bool:
    """Is it an address of this machine?"""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


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


def service_links() -> list[str]:
    """Variables that Kubernetes sets for services called sulq-server...; they are no settings."""
    return sorted(
        name
        for name, text in os.environ.items()
        if SERVICE_LINK.fullmatch(name) and (not IS_PORT.search(name) or LINK.match(text))
    )


def _from_environment() -> dict[str, Any]:
    links = service_links()
    given = {k: v for k, v in os.environ.items() if k.startswith(PREFIX) and k not in links}
    said = {k[len(PREFIX) :].lower(): v for k, v in given.items()}
    return {name: _read(name, text) for name, text in said.items()}


def _read(name: str, text: str) -> Any:
    """A setting from the environment, where everything is text."""
    kind = _kinds().get(name, "")
    if kind.startswith("tuple"):
        return _listed(name, text)
    if kind == "bool":
        known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        return known.get(text.lower(), text)
    try:
        return int(text) if kind.startswith("int") else float(text) if "float" in kind else text
    except ValueError:
        return text


def _listed(name: str, text: str) -> list[Any]:
    """A list of folders and addresses: as in PATH, or as JSON. An address keeps its colons."""
    if text.lstrip().startswith("["):
        try:
            return list(json.loads(text))
        except ValueError:
            raise _wrong(name, HIDDEN, LISTS[name]) from None
    if name in ("trusted_proxies", "webhook_hosts"):  # whose colons are their own
        return text.replace(",", " ").split()
    parts, rest = [], text
    while rest:
        found = ADDRESS.match(rest)
        part = found[0] if found else rest.split(os.pathsep, 1)[0]
        rest = rest[len(part) :]
        if rest and not rest.startswith(os.pathsep):  # the rest of an address, not understood
            raise _wrong(name, HIDDEN, LISTS[name])
        parts.append(part)
        rest = rest[len(os.pathsep) :]
    return [part for part in parts if part]


def _checked(name: str, value: Any) -> Any:
    kind = _kinds()[name].removesuffix(" | None")
    if kind.startswith("tuple"):
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise _wrong(name, HIDDEN, LISTS[name])
        return tuple(map(_network, value)) if name == "trusted_proxies" else tuple(value)
    if name in SERVERS and not is_address(value):
        raise _wrong(name, HIDDEN, "an address such as postgresql://user@db:5432/sulq")
    if name in SECRETS and (not isinstance(value, str) or len(value) < SHORTEST_TOKEN):
        raise _wrong(name, HIDDEN, f"at least {SHORTEST_TOKEN} letters, drawn at random")
    types, want = WANTED[kind]
    if not isinstance(value, types) or value == "" or (isinstance(value, bool) and kind != "bool"):
        raise _wrong(name, value, want)
    if name == "late" and value not in LATE:
        raise _wrong(name, value, " or ".join(repr(word) for word in LATE))
    if isinstance(value, bool | str):
        return value
    least, most = 0 if name in MAY_BE_ZERO else 1e-3, MAXIMA.get(name, 2**31)
    if not least <= value <= most:
        raise _wrong(name, value, f"{'0' if least == 0 else 'more than 0'}, at most {most:,}")
    return value if kind == "int" else float(value)


def _network(text: str) -> str:
    """An address or a range of them, as it is compared later."""
    try:
        return str(ip_network(text))
    except ValueError:
        raise _wrong("trusted_proxies", text, LISTS["trusted_proxies"]) from None


def _wrong(name: str, value: Any, want: str) -> Refused:
    shown = HIDDEN if value == HIDDEN else repr(value)
    return Refused(f"[server] {name} = {shown}, want {want}.")
