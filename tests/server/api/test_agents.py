"""/mcp on a server: an agent with an analyst's key, within the cap that the owner set for it."""

import asyncio
import json
import random

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from scripted_agent import Agent, fuzzed
from soak import times

from sulq.errors import MICRO

SECRET = "select count(*) from people where secret"
GROUPED = "select region, avg(income) as income from people group by region"


def a_key(instance, cap=None, who="bob"):
    made = instance.call("POST", "/v1/keys", {"analyst": who, "cap": cap}, "anna").json
    return made["key"], made["id"]


def agent_of(instance, key):
    def send(message):
        found = instance.call("POST", "/mcp", message, key)
        assert found.status in (200, 202), found.body
        return found.json if found.status == 200 else None

    return Agent(send)


def spent(instance):
    return instance.call("GET", "/v1/datasets/people/budget", None, "anna").json["spent_micro"]


def test_an_agent_asks_within_its_cap_and_is_refused_beyond(instance):
    """The whole session: look, rehearse, price, ask, budget, history."""
    key, _ = a_key(instance, 2)
    agent = agent_of(instance, key)
    assert agent.request("initialize", protocolVersion="2025-11-25")["result"]["serverInfo"]
    assert agent.send({"jsonrpc": "2.0", "method": "notifications/initialized"}) is None
    assert [d["name"] for d in agent.call("datasets")["datasets"]] == ["people"]
    schema = agent.call("schema", dataset="people")
    assert (schema["rows"], len(schema["columns"])) == (200, 6)
    assert "sure" in schema["promise"]
    assert "rehearsal" in agent.call("rehearse", dataset="people", sql=GROUPED)["note"]
    priced = agent.call("price", dataset="people", sql=GROUPED)
    assert (priced["to_pay"], priced["cap_left"]) == (1.0, 2.0)
    assert spent(instance) == 0
    answer = agent.call("ask", dataset="people", sql=GROUPED, price_token=priced["price_token"])
    assert {"income", "income_low", "income_high"} <= answer["rows"][0].keys()
    assert "sure" in answer["promise"]
    assert not agent.ask(SECRET)["is_error"]
    refused = agent.ask("select count(*) from people where not secret and age > 50")
    assert (refused["error"], refused["charged"]) == ("BudgetExceeded", False)
    assert agent.ask(SECRET)["rows"]  # paid before, so free
    assert spent(instance) == 2 * MICRO
    assert agent.call("budget", dataset="people")["cap_left"] == 0
    history = agent.call("history", dataset="people")["questions"]
    assert [h["price"] for h in history] == [1.0, 1.0]


def test_a_key_without_a_cap_spends_nothing_here(instance):
    """What was paid elsewhere is answered; the refusal names the price and who can allow it."""
    agent = agent_of(instance, "bob")
    refused = agent.ask(SECRET)
    assert "price=1 query" in refused["message"]
    assert "owner" in refused["message"]
    assert spent(instance) == 0
    assert instance.ask("secret").status == 200
    assert agent.ask(SECRET)["rows"]
    assert spent(instance) == MICRO


def test_no_tool_shows_more_than_the_key_may(instance):
    """Another's dataset looks like a missing one, another's questions are not in the history."""
    key, _ = a_key(instance, 5)
    instance.ask("age > 10", "anna")
    agent = agent_of(instance, key)
    assert agent.call("history", dataset="people")["questions"] == []
    for who in ("eve", "carl"):
        outside = agent_of(instance, who)
        for tool in ("schema", "budget", "history"):
            assert outside.call(tool, dataset="people")["error"] == "NotFound"
        for tool in ("price", "rehearse"):
            assert outside.call(tool, dataset="people", sql=SECRET)["error"] == "NotFound"
        token = agent.call("price", dataset="people", sql=SECRET)["price_token"]
        said = {"dataset": "people", "sql": SECRET, "price_token": token}
        assert outside.call("ask", **said)["error"] == "NotFound"
    missing = agent.call("schema", dataset="secrets")["message"]
    assert missing == agent.call("schema", dataset="nothing")["message"].replace(
        "nothing", "secrets"
    )
    assert instance.call("POST", "/mcp", {}, "nobody").status == 401


def test_a_token_is_for_the_key_it_was_given_to(instance):
    """Another key of the same person looks at the price itself."""
    (first, _), (second, _) = a_key(instance, 5), a_key(instance, 5)
    token = agent_of(instance, first).call("price", dataset="people", sql=SECRET)["price_token"]
    said = {"dataset": "people", "sql": SECRET, "price_token": token}
    assert "price_token" in agent_of(instance, second).call("ask", **said)["message"]
    assert not agent_of(instance, first).call("ask", **said)["is_error"]


def test_the_transport_is_strict(instance):
    """Only POST, only JSON, no pages of other sites, no unknown version, one message at a time."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert instance.call("GET", "/mcp").status == 405
    assert instance.call("DELETE", "/mcp").status == 405
    assert instance.call("POST", "/mcp", ping, None).status == 401
    assert instance.call("POST", "/mcp", b"{", Content_Type="application/json").status == 400
    assert instance.call("POST", "/mcp", b"x", Content_Type="text/plain").status == 415
    assert instance.call("POST", "/mcp", ping, Origin="https://evil.example").status == 403
    for origin in ("http://[", "null", "", "http://127.0.0.1:x"):
        assert instance.call("POST", "/mcp", ping, Origin=origin).status == 403
    own = instance.url
    assert instance.call("POST", "/mcp", ping, Origin=own).json["result"] == {}
    assert instance.call("POST", "/mcp", ping, MCP_Protocol_Version="1999-01-01").status == 409
    assert instance.call("POST", "/mcp", ping, MCP_Protocol_Version="2025-06-18").status == 200
    assert instance.call("POST", "/mcp", [ping]).json["error"]["code"] == -32600


def test_fuzzed_calls_spend_nothing_unpriced(instance):
    """Random calls of two keys: what is spent was priced, and each stays within its cap."""
    draw = random.Random(5)
    keys = [a_key(instance, 3), a_key(instance, 1.5)]
    agents, priced = [agent_of(instance, key) for key, _ in keys], {SECRET}
    begun = [agent.call("price", dataset="people", sql=SECRET)["price_token"] for agent in agents]
    tokens = [[(SECRET, token)] for token in begun]
    for _ in range(times(120, 10_000)):
        i = draw.randrange(2)
        message = fuzzed(draw, tokens[i])
        body = json.dumps(message).encode()
        found = instance.call("POST", "/mcp", body, keys[i][0])
        assert found.status in (200, 202, 400, 413, 422), found.body
        said = found.json if found.status == 200 else {}
        values = said.get("result", {}).get("structuredContent", {})
        if "price_token" in values:
            sql = message["params"]["arguments"]["sql"]
            tokens[i] = [*tokens[i][-3:], (sql, values["price_token"])]
            priced.add(sql)
    listed = instance.call("GET", "/v1/keys", None, "anna").json["keys"]
    used = {k["id"]: k["spent_micro"] for k in listed}
    assert used[keys[0][1]] <= 3 * MICRO
    assert used[keys[1][1]] <= 1.5 * MICRO
    assert 0 < spent(instance) == used[keys[0][1]] + used[keys[1][1]]
    asked = instance.call("GET", "/v1/datasets/people/answers", None, "bob").json["answers"]
    prices = [_price(instance, sql) for sql in priced]
    assert sum(line["price"] for line in asked) == spent(instance) <= sum(prices)
    assert agents[0].call("budget", dataset="people")["cap"] == 3.0


def _price(instance, sql):
    said = instance.call("POST", "/v1/datasets/people/price", {"sql": sql})
    return said.json["price_micro"]


@pytest.mark.filterwarnings("ignore")
def test_the_official_client_speaks_to_the_server(instance):
    """Streamable HTTP with the key as a bearer token."""
    key, _ = a_key(instance, 1)
    headers = {"Authorization": f"Bearer {key}"}

    async def session():
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False) as http,
            streamable_http_client(f"{instance.url}/mcp", http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as client,
        ):
            await client.initialize()
            tools = await client.list_tools()
            said = {"dataset": "people", "sql": SECRET}
            priced = await client.call_tool("price", said)
            token = priced.structured_content["price_token"]
            return tools, await client.call_tool("ask", said | {"price_token": token})

    tools, answer = asyncio.run(session())
    assert len(tools.tools) == 7
    assert not answer.is_error
    assert answer.structured_content["rows"]


def test_history_has_what_this_key_asked_and_nothing_else_of_its_person(instance):
    """Two agents of bob's, and bob himself; what a key asked goes on with the one after it."""
    instance.ask("age > 10")
    (one, _), (two, _) = a_key(instance, 5), a_key(instance, 5)
    first, second = agent_of(instance, one), agent_of(instance, two)
    first.ask(SECRET)
    second.ask(GROUPED)
    mine = first.call("history", dataset="people")["questions"]
    assert len(mine) == 1
    assert len(second.call("history", dataset="people")["questions"]) == 1
    assert second.call("history", dataset="people")["questions"] != mine
    new = instance.call("POST", "/v1/keys/rotate", None, one).json["key"]
    assert agent_of(instance, new).call("history", dataset="people")["questions"] == mine
