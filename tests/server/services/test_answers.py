"""A scan that fails over HTTP: one bit once, the owner told, a reason to go on."""

import json

import pytest
from attacks.harness import people
from server.instance import made

import sulq
from sulq.engines.duckdb import DuckDBEngine

D = "/v1/datasets/people"
PLANTED = "joe@example.org"
BITS = 40


@pytest.fixture(params=[False, True], ids=["batches", "deadlines"])
def failing(tmp_path, monkeypatch, request):
    """A server whose engine fails exactly when a question selects nobody, while `.on`."""
    honest, switch = DuckDBEngine.sums, {"on": True}

    def sums(self, queries):
        found = honest(self, queries)
        if switch["on"] and any(not any(map(any, matrix)) for matrix in found):
            raise ValueError(f"Could not convert {PLANTED!r}")
        return found

    monkeypatch.setattr(DuckDBEngine, "sums", sums)
    instance = made(tmp_path / "instance", people(BITS, secret=[i % 3 == 1 for i in range(BITS)]))
    terms = {"padding": True, "deadline_seconds": 2.0} if request.param else {}
    with instance.serving(**terms) as served:
        served.switch = switch
        yield served


def test_one_bit_then_frozen_until_the_owner_gives_a_reason(failing):
    """The console's state, the alarm and the ledger agree; thawing without a reason is refused."""
    kept = failing.ask("secret").json
    seen = [failing.ask(f"id = {row} and secret") for row in range(BITS)]
    assert (seen[0].status, seen[0].error) == (500, "EngineFailed")
    assert {(r.status, r.error) for r in seen[1:]} == {(409, "Frozen")}
    assert [r.json["error"]["charged"] for r in seen[:2]] == [True, False]
    assert not any(PLANTED.encode() in r.body for r in seen)
    spent = failing.call("GET", f"{D}/budget").json["spent_micro"]
    assert spent == 2_000_000

    mine, owners = (failing.call("GET", D, None, who).json for who in ("bob", "anna"))
    assert (mine["state"], list(mine["frozen"])) == ("frozen", ["time"])
    assert (owners["frozen"]["engine"], owners["frozen"]["error"]) == ("DuckDB", "ValueError")
    assert owners["frozen"]["questions"] == ["count where id = 0 and secret"]
    (alarm,) = failing.call("GET", "/v1/alarms", None, "anna").json["alarms"]
    assert alarm["kind"] == "failed"
    listed = failing.call("GET", f"{D}/ledger", None, "anna").body + json.dumps(alarm).encode()
    assert PLANTED.encode() not in listed
    before = failing.call("GET", f"{D}/answers").json["answers"]
    assert before[0]["question"] == "count where secret"

    failing.switch["on"] = False
    assert failing.call("PATCH", D, {"state": "open"}, "bob").status == 403
    refused = failing.call("PATCH", D, {"state": "open"}, "anna")
    assert (refused.status, failing.ask("age > 30").error) == (409, "Frozen")
    assert "with a reason" in refused.json["error"]["message"]
    opened = failing.call("PATCH", D, {"state": "open", "reason": "mended"}, "anna")
    assert opened.json["state"] == "open"
    assert failing.ask("id = 0 and secret").status == 200
    assert failing.ask("secret").json["answer"]["exact"] == kept["answer"]["exact"]
    assert failing.call("GET", f"{D}/budget").json["spent_micro"] == spent
    kinds = [d["kind"] for d in failing.call("GET", D).json["decisions"]]
    assert kinds == ["open", "freeze", "resume"]


def test_over_a_connection_it_is_the_same_error_and_the_owner_resumes(failing):
    """sulq.connect: EngineFailed, then Frozen; frozen and resume with the owner's key."""
    bob, anna = (sulq.connect(failing.url, key=failing.keys[who], name="people")
                 for who in ("bob", "anna"))  # fmt: skip
    with pytest.raises(sulq.EngineFailed):
        bob.count("id = 0 and secret")
    with pytest.raises(sulq.Frozen, match="Nothing was charged"):
        bob.count("age > 30")
    assert (bob.frozen.error, anna.frozen.error) == ("", "ValueError")
    with pytest.raises(sulq.NotPermitted):
        bob.resume("please")
    failing.switch["on"] = False
    anna.resume("mended")
    assert anna.frozen is None
    assert bob.count("age > 30").value is not None
    bob.close()
    with pytest.raises(sulq.Refused, match="is closed"):
        bob.count("age > 31")


def test_a_free_count_that_fails_is_told_to_the_owner_too(failing):
    """It freezes like a question, and nothing was charged."""
    reply = failing.call("POST", f"{D}/sizes", {"rows": [{"predicate": "id < 0"}]})
    assert (reply.status, reply.error, reply.json["error"]["charged"]) == (409, "Frozen", False)
    (line,) = failing.call("GET", "/v1/datasets").json["datasets"]
    assert line["state"] == "frozen"
    (alarm,) = failing.call("GET", "/v1/alarms", None, "anna").json["alarms"]
    assert alarm["kind"] == "failed"
    assert failing.ask("secret").error == "Frozen"
