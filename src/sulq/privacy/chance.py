"""Probabilities as people say them: 73.1%, and 1 in a million."""

from __future__ import annotations

from fractions import Fraction

WORDS = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))
FIGURES = 3  # of the number that a small probability is one in


def percent(p: float) -> str:
    """Write a probability as a percentage that never rounds to 0% or 100%."""
    digits = 1
    while digits < 12 and 0 < p < 1 and float(f"{100 * p:.{digits}f}") in (0.0, 100.0):
        digits += 1
    text = f"{100 * p:.{digits}f}"
    if p < 1 and float(text) == 100:
        return "more than 99.9999999999%"
    return f"{text.rstrip('0').rstrip('.')}%"


def one_in(p: float) -> str:
    """Write a probability below a tenth as 1 in so many, a larger one in percent.

    1e-6 is "1 in a million". 3e-7 is "1 in 3.33 million": figures are cut off, so that it is never
    said to be less likely than it is.
    """
    if not 0 < p < 0.1:
        return percent(p)
    many = int(1 / Fraction(str(p)))  # as it was written: 1e-6 is no whole number of halves
    many -= many % 10 ** max(len(str(many)) - FIGURES, 0)
    for size, word in WORDS:
        if many >= size:
            most = many / Fraction(size)
            if most >= 10**FIGURES:
                return f"1 in 10^{len(str(many)) - 1}"
            return f"1 in {'a' if most == 1 else format(float(most), '.3g')} {word}"
    return f"1 in {many:,}"
