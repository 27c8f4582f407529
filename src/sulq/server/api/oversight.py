"""What an owner shows others and hears of: the audit log and the webhook; tokens for keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import Field

from sulq.server.api.dependencies import Routes, WholeOwner, reply
from sulq.server.api.replies import Reply, Time, holding
from sulq.server.api.request_bodies import Body
from sulq.server.services.context import Services

route = Routes("oversight")
MAX_ENTRIES = 1000
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
KIND = "urn:ietf:params:oauth:token-type:"
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=["0" * 64])]


class LogHead(Reply):
    """The newest entry: keep it elsewhere, and an end that is cut off is noticed."""

    number: int = Field(description="-1: there is none.", examples=[41])
    hash: Hash


class LogEntry(Reply):
    """One entry of the audit log."""

    number: int = Field(examples=[41])
    kind: str = Field(examples=["invite"])
    body: dict[str, Any] = Field(
        description="`by_id` and `about_id` are nobody else's, ever; `by` and `about` are names. "
        "`what` says it in words.",
        examples=[{"about": "alice", "about_id": "analyst:2", "by": "anna", "by_id": "owner:1",
                   "dataset": "people", "time": "2026-11-18T09:30:00+00:00",
                   "what": "alice was invited to people", "with": "0123456789abcdef"}],
    )  # fmt: skip
    previous: Hash
    hash: Hash = Field(
        description="SHA-256 of previous, number, kind and body, a line each; body as JSON with "
        "its names sorted, without spaces, in ASCII."
    )


class LogReply(Reply):
    """Entries of the audit log, oldest first."""

    entries: list[LogEntry]
    head: LogHead


class SetWebhook(Body):
    """Where messages go."""

    url: str = Field(max_length=500, examples=["https://hooks.example.org/sulq"])


class WebhookReply(Reply):
    """Where messages go, and how many wait."""

    url: str = Field(examples=["https://hooks.example.org/sulq"])
    created: Time
    waiting: int = Field(examples=[0])


class NewWebhookReply(Reply):
    """The secret by which messages are signed, shown this once."""

    url: str = Field(examples=["https://hooks.example.org/sulq"])
    secret: str = Field(examples=["whsec_..."])


SentReply = holding("SentReply", "A message is on its way.", sent=Literal[True])
RemovedWebhook = holding("RemovedWebhook", "Nothing is sent any more.", removed=Literal[True])


class Exchange(Body):
    """A token of the institution's, for a key (RFC 8693, as JSON)."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"] = Field(examples=[GRANT])
    subject_token: str = Field(min_length=1, max_length=16_000, examples=["eyJ..."])
    subject_token_type: Literal[
        "urn:ietf:params:oauth:token-type:jwt",
        "urn:ietf:params:oauth:token-type:id_token",
        "urn:ietf:params:oauth:token-type:access_token",
    ] = Field(examples=[f"{KIND}jwt"])


class TokenReply(Reply):
    """A key for some hours."""

    access_token: str = Field(examples=["sulq_..."])
    issued_token_type: str = Field(examples=[f"{KIND}access_token"])
    token_type: Literal["Bearer"]
    expires: Time


# ---- the audit log ----------------------------------------------------------------------------


@route("GET /audit-log", "Who was let in, who decided what", LogReply, also=(422,))
async def audit_log(
    caller: WholeOwner,
    after: int = Parameter(-1, ge=-1, le=2**53, description="Only entries after this number."),
    limit: int = Parameter(MAX_ENTRIES, ge=1, le=MAX_ENTRIES),
) -> Response:
    """Sign-ins, keys, people, invitations, freezes: each entry has the hash of the one before."""
    log, tenant = caller.services.log, caller.person.tenant
    found = await caller.look(log.entries, tenant, after, limit)
    entries = [link.shown() for link in found]
    return reply({"entries": entries, "head": await caller.look(log.head, tenant)})


@route(
    "GET /audit-log/verify",
    "Check the audit log",
    LogHead,
    also=(
        409,
        422,
        503,
    ),
)
async def verify(
    caller: WholeOwner,
    head: str | None = Parameter(
        None, max_length=100, description="NUMBER:HASH that was kept elsewhere."
    ),
) -> Response:
    """Every link, and that the entry you kept is still in it; the newest entry if all is well."""
    return reply(await caller.run(caller.services.log.verify, caller.person.tenant, head))


# ---- the webhook ------------------------------------------------------------------------------


@route("GET /webhook", "Where messages go", WebhookReply, also=(404,))
async def webhook(caller: WholeOwner) -> Response:
    """When a budget runs low, a dataset freezes or is late, a key expires soon."""
    return reply(await caller.look(caller.services.webhooks.shown, caller.person.tenant))


@route("PUT /webhook", "Have messages sent", NewWebhookReply)
async def set_webhook(caller: WholeOwner, body: SetWebhook) -> Response:
    """To a host that whoever runs the server allows. The secret signs each message."""
    secret = await caller.look(caller.services.webhooks.set, caller.person.tenant, body.url)
    return reply({"url": body.url, "secret": secret})


@route("DELETE /webhook", "No more messages", RemovedWebhook, also=(404,))
async def remove_webhook(caller: WholeOwner) -> Response:
    """Those that wait are forgotten."""
    await caller.look(caller.services.webhooks.remove, caller.person.tenant)
    return reply({"removed": True})


@route("POST /webhook/test", "Send a message", SentReply, also=(404,))
async def test_webhook(caller: WholeOwner) -> Response:
    """One that says nothing, to see that it arrives."""
    await caller.look(caller.services.webhooks.test, caller.person.tenant)
    return reply({"sent": True})


# ---- tokens of an institution -----------------------------------------------------------------


@route(
    "POST /token",
    "A key for a token of your institution's",
    TokenReply,
    status_code=201,
    also=(
        401,
        403,
        404,
        429,
    ),
)
async def exchange(request: Request, body: Exchange) -> Response:
    """Needs no key. Each token is worth one key, for as many hours as the server says."""
    services: Services = request.app.state.services
    assert services.institution is not None  # else there is no such route
    who = (request.scope.get("client") or ("",))[0]
    await services.registry.run(services.institution.exchanges.take, who)
    key = await services.institution.exchange(body.subject_token)
    found = {"access_token": key.text, "issued_token_type": f"{KIND}access_token"}
    return reply(found | {"token_type": "Bearer", "expires": key.expires}, 201)
