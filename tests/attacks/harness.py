"""What the attacks share: small tables, broken noise for controls, twins, and what luck allows.

Every statistical verdict here is one-sided against the attacker's best honest chance, and its
false-alarm rate is ALARM or less.
"""

import math
import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa
from scipy.stats import beta, binom

import sulq

ALARM = 1e-9

SCHEMA = {
    "id": {"key": True},
    "region": {"values": ["north", "south"], "public": True},
    "secret": {"type": "boolean", "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 100},
    "income": {"type": "number", "low": 0, "high": 1000, "nullable": False},
    "city": {"values": ["rome", "oslo"]},
}


def people(n=200, seed=1, **columns):
    """A table of n people; `columns` replace drawn ones."""
    rng = np.random.default_rng(seed)
    drawn = {
        "id": np.arange(n),
        "region": rng.choice(["north", "south"], n),
        "secret": rng.integers(0, 2, n).astype(bool),
        "age": rng.integers(0, 101, n),
        "income": rng.random(n) * 1000,
        "city": rng.choice(["rome", "oslo", "lima"], n),
    }
    return pa.table(drawn | columns)


def opened(source, schema=SCHEMA, noise_from=None, **terms):
    """A database in memory unless `ledger` says otherwise; `noise_from` replaces its noise."""
    settings = {"epsilon": 1.0, "queries": 100, "ledger": ":memory:"} | terms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        db = sulq.open(source, schema, **settings)
    if noise_from is not None:
        db._pipeline.noise = noise_from
    return db


# ---- noise for controls ---------------------------------------------------------------------


class Silent:
    """Draws 0: the answer is exact."""

    def draw(self, law, count):
        return [0] * count


class Shrunk:
    """Broken on purpose: the right law, a standard deviation `factor` times what it should be."""

    def __init__(self, factor):
        self.factor = Fraction(factor)

    def draw(self, law, count):
        return [round(x * self.factor) for x in law.draw(count)]


class Coarse:
    """Broken on purpose: whole multiples of `step`, so that lower digits stay exact."""

    def __init__(self, step):
        self.step = step

    def draw(self, law, count):
        return [round(x / self.step) * self.step for x in law.draw(count)]


# ---- what luck allows -----------------------------------------------------------------------


def most_right(trials, chance, alarm=ALARM):
    """How often a guesser with this chance is right, at most, but for probability `alarm`."""
    return int(binom.isf(alarm, trials, chance))


def fair(heads, tosses, alarm):
    """Could a fair coin have done this?"""
    return 2 * min(binom.cdf(heads, tosses, 0.5), binom.sf(heads - 1, tosses, 0.5)) > alarm


def at_least(successes, trials, alarm):
    """Clopper-Pearson: the chance is at least this, but for probability `alarm`."""
    return 0.0 if successes == 0 else float(beta.ppf(alarm, successes, trials - successes + 1))


def at_most(successes, trials, alarm):
    """Clopper-Pearson: the chance is at most this, but for probability `alarm`."""
    if successes == trials:
        return 1.0
    return float(beta.isf(alarm, successes + 1, trials - successes))


def phi(x):
    """The normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2


def mu(promise):
    """How far apart two values of a row are after all T answers, in standard deviations."""
    return math.sqrt(promise.queries / promise.variance)


# ---- one person, many at once ---------------------------------------------------------------

CROWD = 9_999  # the ledger's cells, less the one for 'other'
_PRIVATE = {
    "secret": {"type": "boolean", "nullable": False},
    "x": {"type": "number", "low": -1, "high": 3, "nullable": False},
    "y": {"type": "number", "low": 0, "high": 10, "nullable": False},
    "k": {"type": "integer", "low": 0, "high": 1, "nullable": False},
    "day": {"type": "integer", "public": True},  # 0 for all: day <> 1 is another question
}
CROWD_SCHEMA = {"person": {"values": list(range(CROWD)), "public": True}} | _PRIVATE
PAIR_SCHEMA = {"person": {"values": [0, 1], "public": True}} | _PRIVATE


def crowd(bits):
    """One row per person, every column at the end that the person's bit says."""
    bits = np.asarray(bits)
    return pa.table(
        {
            "person": np.arange(len(bits)),
            "secret": bits.astype(bool),
            "x": np.where(bits, 3.0, -1.0),
            "y": np.where(bits, 10.0, 0.0),
            "k": bits.astype(np.int64),
            "day": np.zeros(len(bits), dtype=np.int64),
        }
    )


def _owned(bit, rows_each):
    """One person's rows, all alike, and one row more than they are allowed."""
    rows = crowd([bit] * (rows_each + 1)).set_column(0, "person", [[0] * (rows_each + 1)])
    rows = rows.append_column("owner", [[7] * (rows_each + 1)])
    return rows.append_column("id", [list(range(rows_each + 1))])


def affordable(db, questions):
    """Ask until the money is gone; what was answered. A refusal does not help."""
    answers = []
    for question in questions:
        try:
            answers.append(db.ask(question))
        except sulq.Refused:
            continue
    return answers


def by_person(answer, persons):
    """Everything an answer says of each person, one row each, and its standard deviations."""
    seen = answer.values.reshape(persons + 1, -1)[:persons]
    return seen, np.tile(np.array(answer.stds[0]), seen.shape[1] // len(answer.names))


def moves(questions, rows_each=1, **terms):
    """What all that the budget pays for moves when a bit of 1 becomes 0, one matrix each.

    In standard deviations and exact: answers without noise on twins of one person, who has
    one row, or `rows_each` of them as declared.
    """
    schema, rows = PAIR_SCHEMA, [crowd([1]), crowd([0])]
    if rows_each > 1:
        columns = PAIR_SCHEMA | {"id": {"key": True}, "owner": {"type": "integer"}}
        schema = {"columns": columns, "unit": {"column": "owner", "max_rows": rows_each}}
        rows = [_owned(bit, rows_each) for bit in (1, 0)]
    twins = [opened(r, schema, Silent(), **terms) for r in rows]
    pairs = zip(*(affordable(twin, questions) for twin in twins), strict=True)
    return [(a.values - b.values) / a.stds for a, b in pairs]


def distance(questions, **terms):
    """The mu of an attack on Gaussian noise: how far apart the two values of the bit are."""
    return math.sqrt(sum((move**2).sum() for move in moves(questions, **terms)))


def oracle(questions, bits, noise_from=None, /, **terms):
    """Ask about everyone by person, and guess every bit by likelihood; how many were right.

    Persons are public cells with noise of their own, so each is one independent trial of the
    best attack on one bit.
    """
    db = opened(crowd(bits), CROWD_SCHEMA, noise_from, **terms)
    model = opened(crowd([1, 0]), PAIR_SCHEMA, Silent(), **terms)
    evidence = np.zeros(len(bits))
    answers = zip(affordable(db, questions), affordable(model, questions), strict=True)
    for answer, known in answers:
        seen, std = by_person(answer, CROWD)
        (one, zero), _ = by_person(known, 2)
        evidence += (seen - (one + zero) / 2) @ ((one - zero) / std**2)
    return int(((evidence > 0) == np.asarray(bits, bool)).sum())


# ---- twins ----------------------------------------------------------------------------------


def replaced(table, row, **values):
    """The neighbour: the same table with other values in one row."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    for name, value in values.items():
        columns[name][row] = value
    return pa.table({n: pa.array(c, type=table.schema.field(n).type) for n, c in columns.items()})


def visible(call):
    """All that a call shows, the noisy numbers left out: type, text, shape, labels, price."""
    try:
        answer = call()
    except sulq.SulqError as error:
        return type(error).__name__, str(error)
    if isinstance(answer, list):
        return [visible(lambda a=a: a) for a in answer]
    if isinstance(answer, sulq.Table):
        labels = {name: answer[name] for name in answer.by}
        return list(answer.columns), labels, len(answer), answer.price, answer.remaining
    if isinstance(answer, sulq.Answer):
        shape = [len(row) for row in answer.exact]
        return shape, answer.stds, answer.cells, answer.names, answer.price, answer.remaining
    return repr(answer)
