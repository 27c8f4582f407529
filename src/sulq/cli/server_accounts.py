"""sulq owner, analyst, key: who offers datasets of a server, and who may ask them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Said, grid
from sulq.cli.options import Analyst, Dataset, Dir, ServerFolder, services_of
from sulq.errors import Refused, in_queries

if TYPE_CHECKING:
    from sulq.server.services.people import Key

Name = Annotated[str, typer.Argument(help="A name: letters, digits, dots, dashes, underscores.")]
For = Annotated[
    list[str] | None, typer.Option("--dataset", help="Only for this dataset; may be repeated.")
]
Days = Annotated[int | None, typer.Option("--days", help="Days until it expires; default 90.")]
Capped = Annotated[
    str | None,
    typer.Option(
        "--cap", help="Queries that it may spend in all; without one as many as there are."
    ),
]
KeyId = Annotated[str, typer.Argument(help="The key's id, as `sulq key list` shows it.")]
Label = Annotated[str, typer.Option("--label", help="A word to know it by.")]


def owner_add(name: Name, folder: Dir = Path(), days: Days = 365) -> Said:
    """One more owner, with datasets and analysts of their own, and a folder for their files.

    With several owners each may name only the files in the folder of their own name over HTTP.

    Example: sulq owner add bruno --dir clinic
    """
    with services_of(folder) as services:
        full = services.sources.files_of(name)
        key = services.people.new_key(services.people.add_owner(name), days=days, label="first")
        places = services.sources.make_folders()
    notes = [f"{full:,} files in a folder of this name are theirs from now on."] if full else []
    notes += [
        f"Made {place}: over HTTP each owner may name the files in their own folder."
        for place in places
    ]
    return _shown(f"The owner {name!r}", key, notes)


def analyst_add(
    server: ServerFolder, name: Name, datasets: For = None, days: Days = None
) -> Said:  # fmt: skip
    """A new analyst with a key, invited to some datasets.

    Example: sulq analyst add alice --dataset people --dir clinic
    """
    with server.opened() as (services, owner):
        records = [services.datasets.find(owner.tenant, d) for d in datasets or ()]
        person = services.people.add_analyst(owner.tenant, name)
        for record in records:
            services.people.invite(record.id, person)
        return _shown(name, services.people.new_key(person, days=days))


def analyst_list(server: ServerFolder) -> Said:
    """The analysts, and what each may ask.

    Example: sulq analyst list --dir clinic
    """
    with server.opened() as (services, owner):
        found = services.people.analysts(owner.tenant)
    rows = [(a["name"], a["created"][:10], ", ".join(a["datasets"])) for a in found]
    return Said({"analysts": found}, grid(("name", "since", "datasets"), rows))


def analyst_invite(server: ServerFolder, name: Analyst, dataset: Dataset) -> Said:
    """Let an analyst ask a dataset.

    Example: sulq analyst invite alice people --dir clinic
    """
    return _set_invited(server, name, dataset, True)


def analyst_uninvite(server: ServerFolder, name: Analyst, dataset: Dataset) -> Said:
    """Take an invitation back. What they spent stays spent.

    Example: sulq analyst uninvite alice people --dir clinic
    """
    return _set_invited(server, name, dataset, False)


def _set_invited(server: ServerFolder, name: str, dataset: str, invited: bool) -> Said:
    with server.opened() as (services, owner):
        record = services.datasets.find(owner.tenant, dataset)
        change = services.people.invite if invited else services.people.uninvite
        change(record.id, services.people.analyst(owner.tenant, name))
    said = f"{name} {'may' if invited else 'may not'} ask {dataset!r}."
    return Said({"analyst": name, "dataset": dataset}, said)


def analyst_remove(server: ServerFolder, name: Analyst) -> Said:
    """End an analyst's keys and invitations. What they spent stays spent.

    Example: sulq analyst remove alice --dir clinic
    """
    with server.opened() as (services, owner):
        services.people.remove_analyst(owner.tenant, name)
    return Said({"removed": name}, f"{name} is removed.")


def analyst_link(
    server: ServerFolder,
    name: Analyst,
    subject: Annotated[str, typer.Argument(help="The account's `sub`, as the issuer names it.")],
) -> Said:
    """Let an account of the institution sign in as an analyst who is there already.

    Example: sulq analyst link alice 248289761001 --dir clinic
    """
    with server.opened() as (services, owner):
        if services.institution is None:
            raise Refused("no institution signs people in here: sulq.toml has no [oidc].")
        person = services.people.analyst(owner.tenant, name)
        services.institution.link(person, subject)
    return Said({"analyst": name, "subject": subject}, f"{name} signs in with this account.")


# ---- keys -----------------------------------------------------------------------------------


def key_new(
    server: ServerFolder,
    analyst: Annotated[str | None, typer.Argument(help="Whose; the owner's without one.")] = None,
    datasets: For = None, days: Days = None, label: Label = "", cap: Capped = None,
) -> Said:  # fmt: skip
    """A new key, shown only now.

    A key for an AI agent or a dashboard needs a cap: without one they may spend nothing.

    Example: sulq key new alice --dataset people --days 30 --cap 5 --dir clinic
    """
    with server.opened() as (services, person):
        if analyst is not None:
            person = services.people.analyst(person.tenant, analyst)
        key = services.people.new_key(person, datasets=datasets, days=days, label=label, cap=cap)
    return _shown(person.name, key)


def key_list(server: ServerFolder) -> Said:
    """Keys, without their secrets.

    Example: sulq key list --dir clinic
    """
    with server.opened() as (services, owner):
        found = services.people.keys(owner.tenant)
    rows = [
        (k["id"], k["person"], ", ".join(k["datasets"] or ["all"]), k["expires"][:10],
         k["ended"] or "", _spending(k), k["ground"], k["label"])
        for k in found
    ]  # fmt: skip
    head = ("key", "person", "datasets", "expires", "ended", "cap", "granted by", "label")
    return Said({"keys": found}, grid(head, rows, unbroken=1))


def _spending(key: dict[str, Any]) -> str:
    if key["cap_micro"] is None:
        return ""
    return f"{in_queries(key['spent_micro']).split()[0]} of {in_queries(key['cap_micro'])}"


def key_cap(
    server: ServerFolder, key: KeyId,
    queries: Annotated[str, typer.Argument(help="Queries it may spend in all, or 'none'.")],
) -> Said:  # fmt: skip
    """Let a key spend at most so many queries in all, at every door.

    AI agents (`/mcp`) and PostgreSQL's protocol spend nothing without a cap.

    Example: sulq key cap 0123456789abcdef 5 --dir clinic
    """
    with server.opened() as (services, owner):
        cap = services.caps.set(owner.tenant, key, None if queries == "none" else queries)
    if cap is None:
        return Said({"key": key, "cap_micro": None}, f"{key} has no cap of its own.")
    said = f"{key} may spend {in_queries(cap.most)} in all, and spent {in_queries(cap.spent)}."
    return Said({"key": key, "cap_micro": cap.most, "spent_micro": cap.spent}, said)


def key_revoke(server: ServerFolder, key: KeyId) -> Said:
    """End a key at once.

    Example: sulq key revoke 0123456789abcdef --dir clinic
    """
    with server.opened() as (services, owner):
        services.people.revoke(owner.tenant, key)
    return Said({"revoked": key}, f"{key} is revoked.")


def _shown(whose: str, key: Key, notes: list[str] | None = None) -> Said:
    said = (
        f"{whose} has this key, shown only now:\n\n    {key.text}\n\n"
        f"It expires on {key.expires[:10]}."
    )
    return Said({"key": key.text, "id": key.id, "expires": key.expires}, said, notes=notes or ())
