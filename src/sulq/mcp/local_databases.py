"""Databases of this process, here or on a server, asked by one agent under one limit."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sulq.database import Database
from sulq.errors import MICRO, NotFound
from sulq.mcp.tokens import PriceTokens
from sulq.mcp.tools import answer_said, price_said, queries, schema_said
from sulq.preview import KeptRehearsals
from sulq.questions.describe import readable
from sulq.spending_limit import SpendingLimit
from sulq.values.table import Table


class LocalDatabases:
    """What the tools are asked of, over databases that are open here."""

    def __init__(self, databases: Mapping[str, Database], limit: SpendingLimit) -> None:
        self._databases = databases
        self._limit = limit
        self._tokens = PriceTokens(secrets.token_bytes(32))
        self._rehearsals = KeptRehearsals()
        self._asked: dict[str, set[str]] = {}  # canonical texts, where nothing else says who asked

    def _db(self, dataset: str) -> Database:
        found = self._databases.get(dataset)
        if found is None:
            names = ", ".join(map(repr, self._databases))
            raise NotFound(f"there is no such dataset. There is {names}. Nothing was charged.")
        return found

    async def datasets(self) -> list[dict[str, Any]]:
        """All of them."""
        return [{"name": name, "rows": db.rows} for name, db in self._databases.items()]

    async def schema(self, dataset: str) -> dict[str, Any]:
        """From the declarations."""
        db = self._db(dataset)
        return schema_said(db.name, db.rows, db.schema.columns, str(db.promise))

    async def rehearse(self, dataset: str, sql: str) -> dict[str, Any]:
        """From made-up rows."""
        db = self._db(dataset)
        found = self._rehearsals.table(db, sql)
        said = _said(found, "Made-up rows: these numbers mean nothing.")
        left = db.left(db.question(sql))
        return said | {"price": float(db.price(sql)), "remaining": float(left)}

    async def price(self, dataset: str, sql: str) -> dict[str, Any]:
        """Nothing is spent, no row is read."""
        db = self._db(dataset)
        question = db.question(sql)
        token = self._tokens.token("", dataset, question)
        allowed = None if self._limit.most is None else int(self._limit.left * MICRO)
        return price_said(
            question.price.micro, db.unpaid(question), self._rehearsals.widths(db, sql),
            db.left(question), allowed, token,
        )  # fmt: skip

    async def ask(self, dataset: str, sql: str, price_token: str) -> dict[str, Any]:
        """Paid within the limit, after its price was shown."""
        db = self._db(dataset)
        question = db.question(sql)
        self._tokens.check(price_token, "", dataset, question)
        self._asked.setdefault(dataset, set()).update(b.text for b in question.bundles)
        with self._limit.paying(db, question) as most:
            found: Table = db.answer(question, most=most)
        return _said(found, str(db.promise))

    async def budget(self, dataset: str) -> dict[str, Any]:
        """Of the dataset and of the limit."""
        found = self._db(dataset).budget
        capped = self._limit.most is not None
        return {
            "total": float(found.total), "spent": float(found.spent),
            "remaining": float(found.remaining),
            "cap": queries(self._limit.most or 0) if capped else None,
            "cap_left": float(self._limit.left) if capped else None, "as_text": str(found),
        }  # fmt: skip

    async def history(self, dataset: str, limit: int) -> dict[str, Any]:
        """This agent's own charges."""
        db = self._db(dataset)
        texts = self._asked.get(dataset, set())
        own = [
            c for c in db.history()
            if (c.analyst == db._analyst if db._analyst else c.query in texts)
        ]  # fmt: skip
        lines = [
            {"question": readable(c.query), "price": queries(c.price), "time": c.time}
            for c in reversed(own[-limit:])
        ]
        return {"questions": lines}


def _said(table: Table, promise: str) -> dict[str, Any]:
    body = {"columns": list(table.columns)} | table.to_json()
    return answer_said(body, promise)
