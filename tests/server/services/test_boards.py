"""Boards and shares: each person's own, others may look at what is shared and change nothing."""

from contextlib import closing

import postgres
import pytest

from sulq.errors import LimitReached, NotFound, QueryNotAllowed
from sulq.server.services.access import Access, Principal
from sulq.server.services.boards import MAX_BOARDS, MAX_ITEMS, Boards, Item
from sulq.server.services.people import People
from sulq.server.services.registry import Registry, now

DATASET = (
    "INSERT INTO datasets (house, name, description, arguments, state, created) "
    "VALUES (?, ?, '', '{}', 'open', ?)"
)
ASKED = (
    "INSERT INTO asked (id, dataset, person, created, question, answer) "
    "VALUES (?, ?, ?, ?, '[]', '{}')"
)


@pytest.fixture(params=["file", "server"])
def world(request, tmp_path):
    """anna's 'people' with bob and eve; 'other' with bob alone; an answer of bob's in each."""
    where = None
    if request.param == "server":
        where = f"{postgres.shared().url()}&registry={postgres.fresh_name('registry')}"
    registry = Registry.begin(tmp_path, where)
    with closing(registry):
        yield World(registry)


class World:
    """Some people, two datasets, and answers of bob's."""

    def __init__(self, registry):
        people, access = People(registry), Access(registry)
        anna = people.add_owner("anna")
        with registry.writing() as run:
            for name in ("people", "other"):
                run(DATASET, anna.id, name, now())
        who = {"anna": anna}
        who |= {name: people.add_analyst(anna.tenant, name) for name in ("bob", "eve")}
        self.who = {name: Principal(person, "key", None) for name, person in who.items()}
        self.people, self.other = (
            access.dataset(self.who["anna"], name) for name in ("people", "other")
        )
        self.boards, self.registry = Boards(registry), registry
        with registry.writing() as run:
            for id, record in (("a1", self.people), ("a2", self.people), ("o1", self.other)):
                run(ASKED, id, record.id, who["bob"].id, now())

    def board(self, *answers):
        bob = self.who["bob"]
        id = self.boards.make(bob, self.people, "Mine")
        self.boards.arrange(bob, self.people, id, [Item(a, f"title {a}", "bars") for a in answers])
        return id


def test_a_board_keeps_names_order_and_charts(world):
    """As they were arranged, an answer once."""
    bob, boards = world.who["bob"], world.boards
    id = world.board("a1", "a2", "a1")
    (found,) = boards.own(bob, world.people)
    assert (found.id, found.name, found.by, found.shared) == (id, "Mine", "bob", False)
    assert found.items == (Item("a1", "title a1", "bars"), Item("a2", "title a2", "bars"))
    boards.arrange(bob, world.people, id, [found.items[1], Item("a1", " a\nnew  name ", "")])
    found = boards.get(bob, world.people, id)
    assert [(i.answer, i.title) for i in found.items] == [("a2", "title a2"), ("a1", "a new name")]
    boards.rename(bob, world.people, id, "Ours")
    assert boards.get(bob, world.people, id).name == "Ours"
    boards.remove(bob, world.people, id)
    assert boards.own(bob, world.people) == []


def test_boards_of_others_are_not_there_until_shared(world):
    """For everybody else of the dataset, its owner too, they look like missing ones."""
    id, boards = world.board("a1"), world.boards
    for name in ("anna", "eve"):
        with pytest.raises(NotFound):
            boards.get(world.who[name], world.people, id)
        assert boards.all(world.who[name], world.people) == []
    with pytest.raises(NotFound):
        boards.get(world.who["bob"], world.other, id)
    boards.share(world.who["bob"], world.people, "board", id)
    for name in ("anna", "eve"):
        found = boards.get(world.who[name], world.people, id)
        assert (found.by, found.shared) == ("bob", True)
        assert boards.own(world.who[name], world.people) == []
    assert boards.all(world.who["eve"], world.other) == []
    boards.stop(world.who["bob"], world.people, "board", id)
    assert boards.all(world.who["eve"], world.people) == []


def test_whoever_may_look_may_not_change(world):
    """Renaming, arranging, giving up, sharing, taking back: the person's own alone."""
    id, boards, people = world.board("a1"), world.boards, world.people
    boards.share(world.who["bob"], people, "board", id)
    boards.share(world.who["bob"], people, "answer", "a1")
    before = boards.get(world.who["bob"], people, id)
    for name in ("anna", "eve"):
        who = world.who[name]
        for change in (
            lambda who=who: boards.rename(who, people, id, "theirs"),
            lambda who=who: boards.arrange(who, people, id, []),
            lambda who=who: boards.remove(who, people, id),
            lambda who=who: boards.share(who, people, "board", id),
            lambda who=who: boards.share(who, people, "answer", "a2"),
        ):
            with pytest.raises(NotFound):
                change()
        boards.stop(who, people, "board", id)
        own = boards.make(who, people, "theirs")
        with pytest.raises(NotFound, match="answer of yours"):
            boards.arrange(who, people, own, [Item("a1", "stolen", "")])
    assert boards.get(world.who["bob"], people, id) == before
    with pytest.raises(NotFound, match="answer of yours"):  # of another dataset
        boards.arrange(world.who["bob"], people, id, [Item("o1", "other", "")])
    assert boards.get(world.who["bob"], people, id) == before


@pytest.mark.parametrize("kind", ["answer", "board"])
def test_answers_are_seen_while_they_or_their_board_are_shared(world, kind):
    """And in their own dataset only."""
    boards, bob, eve = world.boards, world.who["bob"], world.who["eve"]
    item = "a1" if kind == "answer" else world.board("a1")
    seen = lambda who, record, id: boards.visible("answer", who, record, id)  # noqa: E731
    assert seen(bob, world.people, "a1")["person"] == bob.person.id
    assert seen(eve, world.people, "a1") is None
    boards.share(bob, world.people, kind, item)
    assert seen(eve, world.people, "a1")["by_name"] == "bob"
    assert seen(eve, world.people, "a2") is None
    assert seen(eve, world.other, "a1") is None
    assert [(s.kind, s.id, s.by) for s in boards.shared(world.people)] == [(kind, item, "bob")]
    assert boards.shared(world.other) == []
    boards.stop(bob, world.people, kind, item)
    assert seen(eve, world.people, "a1") is None


def test_what_is_not_there_is_not_shared(world):
    """Nor is anything of a kind that nobody knows."""
    for kind, id in (("answer", "no"), ("model", "no"), ("board", "no"), ("people", "1")):
        with pytest.raises(NotFound):
            world.boards.share(world.who["bob"], world.people, kind, id)
    with pytest.raises(NotFound):
        world.boards.visible("keys", world.who["bob"], world.people, "1")


def test_boards_have_limits(world):
    """In number and in size; a name is wanted, and long ones are cut."""
    bob, boards = world.who["bob"], world.boards
    id = world.board()
    with pytest.raises(QueryNotAllowed, match="name"):
        boards.make(bob, world.people, "  ")
    boards.rename(bob, world.people, id, "x" * 1000)
    assert len(boards.get(bob, world.people, id).name) == 120
    many = [Item(str(i), "t", "") for i in range(MAX_ITEMS + 1)]
    with pytest.raises(LimitReached):
        boards.arrange(bob, world.people, id, many)
    for _ in range(MAX_BOARDS - 1):
        boards.make(bob, world.people, "more")
    with pytest.raises(LimitReached):
        boards.make(bob, world.people, "too many")
