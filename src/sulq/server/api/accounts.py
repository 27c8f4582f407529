"""Analysts and keys."""

from __future__ import annotations

from fastapi import Response

from sulq.errors import NotPermitted
from sulq.server.api import replies
from sulq.server.api import request_bodies as bodies
from sulq.server.api.dependencies import Anyone, Routes, WholeOwner, reply
from sulq.server.services.people import Key

route = Routes("people")


@route("GET /me", "Whose key this is", replies.MeReply)
async def me(caller: Anyone) -> Response:
    """Your name and role, this key, and the datasets it is for."""
    found = await caller.look(caller.services.access.datasets, caller.principal)
    who = {"name": caller.person.name, "role": caller.person.role, "key": caller.principal.key}
    return reply(who | {"datasets": [record.name for record in found]})


@route("GET /analysts", "Your analysts", replies.AnalystsReply)
async def analysts(caller: WholeOwner) -> Response:
    """With the datasets each is invited to."""
    found = await caller.look(caller.services.people.analysts, caller.person.tenant)
    return reply({"analysts": found})


@route("POST /analysts", "A new analyst", replies.NewAnalystReply, status_code=201)
async def add_analyst(caller: WholeOwner, body: bodies.NewAnalyst) -> Response:
    """They need a key, and an invitation to a dataset."""
    await caller.look(caller.services.people.add_analyst, caller.person.tenant, body.name)
    return reply({"name": body.name}, 201)


@route("DELETE /analysts/{analyst}", "Remove an analyst", replies.RemovedReply)
async def remove_analyst(caller: WholeOwner, analyst: str) -> Response:
    """Their keys end and their invitations. What they spent stays spent."""
    await caller.look(caller.services.people.remove_analyst, caller.person.tenant, analyst)
    return reply({"removed": analyst})


@route("GET /keys", "Keys, without their secrets", replies.KeysReply)
async def keys(caller: Anyone) -> Response:
    """Your own; an owner's list has their analysts' too. A key for some datasets lists itself."""
    key = None if caller.principal.scope is None else caller.principal.key
    person = None if caller.principal.is_owner else caller.person.id
    found = await caller.look(caller.services.people.keys, caller.person.tenant, person, key)
    return reply({"keys": found})


@route("POST /keys", "A new key", replies.KeyReply, status_code=201, also=(404,))
async def new_key(caller: WholeOwner, body: bodies.NewKey) -> Response:
    """For yourself or for one of your analysts. It is shown this once."""
    people, person = caller.services.people, caller.person
    if body.analyst is not None:
        person = await caller.look(people.analyst, person.tenant, body.analyst)
    wanted = body.model_dump(exclude={"analyst"})
    return _shown(await caller.look(lambda: people.new_key(person, **wanted)))


def _shown(key: Key) -> Response:
    return reply({"key": key.text, "id": key.id, "expires": key.expires}, 201)


@route("POST /keys/rotate", "A new key in place of this one", replies.KeyReply, status_code=201)
async def rotate(caller: Anyone) -> Response:
    """For the same datasets and until the same day. The key you send ends at once."""
    return _shown(await caller.look(caller.services.people.rotate, caller.principal.key))


@route("PUT /keys/{key}/cap", "What a key may spend", replies.CapReply)
async def set_cap(caller: WholeOwner, key: str, body: bodies.SetCap) -> Response:
    """Its questions are refused beyond it, at every door. What was paid before stays free."""
    cap = await caller.look(caller.services.caps.set, caller.person.tenant, key, body.queries)
    most, spent = (None, 0) if cap is None else (cap.most, cap.spent)
    return reply({"key": key, "cap_micro": most, "spent_micro": spent})


@route("DELETE /keys/{key}", "Revoke a key", replies.RevokedReply, also=(403,))
async def revoke(caller: Anyone, key: str) -> Response:
    """At once. Your own keys; an owner's for all of their datasets and analysts."""
    if caller.principal.scope is not None and key != caller.principal.key:
        raise NotPermitted("a key for some datasets may revoke itself only. Nothing was changed.")
    person = None if caller.principal.is_owner else caller.person.id
    await caller.look(caller.services.people.revoke, caller.person.tenant, key, person)
    return reply({"revoked": key})
