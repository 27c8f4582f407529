"""Programs over HTTP: the owner switches them on, modules travel with the questions."""

import base64
import json

import pytest
from programs.modules import module
from server.instance import made

import sulq

D = "/v1/datasets/people"
OLD = module("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 40))")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with made(tmp_path_factory.mktemp("programs")).serving() as instance:
        yield instance


def connected(server, who):
    return sulq.connect(server.url, key=server.keys[who], name="people")


def test_programs_are_switched_on_by_the_owner(server):
    """Off at first; refused with how to mend it, uncharged; then on, for its analysts."""
    old = sulq.Program(OLD, "f", columns=["age"])
    with connected(server, "bob") as db:
        with pytest.raises(sulq.QueryNotAllowed, match="programs are off"):
            db.count(old)
        assert server.call("GET", D).json["program_fuel"] is None
        assert server.call("PATCH", D, {"programs": True}).status == 403
        changed = server.call("PATCH", D, {"programs": True, "program_fuel": 20_000}, "anna")
        assert changed.status == 200
        assert server.call("GET", D).json["program_fuel"] == 20_000
        first = db.count(old)
        again = db.sql("select count(*) as n from people where old(age)",
                       define=[sulq.Program(OLD, "f", name="old")])  # fmt: skip
        assert next(iter(again))["n"] == pytest.approx(float(first.exact[0][0]))
        assert db.mean(old).price.micro in (0, 1_000_000)
        with pytest.raises(sulq.QueryNotAllowed, match=r"fuel=30,000, but a row may take 20,000"):
            db.count(sulq.Program(OLD, "f", columns=["age"], fuel=30_000))


def test_a_body_may_bring_its_modules(server):
    """Plain HTTP: SQL that names a module by its hash, and the module in base64."""
    server.call("PATCH", D, {"programs": True}, "anna")
    code = module("(param i32) (result i32) (i32.lt_s (local.get 0) (i32.const 33))")
    program = sulq.Program(code, "f", columns=["age"])
    body = {"sql": f"select count(*) from people where {program}"}
    body |= {"programs": [base64.b64encode(code).decode()]}
    assert server.call("POST", f"{D}/price", body).json["price_micro"] == 1_000_000
    assert server.call("POST", f"{D}/sql", body).status == 200
    asked = {"query": {"where": str(program)}, "programs": body["programs"]}
    assert server.call("POST", f"{D}/ask", asked).json["answer"]["remaining_micro"] > 0
    for bad in (["?"], [base64.b64encode(b"MZ").decode()]):
        refused = server.call("POST", f"{D}/ask", asked | {"programs": bad})
        assert (refused.status, refused.error) == (422, "QueryNotAllowed")
        assert refused.json["error"]["charged"] is False


def test_the_owner_reads_what_was_run(server):
    """The ledger that the owner fetches holds the module, and follows its hashes."""
    server.call("PATCH", D, {"programs": True}, "anna")
    program = sulq.Program(OLD, "f", columns=["age"])
    with connected(server, "bob") as db:
        db.count(program)
    with connected(server, "anna") as db:
        assert db.verify() > 2
        kept = [e.body for e in db.entries() if e.kind == "program"]
        assert base64.b64decode(next(b["module"] for b in kept if b["hash"] == program.hash)) == OLD
        assert all(e.kind != "program" for e in db.decisions())
    assert json.dumps(OLD.hex()) not in server.call("GET", D).body.decode()


@pytest.mark.parametrize(("padding", "price"), [(True, 0.01), (False, 0.25)])
def test_the_time_of_a_program_has_a_price(tmp_path, monkeypatch, padding, price):
    """Where replies are delayed at random: charged what is announced, by the width of the delay."""
    from sulq.server.services import answers

    waited = []
    monkeypatch.setattr(answers, "random_delay", lambda *said: waited.append(said[3:]) or 0.0)
    settings = {"random_delay": True, "time_price": price, "padding": padding}
    slot = {"deadline_seconds": 5.0} if padding else {}
    with made(tmp_path / "instance").serving(**settings, **slot) as instance:
        instance.call("PATCH", D, {"programs": True}, "anna")
        assert instance.call("GET", D).json["time_price"] == price
        with connected(instance, "bob") as db:
            old = sulq.Program(OLD, "f", columns=["age"])
            announced = db.price(sulq.Query(where=old)).micro
            assert announced == 1_000_000 * (1 + price)
            assert db.count(old).price.micro == announced
            assert db.budget.spent == 1 + sulq.Price(int(price * 1_000_000)).queries
            plain = db.price(sulq.Query(where="age > 41")).micro
            assert plain == db.count("age > 41").price.micro == 1_000_000
    (seconds, charged), *others = waited
    assert (seconds > 0, charged) == (True, price)
    assert others == ([(0, 1.0)] if padding else [])
