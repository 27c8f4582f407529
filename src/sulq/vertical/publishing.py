"""publish: noisy tables of every few attributes, by block, in one file (CRYPTO 04, section 6).

The paper publishes t random subsets, each with C(k, w) 2^w conjunctions at one query apiece.
Here the subsets are disjoint blocks and the conjunctions of one table are disjoint too, so a
table costs what a histogram costs and the file C(k, w) of these, whatever t.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.expressions import predicate

from .blocks import (
    HALF_WIDTH,
    MOST,
    added_up,
    block_count,
    block_sums,
    checked_blocks,
    checked_seed,
    expected_std,
    noise_variance,
)
from .pairwise import FEW
from .people import check_keys, people_of
from .plan import Part, Plan, priced
from .publication import MOST_NUMBERS, Publication

WIDEST = 6  # attributes in one table


def planned_publication(
    db: Any,
    attributes: Sequence[str] | Mapping[str, str],
    width: int,
    blocks: int | None = None,
    *,
    budget: Any = None,
    seed: int = 0,
) -> Plan[Publication]:
    """One histogram for every `width` of the attributes, by block."""
    named = checked_attributes(db, attributes)
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= WIDEST:
        raise sulq.Refused(f"width={width!r}, want 1 to {WIDEST}.")
    if len(named) < width:
        raise sulq.Refused(f"width={width} but {len(named)} attributes.")
    checked_seed(seed)
    check_keys([db])
    tuples = list(itertools.combinations(range(len(named)), width))
    texts = list(named.values())
    cells = 2**width
    most = min(MOST // cells, MOST_NUMBERS // (cells * len(tuples)))
    if most < FEW:
        raise sulq.Refused(
            f"{len(tuples):,} tables of {cells} cells are too much for one file. Publish fewer "
            "attributes or a smaller width."
        )

    def asked(count: int) -> list[sulq.Query]:
        queries = [conjunctions([texts[i] for i in t], seed, count) for t in tuples]
        return priced(db, queries, budget)

    variance = noise_variance(db.price(asked(FEW)[0]))
    p = 0.5**width
    spread = math.sqrt(p * (1 - p))
    count = checked_blocks(blocks, most) or block_count(db.rows, [spread], [variance], most)
    (everybody,) = people_of([db], seed, count)
    part = Part(db, tuple(asked(count)))

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Publication:
        sums = [added_up(block_sums(answer, everybody, cells)) for answer in answers[0]]
        return Publication(
            str(getattr(db, "name", "")), dict(named), width, seed, everybody,
            np.stack([s.sums for s in sums]), float(sums[0].noise[0]), db.promise,
            tuple(db.price(query) for query in part.queries),
        )  # fmt: skip

    error = HALF_WIDTH * expected_std(db.rows, [spread], [variance], count)
    return Plan((part,), make, count, error, f", of a conjunction of {2 * width} attributes")


def conjunctions(texts: list[str], seed: int, blocks: int) -> sulq.Query:
    """How many people of each block have each combination of these properties."""
    parts = [f"coalesce(({text}\n), false)" for text in texts]  # missing counts as not
    return sulq.Query(("1",), by=(sulq.Blocks(seed, blocks), *parts))


def checked_attributes(db: Any, attributes: Any) -> dict[str, str]:
    """Names and their predicates; a bare name is a Boolean column or a predicate of its own."""
    if isinstance(attributes, Mapping):
        named = dict(attributes)
    elif isinstance(attributes, Sequence) and not isinstance(attributes, str):
        named = {name: quoted(db, name) for name in attributes}
        if len(named) < len(attributes):
            raise sulq.Refused("an attribute is named twice.")
    else:
        named = {}
    if not named or not all(isinstance(x, str) for pair in named.items() for x in pair):
        raise sulq.Refused(
            "attributes: want a list such as ['smoker', 'disease'], or a dict of names and "
            "predicates such as {'old': 'age >= 65'}."
        )
    asked: dict[str, str] = {}
    for name, text in named.items():
        db.price(sulq.Query(("1",), where=text))  # it can be asked
        same = asked.setdefault(predicate(text, db.schema).text, name)
        if same != name:  # asked once, so its noise would count as agreement
            raise sulq.Refused(f"attributes: {same!r} and {name!r} are the same. Leave one out.")
    sulq.Schema.load({"columns": {name: {"type": "boolean"} for name in named}})  # proper names
    return named


def quoted(db: Any, name: Any) -> Any:
    """A column's name as SQL takes it, or the text as it is."""
    known = isinstance(name, str) and db.schema.get(name) is not None
    return '"' + name.replace('"', '""') + '"' if known else name


def publish(
    db: Any,
    attributes: Sequence[str] | Mapping[str, str],
    width: int,
    path: str | Path,
    blocks: int | None = None,
    *,
    budget: Any = None,
    seed: int = 0,
) -> Publication:
    """Pay for the tables of every `width` attributes and write them to a new Parquet file.

    attributes: Boolean columns, or a dict of names and predicates. Whoever has the file can
    ask it for any Boolean function of up to 2 x width attributes, offline and free.
    """
    to = Path(path)
    if to.exists():
        raise sulq.Refused(f"{str(to)!r} exists. Nothing was charged.\nGive another name.")
    plan = planned_publication(db, attributes, width, blocks, budget=budget, seed=seed)
    try:
        with tempfile.TemporaryDirectory(prefix=".sulq-", dir=to.parent or ".") as folder:
            partial = Path(folder) / to.name
            partial.touch()  # it can be written, before anything is paid
            made = plan.run()
            made.save(partial)
            os.link(partial, to)  # unlike a rename it never replaces what is there
    except OSError as error:
        raise sulq.Refused(
            f"{str(to)!r} cannot be written: {error.strerror}. What was paid for is kept: "
            "publishing again costs nothing more."
        ) from None
    return made
