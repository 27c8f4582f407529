"""POST /mcp: the Model Context Protocol, for an AI agent that holds an analyst's key.

Each message passes the gate and the services like any request: rights, limits, the beat. An agent
spends only within the cap that the owner set for its key, and only what it was shown the price of.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request, Response

from sulq.database import Database
from sulq.errors import NotPermitted, Refused, in_queries
from sulq.ledger.chain import digest
from sulq.mcp.methods import VERSIONS, reply_to
from sulq.mcp.tokens import PriceTokens
from sulq.mcp.tools import answer_said, price_said, queries, schema_said
from sulq.preview import KeptRehearsals
from sulq.questions.question import Question
from sulq.server.api.dependencies import Anyone, Caller, Routes, context_of, reply
from sulq.server.gate import RequestContext
from sulq.server.services.access import Record
from sulq.server.services.context import Services
from sulq.server.services.histories import newest_with
from sulq.server.services.web_addresses import is_from

route = Routes("agents", prefix="")
HOW = (
    "An agent spends only within a cap that the owner set for its key: sulq key cap KEY 5, or "
    "PUT /v1/keys/KEY/cap."
)


class Agents:
    """What the agents of one server share."""

    def __init__(self, services: Services) -> None:
        self.tokens = PriceTokens(services.registry.shared_secret("price tokens"))
        self.rehearsals = KeptRehearsals()


@route("POST /mcp", "The Model Context Protocol", include_in_schema=False)
async def mcp(caller: Anyone, request: Request) -> Response:
    """One message of the protocol; a notification gets no body."""
    _check_headers(request)
    context = context_of(request)
    said = await reply_to(context.json, AgentDesk(caller, request.app.state.agents, context))
    return Response(status_code=202) if said is None else reply(said)


def _check_headers(request: Request) -> None:
    """Refuse pages of other sites, and versions that are not spoken here."""
    origin = request.headers.get("origin")
    if origin is not None and not is_from(origin, request.headers.get("host", "")):
        raise NotPermitted("a page of another site may not use this. Nothing was charged.")
    version = request.headers.get("mcp-protocol-version")
    if version is not None and version not in VERSIONS:
        raise Refused(f"MCP-Protocol-Version: want one of {', '.join(VERSIONS)}.")


class AgentDesk:
    """What the tools are asked of, by the holder of one key."""

    def __init__(self, caller: Caller, agents: Agents, context: RequestContext) -> None:
        self._caller = caller
        self._services = caller.services
        self._principal = caller.principal
        self._agents = agents
        self._context = context

    async def datasets(self) -> list[dict[str, Any]]:
        """Those that the key is for."""
        found = await self._caller.look(self._services.access.datasets, self._principal)
        state = self._services.states.of
        return [
            {"name": r.name, "description": r.description, "state": state(r).name} for r in found
        ]

    async def schema(self, dataset: str) -> dict[str, Any]:
        """What is public of it."""
        db = await self._db(await self._record(dataset))
        return schema_said(db.name, db.rows, db.schema.columns, str(db.promise))

    async def rehearse(self, dataset: str, sql: str) -> dict[str, Any]:
        """From made-up rows, in a metered thread."""
        record = await self._record(dataset)
        db = await self._db(record)
        question = await self._question(record, sql)
        found = await self._look(self._agents.rehearsals.table, db, sql)
        body = {"columns": list(found.columns)} | found.to_json()
        said = answer_said(body, "Made-up rows: these numbers mean nothing.")
        left = await self._look(db.left, question)
        return said | {"price": float(question.price), "remaining": float(left)}

    async def price(self, dataset: str, sql: str) -> dict[str, Any]:
        """Nothing is spent, no row is read."""
        record = await self._record(dataset)
        db, question = await self._db(record), await self._question(record, sql)
        unpaid = await self._services.answers.unpaid(self._principal, record, question)
        errors = await self._look(self._agents.rehearsals.widths, db, sql)
        left = await self._look(db.left, question)
        token = self._agents.tokens.token(self._principal.key, str(record.id), question)
        return price_said(question.price.micro, unpaid, errors, left, await self._allowed(), token)

    async def ask(self, dataset: str, sql: str, price_token: str) -> dict[str, Any]:
        """On the beat, paid from the key's cap (services/answers.py takes from it)."""
        record = await self._record(dataset)
        db, question = await self._db(record), await self._question(record, sql)
        self._agents.tokens.check(price_token, self._principal.key, str(record.id), question)
        await self._caller.look(self._remember, record, question)
        most = None  # but the cap
        if not self._principal.capped:
            unpaid = await self._services.answers.unpaid(self._principal, record, question)
            if unpaid:
                raise Refused(f"price={in_queries(unpaid)}. Nothing was charged.\n{HOW}")
            most = 0
        body = await self._services.answers.answer(
            self._principal, record, lambda view: view.question(sql), None, "mcp", most
        )
        return answer_said(json.loads(body)["table"], str(db.promise))

    async def budget(self, dataset: str) -> dict[str, Any]:
        """What this person may spend, and this key."""
        db = await self._db(await self._record(dataset))
        found = await self._look(lambda: db.budget)
        cap = await self._caller.look(self._services.caps.of, self._principal.key)
        return {
            "total": float(found.total), "spent": float(found.spent),
            "remaining": float(found.remaining),
            "cap": None if cap is None else queries(cap.most),
            "cap_left": None if cap is None else queries(cap.left), "as_text": str(found),
        }  # fmt: skip

    async def history(self, dataset: str, limit: int) -> dict[str, Any]:
        """The questions of this key, newest first; nothing else that its person asked."""
        record = await self._record(dataset)
        db, who = await self._db(record), self._principal.person.in_ledger
        asked = await self._caller.look(self._asked, record)
        found = await self._look(newest_with, db, who, limit, asked)
        lines = [
            {"question": c["question"], "price": queries(c["price"]), "time": c["time"]}
            for c in found
        ]
        return {"questions": lines}

    def _remember(self, record: Record, question: Question) -> None:
        """What this key asks, before it may be paid."""
        with self._services.registry.writing() as run:
            for bundle in question.bundles:
                run("INSERT INTO key_questions (key, dataset, question) VALUES (?, ?, ?) "
                    "ON CONFLICT DO NOTHING", self._principal.key, record.id,
                    digest(bundle.text))  # fmt: skip

    def _asked(self, record: Record) -> set[str]:
        rows = self._services.registry.all(
            "SELECT question FROM key_questions WHERE key = ? AND dataset = ?",
            self._principal.key, record.id,
        )  # fmt: skip
        return {row["question"] for row in rows}

    # ---- through the services ---------------------------------------------------------------

    async def _record(self, dataset: str) -> Record:
        found = await self._caller.look(self._services.access.dataset, self._principal, dataset)
        self._context.dataset = found.name
        return found

    async def _db(self, record: Record) -> Database:
        """The database as this principal sees it."""
        opened = await self._services.answers.dataset(record)
        return opened.db.as_analyst(self._principal.person.in_ledger)

    async def _question(self, record: Record, sql: str) -> Question:
        question, _ = await self._services.answers.price(
            self._principal, record, lambda db: db.question(sql)
        )
        return question

    async def _look(self, function: Any, *arguments: Any) -> Any:
        return await self._services.answers.look(self._principal, function, *arguments)

    async def _allowed(self) -> int | None:
        cap = await self._caller.look(self._services.caps.of, self._principal.key)
        return None if cap is None else cap.left
