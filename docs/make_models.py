"""Draws what models of the demo's people learned, for their pages.

python docs/make_models.py [name ...]
"""

from __future__ import annotations

import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sulq
from sulq.cli import demo_data
from sulq.learn import (
    LSI,
    GaussianMixture,
    LinearSVM,
    LocallyWeightedRegression,
    RandomTrees,
    SpectralClustering,
)

FOLDER = Path(__file__).parent / "howto" / "learn"
ROWS = 20_000


def opened() -> Any:
    """The demo's people under epsilon 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(
            demo_data.people(ROWS), tomllib.loads(demo_data.SCHEMA), epsilon=1.0, queries=1000,
            ledger=":memory:",
        )  # fmt: skip


def random_trees() -> sulq.Picture:
    """What tells of disease."""
    columns = ["age", "sex", "region", "education", "smoker"]
    return RandomTrees(budget=300).fit(opened(), columns=columns, label="disease").plot()


def svm() -> sulq.Picture:
    """What a margin between smokers and others is made of."""
    columns = ["age", "income", "disease"]
    return LinearSVM(budget=300).fit(opened(), columns=columns, label="smoker").plot()


def mixture() -> sulq.Picture:
    """What makes up ages and incomes."""
    return GaussianMixture(3, budget=300).fit(opened(), columns=["age", "income"]).plot()


def local() -> sulq.Picture:
    """How incomes go with age."""
    made = LocallyWeightedRegression(budget=100, bins=40)
    return made.fit(opened(), columns=["age"], label="income").plot()


def lsi() -> sulq.Picture:
    """Which of some columns go together."""
    columns = ["age", "income", "smoker", "disease"]
    return LSI(2, budget=100).fit(opened(), columns=columns).plot()


def spectral() -> sulq.Picture:
    """Groups of people along the directions of five columns."""
    columns = ["age", "income", "smoker", "disease"]
    return SpectralClustering(3, budget=300).fit(opened(), columns=columns).plot()


PICTURES: dict[str, Callable[[], sulq.Picture]] = {
    "random-trees-strengths": random_trees,
    "svm-coefficients": svm,
    "lsi-terms": lsi,
    "spectral-groups": spectral,
    "local-regression-curve": local,
    "mixture-components": mixture,
}


def main() -> None:
    """Fit, draw and write."""
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]().save(FOLDER / f"{name}.svg")
        print(f"written: {name}.svg")


if __name__ == "__main__":
    main()
