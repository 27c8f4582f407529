"""Who is in all the databases: keys are public, so this is looked up, free, before anything else.

Blocks are formed by hashed keys. Two databases with the same keys have equally many rows in
every block; if they have not, the number of shared keys follows from how the sizes of blocks
go together: the sum over blocks of (size - mean)(size - mean) is that number on average.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sulq
from sulq.vertical.estimate import Array

LOOKS = 4  # further seeds by which the shared keys are counted
FINEST = 50_000  # blocks of each look at most, and
ROOM = 16  # as many for each person
MANY = 1_000  # blocks that are of equal size in two databases only if the keys are the same
SURE = 5.0  # standard deviations by which shared keys must exceed none


@dataclass(frozen=True, slots=True)
class People:
    """The rows of one database by block, and how many there are."""

    sizes: Array

    @property
    def count(self) -> float:
        """How many rows."""
        return float(self.sizes.sum())

    @property
    def uneven(self) -> Array:
        """By how much each block differs from an even share."""
        return np.asarray(self.sizes - self.sizes.mean())


@dataclass(frozen=True, slots=True)
class SharedPeople:
    """How many people two databases share; std is 0 where they share all."""

    count: float
    std: float

    @property
    def whole(self) -> bool:
        """Are they the same people?"""
        return self.std == 0.0


def check_keys(dbs: Sequence[Any], seed: Any) -> None:
    """Refuse a seed that draws no blocks, or databases whose keys cannot name the same people."""
    if isinstance(seed, bool) or not isinstance(seed, int) or abs(seed) >= 2**63:
        raise sulq.Refused(f"seed={seed!r}, want a whole number.")
    if len({id(db) for db in dbs}) < len(dbs):
        raise one_database()
    kinds: dict[str, str] = {}
    for i, db in enumerate(dbs):
        if db.rows < 1:
            raise sulq.QueryNotAllowed(f"{named(db, i)} has no rows, so there is nobody to ask.")
        key = db.schema.key
        if key is None:
            raise sulq.QueryNotAllowed(
                f"{named(db, i)} declares no key. People are matched by key: mark the column with "
                "key = true in its schema."
            )
        kinds.setdefault(key.type, named(db, i))
    if len(kinds) > 1:
        said = ", ".join(f"{kind} in {name}" for kind, name in kinds.items())
        raise sulq.QueryNotAllowed(
            f"keys are {said}: the same person would hash differently. Give both tables keys of "
            "one type, written in the same way."
        )
    for i, db in enumerate(dbs):
        found = db.key_counts()
        if found.missing:
            raise sulq.QueryNotAllowed(
                f"{found.missing:,} of {found.rows:,} rows in {named(db, i)} have no key, so they "
                "match nobody. Give every row a key, or leave these rows out."
            )
        if found.repeated:
            raise sulq.QueryNotAllowed(
                f"{found.repeated:,} of {found.rows:,} rows in {named(db, i)} repeat a key of "
                "another row. Mining across databases wants one row per person: make one row of "
                "each person's."
            )


def one_database() -> sulq.SulqError:
    """Why two properties of one table are not mined across."""
    return sulq.QueryNotAllowed(
        "both properties are in one database. Ask it directly: db.count('(a) and (b)') is more "
        "exact by far."
    )


def people_of(dbs: Sequence[Any], seed: int, blocks: int) -> list[People]:
    """The sizes of the blocks in each database."""
    rows = sulq.Rows.blocks(seed, blocks)
    return [People(np.array(db.sizes(rows)[0], dtype=np.float64)) for db in dbs]


def shared_by_all(
    dbs: Sequence[Any], people: Sequence[People], seed: int, overlap: bool = False
) -> dict[frozenset[int], SharedPeople]:
    """How many people any two databases share, by their numbers.

    Refused unless it is all of them, or `overlap` was said.
    """
    return {
        frozenset((i, j)): shared_by(dbs[i], dbs[j], people[i], people[j], seed, overlap)
        for i, j in itertools.combinations(range(len(dbs)), 2)
    }


def shared_by(
    a_db: sulq.Queryable, b_db: sulq.Queryable, a: People, b: People, seed: int, overlap: bool
) -> SharedPeople:
    """How many people two databases share."""
    if _alike(a_db, b_db, a, b, seed):
        return SharedPeople(a.count, 0.0)
    shared = counted_together(a_db, b_db, seed)
    about = (
        f"{named(a_db, 0)} has {a.count:,.0f} keys and {named(b_db, 1)} {b.count:,.0f}; about "
        f"{max(shared.count, 0):,.0f} +/- {1.96 * shared.std:,.0f} (95%) are in both"
    )
    if shared.count < SURE * shared.std:
        raise sulq.QueryNotAllowed(
            f"{about}. That may be nobody. Are the keys the same numbers, written in the same "
            "way? Nothing was charged."
        )
    if not overlap:
        raise sulq.QueryNotAllowed(
            f"{about}. With overlap=True, joint, implication and pairwise estimate on those who "
            "are in both, with wider intervals. Nothing was charged."
        )
    return shared


def _alike(a_db: sulq.Queryable, b_db: sulq.Queryable, a: People, b: People, seed: int) -> bool:
    """Equal sizes of few blocks may be chance; then fine ones are compared too."""
    if len(a.sizes) >= MANY or not np.array_equal(a.sizes, b.sizes):
        return np.array_equal(a.sizes, b.sizes)
    rows = sulq.Rows.blocks(seed, fine_blocks(a_db, b_db))
    return bool(a_db.sizes(rows) == b_db.sizes(rows))


def counted_together(a_db: sulq.Queryable, b_db: sulq.Queryable, seed: int) -> SharedPeople:
    """The number of shared keys, from the sizes of fine blocks under several seeds."""
    blocks = fine_blocks(a_db, b_db)
    looks = []
    for i in range(LOOKS):
        x, y = (p.uneven for p in people_of([a_db, b_db], seed + 1 + i, blocks))
        looks.append(float(x @ y) * blocks / (blocks - 1))
    count = float(np.mean(looks))
    smaller = min(a_db.rows, b_db.rows)
    # What the sum of products over independent blocks varies by: (n_a n_b + m^2) / B.
    variance = (a_db.rows * b_db.rows + max(count, 0.0) ** 2) / blocks / LOOKS
    return SharedPeople(min(count, float(smaller)), math.sqrt(variance))


def fine_blocks(a_db: sulq.Queryable, b_db: sulq.Queryable) -> int:
    """So many that few people share one, where that can be."""
    return int(min(max(ROOM * max(a_db.rows, b_db.rows), MANY), FINEST))


def named(db: sulq.Queryable, i: int) -> str:
    """A database's name, for a message."""
    return repr(db.name or f"database {i + 1}")
