"""Synthetic people for the demo: made up from a fixed seed, so nobody's secret is in them.

The seed is for the made-up rows only. Noise never has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

PEOPLE = 200_000
SEED = 2005
REGIONS = ("north", "south", "east", "west")
SHARES = (0.31, 0.27, 0.24, 0.18)
SEXES = ("female", "male")
EDUCATIONS = ("primary", "secondary", "college", "university")

SCHEMA = """\
# What the owner declares about people.parquet. Bounds and categories come from knowledge of
# the world, never from the rows.

[columns.id]
key = true                      # a public row number

[columns.age]
type = "integer"
low = 0
high = 120
nullable = false

[columns.sex]
values = ["female", "male"]

[columns.region]
values = ["north", "south", "east", "west"]
public = true                   # where someone lives is no secret here

[columns.income]
type = "number"
low = 0
high = 500000
nullable = false

[columns.smoker]
type = "boolean"
nullable = false

[columns.education]
values = ["primary", "secondary", "college", "university"]

[columns.disease]
type = "boolean"
nullable = false
"""


def people(count: int = PEOPLE) -> Any:
    """An Arrow table of people whose columns hang together as real ones do."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(SEED)
    age = _ages(rng, count)
    sex = rng.integers(0, 2, count)
    region = rng.choice(len(REGIONS), count, p=SHARES)
    education = _educations(rng, age)
    smoker = rng.random(count) < np.where(age < 15, 0.0, 0.34 - 0.06 * education + 0.04 * sex)
    income = _incomes(rng, age, sex, region, education)
    disease = rng.random(count) < _logistic(-5.6 + 0.048 * age + 1.15 * smoker + 0.2 * sex)
    return pa.table(
        {
            "id": np.arange(1, count + 1),
            "age": age,
            "sex": np.array(SEXES)[sex],
            "region": np.array(REGIONS)[region],
            "income": income,
            "smoker": smoker,
            "education": np.array(EDUCATIONS)[education],
            "disease": disease,
        }
    )


def _ages(rng: np.random.Generator, count: int) -> Array:
    """Many of working age, fewer and fewer above seventy."""
    import numpy as np

    young, old = rng.uniform(0, 62, count), rng.normal(58, 16, count)
    return np.clip(np.where(rng.random(count) < 0.68, young, old), 0, 104).astype(int)


def _educations(rng: np.random.Generator, age: Array) -> Array:
    """0 to 3, held back by youth; the older had fewer chances."""
    import numpy as np

    chance = rng.normal(2.1 - 0.012 * np.maximum(age - 40, 0), 0.95)
    return np.asarray(np.clip(np.minimum(chance, (age - 6) / 5.5), 0, 3)).astype(int)


def _incomes(
    rng: np.random.Generator,
    age: Array,
    sex: Array,
    region: Array,
    education: Array,
) -> Array:
    """Log-normal, rising with schooling and with age until fifty; children earn nothing."""
    import numpy as np

    years = np.minimum(np.maximum(age - 18, 0), 32)
    place = np.array([0.08, -0.05, 0.0, 0.03])[region]
    middle = 9.75 + 0.27 * education + 0.018 * years + 0.09 * sex + place
    earned = np.exp(rng.normal(middle, 0.55))
    return np.where(age < 16, 0.0, np.minimum(earned, 480_000.0)).round(2)


def _logistic(x: Array) -> Array:
    import numpy as np

    return np.asarray(1 / (1 + np.exp(-x)))
