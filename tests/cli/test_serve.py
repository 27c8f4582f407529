"""The server from a terminal, as its owner and an analyst type it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.calls import run, run_json
from server.instance import rows

SCHEMA = """\
[columns.id]
key = true
[columns.region]
values = ["north", "south"]
public = true
[columns.secret]
type = "boolean"
nullable = false
[columns.age]
type = "integer"
low = 0
high = 100
"""


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    """An empty folder with a Parquet file and its schema, and a server's folder beside them."""
    monkeypatch.chdir(tmp_path)
    rows(tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA)
    run("init", "clinic", "--owner", "anna")
    settings = tmp_path / "clinic" / "sulq.toml"
    settings.write_text(settings.read_text().replace("padding = true", "padding = false"))
    return tmp_path


def offered(*more):
    return run_json("dataset", "add", "people.parquet", "--dir", "clinic", "--queries", 50, *more)


def test_init_makes_a_folder_or_a_file_beside_the_data(clinic):
    """A data file gets settings as before; anything else is a new server's folder."""
    assert run_json("init", "other")["key"].startswith("sulq_")
    assert run_json("init", "people.parquet")["config"] == "sulq.toml"
    run("init", "missing.parquet", code=2)
    refused = run("init", "clinic", code=2)
    assert "not empty" in refused.stderr


def test_a_dataset_with_its_analysts_in_one_command(clinic):
    """One command offers a table, invites analysts and shows new keys."""
    made = offered("--analyst", "alice", "--analyst", "bob")
    assert made["rows"] == 200
    assert set(made["keys"]) == {"alice", "bob"}
    listed = run_json("dataset", "list", "--dir", "clinic")["datasets"]
    assert [(d["name"], d["state"], d["analysts"]) for d in listed] == [
        ("people", "open", ["alice", "bob"])
    ]
    assert "people" in run("dataset", "list", "--dir", "clinic").stdout
    again = run("dataset", "add", "people.parquet", "--dir", "clinic", code=2)
    assert "there already" in again.stderr


def test_a_schema_is_asked_for(clinic):
    """Without a schema the message names the command that drafts one."""
    (clinic / "people.toml").unlink()
    refused = run("dataset", "add", "people.parquet", "--dir", "clinic", code=2)
    assert "sulq schema draft" in refused.stderr


def test_freeze_thaw_close_and_made_again(clinic):
    """A dataset made again from the same rows goes on with its spending."""
    offered()
    for command, state in (("freeze", "frozen"), ("thaw", "open")):
        assert run_json("dataset", command, "people", "--dir", "clinic")["state"] == state
    run("dataset", "close", "people", "--dir", "clinic", "--json", code=2)  # nobody can be asked
    run("dataset", "close", "people", "--dir", "clinic", "--yes")
    assert run_json("dataset", "list", "--dir", "clinic") == {"datasets": []}
    run("dataset", "freeze", "people", "--dir", "clinic", code=2)
    offered("--name", "renamed")
    reason = ("--reason", "because")
    assert run_json("dataset", "refresh", "renamed", "--dir", "clinic", *reason)["refreshed"]


def test_programs_are_switched_on_and_off(clinic):
    """With what a row may take, and no longer; from the beginning if the owner says so."""
    offered()
    switch = ("dataset", "programs", "people", "--dir", "clinic")
    assert run_json(*switch)["program_fuel"] == 10_000
    assert run_json(*switch, "--fuel", "500")["program_fuel"] == 500
    assert run_json(*switch, "--off")["program_fuel"] is None
    assert "program_fuel=0" in run(*switch, "--fuel", "0", code=2).stderr
    run("dataset", "close", "people", "--dir", "clinic", "--yes")
    offered("--programs")
    assert run_json(*switch)["program_fuel"] == 10_000


def test_people_and_keys(clinic):
    """Analysts and keys are added, listed, revoked and removed."""
    offered()
    at = ("--dir", "clinic")
    key = run_json("analyst", "add", "alice", "--dataset", "people", *at)["key"]
    assert re.fullmatch(r"sulq_[0-9a-f]{16}_[\w-]{43}", key)
    run("analyst", "add", "alice", *at, code=2)
    run("analyst", "add", "carl", "--dataset", "nothing", *at, code=2)
    run("analyst", "uninvite", "alice", "people", *at)
    assert run_json("analyst", "list", *at)["analysts"][0]["datasets"] == []
    run("analyst", "invite", "alice", "people", *at)
    assert "people" in run("analyst", "list", *at).stdout
    narrow = run_json("key", "new", "alice", "--dataset", "people", "--days", 3, *at)
    listed = run_json("key", "list", *at)["keys"]
    assert [k["datasets"] for k in listed if k["id"] == narrow["id"]] == [["people"]]
    assert not any("hash" in k for k in listed)
    run("key", "revoke", narrow["id"], *at)
    run("key", "revoke", "0" * 16, *at, code=2)
    assert narrow["id"] in run("key", "list", *at).stdout  # whole on a narrow screen too
    assert run_json("key", "new", *at)["key"].startswith("sulq_")
    run("analyst", "remove", "alice", *at)
    assert run_json("analyst", "list", *at) == {"analysts": []}
    shared = Path("clinic/data/bruno")
    shared.mkdir()
    (shared / "old.csv").write_text("a\n1\n")
    assert "1 files in a folder of this name" in run("owner", "add", "bruno", *at).stderr
    refused = run("analyst", "list", *at, code=2)
    assert "anna, bruno" in refused.stderr
    assert run_json("analyst", "list", "--owner", "bruno", *at) == {"analysts": []}


def test_allotments_and_alarms(clinic):
    """An allotment caps an analyst, and alarms are shown and marked as seen."""
    offered("--analyst", "alice")
    at = ("--dir", "clinic")
    assert run_json("allot", "people", "alice", "12.5", *at)["allotted_micro"] == 12_500_000
    assert "all there is" in run("allot", "people", "alice", "all", *at).stdout
    for amount in ("-1", "lots", "51"):
        run("allot", "people", "alice", "--", amount, *at, code=2)
    run("allot", "people", "nobody", "3", *at, code=2)
    assert run_json("alarms", "--seen", *at) == {"alarms": []}


def test_backup_and_restore(clinic):
    """A copy is made once, and restored once the folder it was made of is gone."""
    offered()
    assert len(run_json("backup", "clinic", "copy")["heads"]) == 1
    run("backup", "clinic", "copy", code=2)
    run("restore", "copy", "again", "--reason", "a test", code=2)
    Path("clinic").rename("away")
    found = run_json("restore", "copy", "again", "--reason", "a test")
    assert found["whole"]
    run("restore", "nothing", "again", "--reason", "a test", code=2)


def test_a_table_that_was_asked_before_goes_on_with_its_ledger(clinic):
    """From `sulq count` to a server: `--ledger` takes what was spent along."""
    run("count", "secret", "--data", "people.parquet", "--schema", "people.toml", "--epsilon", 1,
        "--queries", 50)  # fmt: skip
    offered("--ledger", "people.parquet.ledger", "--analyst", "alice")
    spent = run_json("allot", "people", "alice", "5", "--dir", "clinic")
    assert spent["spent_micro"] == 0
    budget = run_json("budget", "--data", "people.parquet")
    assert budget["spent_micro"] == 1_000_000
    about = run_json("backup", "clinic", "copy")
    assert [Path(p).name for p in about["elsewhere"]] == ["people.parquet.ledger"]


def test_a_served_folder_is_asked_from_a_terminal(clinic, monkeypatch):
    """From init to a first remote answer, with real processes, and a graceful stop."""
    key = offered("--analyst", "alice")["keys"]["alice"]
    child = subprocess.Popen(
        [Path(sys.executable).with_name("sulq"), "serve", "clinic", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = child.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", said)[0]
        monkeypatch.setenv("SULQ_KEY", key)
        answer = run_json("count", "secret", "--data", f"{url}/people")
        assert answer["price_micro"] == 1_000_000
        priced = run("price", "count", "secret", "--data", f"{url}/people").stdout
        assert priced.startswith("price 1 query")
        table = run("sql", "select region, count(*) from people group by region", "--data",
                    f"{url}/people").stdout  # fmt: skip
        assert "north" in table
        assert run_json("budget", "--data", f"{url}/people", code=2)["error"]["type"] == "Refused"
        run("count", "secret", "--data", f"{url}/nothing", code=2)
    finally:
        child.send_signal(signal.SIGINT)
        rest, log = child.communicate(timeout=30)
    assert "secret" not in log
    assert "/enter/" not in said + rest + log  # a sign-in link is for a person's eyes only
    assert child.returncode in (0, -signal.SIGINT, 130)


def test_a_taken_port_and_a_foreign_host_are_said_so(clinic):
    """A port in use and an address without TLS are refused in words."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = run("serve", "clinic", "--port", taken.getsockname()[1], code=2)
        assert "Choose another" in refused.stderr
    assert "TLS" in run("serve", "clinic", "--host", "0.0.0.0", code=2).stderr
    assert "no server's folder" in run("serve", ".", code=2).stderr
    missing = ("--certificate", "no.pem", "--private-key", "no.pem")
    assert "PEM" in run("serve", "clinic", "--port", 0, *missing, code=2).stderr


def test_tls_works_with_a_certificate_of_ones_own(clinic):
    """A key goes over TLS only to a server whose certificate is trusted."""
    import ssl
    from urllib.error import URLError
    from urllib.request import urlopen

    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
         "clinic/key.pem", "-out", "clinic/cert.pem"], capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0 and os.environ.get("CI") == "true":
        pytest.fail("openssl cannot make a certificate here: apt-get install openssl")
    if made.returncode != 0:
        pytest.skip("openssl cannot make a certificate here: apt-get install openssl")
    import sulq
    from sulq.server.process import running
    from sulq.server.services.settings import Settings

    key = offered("--analyst", "alice")["keys"]["alice"]
    settings = Settings.load("clinic", port=0, certificate="cert.pem", private_key="key.pem")
    with running(settings) as url:
        assert url.startswith("https://")
        db = sulq.connect(url, key, "people", certificate="clinic/cert.pem")
        assert db.count("secret").price.micro == 1_000_000
        db.close()
        with pytest.raises(sulq.ServerAway):
            sulq.connect(url, key, "people", patience_seconds=0)
        trusting = ssl.create_default_context(cafile="clinic/cert.pem")
        with urlopen(f"{url}/v1/health", context=trusting) as reply:
            assert reply.headers["strict-transport-security"] == "max-age=31536000"
        with pytest.raises(URLError):
            urlopen(f"{url}/v1/health", context=ssl.create_default_context())


def test_the_five_commands_of_the_readme_lead_to_an_answer(tmp_path):
    """As a new user would: an empty folder, a Parquet file, the commands as they are printed."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    section = readme.split("## Serve others")[1]
    commands = re.search(r"```text\n(.*?)```", section, re.DOTALL)[1].strip().splitlines()
    assert len(commands) == 5
    from sulq.cli import demo_data

    rows(tmp_path / "people.parquet", demo_data.people(2000))
    place = f"{Path(sys.executable).parent}:/usr/bin:/bin"

    def typed(command, **more):
        return subprocess.run(
            command, shell=True, cwd=tmp_path, env={"PATH": place} | more, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    said = [typed(command) for command in commands[:3]]
    assert [done.returncode for done in said] == [0, 0, 0], said
    key = re.search(r"alice has this key.*?(sulq_\S+)", said[2].stdout, re.DOTALL)[1]
    server = subprocess.Popen(
        [*commands[3].split(), "--port", "0"], cwd=tmp_path, env={"PATH": place},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        url = re.search(r"http://\S+\d", server.stdout.readline())[0]
        last = commands[4].replace("sulq_...", key).replace("http://127.0.0.1:8707", url)
        answer = typed(last)
        assert answer.returncode == 0, answer.stderr
        assert "price 1 query, 999 left" in answer.stdout
    finally:
        server.terminate()
        server.wait(60)
