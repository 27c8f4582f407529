"""publish: noisy tables in one file, and any Boolean function of their attributes from it.

The paper publishes t random subsets, each with C(k, w) 2^w conjunctions at one query apiece
(CRYPTO 04, section 6). The conjunctions of one table are disjoint, so a table costs what a
histogram costs; where the subsets are disjoint blocks too, the file costs C(k, w) of these,
whatever t. With random halves, as in the paper, it costs t times as many.

A function of up to `width` attributes is read off the tables that hold them. For up to twice
as many, the attributes are split into two halves that have a table each. The function is a
sum over its truth table, P = sum of f(u, v) P[u and v] with P[u and v] = P[u] P[v] + cov(u, v),
and covariances come from blocks of people. Every way to split is used.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sulq
from sulq.vertical.blocks import (
    BlockSums,
    freedom_of,
)
from sulq.vertical.common_people import People
from sulq.vertical.estimate import Array, Ends, Estimate, plain
from sulq.vertical.publication_file import KEY, VERSION, digest, read_publication
from sulq.vertical.subsets import Heavy, heavy_subsets
from sulq.vertical.truth import truth_table

MAX_NUMBERS = 1_000_000  # of all tables, as many as one list may ask for
RULE = (
    "block = (c3*k^3 + c2*k^2 + c1*k + c0 mod 2^31-1) mod count; k = key mod 2^31-1, of text the "
    "first 7 hex digits of its md5; c3, c2, c1, c0 = the four 8-byte big-endian parts, mod 2^31-1, "
    "of sha256('sulq blocks ' + seed)"
)
HALVES = (
    "half j of people: sulq.Rows.sample(seed + j, 1/2), each by themselves with probability 1/2"
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
    halves_of: int | None = None  # everybody, where blocks are random halves of them instead

    @property
    def price(self) -> sulq.Price:
        """The price of the whole file."""
        return sum(self.prices, sulq.Price(0))

    @property
    def rows(self) -> int:
        """How many people it is about."""
        return round(self.people.count) if self.halves_of is None else self.halves_of

    @property
    def blocks(self) -> int:
        """Into how many blocks they fall, or how many random halves there are of them."""
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
        std = math.sqrt(spread / self.people.count**2 + self._luck)
        return value, std, tables, math.inf

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
        blocks, scale = self.blocks, self._scale
        each = np.mean(products, axis=0)
        value = float(np.mean(about) + each.sum() * scale)
        spread = float(each.var(ddof=1)) * blocks * scale**2
        std = math.sqrt(spread + float(np.mean(stds)) ** 2 + self._luck)
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

    @property
    def _scale(self) -> float:
        """What a sum over blocks of products of two centred sums is times their covariance.

        Of disjoint blocks B/(B - 1)/n. In t random halves of n people everybody is with
        probability 1/2 by themselves: a product is n/4 of the covariance.
        """
        blocks = self.blocks
        if self.halves_of is None:
            return blocks / (blocks - 1) / self.people.count
        return 4 / (blocks - 1) / self.halves_of

    @property
    def _luck(self) -> float:
        """The variance, at most, of a share for who is in the halves: p (1 - p) / (n t)."""
        return 0.0 if self.halves_of is None else 0.25 / (self.halves_of * self.blocks)

    def implication(self, a: str, b: str) -> Estimate:
        """Delta in P[b|a] = P[b] + Delta, by the paper's Test on the published halves.

        a and b are conjunctions of `width` attributes or fewer, none of them in both.
        """
        if self.halves_of is None:
            raise sulq.Refused("implication: the Test wants subsets; publish with subsets=.")
        sides = []
        for text in (a, b):
            used, truth = truth_table(text, list(self.attributes))
            if not 0 < len(used) <= self.width:
                raise sulq.QueryNotAllowed(
                    f"{text!r}: want a function of 1 to {self.width} attributes."
                )
            sums, _, tables = self._marginal(used)
            share = float(truth.sum()) / truth.size
            each = self._noise(share) / len(tables)
            p = float(sums.sum(axis=0) @ truth.reshape(-1)) / self.people.count
            std = math.sqrt(each * self.blocks / self.people.count**2 + self._luck)
            sides.append((set(used), sums @ truth.reshape(-1).astype(float), each, p, std))
        (of_a, a_sums, a_noise, p_a, a_std), (of_b, b_sums, _, p_b, b_std) = sides
        if of_a & of_b:
            raise sulq.QueryNotAllowed(f"{min(of_a & of_b)!r} is in both: ask probability().")
        p_a = min(max(p_a, 1e-9), 1 - 1e-9)
        heavy, bias = heavy_subsets(a_sums, self.people.sizes, p_a, self.halves_of, a_noise)
        sizes = self.people.sizes[heavy]
        return Heavy(sizes, bias, b_sums[heavy], p_a, p_b, a_std, b_std).delta

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
                f"{len(self.tables):,} tables of {self.width}, in {self.blocks:,} {self._kind} "
                f"(seed {self.seed}); any Boolean function of up to {2 * self.width} attributes",
                f"noise of one count: {math.sqrt(self.variance):,.1f} (standard deviation); "
                f"price {self.price}",
                str(self.promise),
            ]
        )

    __repr__ = __str__

    @property
    def _kind(self) -> str:
        return "blocks" if self.halves_of is None else "random halves"

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
            "blocks": {"seed": self.seed, "count": self.blocks, "rule": self._rule},
            "sizes": [int(x) for x in self.people.sizes],
            "variance": self.variance,
            "promise": self.promise.to_json(),
            "promise_in_words": str(self.promise),
            "prices_micro": [p.micro for p in self.prices],
        }
        if self.halves_of is not None:
            facts["halves_of"] = self.halves_of
        return facts | {"digest": digest(facts, self.counts)}

    @property
    def _rule(self) -> str:
        return RULE if self.halves_of is None else HALVES

    @classmethod
    def load(cls, path: str | Path) -> Publication:
        """Read a file that `publish` wrote; anything that does not fit together is refused."""
        said = read_publication(Path(path))
        facts, prices = said.facts, tuple(sulq.Price(p) for p in said.facts["prices_micro"])
        return cls(
            str(facts.get("name", "")), dict(facts["attributes"]), facts["width"],
            facts["blocks"]["seed"], People(np.array(facts["sizes"], dtype=np.float64)),
            said.counts, facts["variance"], sulq.Promise.from_json(facts["promise"]), prices,
            facts.get("halves_of"),
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
