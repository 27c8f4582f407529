"""Pays for the tables of a publication and writes them to a file: publish."""

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
from sulq.expressions.parse import predicate
from sulq.expressions.quoting import quote
from sulq.learn.parameters import checked_whole
from sulq.vertical.blocks import (
    FEW,
    FEWEST,
    MOST,
    BlockSums,
    added_up,
    block_sums,
    laid_out,
    noise_variance,
    spread_of,
)
from sulq.vertical.common_people import People, check_keys
from sulq.vertical.plan import Part, Plan, priced
from sulq.vertical.publication import Publication
from sulq.vertical.publication_file import WIDEST
from sulq.vertical.subsets import MAX_SUBSETS, RATE

MAX_NUMBERS = 1_000_000  # of all tables, as many as one list may ask for
FEWEST_SUBSETS = 16  # below this their spread says nothing about the error


def planned_publication(
    db: sulq.Queryable,
    attributes: Sequence[str] | Mapping[str, str],
    width: int,
    blocks: int | None = None,
    *,
    budget: Any = None,
    seed: int = 0,
    subsets: int | None = None,
) -> Plan[Publication]:
    """One histogram for every `width` of the attributes: by block, or of each random half."""
    named = checked_attributes(db, attributes)
    checked_width(width, len(named))
    if len(named) < width:
        raise sulq.Refused(f"width={width} but {len(named)} attributes.")
    check_keys([db], seed)
    if subsets is not None:
        if blocks is not None:
            raise sulq.Refused("blocks and subsets: people are put together in one way. Say one.")
        return _in_halves(db, named, width, subsets, budget, seed)
    tuples = list(itertools.combinations(named.values(), width))
    cells = 2**width
    most = min(MOST // cells, MAX_NUMBERS // (cells * len(tuples)))
    if most < FEW:
        raise sulq.Refused(
            f"{len(tuples):,} tables of {cells} cells are too much for one file. Publish fewer "
            "attributes or a smaller width."
        )

    def asked(count: int) -> tuple[Part, ...]:
        queries = [conjunctions(texts, seed, count) for texts in tuples]
        return (Part(db, tuple(priced(db, queries, budget))),)

    def noisy(part: Part) -> list[float]:
        return [noise_variance(db.price(part.queries[0]))]

    laid = laid_out([db], asked, seed, [spread_of(0.5**width)], blocks, most, noisy)
    (part,), (everybody,) = laid.parts, laid.people

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Publication:
        sums = [added_up(block_sums(answer, everybody, cells)) for answer in answers[0]]
        return Publication(
            db.name, dict(named), width, seed, everybody,
            np.stack([s.sums for s in sums]), float(sums[0].noise[0]), db.promise,
            tuple(db.price(query) for query in part.queries),
        )  # fmt: skip

    what = f", of a conjunction of {2 * width} attributes"
    return Plan(laid.parts, make, laid.blocks, laid.error, what)


def _in_halves(
    db: sulq.Queryable, named: dict[str, str], width: int, subsets: Any, budget: Any, seed: int
) -> Plan[Publication]:
    """The tables of every random half, each a question of its own (CRYPTO 04, section 6)."""
    tuples, cells = list(itertools.combinations(named.values(), width)), 2**width
    most = min(MAX_SUBSETS, MAX_NUMBERS // (cells * len(tuples)))
    checked_whole("subsets", subsets, FEWEST_SUBSETS, most)
    halves = [sulq.Rows.sample(seed + j, RATE) for j in range(subsets)]
    queries = [
        sulq.Query(("1",), by=by(texts), rows=half)
        for texts in tuples for half in halves
    ]  # fmt: skip
    part = Part(db, tuple(priced(db, queries, budget)))

    def make(answers: list[list[sulq.Answer]], prices: tuple[sulq.Price, ...]) -> Publication:
        sizes = np.array([found[0] for found in db.sizes(*halves)], dtype=np.float64)
        counts = np.array([a.values[:, 0] for a in answers[0]]).reshape(len(tuples), subsets, cells)
        noise = np.full(cells, float(answers[0][0].stds[0][0]) ** 2)
        sums = [added_up(BlockSums(table, noise, People(sizes))) for table in counts]
        each = [db.price(q) for q in part.queries]
        paid = [sum(each[i : i + subsets], sulq.Price(0)) for i in range(0, len(each), subsets)]
        return Publication(
            db.name, dict(named), width, seed, People(sizes), np.stack([s.sums for s in sums]),
            float(sums[0].noise[0]), db.promise, tuple(sulq.Price(p.micro) for p in paid), db.rows,
        )  # fmt: skip

    return Plan((part,), make, subsets)


def by(texts: Sequence[str]) -> tuple[str, ...]:
    """Properties to count by; missing counts as not."""
    return tuple(f"coalesce(({text}\n), false)" for text in texts)


def checked_width(width: Any, attributes: int) -> None:
    """Refuse a width that no file can hold, with the size that it would have."""
    if type(width) is int and width > WIDEST:
        tables, cells = math.comb(attributes, width), 2**width
        raise sulq.Refused(
            f"width={width}: {tables:,} tables of {cells:,} cells, by {FEWEST} blocks or more, are "
            f"{tables * cells * FEWEST:,} numbers at least, and an answer would be a sum of up to "
            f"{4**width:,} of them, each with its noise; at most width={WIDEST}. Nothing was "
            "charged.\nPublish fewer attributes, or several files of some of them each."
        )
    checked_whole("width", width, 1, WIDEST)


def conjunctions(texts: Sequence[str], seed: int, blocks: int) -> sulq.Query:
    """How many people of each block have each combination of these properties."""
    return sulq.Query(("1",), by=(sulq.Blocks(seed, blocks), *by(texts)))


def checked_attributes(db: sulq.Queryable, attributes: Any) -> dict[str, str]:
    """Names and their predicates; a bare name is a Boolean column or a predicate of its own."""
    if isinstance(attributes, Mapping):
        named = dict(attributes)
    elif isinstance(attributes, Sequence) and not isinstance(attributes, str):
        columns = db.schema.names
        named = {name: quote(name) if name in columns else name for name in attributes}
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


def publish(
    db: sulq.Queryable,
    attributes: Sequence[str] | Mapping[str, str],
    width: int,
    path: str | Path,
    blocks: int | None = None,
    *,
    budget: Any = None,
    seed: int = 0,
    subsets: int | None = None,
) -> Publication:
    """Pay for the tables of every `width` attributes and write them to a new Parquet file.

    attributes: Boolean columns, or a dict of names and predicates. Whoever has the file can
    ask it for any Boolean function of up to 2 x width attributes, offline and free. With
    subsets=t people are in t random halves, as in the paper, at t times the price, and the file
    has `implication` by the paper's Test.
    """
    to = Path(path)
    if to.exists():
        raise sulq.Refused(f"{str(to)!r} exists. Nothing was charged.\nGive another name.")
    plan = planned_publication(
        db, attributes, width, blocks, budget=budget, seed=seed, subsets=subsets
    )
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
            "publishing again is free."
        ) from None
    return made
