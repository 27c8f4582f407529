"""Analysts hear of no path, host or user of the server's; its owner does. Nor does anyone trace."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from server.console.page_client import PageClient
from server.instance import made

import sulq
from sulq.errors import EngineFailed, LedgerDamaged, Refused, SchemaError, SulqError
from sulq.server.services.responses import told

PLANTED = "xyzzy7391"  # in every place that an analyst must not see
AWAY = f"postgresql://{PLANTED}user@127.0.0.1:1/{PLANTED}base"
D = "/v1/datasets/people"
ASK = {"query": {"where": "secret"}}
WALK = [
    ("GET", D, None), ("POST", f"{D}/ask", ASK), ("POST", f"{D}/price", ASK),
    ("POST", f"{D}/sql", {"sql": "select count(*) from people where secret"}),
    ("POST", f"{D}/sizes", {"rows": [{"where": "region = 'north'"}]}), ("GET", f"{D}/keys", None),
    ("GET", f"{D}/answers", None), ("GET", f"{D}/budget", None),
]  # fmt: skip
PAGES = ["/console/", "/console/datasets/people", "/console/datasets/people/ask"]


SITUATIONS = {
    "the rows are gone": lambda instance: (instance.folder / "data" / "people.parquet").unlink(),
    "the rows cannot be read": lambda instance: (
        instance.folder / "data" / "people.parquet"
    ).write_bytes(b"PAR1 nothing"),
    "the ledger's folder is gone": lambda instance: instance.point(
        ledger=str(instance.folder / f"{PLANTED}-gone" / "people.ledger")
    ),
    "the rows' server is away": lambda instance: instance.point(source=AWAY, table="people"),
    "the ledger's server is away": lambda instance: instance.point(ledger=AWAY),
    "the marks are damaged": lambda instance: [
        mark.write_bytes(b"\xff" * 400)
        for mark in (instance.folder / "ledgers/.sulq").glob("*.mark")
    ],
    "the secret is gone": lambda instance: (instance.folder / "ledgers/.sulq/secret").unlink(),
    "the ledger is damaged": lambda instance: [
        ledger.write_bytes(b"x" * 4096) for ledger in (instance.folder / "ledgers").glob("*.ledger")
    ],
}


@pytest.mark.parametrize("what", SITUATIONS)
def test_an_analyst_hears_of_no_place(tmp_path, what):
    """Whatever the server cannot open, at every route and page: words without a place in them."""
    instance = made(tmp_path / PLANTED)
    SITUATIONS[what](instance)
    with instance.serving() as served:
        said = [served.call(method, path, body) for method, path, body in WALK]
        bob = PageClient(served, "bob")
        said += [bob.get(page) for page in PAGES]
        owner = served.call("GET", D, None, "anna")
    for reply in said:
        assert reply.status < 500 or reply.status == 503, reply.body
        for text in (PLANTED, "127.0.0.1", str(tmp_path), ".mark", 'user "'):
            assert text.encode() not in reply.body, reply.body
    refused = [r for r in said[:3] if r.status != 200]
    assert len(refused) == 3
    assert owner.status == refused[0].status or owner.status >= 400
    assert owner.json["error"]["message"] != refused[0].json["error"]["message"]


def test_what_names_a_place_is_told_to_owners_only():
    """By the kind of error, and by a mark on those that analysts hear otherwise."""
    from sulq.errors import placed

    for error in (SchemaError(PLANTED), LedgerDamaged(PLANTED), placed(Refused(PLANTED)),
                  placed(EngineFailed(PLANTED)), SulqError(PLANTED)):  # fmt: skip
        assert PLANTED in str(told(error, is_owner=True))
        heard = told(error, is_owner=False)
        assert PLANTED not in str(heard)
        assert heard.charged == error.charged
    for error in (Refused("x"), EngineFailed("x"), sulq.QueryNotAllowed("x")):
        assert told(error, is_owner=False) is error


# ---- no traces ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["not text", "no text at the end", "a folder", "cut"])
@pytest.mark.parametrize("name", ["people.ledger.mark", "files", "secret"])
def test_a_damaged_mark_is_refused_in_words(tmp_path, name, how):
    """What the owner keeps beside a ledger, damaged in any way: a refusal that says what to do."""
    from attacks.harness import SCHEMA, people

    terms = {"schema": SCHEMA, "epsilon": 1.0, "queries": 9, "ledger": tmp_path / "people.ledger"}
    db = sulq.open(people(), **terms)
    db.count("secret")
    db.close()
    file = tmp_path / ".sulq" / name
    whole = file.read_bytes() if file.exists() else b"{}"
    file.unlink(missing_ok=True)
    if how == "a folder":
        file.mkdir()
    else:
        bad = {"not text": b"\xff" * 400, "cut": whole[:7]}
        file.write_bytes(bad.get(how, whole + b"\n\xe9\n"))
    said = "Nothing was wrong"
    try:
        again = sulq.open(people(), **terms)
        again.count("not secret")
        again.close()
    except SulqError as error:
        said = str(error)
    assert "Nothing" in said


def read_only(folder, *command):
    """Run a command where a folder cannot be written to, whoever runs it."""
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'
    sulq_command = str(Path(sys.executable).with_name("sulq"))
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(folder), sulq_command, *command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_read_only_folder_is_refused_in_words(tmp_path):
    """`sulq serve`, a command on its folder, and `sulq count`: one sentence, exit code 2."""
    if shutil.which("unshare") is None or read_only(tmp_path, "--help").returncode != 0:
        pytest.skip("a folder cannot be made read-only here: needs mount namespaces")
    made(tmp_path / "instance")
    (tmp_path / "people.toml").write_text('[columns.secret]\ntype = "boolean"\n')
    asked = ("count", "secret", "--data", "instance/data/people.parquet", "--schema", "people.toml",
             "--epsilon", "1", "--queries", "9")  # fmt: skip
    for command in (
        ("serve", "instance", "--port", "0"),
        ("key", "list", "--dir", "instance"),
        asked,
    ):
        done = read_only(tmp_path, *command)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert "Read-only file system" in done.stderr
