"""Boards of answers, and sharing: what people of a dataset let each other look at.

A board shows answers that were paid for, so looking at it is free. Asking all of it again has its
price shown first; while the rows are the same it is free.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from starlette.responses import Response

from sulq.errors import NotFound, QueryNotAllowed
from sulq.server.console.dataset_pages import facts_of
from sulq.server.console.request_context import PageContext, Pages
from sulq.server.console.result_view import Shown, body_of, shown
from sulq.server.console.saved_results import Kept
from sulq.server.services.boards import Board, Boards, Item

pages = Pages()
D = "/datasets/{name}"
HEAVIEST = 130_000  # bytes of answers on a page
PLACES = {"answer": "asked", "model": "models", "board": "boards"}


@dataclass(frozen=True, slots=True)
class Tile:
    """An answer on a board, as it is shown."""

    item: Item
    kept: Kept
    shown: Shown | None  # None: the page has enough to show


# ---- looking --------------------------------------------------------------------------------


@pages.get(D + "/boards")
async def boards(here: PageContext) -> Response:
    """One's own boards, and those that others share."""
    await facts_of(here)
    found, me = _boards(here).all(here.principal, here.record()), here.principal.person.id
    return here.page("boards.html", name=here.name, tab="boards", boards=found, me=me)


def _boards(here: PageContext) -> Boards:
    return here.console.services.boards


def _board(here: PageContext) -> Board:
    """The board that the path names: one's own, or one that was shared."""
    return _boards(here).get(here.principal, here.record(), here.part("id"))


@pages.get(D + "/boards/{id}")
async def board(here: PageContext, price_micro: int | None = None) -> Response:
    """A board: its answers as they were paid for."""
    facts, found = await facts_of(here), _board(here)
    tiles, weight = [], 0
    for i, (item, kept) in enumerate(_answers(here, found)):
        laid_out = shown(kept.answer, f"tile-{i}", item.chart, small=True)
        weight += laid_out.weight
        tiles.append(Tile(item, kept, laid_out if weight <= HEAVIEST else None))
    return here.page(
        "board.html", name=facts.name, tab="boards", board=found, tiles=tiles, facts=facts,
        mine=found.person == here.principal.person.id, price_micro=price_micro,
        explained=dict.fromkeys(line for t in tiles if t.shown for line in t.shown.explained),
        request=here.form.get("request") or secrets.token_hex(16),
    )  # fmt: skip


def _answers(here: PageContext, found: Board) -> list[tuple[Item, Kept]]:
    record, out = here.record(), []
    for item in found.items:
        with suppress(NotFound):  # answers are not kept for ever
            out.append((item, here.console.saved.get(here.principal, record, item.answer)))
    return out


# ---- making and arranging -------------------------------------------------------------------


@pages.post(D + "/boards")
async def make(here: PageContext) -> Response:
    """A new board."""
    made = _boards(here).make(here.principal, here.record(), here.form.get("title"))
    return here.go(f"boards/{made}")


@pages.post(D + "/asked/{id}/board")
async def put(here: PageContext) -> Response:
    """An answer onto a board of one's own; a new board, if a name for it is given."""
    all_boards, record = _boards(here), here.record()
    kept = here.console.saved.get(here.principal, record, here.part("id"))
    chosen = here.form.get("board")
    if not chosen:
        new = here.form.get("new") or "My board"
        chosen = all_boards.make(here.principal, record, new)
    found = all_boards.get(here.principal, record, chosen)
    title = here.form.get("title") or kept.asked.words()
    item = Item(kept.id, title, here.form.get("chart"))
    others = [i for i in found.items if i.answer != kept.id]
    all_boards.arrange(here.principal, record, chosen, [*others, item])
    return here.go(f"boards/{chosen}", "boarded")


@pages.post(D + "/boards/{id}/arrange")
async def arrange(here: PageContext) -> Response:
    """One answer up, down, away or under another name; all in an order that was dragged; or the
    board under another name.
    """
    all_boards, record, found = _boards(here), here.record(), _board(here)
    if here.form.has("order"):
        all_boards.arrange(
            here.principal, record, found.id, ordered(found.items, here.form.get("order"))
        )
    elif here.form.has("title") and not here.form.get("answer"):
        all_boards.rename(here.principal, record, found.id, here.form.get("title"))
    else:
        items = moved(found.items, here.form.get("answer"), here.form.get("do"))
        items = [
            replace(i, title=here.form.get("title"))
            if i.answer == here.form.get("answer") and here.form.get("title") else i
            for i in items
        ]  # fmt: skip
        all_boards.arrange(here.principal, record, found.id, items)
    return here.go(f"boards/{found.id}", "arranged")


def moved(items: Sequence[Item], answer: str, do: str) -> list[Item]:
    """The items with one of them up, down or away."""
    out = list(items)
    at = next((i for i, item in enumerate(out) if item.answer == answer), None)
    if at is None:
        raise NotFound("this is not on the board.")
    item = out.pop(at)
    if do != "away":
        out.insert(max(at + {"up": -1, "down": 1}.get(do, 0), 0), item)
    return out


def ordered(items: Sequence[Item], order: str) -> list[Item]:
    """The items in this order; what it does not name stays behind the others."""
    wanted = order.split(",")
    place = {answer: i for i, answer in enumerate(wanted)}
    return sorted(items, key=lambda item: place.get(item.answer, len(wanted)))


@pages.post(D + "/boards/{id}/remove")
async def remove(here: PageContext) -> Response:
    """A board that is no longer wanted."""
    _boards(here).remove(here.principal, here.record(), here.part("id"))
    return here.go("boards", "gone")


# ---- asking it all again --------------------------------------------------------------------


@pages.post(D + "/boards/{id}/price")
async def price(here: PageContext) -> Response:
    """The price of asking all of a board again, at most, before anything is paid."""
    return await board(here, await _price(here))


async def _price(here: PageContext) -> int:
    db, total = await here.database(), 0
    for _, kept in _answers(here, _board(here)):
        total += (await here.run(lambda a=kept.asked: db.price(a.question(db)))).micro
    return total


@pages.post(D + "/boards/{id}/pay")
async def pay(here: PageContext) -> Response:
    """Ask all of it again. The request id makes a second click the same as the first."""
    request, record, found = here.request_id(), here.record(), _board(here)
    if found.person != here.principal.person.id:
        raise NotFound("there is no such board of yours.")
    if here.form.get("price") != str(await _price(here)):
        raise QueryNotAllowed("the price is no longer what was shown. Look at it again.")
    db, items = await here.database(), []
    for i, (item, kept) in enumerate(_answers(here, found)):
        own = f"{request[:24]}{i:08x}"
        if here.console.saved.find(here.principal, record, own) is None:
            answer = await here.run(
                lambda a=kept.asked, r=own: db.answer(db.question(a.question(db)), request_id=r)
            )
            here.console.saved.put(here.principal, record, own, kept.asked, body_of(answer))
        items.append(replace(item, answer=own))
    _boards(here).arrange(here.principal, record, found.id, items)
    return here.go(f"boards/{found.id}", "refreshed-board")


# ---- sharing --------------------------------------------------------------------------------


@pages.post(D + "/share/{kind}/{id}")
async def share(here: PageContext) -> Response:
    """Let everybody of the dataset look at an answer, a model or a board; or no longer."""
    kind, id = here.part("kind"), here.part("id")
    if kind not in PLACES:
        raise NotFound("nothing of this kind is shared.")
    stop = here.form.get("do") == "stop"
    change = _boards(here).stop if stop else _boards(here).share
    change(here.principal, here.record(), kind, id)
    return here.go(f"{PLACES[kind]}/{id}", "unshared" if stop else "shared")
