"""A mixture of normal distributions: its densities, and one step of EM from noisy sums.

Rows are y, scaled to [0, 1] and centred, |y_i| <= 1/2. A step has, for every component, the sums of
its responsibility r times 1, y_i and the products y_i y_j less 1/8 where i = j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sulq.learn.arrays import Array

MIDDLE = 0.125  # of the range of y^2
LEAST = 1e-6  # a variance of y, as scikit-learn has it


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights, means and covariances of some components."""

    weights: Array
    means: Array
    covariances: Array  # components x d x d

    def polynomials(self) -> tuple[Array, Array, Array]:
        """log(weight x density) of each component as c + l . y + y . Q y, up to what all share."""
        precision = np.linalg.inv(self.covariances)
        linear = np.einsum("kij,kj->ki", precision, self.means)
        _, volume = np.linalg.slogdet(self.covariances)
        constant = np.log(self.weights) - volume / 2 - (linear * self.means).sum(axis=1) / 2
        return constant, linear, -precision / 2

    def log_densities(self, y: Array) -> Array:
        """log(weight x density) of every row, rows x components."""
        constant, linear, square = self.polynomials()
        found = constant + y @ linear.T + np.einsum("ni,kij,nj->nk", y, square, y)
        return np.asarray(found - y.shape[1] / 2 * math.log(2 * math.pi))


@dataclass(frozen=True, slots=True)
class Sums:
    """Noisy sums of r, of r y and of r (y y^T - I/8) for each component, and their noise."""

    rows: Array
    first: Array
    second: Array  # components x d x d
    rows_std: float
    first_std: float
    second_std: Array  # d x d


def maximised(sums: Sums, before: Mixture, above: float, diagonal: bool) -> tuple[Mixture, Any]:
    """The mixture of the sums, and which components had too few rows for the noise to move.

    A direction is no narrower than the noise of its variance alone would make it.
    """
    d = sums.first.shape[1]
    small = sums.rows <= max(above * sums.rows_std, 1.0)
    means, covariances = before.means.copy(), before.covariances.copy()
    for i in np.flatnonzero(~small):
        n = float(sums.rows[i])
        mean = np.clip(sums.first[i] / n, -0.5, 0.5)
        found = sums.second[i] / n + MIDDLE * np.eye(d) - np.outer(mean, mean)
        along = (2 * np.abs(mean).max() * sums.first_std) ** 2 + (MIDDLE * sums.rows_std) ** 2
        off = np.sqrt(sums.second_std**2 + along) / n
        means[i] = mean
        covariances[i] = widened(found, off, diagonal)
    there = np.maximum(sums.rows, max(sums.rows_std, 1e-3))
    return Mixture(there / there.sum(), means, covariances), small


def widened(covariance: Array, std: Array, diagonal: bool) -> Array:
    """A covariance whose every direction is at least as wide as its noise, at most as the box."""
    if diagonal:
        least = np.maximum(np.diag(std), LEAST)
        return np.diag(np.clip(np.diag(covariance), least, 0.25))
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    d = len(values)
    narrowest = max(float(std.max()), LEAST)
    return np.asarray((vectors * np.clip(values, narrowest, d / 4)) @ vectors.T)
