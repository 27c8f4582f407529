"""Noise drawn ahead of need: each number once, none in a copy of the process."""

import os
from fractions import Fraction

from sulq.privacy.noise import Gaussian
from sulq.privacy.noise_ahead import AHEAD, NoiseAhead


def test_noise_drawn_ahead_is_given_once_and_forgotten_in_a_fork():
    """Each number is used once; a copy of the process starts with none."""

    class Counting:
        def __init__(self):
            self.next = 0

        def draw(self, law, count):
            self.next += count
            return list(range(self.next - count, self.next))

    source = Counting()
    ahead = NoiseAhead(source)
    law, other = Gaussian(Fraction(10**6)), Gaussian(Fraction(10**7))
    drawn = [x for _ in range(60) for x in ahead.draw(law, 1) + ahead.draw(other, 2)]
    assert len(set(drawn)) == len(drawn) == 180
    assert len(ahead.draw(law, AHEAD)) == AHEAD
    ahead.draw(law, 1)
    ahead._process = os.getpid() + 1  # as if this were a fork
    before = source.next
    assert ahead.draw(law, 1)[0] >= before
    assert ahead.draw(law, 0) == []
