"""What whoever runs a server meets: processes that die, files that run out, secrets that show."""

import os
import resource
import signal
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from server.console.page_client import PageClient
from server.instance import call, made
from server.processes import alive, children, served, until

import sulq
from sulq.errors import Refused
from sulq.server import connections
from sulq.server.services.settings import Settings, _from_environment

PASSWORD = "hunter2-in-sources"


# ---- several processes ----------------------------------------------------------------------


def test_workers_end_with_a_killed_parent_and_let_go_of_the_port(tmp_path):
    """SIGKILL of the parent: nobody answers on, and the port is free for the next server."""
    instance = made(tmp_path / "instance")
    with served(instance.folder, "--workers", "2") as (parent, url):
        assert until(lambda: _up(url))
        workers = children(parent.pid)
        assert len(workers) == 2
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
        try:
            assert until(lambda: not any(map(alive, workers)))
            with socket.socket() as again:
                again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                again.bind(("127.0.0.1", urlsplit(url).port))
                again.listen()
        finally:
            for pid in filter(alive, workers):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_takes_the_certificate_anew(tmp_path, workers):
    """SIGHUP, as a renewal of certificates sends it: the new one is shown; a wrong one is not."""
    instance = made(tmp_path / "instance")
    for name in ("old", "new"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-keyout", tmp_path / f"{name}.key", "-out",
             tmp_path / f"{name}.pem"],
            check=True, capture_output=True,
        )  # fmt: skip

    def put(name):
        for end in ("pem", "key"):
            (instance.folder / f"tls.{end}").write_bytes((tmp_path / f"{name}.{end}").read_bytes())

    put("old")
    tls = {"SULQ_SERVER_CERTIFICATE": "tls.pem", "SULQ_SERVER_PRIVATE_KEY": "tls.key"}
    with served(instance.folder, "--workers", workers, env=tls) as (parent, url):
        place = "localhost", urlsplit(url).port

        def shown():
            with suppress(OSError):
                return ssl.get_server_certificate(place)

        old, new = ((tmp_path / f"{n}.pem").read_text() for n in ("old", "new"))
        assert until(lambda: shown() == old)
        put("new")
        parent.send_signal(signal.SIGHUP)
        assert until(lambda: [shown() for _ in range(5)] == [new] * 5)
        (instance.folder / "tls.pem").write_text("no certificate")
        parent.send_signal(signal.SIGHUP)
        assert all(shown() == new for _ in range(5))
        assert parent.poll() is None


def _up(url):
    try:
        return call(url, "GET", "/v1/health").status == 200
    except OSError:
        return False


def test_no_command_line_shows_a_password_of_the_settings(tmp_path):
    """`ps` is for everybody: neither the parent's line nor a worker's holds what `sources` has."""
    instance = made(tmp_path / "instance")
    settings = instance.folder / "sulq.toml"
    address = f"postgresql://reader:{PASSWORD}@127.0.0.1:5432/"
    settings.write_text(settings.read_text().replace('["data"]', f'["data", "{address}"]'))
    with served(instance.folder, "--workers", "2") as (parent, url):
        assert until(lambda: _up(url))
        pids = [parent.pid, *children(parent.pid)]
        assert len(pids) == 3
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    assert all(lines)
    assert not [line for line in lines if PASSWORD.encode() in line]


# ---- files that may be open -----------------------------------------------------------------


def test_idle_connections_do_not_use_up_the_files_that_may_be_open(tmp_path):
    """With 256 files at most and 400 idle connections an honest request is still answered."""
    instance = made(tmp_path / "instance")

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    with served(instance.folder, preexec_fn=few) as (child, instance.url):
        db = sulq.connect(instance.url, instance.keys["bob"], "people")
        place = (urlsplit(instance.url).hostname, urlsplit(instance.url).port)
        idle = []
        try:
            for i in range(400):
                idle.append(socket.create_connection(place, timeout=30))
                if i % 50 == 49:
                    assert db.count(f"age > {i // 10}").price.micro == 1_000_000
            assert len(os.listdir(f"/proc/{child.pid}/fd")) < 220
            assert instance.call("GET", "/v1/datasets").status == 200
        finally:
            for one in idle:
                one.close()
        db.close()


def test_the_number_of_files_is_raised_and_bounds_the_connections(tmp_path, monkeypatch):
    """As many as the system allows; half of them are for connections, never more."""
    asked = []
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(connections.resource, "setrlimit", lambda _, both: asked.append(both))
    assert connections.open_files() == 4096
    assert asked == [(4096, 4096)]
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (1024, 1024))
    assert connections.max_connections(Settings(tmp_path)) == 512
    assert connections.max_connections(Settings(tmp_path, connections=60)) == 60


# ---- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("data:more", ["data", "more"]),
        ("postgresql://db:5432/", ["postgresql://db:5432/"]),
        ("data:postgresql://db:5432/:more", ["data", "postgresql://db:5432/", "more"]),
        ("postgresql://u:p:w@db:5432/x:postgres://db2", ["postgresql://u:p:w@db:5432/x", "postgres://db2"]),
        ("postgresql://[::1]:5432/:/srv/data", ["postgresql://[::1]:5432/", "/srv/data"]),
        ('["a:b", "postgresql://db/"]', ["a:b", "postgresql://db/"]),
        ("", []),
    ],
)  # fmt: skip
def test_an_address_in_the_environment_keeps_its_colons(monkeypatch, text, want):
    """SULQ_SERVER_SOURCES is separated as PATH is, or a JSON list."""
    monkeypatch.setenv("SULQ_SERVER_SOURCES", text)
    assert _from_environment()["sources"] == want


@pytest.mark.parametrize("text", ["postgresql://u:secret@db:54x2/", "[1,", "[1]"])
def test_a_list_that_is_none_is_refused_without_being_shown(tmp_path, monkeypatch, text):
    """It may hold a password."""
    instance = made(tmp_path / "instance")
    monkeypatch.setenv("SULQ_SERVER_SOURCES", text)
    with pytest.raises(Refused, match="a list of folders and addresses") as refused:
        Settings.load(instance.folder)
    assert "secret" not in str(refused.value)


# ---- browsers -------------------------------------------------------------------------------


def test_signing_in_with_a_good_key_is_limited(tmp_path):
    """Each sign-in is written to disk, so a good key may not do it without end."""
    with made(tmp_path / "instance").serving(rate=1, burst=100) as instance:
        said = [_signed_in(instance, "bob") for _ in range(12)]
        assert said[:5] == [303] * 5
        assert said[-1] == 429
        assert _signed_in(instance, "anna") == 303


def _signed_in(instance, who):
    fields = {"key": instance.keys[who]}
    return PageClient(instance).post("/console/sign-in", fields, csrf=None).status


@pytest.mark.parametrize("path", ["/v1/health", "/v1/datasets", "/console/sign-in", "/console/x"])
def test_browsers_are_told_to_stay_with_tls_where_there_is_some(tmp_path, path):
    """Strict-Transport-Security behind a proxy with TLS; never on plain HTTP."""
    instance = made(tmp_path / "instance")
    with instance.serving(beyond_loopback=True) as behind:
        said = call(behind.url, "GET", path).headers
        assert "max-age=31536000" in said["strict-transport-security"]
    with instance.serving() as plain:
        assert "strict-transport-security" not in call(plain.url, "GET", path).headers
