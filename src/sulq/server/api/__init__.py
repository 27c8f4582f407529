"""The routes under /v1: what each takes and gives.

app.py             the routes put together, with the one shape of their errors
dependencies.py    what routes share: who asks, which dataset, a reply as bytes
request_bodies.py  what bodies hold, for the check of a body and the reader of openapi.json
replies.py         what replies hold, for the same reader
answer_replies.py  what replies to questions hold
api_reference.py   the description -> a page with examples
questions.py       price, ask, sql, sizes and answers: what analysts do
datasets.py        datasets: made, described, frozen, closed; budget and ledger
ownership.py       sources, drafts, the timeline, the report: what an owner looks at
accounts.py        analysts and keys
agents.py          /mcp: tools for an AI agent
oversight.py       the audit log, the webhook; tokens of an institution for keys
health.py          health, alarms and metrics
"""
