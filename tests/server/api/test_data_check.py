"""How rows fit their declarations: told to their owner, kept nowhere, out of others' reach."""

import threading

import pytest
from server.instance import made

from sulq.data_check import check_data
from sulq.server.api import ownership
from sulq.server.services.access import Access

D = "/v1/datasets/people"
C = "/v1/datasets/wrong"
HEAD = "id;born;weight;note\n"
ROWS = "".join(f"{i};17-08-19{i};{i},5;{'a' if i < 20 else 'zz'}\n" for i in range(10, 52))
COLUMNS = {
    "id": {"key": True},
    "born": {"type": "date", "low": "1900-01-01", "high": "2030-01-01"},
    "weight": {"type": "number", "low": 0, "high": 200},
    "note": {"values": ["zz"]},
}
DRAFT = {"source": "wrong.csv", "schema": {"columns": COLUMNS}}
WRONG = DRAFT | {"name": "wrong", "epsilon": 1.0, "queries": 9}
TOLD = (b"17-08-1984", b"decimal commas", b"no value can be read")


@pytest.fixture
def instance(tmp_path):
    """anna's second dataset is a CSV whose dates and numbers cannot be read as declared."""
    found = made(tmp_path / "instance")
    (found.folder / "data" / "wrong.csv").write_text(HEAD + ROWS)
    with found.serving() as served:
        assert served.call("POST", "/v1/datasets", WRONG, "anna").status == 201
        assert served.call("PUT", f"{C}/analysts/bob", None, "anna").status == 200
        yield served


def kept(folder):
    """Every byte of a server's folder but for its rows, by file."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.parent.name != "data"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def names(files):
    """Which files there are, but for those that SQLite keeps while a ledger is open."""
    return {name for name in files if not name.endswith(("-wal", "-shm"))}


def test_the_owner_is_told_exact_shares_and_what_to_do(instance):
    """Unreadable, outside and missing by column, with advice; right declarations fit."""
    told = instance.call("POST", f"{C}/check", None, "anna").json
    by_name = {c["name"]: c for c in told["columns"]}
    assert told["rows"] == 42
    assert by_name["born"]["unreadable_share"] == by_name["weight"]["lost_share"] == 1.0
    assert "date_format = '%d-%m-%Y'" in by_name["born"]["advice"]
    assert by_name["note"]["outside"] == 10
    assert [w.split("'")[1] for w in told["warnings"]] == ["born", "weight"]
    assert instance.call("POST", f"{D}/check", None, "anna").json["warnings"] == []


def test_before_a_dataset_is_made_the_owner_is_warned(instance):
    """Of columns that are wholly lost, and of nothing else."""
    (instance.folder / "data" / "new.csv").write_text(HEAD + ROWS.replace("17-", "18-"))
    told = instance.call("POST", "/v1/check", DRAFT | {"source": "new.csv"}, "anna").json
    assert list(told) == ["warnings"]
    assert [w.split("'")[1] for w in told["warnings"]] == ["born", "weight"]
    again = instance.call("POST", "/v1/check", DRAFT, "anna")  # these are offered already
    assert again.status == 409


def test_it_is_told_of_rows_that_changed_and_of_a_frozen_dataset(instance):
    """That is when an owner looks; rows that are gone are said to be."""
    instance.call("PATCH", C, {"state": "frozen"}, "anna")
    file = instance.folder / "data" / "wrong.csv"
    file.write_text(HEAD + ROWS.replace(",5", ".5"))
    told = instance.call("POST", f"{C}/check", None, "anna").json
    assert [w.split("'")[1] for w in told["warnings"]] == ["born"]
    file.unlink()
    gone = instance.call("POST", f"{C}/check", None, "anna")
    assert gone.status == 409
    assert "are gone" in gone.json["error"]["message"]


def test_nothing_of_it_is_kept(instance, capfd):
    """Not in the ledger, the registry, metrics, the log or any other file."""
    ledger = instance.call("GET", f"{C}/ledger", None, "anna").body
    before = kept(instance.folder)
    assert TOLD[0] in instance.call("POST", f"{C}/check", None, "anna").body
    instance.call("POST", "/v1/check", DRAFT, "anna")
    assert instance.call("GET", f"{C}/ledger", None, "anna").body == ledger
    after = kept(instance.folder)
    assert names(after) == names(before)
    left = [*after.values(), "".join(capfd.readouterr()).encode(),
            instance.call("GET", "/v1/metrics", None, "anna").body]  # fmt: skip
    assert not any(word in content for word in TOLD for content in left)


@pytest.mark.parametrize("who", ["bob", "eve", "carl", "dan", None])
def test_nobody_else_learns_of_it(instance, who):
    """Refused in the same words whatever the rows are, before and after the owner looked."""
    first = [instance.call("POST", f"{x}/check", None, who) for x in (C, D)]
    instance.call("POST", f"{C}/check", None, "anna")
    again = [instance.call("POST", f"{x}/check", None, who) for x in (C, D)]
    assert {r.status for r in first + again} == {{"bob": 403, None: 401}.get(who, 404)}
    assert first[0].body.replace(b"wrong", b"people") == first[1].body
    assert [r.body for r in first] == [r.body for r in again]
    other = instance.call("POST", "/v1/check", DRAFT, who)
    assert other.status == {None: 401, "carl": 422}.get(who, 403)
    for reply in (*first, *again, other, instance.call("GET", C, None, who)):
        assert not any(word in reply.body for word in TOLD)


def test_control_a_forgotten_right_is_noticed(instance, monkeypatch):
    """Without the check of who asks, an analyst would be told."""
    monkeypatch.setattr(Access, "owner", lambda self, principal: principal)
    assert TOLD[2] in instance.call("POST", f"{C}/check", None, "bob").body


def test_a_copy_of_anothers_rows_is_not_told_about(instance):
    """carl has anna's rows under a name of his: they look missing, as when he offers them."""
    own = instance.folder / "data" / "carl"
    own.mkdir(exist_ok=True)
    (own / "copy.csv").write_text(HEAD + ROWS)
    (own / "own.csv").write_text(HEAD + ROWS.replace("17-", "18-"))
    copied, absent, right = (
        instance.call("POST", "/v1/check", DRAFT | {"source": f"{name}.csv"}, "carl")
        for name in ("copy", "none", "own")
    )
    assert copied.status == absent.status == 422
    assert copied.body.replace(b"copy", b"none") == absent.body
    assert right.status == 200


def test_it_runs_in_a_thread_one_at_a_time(instance, monkeypatch):
    """While a check goes on others are answered; a second one of the same owner is refused."""
    begun, go = threading.Event(), threading.Event()

    def slow(*said):
        begun.set()
        assert go.wait(30)
        return check_data(*said)

    monkeypatch.setattr(ownership, "check_data", slow)
    replies = []
    checking = threading.Thread(
        target=lambda: replies.append(instance.call("POST", f"{C}/check", None, "anna"))
    )
    checking.start()
    try:
        assert begun.wait(30)
        assert instance.ask("secret").status == 200
        assert instance.call("POST", f"{D}/check", None, "anna").status == 429
    finally:
        go.set()
        checking.join(30)
    assert replies[0].status == 200


def test_a_broken_file_is_refused_in_words(instance):
    """What the engine says may quote rows; a refusal does not."""
    (instance.folder / "data" / "bad.parquet").write_bytes(b"PAR1 hidden words PAR1")
    said = {"source": "bad.parquet", "schema": {"columns": {"born": {"type": "date"}}}}
    found = instance.call("POST", "/v1/check", said, "anna")
    assert found.status in (409, 422)
    assert b"hidden" not in found.body
