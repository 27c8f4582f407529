"""Analysts and keys."""

from __future__ import annotations

from fastapi import Response

from sulq.errors import NotPermitted
from sulq.server.api import bodies as models
from sulq.server.api import replies
from sulq.server.api.dependencies import Anyone, WholeOwner, errors, reply, router
from sulq.server.services.people import Key, People, Person

routes = router("people")


@routes.get("/me", response_model=replies.MeReply, summary="Whose key this is")
async def me(caller: Anyone) -> Response:
    """Your name and role, this key, and the datasets it is for."""
    principal = caller.principal
    found = await caller.look(caller.services.access.datasets, principal)
    person = {"name": principal.person.name, "role": principal.person.role}
    return reply(person | {"key": principal.key, "datasets": [record.name for record in found]})


@routes.get("/analysts", response_model=replies.AnalystsReply, summary="Your analysts")
async def analysts(caller: WholeOwner) -> Response:
    """With the datasets each is invited to."""
    tenant = caller.principal.person.tenant
    return reply({"analysts": await caller.look(caller.services.people.analysts, tenant)})


@routes.post(
    "/analysts", response_model=replies.NewAnalystReply, summary="A new analyst", status_code=201
)
async def add_analyst(caller: WholeOwner, body: models.NewAnalyst) -> Response:
    """They need a key, and an invitation to a dataset."""
    tenant = caller.principal.person.tenant
    person = await caller.look(caller.services.people.add_analyst, tenant, body.name)
    return reply({"name": person.name}, 201)


@routes.delete(
    "/analysts/{analyst}", response_model=replies.RemovedReply, summary="Remove an analyst"
)
async def remove_analyst(caller: WholeOwner, analyst: str) -> Response:
    """Their keys end and their invitations. What they spent stays spent."""
    tenant = caller.principal.person.tenant
    by = caller.principal.person.name
    await caller.look(caller.services.people.remove_analyst, tenant, analyst, by)
    return reply({"removed": analyst})


@routes.get("/keys", response_model=replies.KeysReply, summary="Keys, without their secrets")
async def keys(caller: Anyone) -> Response:
    """Your own; an owner's list has their analysts' too."""
    whole = caller.principal.is_owner and caller.principal.scope is None
    person = None if whole else caller.principal.person.id
    tenant = caller.principal.person.tenant
    return reply({"keys": await caller.look(caller.services.people.keys, tenant, person)})


@routes.post(
    "/keys", summary="A new key", status_code=201, response_model=models.KeyReply,
    responses=errors(404),
)  # fmt: skip
async def new_key(caller: WholeOwner, body: models.NewKey) -> Response:
    """For yourself or for one of your analysts. It is shown this once."""
    key = await caller.look(_new_key, caller.services.people, caller.principal.person, body)
    return reply({"key": key.text, "id": key.id, "expires": key.expires}, 201)


def _new_key(people: People, person: Person, body: models.NewKey) -> Key:
    if body.analyst is not None:
        person = people.analyst(person.tenant, body.analyst)
    return people.new_key(
        person, datasets=body.datasets, days=body.days, label=body.label, cap=body.cap
    )


@routes.post(
    "/keys/rotate", summary="A new key in place of this one", status_code=201,
    response_model=models.KeyReply,
)  # fmt: skip
async def rotate(caller: Anyone) -> Response:
    """For the same datasets and until the same day. The key you send ends at once."""
    key = await caller.look(caller.services.people.rotate, caller.principal.key)
    return reply({"key": key.text, "id": key.id, "expires": key.expires}, 201)


@routes.put("/keys/{key}/cap", response_model=replies.CapReply, summary="What a key may spend")
async def set_cap(caller: WholeOwner, key: str, body: models.SetCap) -> Response:
    """Its questions are refused beyond it, at every door. What was paid before stays free."""
    tenant = caller.principal.person.tenant
    cap = await caller.look(caller.services.caps.set, tenant, key, body.queries)
    most, spent = (None, 0) if cap is None else (cap.most, cap.spent)
    return reply({"key": key, "cap_micro": most, "spent_micro": spent})


@routes.delete(
    "/keys/{key}",
    response_model=replies.RevokedReply,
    summary="Revoke a key",
    responses=errors(403),
)
async def revoke(caller: Anyone, key: str) -> Response:
    """At once. Your own keys; an owner's for all of their datasets and analysts."""
    if caller.principal.scope is not None and key != caller.principal.key:
        raise NotPermitted("a key for some datasets may revoke itself only. Nothing was changed.")
    person = None if caller.principal.is_owner else caller.principal.person.id
    tenant = caller.principal.person.tenant
    await caller.look(caller.services.people.revoke, tenant, key, person)
    return reply({"revoked": key})
