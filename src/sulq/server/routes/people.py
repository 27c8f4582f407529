"""Analysts and keys."""

from __future__ import annotations

from fastapi import Response

from sulq.errors import NotPermitted
from sulq.server.routes import models
from sulq.server.routes.parts import (
    Anyone,
    WholeOwner,
    errors,
    gives,
    reply,
    router,
)

routes = router("people")


@routes.get("/me", summary="Whose key this is", responses=errors(401, 429))
async def me(house: Anyone) -> Response:
    """Your name and role, this key, and the datasets it is for."""
    return reply(
        {
            "name": house.visitor.person.name,
            "role": house.visitor.person.role,
            "key": house.visitor.key,
            "datasets": [record.name for record in house.rooms.access.datasets(house.visitor)],
        }
    )


@routes.get("/analysts", summary="Your analysts", responses=errors(401, 403, 429))
async def analysts(house: WholeOwner) -> Response:
    """With the datasets each is invited to."""
    return reply({"analysts": house.rooms.people.analysts(house.visitor.person.house)})


@routes.post(
    "/analysts",
    summary="A new analyst",
    status_code=201,
    responses=errors(400, 401, 403, 409, 413, 415, 422, 429),
)
async def add_analyst(house: WholeOwner, body: models.NewAnalyst) -> Response:
    """They need a key, and an invitation to a dataset."""
    person = house.rooms.people.add_analyst(house.visitor.person.house, body.name)
    return reply({"name": person.name}, 201)


@routes.delete(
    "/analysts/{analyst}", summary="Remove an analyst", responses=errors(401, 403, 404, 429)
)
async def remove_analyst(house: WholeOwner, analyst: str) -> Response:
    """Their keys end and their invitations. What they spent stays spent."""
    house.rooms.people.remove_analyst(house.visitor.person.house, analyst)
    return reply({"removed": analyst})


@routes.get("/keys", summary="Keys, without their secrets", responses=errors(401, 429))
async def keys(house: Anyone) -> Response:
    """Your own; an owner's list has their analysts' too."""
    whole = house.visitor.is_owner and house.visitor.scope is None
    person = None if whole else house.visitor.person.id
    return reply({"keys": house.rooms.people.keys(house.visitor.person.house, person)})


@routes.post(
    "/keys",
    summary="A new key",
    status_code=201,
    responses=gives(models.KeyReply, 400, 401, 403, 404, 413, 415, 422, 429, status=201),
)
async def new_key(house: WholeOwner, body: models.NewKey) -> Response:
    """For yourself or for one of your analysts. It is shown this once."""
    person = house.visitor.person
    if body.analyst is not None:
        person = house.rooms.people.analyst(person.house, body.analyst)
    key = house.rooms.people.new_key(
        person, datasets=body.datasets, days=body.days, label=body.label
    )
    return reply({"key": key.text, "id": key.id, "expires": key.expires}, 201)


@routes.delete("/keys/{key}", summary="Revoke a key", responses=errors(401, 403, 404, 429))
async def revoke(house: Anyone, key: str) -> Response:
    """At once. Your own keys; an owner's for the whole house."""
    if house.visitor.scope is not None and key != house.visitor.key:
        raise NotPermitted("a key for some datasets may revoke itself only. Nothing was changed.")
    person = None if house.visitor.is_owner else house.visitor.person.id
    house.rooms.people.revoke(house.visitor.person.house, key, person)
    return reply({"revoked": key})
