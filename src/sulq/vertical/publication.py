"""publish: noisy tables in one file, and any Boolean function of their attributes from it.

The paper publishes t random subsets, each with C(k, w) 2^w conjunctions at one query apiece
(CRYPTO 04, section 6). Here the subsets are disjoint blocks and the conjunctions of one table are
disjoint too, so a table costs what a histogram costs and the file C(k, w) of these, whatever t.

A function of up to `width` attributes is read off the tables that hold them. For up to twice
as many, the attributes are split into two halves that have a table each. The function is a
sum over its truth table, P = sum of f(u, v) P[u and v] with P[u and v] = P[u] P[v] + cov(u, v),
and covariances come from blocks of people. Every way to split is used.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    freedom_of,
    laid_out,
    noise_variance,
    spread_of,
)
from sulq.vertical.common_people import People, check_keys
from sulq.vertical.estimate import Array, Ends, Estimate, plain
from sulq.vertical.plan import Part, Plan, priced
from sulq.vertical.publication_file import KEY, VERSION, WIDEST, digest, read_publication
from sulq.vertical.truth import truth_table

MAX_NUMBERS = 1_000_000  # of all tables, as many as one list may ask for
RULE = (
    "block = (c3*k^3 + c2*k^2 + c1*k + c0 mod 2^31-1) mod count; k = key mod 2^31-1, of text the "
    "first 7 hex digits of its md5; c3, c2, c1, c0 = the four 8-byte big-endian parts, mod 2^31-1, "
    "of sha256('sulq blocks ' + seed)"
)


class Mined(Estimate):
    """An estimate that says which published tables it was made from."""

    __slots__ = ("tables",)
    tables: tuple[tuple[str, ...], ...]

    def __new__(cls, value: float, ends: Ends, tables: tuple[tuple[str, ...], ...] = ()) -> Mined:
        """Make one; `ends` gives the interval at a level."""
        made = super().__new__(cls, value, ends)
        assert isinstance(made, Mined)
        made.tables = tables
        return made

    def to_json(self) -> dict[str, Any]:
        """The number, its 95% interval and the tables."""
        return super().to_json() | {"tables": [list(t) for t in self.tables]}


@dataclass(frozen=True)
class Publication:
    """Noisy counts of every combination of every `width` attributes, by block."""

    name: str
    attributes: dict[str, str]  # name -> predicate
    width: int
    seed: int
    people: People
    counts: NDArray[np.float64]  # tables x blocks x cells
    variance: float  # of the noise of one count
    promise: sulq.Promise
    prices: tuple[sulq.Price, ...]  # one for each table

    @property
    def price(self) -> sulq.Price:
        """What the whole file cost."""
        return sum(self.prices, sulq.Price(0))

    @property
    def rows(self) -> int:
        """How many people it is about."""
        return round(self.people.count)

    @property
    def blocks(self) -> int:
        """Into how many blocks they fall."""
        return len(self.people.sizes)

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The attributes of each table."""
        return list(itertools.combinations(self.attributes, self.width))

    # --- asking -------------------------------------------------------------------------

    def probability(self, function: str) -> Mined:
        """P[f] for a Boolean function of up to 2 x width attributes. Offline and free."""
        used, truth = truth_table(function, list(self.attributes))
        if len(used) > 2 * self.width:
            raise sulq.QueryNotAllowed(
                f"{len(used)} attributes ({', '.join(used)}), but tables of {self.width} answer "
                f"for at most {2 * self.width}."
            )
        if not used:
            sure = float(truth)
            return Mined(sure, lambda level: (sure, sure))
        weights = truth.astype(np.float64)
        value, std, tables, freedom = (
            self._direct(used, weights) if len(used) <= self.width else self._split(used, weights)
        )
        made = plain(value, std, (0.0, 1.0), freedom)
        return Mined(float(made), made.interval, tables)

    def _direct(self, used: tuple[str, ...], weights: Array) -> Found:
        """Read off every table that holds all the attributes, and averaged."""
        sums, _, tables = self._marginal(used)
        share = float(weights.sum()) / weights.size
        value = float(sums.sum(axis=0) @ weights.reshape(-1)) / self.people.count
        spread = self._noise(share) * self.blocks / len(tables)
        return value, math.sqrt(spread) / self.people.count, tables, math.inf

    def _split(self, used: tuple[str, ...], weights: Array) -> Found:
        """Two halves with a table each, for every way to split; block by block."""
        products, about, stds, tables = [], [], [], set()
        for left, right in halves(len(used), self.width):
            (x, p, p_var, one), (y, q, q_var, other) = (
                self._centred(tuple(used[i] for i in side)) for side in (left, right)
            )
            f = weights.transpose(*left, *right).reshape(len(p), len(q))
            products.append(((x @ f) * y).sum(axis=1))
            about.append(float(p @ f @ q))
            stds.append(math.sqrt(p_var * ((f @ q) ** 2).sum() + q_var * ((p @ f) ** 2).sum()))
            tables |= {*one, *other}
        blocks, n = self.blocks, self.people.count
        scale = blocks / (blocks - 1) / n
        each = np.mean(products, axis=0)
        value = float(np.mean(about) + each.sum() * scale)
        spread = float(each.var(ddof=1)) * blocks * scale**2
        std = math.sqrt(spread + float(np.mean(stds)) ** 2)
        order = [t for t in self.tables if t in tables]
        return value, std, tuple(order), freedom_of(blocks)

    def _centred(self, used: tuple[str, ...]) -> tuple[Array, Array, float, Tables]:
        """Centred block sums of all conjunctions of some attributes, their shares and errors."""
        sums, noise, tables = self._marginal(used)
        found = BlockSums(sums, np.full(sums.shape[1], noise), self.people)
        return found.centred, found.mean, float(found.mean_variance[0]), tables

    def _marginal(self, used: tuple[str, ...]) -> tuple[Array, float, Tables]:
        """Blocks x conjunctions of some attributes, averaged over the tables that hold them."""
        found, tables = [], []
        for table, counts in zip(self.tables, self.counts, strict=True):
            if not set(used) <= set(table):
                continue
            cube = counts.reshape(self.blocks, *(2,) * self.width)
            rest = tuple(i + 1 for i, name in enumerate(table) if name not in used)
            found.append(cube.sum(axis=rest).reshape(self.blocks, -1))
            tables.append(table)
        noise = self._noise(0.5 ** len(used)) / len(found)
        return np.mean(found, axis=0), noise, tuple(tables)

    def _noise(self, share: float) -> float:
        """The variance of the noise in the sum of such a share of a block's cells.

        The cells were made to add up to the people, which takes the mean off their noise: a sum
        of k of K has k (1 - k/K) of what one had before, and one alone 1 - 1/K.
        """
        cells = 1 << self.width
        return self.variance / (1 - 1 / cells) * cells * share * (1 - share)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{len(self.attributes)} attributes of {self.rows:,} people in {self.name!r}: "
                + ", ".join(self.attributes),
                f"{len(self.tables):,} tables of {self.width}, in {self.blocks:,} blocks (seed "
                f"{self.seed}); any Boolean function of up to {2 * self.width} attributes",
                f"noise of one count: {math.sqrt(self.variance):,.1f} (standard deviation); "
                f"price {self.price}",
                str(self.promise),
            ]
        )

    __repr__ = __str__

    # --- the file -----------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a Parquet file that says what it is."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        _, blocks, cells = self.counts.shape
        size = self.counts.size
        at = np.arange(size)
        body = pa.table(
            {
                "table": (at // (blocks * cells)).astype(np.int32),
                "block": (at // cells % blocks).astype(np.int32),
                "cell": (at % cells).astype(np.int32),
                "count": self.counts.reshape(-1),
            }
        )
        facts = json.dumps(self._facts(), sort_keys=True)
        pq.write_table(body.replace_schema_metadata({KEY: facts.encode()}), path)

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "version": VERSION,
            "name": self.name,
            "attributes": [list(pair) for pair in self.attributes.items()],
            "width": self.width,
            "tables": [list(t) for t in self.tables],
            "cells": "binary numbers, the first attribute of a table first, 1 where it holds",
            "blocks": {"seed": self.seed, "count": self.blocks, "rule": RULE},
            "sizes": [int(x) for x in self.people.sizes],
            "variance": self.variance,
            "promise": self.promise.to_json(),
            "promise_in_words": str(self.promise),
            "prices_micro": [p.micro for p in self.prices],
        }
        return facts | {"digest": digest(facts, self.counts)}

    @classmethod
    def load(cls, path: str | Path) -> Publication:
        """Read a file that `publish` wrote; anything that does not fit together is refused."""
        said = read_publication(Path(path))
        facts, prices = said.facts, tuple(sulq.Price(p) for p in said.facts["prices_micro"])
        return cls(
            str(facts.get("name", "")), dict(facts["attributes"]), facts["width"],
            facts["blocks"]["seed"], People(np.array(facts["sizes"], dtype=np.float64)),
            said.counts, facts["variance"], sulq.Promise.from_json(facts["promise"]), prices,
        )  # fmt: skip


Tables = tuple[tuple[str, ...], ...]
Found = tuple[float, float, Tables, float]  # value, standard deviation, tables, freedom


def halves(count: int, width: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to split so many attributes into two parts of at most `width`, once."""
    for size in range(max(1, count - width), count // 2 + 1):
        for left in itertools.combinations(range(count), size):
            right = tuple(i for i in range(count) if i not in left)
            if len(right) <= width and (size < len(right) or left < right):
                yield left, right


# --- publishing ---------------------------------------------------------------------------


def planned_publication(
    db: sulq.Queryable,
    attributes: Sequence[str] | Mapping[str, str],
    width: int,
    blocks: int | None = None,
    *,
    budget: Any = None,
    seed: int = 0,
) -> Plan[Publication]:
    """One histogram for every `width` of the attributes, by block."""
    named = checked_attributes(db, attributes)
    checked_width(width, len(named))
    if len(named) < width:
        raise sulq.Refused(f"width={width} but {len(named)} attributes.")
    check_keys([db], seed)
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
    parts = [f"coalesce(({text}\n), false)" for text in texts]  # missing counts as not
    return sulq.Query(("1",), by=(sulq.Blocks(seed, blocks), *parts))


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
