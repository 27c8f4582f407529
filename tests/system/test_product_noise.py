"""The noise as it comes out of the whole product: 300 questions x 16 public cells for each kind.

Each kind is accepted, and the same checks reject a standard deviation 20% too low. False
alarms: 1e-9 for each check, by Bernstein's inequality or exact binomial tails.
"""

import json
import math
import shutil
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from attacks.children import at_once, draws
from attacks.harness import ALARM, Coarse, Shrunk, Silent, fair, opened, people
from scipy.stats import binom

from sulq import Query

pytestmark = pytest.mark.real_noise

KINDS = ("gaussian", "laplace", "binomial", "stitched")
QUESTIONS, CELLS = 300, 16
SCHEMA = {
    "id": {"key": True},
    "ward": {"values": list(range(CELLS - 1)), "public": True},  # and the cell for others
    "secret": {"type": "boolean", "nullable": False},
    "income": {"type": "number", "low": -3, "high": 10, "nullable": False},
}


def patients(n=500):
    rng = np.random.default_rng(7)
    table = people(n).select(["id", "secret"])
    table = table.append_column("ward", [rng.integers(0, CELLS, n)])
    return table.append_column("income", [rng.random(n) * 13 - 3])


def questions(value):
    """Different questions with one answer to each cell: none has an id below zero."""
    if value == "secret":
        return [Query(by="ward", where=f"secret and id <> {-i}") for i in range(1, QUESTIONS + 1)]
    return [Query([value], by="ward", where=f"id <> {-i}") for i in range(1, QUESTIONS + 1)]


class Residue:
    """What the answers of a database have beyond the exact sums, in steps of their grid."""

    def __init__(self, kind, value="secret", noise_from=None):
        terms = {"noise": kind, "queries": QUESTIONS}
        db = opened(patients(), SCHEMA, noise_from, **terms)
        asked = questions(value)
        self.answers = db.ask(asked)
        checked = db._planner.check(asked[0])
        tariff = db._planner.tariff(checked)
        self.law, self.step = tariff.laws[0], tariff.steps[0]
        (silent,) = opened(patients(), SCHEMA, Silent(), **terms).ask(asked[:1])
        exact = [row[0] / self.step for row in silent.exact]
        noisy = [[row[0] / self.step for row in answer.exact] for answer in self.answers]
        assert all(x.denominator == 1 for row in [exact, *noisy] for x in row)
        self.exact = [int(x) for x in exact]
        self.noise = [int(x - e) for row in noisy for x, e in zip(row, exact, strict=True)]


@pytest.fixture(scope="module")
def residues():
    return {kind: Residue(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def fractional():
    return {kind: Residue(kind, "income") for kind in KINDS if kind != "binomial"}


CLIP = 4.0  # standard deviations


def size_is_right(noise, law):
    """The mean of min(|x|/std, 4) is what the law says, but for 1e-9 (Bernstein)."""
    sizes = np.minimum(np.abs(np.array(noise, float)) / law.std, CLIP)
    levels = (np.arange(1000) + 0.5) / 1000
    model = np.minimum([law.half_width(level) / law.std for level in levels], CLIP)
    n, spread = len(sizes), float(model.var()) * len(sizes)
    log = math.log(2 / ALARM)
    allowed = CLIP * log / 3 + math.sqrt((CLIP * log / 3) ** 2 + 2 * spread * log)
    return abs(float(sizes.sum()) - n * float(model.mean())) <= allowed + 0.002 * n


def shape_is_right(noise, law):
    """As many beyond each quantile as the law says, and as many above 0 as below."""
    size = np.abs(np.array(noise, float))
    for level in (0.2, 0.5, 0.8, 0.95, 0.99):
        beyond = int((size > law.half_width(level)).sum())
        # A whole-number law has a little more or less beyond a whole number.
        slack = 0.5 / law.std
        low, high = max(1 - level - slack, 0), 1 - level + slack
        if binom.cdf(beyond, len(size), low) < ALARM / 20:
            return False
        if binom.sf(beyond - 1, len(size), high) < ALARM / 20:
            return False
    above, below = sum(x > 0 for x in noise), sum(x < 0 for x in noise)
    return fair(above, above + below, ALARM / 20)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_the_size_the_promise_says(residues, kind):
    """Accepted as it is. False alarm: 1e-9."""
    found = residues[kind]
    ratio = np.std(found.noise) / found.law.std
    print(f"product noise, {kind}: std {ratio:.3f} of the law's, {len(found.noise)} answers")
    assert size_is_right(found.noise, found.law)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_the_shape_the_promise_says(residues, kind):
    """Quantiles and sign as the law says. False alarm: 1e-9."""
    assert shape_is_right(residues[kind].noise, residues[kind].law)


@pytest.mark.parametrize("kind", KINDS)
def test_control_a_fifth_too_little_is_rejected(kind):
    """The same check on a database whose noise is 20% low; missed with chance below 1e-9."""
    found = Residue(kind, noise_from=Shrunk("4/5"))
    assert not size_is_right(found.noise, found.law)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbouring_answers_do_not_depend_on_each_other(residues, kind):
    """Signs of successive draws agree half of the time. False alarm: 1e-9."""
    signs = [x > 0 for x in residues[kind].noise if x]
    agree = sum(a == b for a, b in pairwise(signs))
    assert fair(agree, len(signs) - 1, ALARM)


# ---- digits ---------------------------------------------------------------------------------


def unfair_bits(found):
    """Low bits of the answers that lean to one side, or agree with the exact sum too often.

    Bits up to a quarter of the standard deviation: there the law itself is flat to 1e-12.
    """
    exact = found.exact * QUESTIONS
    noisy = [e + x for e, x in zip(exact, found.noise, strict=True)]
    bits = range(max(math.floor(math.log2(found.law.std)) - 2, 1))
    alarm = ALARM / (2 * len(bits))
    return [
        bit
        for bit in bits
        if not fair(sum(x >> bit & 1 for x in noisy), len(noisy), alarm)
        or not fair(sum((x ^ e) >> bit & 1 for x, e in zip(noisy, exact, strict=True)),
                    len(noisy), alarm)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_low_bit_of_a_count_is_fair(residues, kind):
    """Nothing of an exact count shows in the last digits. False alarm: 1e-9."""
    assert unfair_bits(residues[kind]) == []


def test_every_low_bit_of_a_fractional_sum_is_fair(fractional):
    """Numbers with fractions carry noise down to their last digit. False alarm: 3e-9 in all."""
    for found in fractional.values():
        assert found.law.std > 2**20
        assert unfair_bits(found) == []


def test_control_whole_noise_on_fractions_is_caught():
    """Noise in whole units leaves every digit after the point exact."""
    whole = round(1 / Residue("gaussian", "income").step)
    assert whole > 2**20
    found = Residue("gaussian", "income", Coarse(whole))
    assert len(unfair_bits(found)) >= 20
    assert size_is_right(found.noise, found.law)  # and nothing else would have noticed


@pytest.mark.parametrize("kind", KINDS)
def test_json_carries_every_digit(residues, fractional, kind):
    """Through JSON text and back an answer is the same fraction, its float within rounding."""
    for found in filter(None, (residues[kind], fractional.get(kind))):
        for answer in found.answers[:50]:
            body = json.loads(json.dumps(answer.to_json(), allow_nan=False))
            exact = tuple(tuple(map(Fraction, row)) for row in body["exact"])
            assert exact == answer.exact
            assert body["value"] == [[float(x) for x in row] for row in exact]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_below_zero_and_above_n_are_returned_as_they_are(kind):
    """Forty counts of nobody and of everybody: all on one side with chance 2**-40 each."""
    db = opened(people(20, income=np.full(20, 500.0)), noise=kind, queries=80)
    nobody = db.ask([Query(where=f"income > 900 and id <> {-i}") for i in range(1, 41)])
    everybody = db.ask([Query(where=f"income < 900 and id <> {-i}") for i in range(1, 41)])
    assert min(answer.value for answer in nobody) < 0
    assert max(answer.value for answer in everybody) > db.rows


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "stitched"])
def test_no_draw_is_used_twice_in_a_batch(residues, kind):
    """Three numbers in a row never come again among 4,800. False alarm: 1e-9."""
    assert shared([residues[kind].noise]) == 0


# ---- no seed --------------------------------------------------------------------------------


def shared(sequences):
    """Three draws in a row that occur twice: by chance below 1e-10 among all of them."""
    seen = set()
    again = 0
    for sequence in sequences:
        for triple in zip(sequence, sequence[1:], sequence[2:], strict=False):
            again += triple in seen
            seen.add(triple)
    return again


def test_processes_and_forks_never_repeat_a_draw():
    """Two processes, each with two forks made after it had drawn: all draws differ."""
    sequences = [s for found in at_once(draws, [(30,), (30,)]) for s in found]
    assert len(sequences) == 8
    assert all(len(s) == 30 for s in sequences)
    assert shared(sequences) == 0
    assert shared([*sequences, sequences[3][5:]]) > 0  # the control: a repeated stretch


def test_a_restored_snapshot_never_repeats_a_draw(tmp_path):
    """The whole folder put back as it was: the same questions get other noise."""
    folder = tmp_path / "now"
    folder.mkdir()
    pq.write_table(people(), folder / "people.parquet")
    opened(folder / "people.parquet", ledger=None).close()
    shutil.copytree(folder, tmp_path / "then")

    def ask():
        with opened(folder / "people.parquet", ledger=None) as db:
            asked = [Query(where=f"secret and id <> {i}") for i in range(30)]
            return [str(answer.exact[0][0]) for answer in db.ask(asked)]

    first = ask()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "then", folder)
    assert shared([first, ask()]) == 0
