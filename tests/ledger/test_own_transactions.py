"""Which transactions ended between two looks, and whether all of them were a ledger's."""

from __future__ import annotations

import itertools

from sulq.ledger import own_transactions

REST = "0/17F {} None"


def version(over, numbers, life):
    """A table's version, as a server says it, when these of some transactions are over."""
    open_ = [x for x in numbers if x not in over]
    low = min(open_, default=numbers[-1] + 1)
    return f"{low}:{numbers[-1] + 1}:{','.join(map(str, open_))} {REST.format(life)}"


def test_exactly_those_that_ended_between_must_be_own():
    """Every way in which five transactions can begin and end around two looks."""
    for case, (known, first, last) in enumerate(
        itertools.product(itertools.product((0, 1), repeat=5), range(1, 6), range(1, 6))
    ):
        if last < first:
            continue
        numbers, life = range(100, 105), f"life-{case}"
        for x, own in zip(numbers, known, strict=True):
            if own:
                own_transactions.note(life, x)
        begun, later = numbers[:first], numbers[:last]
        for ended in itertools.chain.from_iterable(
            itertools.combinations(begun, k) for k in range(first + 1)
        ):
            for more in ([], later[-1:], later):
                now = set(ended) | set(more)
                wanted = all(known[x - 100] for x in now - set(ended))
                before, after = version(ended, begun, life), version(now, later, life)
                assert own_transactions.only_own(before, after) == wanted, (before, after, known)


def test_another_life_a_checkpoint_or_a_ledger_beside_is_never_trusted():
    """Nor is a version that says nothing of transactions, nor one that is too far on."""
    own_transactions.note("1.5", 100)
    before, after = "100:100: 0/17F 1.5 None", "101:101: 0/17F 1.5 None"
    assert own_transactions.only_own(before, after)
    for other in ("101:101: 0/180 1.5 None", "101:101: 0/17F 2.5 None", "101:101: 0/17F 1.5 0/9",
                  "101:101: 0/17F 1.5 None beside a ledger", "files 3 4 5",
                  "102:102: 0/17F 1.5 None", f"{10**9}:{10**9}: 0/17F 1.5 None"):  # fmt: skip
        assert not own_transactions.only_own(before, other)
        assert other.startswith("102") or own_transactions.ended_between(before, other) is None
    assert own_transactions.ended_between(before, after) == range(100, 101)
    assert own_transactions.ended_between("90:95:90,92 0/1 2 3", "92:99: 0/1 2 3") == range(90, 99)
    beside = " beside a ledger"
    assert not own_transactions.only_own(before + beside, after + beside)


def test_what_is_remembered_does_not_grow():
    """The oldest are forgotten, which costs a look and nothing else."""
    for i in range(own_transactions.LATEST + 10):
        own_transactions.note("long", i)
    assert len(own_transactions._own) == own_transactions.LATEST
