"""Sums over blocks of people, and what two databases' sums say together.

A block is everybody whose key hashes to its number: the same people in every database, though
no row leaves any. With a_j and b_j the centred sums of block j,

    cov(a, b) = sum over blocks of a_j b_j / n * B / (B - 1)

on average over seeds, because two different people share a block with probability 1/B. The
noise of two databases is independent and drops out. The variance is about

    ((s_a^2 + V_a B/n)(s_b^2 + V_b B/n) + cov^2) / B,

V being the noise variance of one number; the best B is near n s_a s_b / sqrt(V_a V_b). A row
is in one block, so a whole vector of blocks has the price of a single sum.
Proof: docs/proofs/blocks.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import sulq
from sulq.learn.parameters import checked_whole
from sulq.vertical.common_people import People, people_of
from sulq.vertical.estimate import Array
from sulq.vertical.plan import Part

MOST = 100_000  # blocks, as many as a partition has cells
FEW = 2  # blocks of a trial question, to learn its price
FEWEST = 16  # below this their spread says nothing about the error
HALF_WIDTH = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class BlockSums:
    """Noisy sums, blocks x numbers, over the people of one database."""

    sums: Array
    noise: Array  # the variance of each number's noise
    people: People

    @property
    def mean(self) -> Array:
        """The average of each number over everybody."""
        return np.asarray(self.sums.sum(axis=0) / max(self.people.count, 1.0))

    @property
    def mean_variance(self) -> Array:
        """The variance of that average's noise."""
        return np.asarray(self.noise * len(self.sums) / max(self.people.count, 1.0) ** 2)

    @property
    def centred(self) -> Array:
        """Each block's sum, less what as many average people would have."""
        return np.asarray(self.sums - np.outer(self.people.sizes, self.mean))

    def counted_by_key(self) -> BlockSums:
        """The first number is the count of people: where none is left out, keys tell it exactly."""
        sums = np.column_stack([self.people.sizes, self.sums[:, 1:]])
        return BlockSums(sums, np.append(0.0, self.noise[1:]), self.people)

    def about_the_mean(self) -> BlockSums:
        """Sums about the mean of those who are counted, the first number being the count."""
        counts = self.sums[:, 0]
        mean = self.sums[:, 1:].sum(axis=0) / max(float(counts.sum()), 1.0)
        sums = np.column_stack([counts, self.sums[:, 1:] - np.outer(counts, mean)])
        noise = np.append(self.noise[0], self.noise[1:] + mean**2 * self.noise[0])
        return BlockSums(sums, noise, self.people)


def block_sums(answer: Any, people: People, labels: int = 1) -> BlockSums:
    """The sums of one answer, blocks x (labels x values)."""
    numbers = np.asarray(answer.values).reshape(len(people.sizes), -1)
    return BlockSums(numbers, np.tile(np.square(answer.stds[0]), labels), people)


def added_up(sums: BlockSums) -> BlockSums:
    """Cells that hold everybody once add up to the known size of the block; less noise."""
    short = sums.people.sizes - sums.sums.sum(axis=1)
    labels = sums.sums.shape[1]
    even = sums.sums + short[:, None] / labels
    return BlockSums(even, sums.noise * (1 - 1 / labels), sums.people)


def together(a: BlockSums, b: BlockSums) -> tuple[Array, Array]:
    """The covariance of every number of a with every one of b, and the variance of each.

    For databases of the same people. The variance is that of the products over blocks, so it
    has in it the noise of both databases and the luck of the blocks.
    """
    x, y, blocks = a.centred, b.centred, len(a.sums)
    scale = blocks / (blocks - 1) / a.people.count
    total, squares = x.T @ y, (x * x).T @ (y * y)
    spread = (squares - total**2 / blocks) * blocks / (blocks - 1)
    return total * scale, spread * scale**2


def freedom_of(blocks: int) -> float:
    """How many degrees of freedom the spread of so many products of sums is worth.

    A product of two normal numbers has a fourth moment of 9 variances squared, one number of 3:
    its spread is known as badly as that of a quarter as many numbers.
    """
    return (blocks - 1) / 4


def block_count(
    rows: float, spreads: Sequence[float], variances: Sequence[float], most: int
) -> int:
    """The number of blocks that makes covariances most exact, from public quantities."""
    spread2 = math.exp(2 * np.mean(np.log(spreads)))
    variance = math.exp(np.mean(np.log(variances)))
    return int(min(max(round(rows * spread2 / variance), FEWEST), most, MOST))


def expected_std(
    rows: float, spreads: Sequence[float], variances: Sequence[float], blocks: int
) -> float:
    """The standard deviation to expect of a covariance: the formula above with cov = 0."""
    parts = [s * s + v * blocks / rows for s, v in zip(spreads, variances, strict=True)]
    return math.sqrt(parts[0] * parts[-1] / blocks)


class Layout(NamedTuple):
    """People in blocks, what is asked about them, and the 95% half-width to expect."""

    parts: tuple[Part, ...]
    people: list[People]  # of each database
    blocks: int
    error: float


def laid_out(
    dbs: Sequence[Any], asked: Callable[[int], tuple[Part, ...]], seed: int, spreads: list[float],
    blocks: Any, most: int = MOST, noisy: Callable[[Part], list[float]] | None = None,
) -> Layout:  # fmt: skip
    """What is asked over so many blocks, or over as many as make covariances most exact.

    `asked` gives the questions for a number of blocks, `spreads` are guesses of the standard
    deviation of what they are about, `noisy` gives the noise variances of a trial.
    """
    noisy = noisy or (lambda part: [noise_variance(part.db.price(q)) for q in part.queries])
    variances = [variance for part in asked(FEW) for variance in noisy(part)]
    rows = math.exp(np.mean([math.log(db.rows) for db in dbs]))
    if blocks is None:
        count = block_count(rows, spreads, variances, most)
    else:
        count = checked_whole("blocks", blocks, FEWEST, min(most, MOST), ", or None to choose")
    error = HALF_WIDTH * expected_std(rows, spreads[:2], variances[:2], count)
    return Layout(asked(count), people_of(dbs, seed, count), count, error)


def spread_of(p: float) -> float:
    """The standard deviation of a property that so many have."""
    return math.sqrt(p * (1 - p))


def noise_variance(price: sulq.Price, which: int = 0) -> float:
    """The noise variance of one number, from the half-width that comes with the price."""
    return max(float((price.half_widths[which] / HALF_WIDTH) ** 2), 1e-9)
