"""Prices, answers, idempotency, allotments: what is paid once is answered once, over real HTTP."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from attacks.harness import people
from server.instance import made

import sulq
from sulq.server.services.answers import Answers
from sulq.server.services.responses import dumped

D = "/v1/datasets/people"
ASK = f"{D}/ask"


def charges(instance, who="anna"):
    lines = instance.call("GET", f"{D}/ledger", None, who).body.splitlines()
    return [json.loads(x)["body"] for x in lines if json.loads(x)["kind"] == "charge"]


def numbers(reply):
    return reply.json["answer"]["exact"]


# ---- answers --------------------------------------------------------------------------------


def test_a_price_is_what_is_charged(shared):
    """The price asked for first is the price that is charged."""
    body = {"query": {"values": ["1", "income"], "by": "region"}}
    price = shared.call("POST", f"{D}/price", body).json
    before = shared.call("GET", f"{D}/budget").json["spent_micro"]
    answer = shared.call("POST", ASK, body).json["answer"]
    after = shared.call("GET", f"{D}/budget").json["spent_micro"]
    assert price["price_micro"] == answer["price_micro"] == after - before
    assert price["deadline_seconds"] is None


def test_numbers_travel_exactly(shared):
    """What the ledger has stored is what arrives, as a fraction, to the last digit."""
    answer = shared.call("POST", ASK, {"query": {"values": ["income"]}}).json["answer"]
    entry = [json.loads(x) for x in
             shared.call("GET", f"{D}/ledger", None, "anna").body.splitlines()][-1]  # fmt: skip
    stored = json.loads(entry["body"]["answer"])[0][0][0]
    step = Fraction(answer["exact"][0][0]) / stored
    assert step.numerator == 1000 or (1000 / step).denominator == 1
    assert float(Fraction(answer["exact"][0][0])) == answer["value"]


def test_a_statement_gets_every_declared_group(shared):
    """A GROUP BY has a row for every declared value, whether or not a row has it."""
    body = {"sql": "select region, count(*), avg(income) from people group by region"}
    table = shared.call("POST", f"{D}/sql", body).json["table"]
    assert [row["region"] for row in table["rows"]] == ["north", "south", "(other)"]
    assert table["by"] == ["region"]
    for row in table["rows"]:
        assert row["count(*)_low"] == row["count(*)"] == row["count(*)_high"]  # public
        if row["count(*)"]:
            assert row["avg(income)_low"] < row["avg(income)_high"]


def test_a_statement_may_call_functions_that_come_with_it(shared):
    """Written out, it is the same question, and repeating it in SQL of one's own is free."""
    define = "def old(age, limit=40):\n    return age > limit"
    body = {"sql": "select sum(income) from people where old(age)", "define": define}
    price = shared.call("POST", f"{D}/price", body).json["price_micro"]
    table = shared.call("POST", f"{D}/sql", body).json["table"]
    plain = {"sql": "select sum(income) from people where age > 40"}
    again = shared.call("POST", f"{D}/sql", plain).json["table"]
    assert price > 0
    assert list(table["rows"][0].values()) == list(again["rows"][0].values())
    refused = shared.call("POST", f"{D}/sql", body | {"define": "def old(age): import os"})
    assert refused.status == 422
    assert "define, line 1" in refused.json["error"]["message"]


def test_a_query_may_call_functions_that_come_with_it(shared):
    """In values, where and by, one query or a list, priced, estimated and asked alike."""
    define = "def old(age, limit=40):\n    return age > limit\ndef half(age):\n    return age / 2"
    one = {"values": ["half(age)"], "where": "old(age, 50)", "by": "old"}
    plain = {"values": ["age / 2"], "where": "age > 50", "by": "age > 40"}
    for body, same in (
        ({"query": one}, {"query": plain}),
        ({"queries": [one]}, {"queries": [plain]}),
    ):
        called = body | {"define": define}
        price = shared.call("POST", f"{D}/price", called).json["price_micro"]
        assert price == shared.call("POST", f"{D}/price", same).json["price_micro"] > 0
        assert shared.call("POST", f"{D}/ask", called).status == 200
        assert shared.call("POST", f"{D}/price", same).json["unpaid_micro"] == 0
        assert shared.call("POST", f"{D}/estimate", called).status == 200
    many = {"queries": [{"where": "old(age) and " * 300 + "old(age)"}] * 5, "define": define}
    assert "at most 1,000 calls" in shared.call("POST", f"{D}/price", many).json["error"]["message"]
    refused = shared.call("POST", f"{D}/ask", {"query": one, "define": "def old(age): import os"})
    assert refused.status == 422
    assert "define, line 1" in refused.json["error"]["message"]


def test_nothing_that_leaves_is_a_bare_nan():
    """JSON has no NaN and no infinity: what is missing is null."""
    body = {"rows": [{"a": float("nan"), "b": (1.5, float("-inf")), "c": "NaN"}]}
    assert dumped(body) == b'{"rows":[{"a":null,"b":[1.5,null],"c":"NaN"}]}'


def test_a_batch_is_one_request_and_may_share(shared):
    """A batch is charged in one request, and sharing makes it cheaper."""
    queries = [{"where": f"age >= {a}"} for a in range(20, 60)]
    price = shared.call("POST", f"{D}/price", {"queries": queries}).json["price_micro"]
    answers = shared.call("POST", ASK, {"queries": queries}).json["answers"]
    assert len(answers) == 40
    assert price < 40_000_000
    alone = {"queries": queries[:3], "share": False}
    assert [a["price_micro"] for a in shared.call("POST", ASK, alone).json["answers"]] == [
        10**6
    ] * 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": {}, "queries": []},
        {"queries": []},
        {"query": None},
        {"query": {"where": 3}},
        {"query": {"kind": "leaf"}},
        {"query": {"where": "secret", "colour": "red"}},
        {"query": {"values": [{"kind": "mean"}]}},
        {"query": {"where": "secret", "error": "1e999999999"}},
        {"query": {"where": "secret", "error": -1}},
        {"query": {"by": {"kind": "nearest", "columns": ["age"], "centres": "x"}}},
        {"query": {"rows": {"seed": 1, "rate": "2/0"}}},
        {"query": "secret"},
        {"sql": "select 1"},
        {"query": {"where": "secret"}, "more": 1},
        [],
        "secret",
        3,
        None,
    ],
)
def test_what_is_no_question_is_refused_and_not_charged(shared, body):
    """A body that is no question is refused, and nothing is charged."""
    before = shared.call("GET", f"{D}/budget").json["spent_micro"]
    reply = shared.call("POST", ASK, json.dumps(body).encode())
    assert reply.status in (422, 429), reply.body
    assert reply.json["error"]["charged"] is False
    assert shared.call("GET", f"{D}/budget").json["spent_micro"] == before


def test_ones_own_answers_can_be_read_again(instance):
    """Each sees their own questions and answers, and no one else's."""
    reply = instance.ask("secret", "bob")
    instance.ask("age > 50", "anna")
    instance.ask("age > 50", "bob")  # free: anna paid for it
    mine = instance.call("GET", f"{D}/answers").json
    assert [a["question"] for a in mine["answers"]] == ["count where secret"]
    (part,) = mine["answers"][0]["answer"]
    assert part["values"] == [[reply.json["answer"]["value"]]]
    assert mine["next"] is None
    theirs = instance.call("GET", f"{D}/answers", None, "anna").json["answers"]
    assert [a["question"] for a in theirs] == ["count where age > 50"]


def test_answers_come_in_pages(instance):
    """One's own answers are listed page by page."""
    for i in range(5):
        instance.ask(f"age > {10 * i + 10}")
    seen, after = [], 0
    while after is not None:
        page = instance.call("GET", f"{D}/answers?after={after}&limit=2").json
        seen += [a["question"] for a in page["answers"]]
        after = page["next"]
    assert seen == [f"count where age > {10 * i + 10}" for i in range(5)]


def test_a_frozen_dataset_answers_nothing(instance):
    """A frozen dataset refuses every question until it is thawed."""
    assert instance.call("PATCH", D, {"state": "frozen"}, "anna").json["state"] == "frozen"
    reply = instance.ask("secret")
    assert (reply.status, reply.error) == (409, "Frozen")
    assert "frozen" in reply.json["error"]["message"]
    assert instance.call("GET", f"{D}/budget").json["spent_micro"] == 0
    instance.call("PATCH", D, {"state": "open"}, "anna")
    assert instance.ask("secret").status == 200


# ---- request ids ----------------------------------------------------------------------------


def test_the_same_id_in_parallel_is_one_charge_and_one_reply(instance):
    """Sixteen times at once: one charge, sixteen equal replies, to the byte."""
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: instance.ask("secret", Idempotency_Key="k"), range(16)))
    assert {r.status for r in replies} == {200}
    assert len({r.body for r in replies}) == 1
    assert len(charges(instance)) == 1


def test_control_without_ids_or_a_ledger_that_knows_questions_replies_differ(instance):
    """The comparison has teeth: other questions get other bytes."""
    bodies = {instance.ask(f"secret and age > {i}").body for i in range(4)}
    assert len(bodies) == 4


def test_the_same_id_later_hears_the_same_although_others_spent(instance):
    """A repeated request id gets its first reply, whatever happened since."""
    first = instance.ask("secret", Idempotency_Key="k")
    for i in range(5):
        instance.ask(f"age > {i}", "anna")
    assert instance.ask("secret", Idempotency_Key="k").body == first.body


@pytest.mark.parametrize(
    "other",
    [
        {"query": {"where": "not secret"}},
        {"queries": [{"where": "secret"}, {"where": "age > 3"}]},
        {"query": {"where": "secret", "error": 500}},
    ],
)
def test_the_same_id_with_another_body_is_refused(instance, other):
    """One request id is for one question."""
    instance.ask("secret", Idempotency_Key="k")
    reply = instance.call("POST", ASK, other, Idempotency_Key="k")
    assert (reply.status, reply.error) == (422, "QueryNotAllowed")
    assert len(charges(instance)) == 1


def test_another_persons_id_is_another_id(instance):
    """Two people may use the same request id without meeting."""
    instance.ask("secret", "bob", Idempotency_Key="k")
    assert instance.ask("age > 50", "anna", Idempotency_Key="k").status == 200


@pytest.mark.parametrize("text", ["", "a b", "x" * 201, "\u00e9", "tab\tin"])
def test_an_id_is_visible_ascii(shared, text):
    """A request id that a header cannot carry is refused."""
    reply = shared.ask("secret", Idempotency_Key=text.encode("latin-1"))
    assert (reply.status, reply.error) == (422, "QueryNotAllowed")


def test_a_cut_connection_is_charged_once_and_answered_on_retry(instance, monkeypatch):
    """The client hangs up while the scan runs; asking again gives the answer it missed."""
    scanning, go_on = threading.Event(), threading.Event()
    honest = Answers._replies

    def slow(self, *batch):
        scanning.set()
        assert go_on.wait(20)
        return honest(self, *batch)

    monkeypatch.setattr(Answers, "_replies", slow)
    body = json.dumps({"query": {"where": "secret"}}).encode()
    host, port = instance.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall(
            f"POST {ASK} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {instance.keys['bob']}\r\n"
            f"content-type: application/json\r\nidempotency-key: k\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode() + body
        )  # fmt: skip
        assert scanning.wait(20)
    go_on.set()
    replies = {instance.ask("secret", Idempotency_Key="k").body for _ in range(3)}
    assert len(replies) == 1
    assert len(charges(instance)) == 1


# ---- allotments -----------------------------------------------------------------------------


def test_an_allotment_is_a_cap_and_is_logged(instance):
    """An allotment caps what an analyst may spend, and the ledger has it."""
    assert instance.call("PUT", f"{D}/allotments/bob", {"queries": "2.5"}, "anna").status == 200
    assert [instance.ask(f"age > {i}").status for i in range(3)] == [200, 200, 402]
    refusal = instance.ask("age > 9").json["error"]
    assert refusal["price_micro"] == 10**6
    assert refusal["remaining_micro"] == 500_000
    assert "allotment" in refusal["message"]
    budget = instance.call("GET", D).json["budget"]
    assert budget == {"total_micro": 2_500_000, "spent_micro": 2_000_000,
                      "remaining_micro": 500_000}  # fmt: skip
    said = instance.call("GET", f"{D}/allotments", None, "anna").json["allotments"]["bob"]
    assert said == {"spent_micro": 2_000_000, "allotted_micro": 2_500_000, "invited": True}
    kinds = [json.loads(x)["kind"] for x in
             instance.call("GET", f"{D}/ledger", None, "anna").body.splitlines()]  # fmt: skip
    assert kinds.count("allot") == 1
    instance.call("PUT", f"{D}/allotments/bob", {"queries": None}, "anna")
    assert instance.ask("age > 9").status == 200


@pytest.mark.parametrize("amount", [-1, "nan", "1e400", 101, "1_000", True, [], {}, "x" * 300])
def test_an_allotment_is_an_amount_within_t(instance, amount):
    """An allotment is an amount from 0 to T."""
    reply = instance.call("PUT", f"{D}/allotments/bob", {"queries": amount}, "anna")
    assert reply.status in (409, 422)
    assert instance.call("GET", f"{D}/allotments", None, "anna").json["allotments"]["bob"][
        "allotted_micro"
    ] is None  # fmt: skip


def test_eight_analysts_at_once_get_exactly_their_allotments_and_no_more_than_t(tmp_path):
    """T = 30: analysts with 5 each and one without a limit; 30 answers in all, 5 at most each."""
    with made(tmp_path / "instance", queries=30).serving(at_once=64) as instance:
        for i in range(7):
            instance.call("POST", "/v1/analysts", {"name": f"a{i}"}, "anna")
            instance.call("PUT", f"{D}/analysts/a{i}", None, "anna")
            instance.call("PUT", f"{D}/allotments/a{i}", {"queries": 5}, "anna")
            made_key = instance.call("POST", "/v1/keys", {"analyst": f"a{i}"}, "anna")
            instance.keys[f"a{i}"] = made_key.json["key"]

        def spend(k):
            who = f"a{k}" if k < 7 else "bob"
            return [instance.ask(f"income > {12 * k + i}", who).status for i in range(12)]

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(spend, range(8)))
        answered = [statuses.count(200) for statuses in found]
        assert sum(answered) == 30
        assert max(answered[:7]) <= 5
        assert {s for statuses in found for s in statuses} == {200, 402}
        ledger = instance.call("GET", f"{D}/allotments", None, "anna").json["allotments"]
        assert [ledger[f"a{k}"]["spent_micro"] for k in range(7)] == [
            n * 10**6 for n in answered[:7]
        ]


def test_twenty_colluding_analysts_get_t_answers_in_all(tmp_path):
    """One cap for everyone (3.1.3): asking under many names buys nothing."""
    with made(tmp_path / "instance", queries=25).serving(at_once=64) as instance:
        keys = []
        for i in range(20):
            instance.call("POST", "/v1/analysts", {"name": f"a{i}"}, "anna")
            instance.call("PUT", f"{D}/analysts/a{i}", None, "anna")
            keys.append(instance.call("POST", "/v1/keys", {"analyst": f"a{i}"}, "anna").json["key"])

        def ask(k):
            return [instance.ask(f"income > {3 * k + i}", keys[k]).status for i in range(3)]

        with ThreadPoolExecutor(10) as pool:
            found = [s for statuses in pool.map(ask, range(20)) for s in statuses]
        assert found.count(200) == 25
        assert found.count(402) == 35


def test_the_answers_are_right(tmp_path):
    """Through the whole server an answer is the true count, give or take its noise (1e-9)."""
    with made(tmp_path / "instance", people(5000), queries=10).serving() as instance:
        true = sum(people(5000).column("secret").to_pylist())
        answer = instance.ask("secret").json["answer"]
        assert abs(answer["value"] - true) < 6.2 * answer["std"]
        noiseless = sulq.Promise(1.0, 1e-6, 10).std
        assert abs(answer["std"] / noiseless - 1) < 0.01
