"""An agent that follows a script, and one that follows none: what tests of /mcp share."""

from __future__ import annotations

import asyncio
import random

from sulq.mcp.methods import reply_to

SQL = [
    "select count(*) from people where secret",
    "select region, avg(income) as income from people group by region",
    "select avg(income) from people where secret",
    "select count(*) from people",
    "select * from people",
    "select median(age) from people; drop table people",
    "",
    "'",
    "select count(*) from secrets",
]
TOOLS = ["datasets", "schema", "rehearse", "price", "ask", "budget", "history"]


class Agent:
    """Sends messages and reads replies; `send` takes a message and gives the reply or None."""

    def __init__(self, send):
        self.send = send
        self.sent = 0

    def request(self, method, **params):
        self.sent += 1
        reply = self.send({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        assert reply["id"] == self.sent
        return reply

    def call(self, tool, **arguments):
        """What a tool gives: its values, and whether it is an error."""
        found = self.request("tools/call", name=tool, arguments=arguments)["result"]
        return found["structuredContent"] | {"is_error": found["isError"]}

    def ask(self, sql, dataset="people"):
        """As a careful agent does: the price first."""
        priced = self.call("price", dataset=dataset, sql=sql)
        if priced["is_error"]:
            return priced
        return self.call("ask", dataset=dataset, sql=sql, price_token=priced["price_token"])


def over(desk):
    """An agent of a desk of this process."""
    return Agent(lambda message: asyncio.run(reply_to(message, desk)))


def fuzzed(draw: random.Random, priced: list[tuple[str, str]]):
    """One message of any kind: calls of tools with arguments right and wrong, and rubbish.

    `priced` has statements with the tokens that they got: some are asked as they should be.
    """
    if priced and draw.random() < 0.1:
        sql, token = draw.choice(priced)
        said = {"dataset": "people", "sql": sql, "price_token": token}
        params = {"name": "ask", "arguments": said}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    tokens = [token for _, token in priced]
    if draw.random() < 0.1:
        return draw.choice([
            None, [], 5, "x", {}, {"jsonrpc": "2.0"}, {"jsonrpc": "1.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "id": {}, "method": "ping"}, {"jsonrpc": "2.0", "method": "ping"},
            {"jsonrpc": "2.0", "id": 1, "method": 5}, {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]},
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}},
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}},
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": None}},
            {"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {}},
        ])  # fmt: skip
    odd = [None, 5, -1, True, 2.5, "", "x" * 300, [], {}, "\ud800", "people\0", 10**30]
    statements = [*SQL, *(f"select count(*) from people where age > {draw.randrange(90)}",) * 3]
    arguments = {}
    for name, usual in (
        ("dataset", ["people", "secrets", "PEOPLE"]), ("sql", statements),
        ("price_token", [*tokens, "1.x", f"{10**12}.{'0' * 40}", "9" * 60]), ("limit", [1, 5, 101]),
    ):  # fmt: skip
        if draw.random() < 0.75:
            arguments[name] = draw.choice(usual if draw.random() < 0.8 else odd)
    if draw.random() < 0.05:
        arguments["more"] = 1
    tool = draw.choice([*TOOLS, "ask", "ask", "Ask", "query"])
    wanted = {"datasets": 0, "schema": 1, "budget": 1, "rehearse": 2, "price": 2, "ask": 3}
    if draw.random() < 0.7 and tool in wanted:  # of the right names at least
        keep = ("dataset", "sql", "price_token")[: wanted[tool]]
        arguments = {k: v for k, v in arguments.items() if k in keep}
    params = {"name": tool, "arguments": arguments if draw.random() < 0.95 else draw.choice(odd)}
    return {"jsonrpc": "2.0", "id": draw.randrange(1000), "method": "tools/call", "params": params}
