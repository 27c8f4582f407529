"""What nobody may find: keys, exact sums and rows, in files, logs, errors or the process list."""

import base64
import json
import logging
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from hashlib import md5, sha1, sha256

import pytest
from attacks.harness import people
from server.instance import made
from server.killing import SERVER, Server

import sulq
from sulq.server.services import logs
from sulq.server.services import people as keys

D = "/v1/datasets/people"


@contextmanager
def logged():
    """The lines that the server's log gets meanwhile."""
    lines = []

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(logs._Lines().format(record))

    log = logging.getLogger("sulq.server")
    log.addHandler(Kept())
    log.setLevel(logging.INFO)
    yield lines
    log.handlers.clear()


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """An instance that has been used, with everything its log said."""
    instance = made(tmp_path_factory.mktemp("secrets") / "instance", people(3000), queries=1000)
    with logged() as lines, instance.serving() as served:
        served.ask("secret")
        served.ask("secret and city = 'rome'", Idempotency_Key="my-request")
        served.call(
            "POST", f"{D}/sql", {"sql": "select city, avg(income) from people group by city"}
        )
        served.ask("no_such = 'rome'")
        served.call("GET", D, None, "sulq_0123456789abcdef_" + "B" * 43)
        served.call("POST", "/v1/keys", {"label": "x"}, "anna")
        served.call("GET", f"/v1/datasets/{'<script>'}", None, "bob")
    return instance, lines


def everything(folder):
    """Every byte under a folder but the rows, by file."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.parent.name != "data"}


def spellings(secret):
    """How a secret could lie around."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    yield base64.b64encode(raw)
    for hash in (md5, sha1):
        yield hash(raw).hexdigest().encode()
        yield hash(raw).digest()


def test_no_key_is_in_any_file(used):
    """Only the SHA-256 of its secret half, which no one can turn back."""
    instance, _ = used
    for key in instance.keys.values():
        secret = key.split("_", 2)[2]
        for text in (*spellings(key), *spellings(secret)):
            assert not [p for p, data in everything(instance.folder).items() if text in data]
    stored = (instance.folder / "server.db").read_bytes()
    wal = instance.folder / "server.db-wal"
    stored += wal.read_bytes() if wal.exists() else b""
    assert sha256(instance.keys["bob"].split("_", 2)[2].encode()).digest() in stored


def test_control_a_planted_key_is_found(used, tmp_path):
    """The search for secrets finds one that was put there."""
    instance, _ = used
    (tmp_path / "planted").write_bytes(
        b"x" + base64.b64encode(instance.keys["bob"].encode()) + b"y"
    )
    texts = list(spellings(instance.keys["bob"]))
    assert [p for p, data in everything(tmp_path).items() if any(t in data for t in texts)]


def test_files_are_the_owners_alone(used):
    """Every file but rows and settings is readable by its owner only."""
    instance, _ = used
    for path in instance.folder.rglob("*"):
        if path.parent.name != "data" and path.name != "sulq.toml" and path.is_file():
            assert path.stat().st_mode & 0o077 == 0, path.name


def test_no_exact_sum_is_in_any_file_or_log(used):
    """The true counts, and the noise, are nowhere; noisy answers are."""
    instance, lines = used
    table = people(3000)
    secret = table.column("secret").to_pylist()
    city = table.column("city").to_pylist()
    both = sum(s and c == "rome" for s, c in zip(secret, city, strict=True))
    with instance.services() as services:
        record = services.datasets.find(services.people.owner("anna").tenant, "people")
        db = services.datasets.opened(record).db
        stored = [json.loads(e.body["answer"]) for e in db.entries() if e.kind == "answer"]
        scales = [t.multiples[0] for q in ("secret", "secret and city = 'rome'")
                  for _, t in db.question(sulq.Query(where=q)).bundles[0].parts]  # fmt: skip
    said = "\n".join(lines)
    for true, scale, answer in zip((sum(secret), both), scales, stored, strict=False):
        noisy, exact = answer[0][0][0], true * scale
        for number in (exact, noisy - exact):
            pattern = re.compile(rf"(?<!\d){abs(number)}(?!\d)".encode())
            assert not [
                p for p, data in everything(instance.folder).items() if pattern.search(data)
            ]
        assert str(noisy) not in said
        assert not re.search(rf"\b{true}\b", said)


def test_the_log_says_who_and_what_but_no_values(used):
    """Each line is JSON: no key, question, request id, body, or time taken."""
    instance, lines = used
    assert len(lines) >= 6
    said = "\n".join(lines)
    for key in instance.keys.values():
        assert key not in said
        assert key.split("_", 2)[2] not in said
    for text in ("rome", "my-request", "select", "B" * 20, "script", "exact", "value"):
        assert text not in said
    known = {"time", "level", "event", "route", "status", "person", "key", "dataset", "refused"}
    known |= {"request", "client", "missing"}
    for line in lines:
        assert set(json.loads(line)) <= known
    assert any(json.loads(x).get("refused") == "QueryNotAllowed" for x in lines)


def test_a_failure_is_logged_without_its_words():
    """The log has the kind and place of a failure, not its message."""
    with logged() as seen:
        try:
            raise ValueError("row 17: Joe")
        except ValueError as error:
            logs.failure(error, route="GET /x")
    assert json.loads(seen[0])["exception"] == "ValueError"
    assert "Joe" not in seen[0]
    assert "test_secrets.py" in seen[0]


def test_nothing_secret_is_in_the_process_list(tmp_path):
    """What `ps` shows of a running server, and what it says to the world."""
    instance = made(tmp_path / "instance")
    server = Server(instance.folder)
    command = [sys.executable, "-c", SERVER, str(instance.folder), str(server.port)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        db = sulq.connect(server.url, instance.keys["bob"], "people", patience_seconds=60)
        db.count("secret")
        with open(f"/proc/{child.pid}/cmdline", "rb") as file:
            shown = file.read()
        with open(f"/proc/{child.pid}/environ", "rb") as file:
            shown += file.read()
    finally:
        child.terminate()
        _, said = child.communicate(timeout=30)
    for key in instance.keys.values():
        assert key.encode() not in shown
        assert key not in said
    assert [json.loads(x)["event"] for x in said.splitlines()].count("request") >= 2


def test_nothing_is_unpickled_or_evaluated():
    """No pickle, eval or exec in the server or the client."""
    root = os.path.dirname(sulq.__file__)
    for place in ("server", "remote"):
        for folder, _, names in os.walk(os.path.join(root, place)):
            for name in filter(lambda n: n.endswith(".py"), names):
                with open(os.path.join(folder, name)) as file:
                    text = file.read()
                assert not re.search(r"\b(pickle|marshal|eval|exec|shelve|yaml)\b\(?", text), name


def test_a_secret_half_has_256_bits_and_is_compared_in_one_time():
    """43 letters of 6 bits; equal hashes are found by hmac.compare_digest."""
    import inspect

    from sulq.server.services import access

    assert keys.KEY.fullmatch("sulq_" + "0" * 16 + "_" + "A" * 43)
    assert "token_urlsafe(32)" in inspect.getsource(keys._new)
    assert "hmac.compare_digest" in inspect.getsource(access.Access.principal)


def test_import_sulq_stays_light():
    """Neither the server nor its libraries are loaded until they are used."""
    code = (
        "import sys, sulq; sulq.Query; sulq.connect; sulq.open\n"
        "heavy = {'fastapi', 'uvicorn', 'starlette', 'pydantic', 'sulq.server', 'h11', 'anyio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_connecting_loads_an_http_library():
    """`import sulq` loads none; connecting loads httpx, and nothing of the server's."""
    code = (
        "import sys, sulq\n"
        "def loaded(): return sorted({'requests', 'httpx', 'urllib3', 'fastapi', 'starlette'}"
        " & set(sys.modules))\n"
        "print(loaded())\n"
        "try: sulq.connect('http://127.0.0.1:9', 'k', 'x', patience_seconds=0)\n"
        "except sulq.ServerAway: pass\n"
        "print(loaded())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "['httpx']"]
