"""How far the paper's limit theorem and its simulation are from what they stand for.

rule="duan" takes sums for Gaussian. Berry and Esseen: the distribution function of a sum of n
independent terms is within C rho / (s^3 sqrt n) of that of its Gaussian limit, s^2 the variance
and rho the third absolute moment of a term, C < 0.4748 (Shevtsova, 2011). In the direction of the
smallest singular value a term is at most sqrt k long, k being the rows of X in shares of their
ranges, so rho <= sqrt(k) s^2, and the distance is at most C sqrt(k) / sigma_min(X). It is the
paper's own condition that keeps it small; what it comes to is to be compared with delta / m.

With `simulate` a public sample of n' rows decides for n private ones of its kind (Definition 2):
the smallest eigenvalues of their covariances differ by less than alpha but with probability beta.
To first order each is v' V v, v the eigenvector, with variance (E (v'y)^4 - lambda^2) / n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

BERRY_ESSEEN = 0.4748


@dataclass(frozen=True, slots=True)
class Limits:
    """What rule="duan" takes for granted of the questions answered, in numbers."""

    questions: int  # rows of X
    least: float  # its smallest singular value,
    threshold: float  # and what that must exceed
    gaussian_within: float  # the Berry-Esseen bound in that direction
    wanted: float  # delta / m
    alpha: float | None = None  # of `simulate`: how far the sample's smallest eigenvalue may be
    beta: float | None = None  # from that of the rows, but with this probability
    eigenvalue: float | None = None  # the sample's own, for comparison; all are per row

    def __str__(self) -> str:
        said = (
            f"In the direction that varies least (singular value {self.least:.4g}, threshold "
            f"{self.threshold:.4g}) a sum is within {self.gaussian_within:.2g} of its Gaussian "
            f"limit (Berry-Esseen); delta / m is {self.wanted:.2g}."
        )
        if self.gaussian_within > self.wanted:
            said += " So delta is not backed by the limit theorem at this size."
        if self.alpha is not None:
            said += (
                f"\nThe sample's smallest eigenvalue is {self.eigenvalue:.4g} a row, and that of "
                f"the rows within alpha = {self.alpha:.2g} of it, but with probability beta = "
                f"{self.beta:g}."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def gaussian_within(rows: int, least: float) -> float:
    """The Berry-Esseen bound in the direction of the smallest singular value; 1 says nothing."""
    return min(1.0, BERRY_ESSEEN * math.sqrt(rows) / least) if least > 0 else 1.0


def alpha_of(rows: Sequence[Any], n: int, beta: float) -> tuple[float, float]:
    """The smallest eigenvalue of a sample's covariance, and how far that of n rows may be.

    `rows` are the rows of X as the sample has them, in shares of their ranges.
    """
    x = np.asarray(rows, dtype=float)
    x = x - x.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(x @ x.T / x.shape[1])
    squares = (vectors[:, 0] @ x) ** 2
    variance = max(float((squares**2).mean() - values[0] ** 2), 0.0)
    reach = NormalDist().inv_cdf(1 - beta / 2)
    return float(values[0]), reach * math.sqrt(variance * (1 / max(n, 1) + 1 / x.shape[1]))
