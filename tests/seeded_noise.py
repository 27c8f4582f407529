"""Noise for tests that are not about noise: the same draws in every run, so none fails by luck.

A test of the noise itself says `pytestmark = pytest.mark.real_noise` (or the mark alone), and how
rarely it fails by luck. In `make soak` so do all that state a false-alarm rate. Every other test
meets these draws, which begin anew with each test. What runs in a process of its own (a server, a
command) always has the product's noise.
"""

from __future__ import annotations

import threading
import zlib

import numpy as np
from soak import SOAK

from sulq.privacy.choice import UNIFORM, Choosing
from sulq.privacy.noise import Binomial, Gaussian, Laplace, Law, Stitched, SystemNoise


class SeededSource:
    """Random bits that are the same in every run."""

    def __init__(self, rng):
        self._rng = rng

    def bits(self, count):
        spare = -count % 8
        return int.from_bytes(self._rng.bytes((count + spare) // 8), "big") >> spare


class SeededNoise:
    """Draws of each law from one seed: good to test what is done with noise, never its law."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self._lock = threading.Lock()

    def draw(self, law: Law, count: int) -> list[int]:
        with self._lock:
            return self._many(law, count)

    def _many(self, law, count):
        match law:
            case Gaussian():
                return [round(x) for x in (self._rng.standard_normal(count) * law.std).tolist()]
            case Laplace():
                return [round(x) for x in self._rng.laplace(0, float(law.scale), count).tolist()]
            case Binomial():
                return (self._rng.binomial(law.coins, 0.5, count) - law.coins // 2).tolist()
            case Choosing():
                source = SeededSource(self._rng)
                return [source.bits(UNIFORM) for _ in range(count)]
            case Stitched():
                return [self._stitched(law) for _ in range(count)]
        return law.draw(count)  # what draws nothing at random, and laws of a test's own

    def _stitched(self, law):
        while True:
            proposal = round(self._rng.laplace(0, law._scale))
            if law.keeps(proposal, SeededSource(self._rng)):
                return proposal


class Draws:
    """Where SystemNoise draws from while tests run: the product's own way, or a seed."""

    def __init__(self):
        self.own = SystemNoise.draw
        self.seeded: SeededNoise | None = None
        SystemNoise.draw = lambda noise, law, count: self(noise, law, count)

    def __call__(self, noise, law, count):
        return self.own(noise, law, count) if self.seeded is None else self.seeded.draw(law, count)

    def begin(self, item) -> None:
        """Take the noise that this test is to meet; fixtures of a whole file meet the same."""
        seed = zlib.crc32(item.nodeid.partition("::")[0].encode())
        self.seeded = None if about_noise(item) else SeededNoise(seed)


def about_noise(item) -> bool:
    """Is it about the noise itself; or, where time is no matter, does it state a rate?"""
    if item.get_closest_marker("real_noise") is not None:
        return True
    said = (getattr(getattr(item, "function", None), "__doc__", None) or "").lower()
    return bool(SOAK) and "false alarm" in said
