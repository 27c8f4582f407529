"""Tools for an agent over databases of this process: price first, within a limit, in words."""

import asyncio
import io
import json
import random
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from attacks.harness import opened, people
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from scripted_agent import Agent, fuzzed, over
from soak import times

import sulq
from sulq.errors import MICRO
from sulq.mcp.local_databases import LocalDatabases
from sulq.mcp.stdio import MAX_LINE, serve_lines
from sulq.mcp.tokens import SECONDS, PriceTokens
from sulq.spending_limit import SpendingLimit

SOURCE = str(Path(sulq.__file__).parents[1])

SECRET = "select count(*) from people where secret"
DECLARED = (
    '[columns.secret]\ntype = "boolean"\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 100\n'
)
GROUPED = "select region, avg(income) as income from people group by region"


def desk_of(spend, **terms):
    db = opened(people(), name="people", **terms).as_analyst("agent")
    return db, LocalDatabases({"people": db}, SpendingLimit(spend, "Start it with --spend."))


def test_a_scripted_agent_works_within_its_cap():
    """It looks, rehearses, prices, asks; beyond its cap it is refused; what is paid is free."""
    db, backend = desk_of(2)
    agent = over(backend)
    hello = agent.request("initialize", protocolVersion="2025-06-18", capabilities={})["result"]
    assert hello["protocolVersion"] == "2025-06-18"
    assert "price_token" in hello["instructions"]
    tools = agent.request("tools/list")["result"]["tools"]
    assert [t["name"] for t in tools] == [
        "datasets", "schema", "rehearse", "price", "ask", "budget", "history",
    ]  # fmt: skip
    assert [t["name"] for t in tools if not t["annotations"]["readOnlyHint"]] == ["ask"]

    assert agent.call("datasets")["datasets"] == [{"name": "people", "rows": 200}]
    schema = agent.call("schema", dataset="people")
    assert {c["name"] for c in schema["columns"]} == set(db.columns)
    assert "50% sure" in schema["promise"]
    tried = agent.call("rehearse", dataset="people", sql=GROUPED)
    assert "mean nothing" in tried["promise"]
    assert db.budget.spent == 0

    priced = agent.call("price", dataset="people", sql=GROUPED)
    assert (priced["price"], priced["to_pay"], priced["cap_left"]) == (1.0, 1.0, 2.0)
    assert priced["expected_error_95"]["income"] > 0
    assert db.budget.spent == 0
    answer = agent.call("ask", dataset="people", sql=GROUPED, price_token=priced["price_token"])
    assert not answer["is_error"]
    assert answer["columns"] == ["region", "income", "income_low", "income_high"]
    assert "50% sure" in answer["promise"]
    assert "95%" in answer["intervals"]
    assert db.budget.spent == 1

    assert not agent.ask(SECRET)["is_error"]
    refused = agent.ask("select count(*) from people where not secret and age > 50")
    assert (refused["error"], refused["charged"]) == ("BudgetExceeded", False)
    assert db.budget.spent == 2
    assert agent.ask(GROUPED)["rows"] == answer["rows"]
    assert agent.call("budget", dataset="people")["cap_left"] == 0
    history = agent.call("history", dataset="people", limit=5)["questions"]
    assert [h["price"] for h in history] == [1.0, 1.0]
    assert [c.analyst for c in db.history()] == ["agent", "agent"]


def test_without_a_cap_an_agent_spends_nothing():
    """The refusal names the price and who can allow it."""
    db, backend = desk_of(None)
    refused = over(backend).ask(SECRET)
    assert refused["is_error"]
    assert "price=1 query" in refused["message"]
    assert "--spend" in refused["message"]
    assert db.budget.spent == 0


def test_a_token_is_for_one_question_and_a_while():
    """Written otherwise the same question takes it; another, a changed or an old one does not."""
    db, backend = desk_of(50)
    agent, now = over(backend), [1000.0]
    backend._tokens = PriceTokens(b"x" * 32, lambda: now[0])
    token = agent.call("price", dataset="people", sql=SECRET)["price_token"]
    for sql, given in [
        ("select count(*) from people where not secret", token),
        (SECRET, token[:-1] + ("0" if token[-1] != "0" else "1")),
        (SECRET, token.replace(".", "0.", 1)),
        (SECRET, "x"),
        (SECRET, "é.é"),
    ]:
        refused = agent.call("ask", dataset="people", sql=sql, price_token=given)
        assert "price_token" in refused["message"]
    assert db.budget.spent == 0
    now[0] += SECONDS + 1
    assert agent.call("ask", dataset="people", sql=SECRET, price_token=token)["is_error"]
    now[0] -= 2
    same = "SELECT COUNT(*) AS n FROM people WHERE secret = true"
    assert not agent.call("ask", dataset="people", sql=same, price_token=token)["is_error"]
    assert db.budget.spent == 1


def test_fuzzed_calls_spend_nothing_that_was_not_priced():
    """Whatever is sent, the ledger grows only by what `price` gave a token for, within the cap."""
    draw = random.Random(21)
    db, backend = desk_of(40, queries=10_000)
    agent, priced = over(backend), {bundle.text for bundle in db.question(SECRET).bundles}
    tokens = [(SECRET, agent.call("price", dataset="people", sql=SECRET)["price_token"])]
    for _ in range(times(300, 10_000)):
        message = fuzzed(draw, tokens)
        reply = agent.send(message)
        assert reply is None or reply["jsonrpc"] == "2.0"
        found = (reply or {}).get("result", {}).get("structuredContent", {})
        if "price_token" in found:
            sql = message["params"]["arguments"]["sql"]
            tokens = [*tokens[-5:], (sql, found["price_token"])]
            priced |= {bundle.text for bundle in db.question(sql).bundles}
    assert {charge.query for charge in db.history()} <= priced
    assert 0 < db.budget.spent <= 40  # some of it was asked as it should be
    assert backend._limit.spent == db.budget.spent * MICRO


def test_fuzzed_calls_without_a_token_spend_nothing():
    """An agent that never looks at a price pays nothing, however large its cap."""
    draw = random.Random(22)
    db, backend = desk_of(1000)
    agent = over(backend)
    for _ in range(times(100, 10_000)):
        message = fuzzed(draw, [])
        if not (isinstance(message, dict) and message.get("params") and "price" in str(message)):
            agent.send(message)
    assert db.budget.spent == 0


def test_a_call_that_nobody_hears_is_not_made():
    """Without an id it is a notification, and none may spend."""
    db, backend = desk_of(5)
    agent = over(backend)
    token = agent.call("price", dataset="people", sql=SECRET)["price_token"]
    params = {"name": "ask", "arguments": {"dataset": "people", "sql": SECRET,
                                           "price_token": token}}  # fmt: skip
    assert agent.send({"jsonrpc": "2.0", "method": "tools/call", "params": params}) is None
    assert db.budget.spent == 0


def test_places_and_damage_are_not_told(tmp_path):
    """An agent hears of its question, never of files or a ledger."""
    _, backend = desk_of(5)

    async def broken(dataset):
        from sulq.errors import Refused, placed

        raise placed(Refused(f"{tmp_path} is away"))

    backend.budget = broken
    said = over(backend).call("budget", dataset="people")
    assert str(tmp_path) not in json.dumps(said)

    async def worse(dataset):
        raise RuntimeError(str(tmp_path))

    backend.budget = worse
    reply = over(backend).request("tools/call", name="budget", arguments={"dataset": "people"})
    assert reply["error"]["code"] == -32603
    assert str(tmp_path) not in json.dumps(reply)


def lines(backend, *sent):
    out = io.BytesIO()
    serve_lines(backend, io.BytesIO(b"".join(sent)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_lines_are_read_strictly():
    """Rubbish, a name twice, depth and length are refused; the next line is served."""
    _, backend = desk_of(None)
    ping = b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    replies = lines(
        backend, b"\n", b"not json\n", b'{"a":1,"a":2}\n', b"[" * 100 + b"]" * 100 + b"\n",
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}\n', b'"' + b"x" * 2 * MAX_LINE + b'"\n', ping,
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n', b"[" + ping.strip() + b"]\n",
        b"\xff\xfe\n", ping,
    )  # fmt: skip
    codes = [r.get("error", {}).get("code") for r in replies]
    assert codes == [-32700, -32700, -32600, -32700, -32600, None, -32600, -32700, None]
    assert replies[-1] == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.filterwarnings("ignore")
def test_the_official_client_speaks_to_the_command(tmp_path):
    """`sulq mcp --spend 1`, started as programs start the tools of their agents."""
    pq.write_table(people(), tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(DECLARED)
    terms = ["--data", "people.parquet", "--schema", "people.toml", "--epsilon", "1"]
    command = [
        "-c",
        "from sulq.cli import app; app()",
        "mcp",
        *terms,
        "--queries",
        "100",
        "--spend",
        "1",
    ]
    started = StdioServerParameters(
        command=sys.executable, args=command, cwd=tmp_path, env={"PYTHONPATH": SOURCE}
    )

    async def session():
        async with stdio_client(started) as (read, write), ClientSession(read, write) as client:
            hello = await client.initialize()
            tools = await client.list_tools()
            said = {"dataset": "people", "sql": SECRET}
            priced = await client.call_tool("price", said)
            token = priced.structured_content["price_token"]
            answer = await client.call_tool("ask", said | {"price_token": token})
            wrong = await client.call_tool("ask", said | {"price_token": "x"})
            return hello, tools, answer, wrong

    hello, tools, answer, wrong = asyncio.run(session())
    assert hello.server_info.name == "sulq"
    assert len(tools.tools) == 7
    assert not answer.is_error
    assert len(answer.structured_content["rows"]) == 1
    assert wrong.is_error
    with sulq.open(tmp_path / "people.parquet", tmp_path / "people.toml", epsilon=1.0,
                   queries=100) as db:  # fmt: skip
        assert [c.analyst for c in db.history()] == ["agent"]


def test_agents_are_served_line_by_line():
    """What a client would send and hear, from the first line on."""
    db, backend = desk_of(1)
    said = []

    def send(message):
        (reply,) = lines(backend, json.dumps(message).encode() + b"\n")
        said.append(reply)
        return reply

    assert not Agent(send).ask(SECRET)["is_error"]
    assert db.budget.spent == 1
