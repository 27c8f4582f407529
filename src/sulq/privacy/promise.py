"""The promise: epsilon, delta and T -> the noise of one answer, and what it means in words.

`Promise.variance` is R, the variance of one query: one sum of a row function into [0, 1].
Proofs: docs/proofs/promise.md
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sulq.errors import PromiseError
from sulq.privacy.chance import one_in, percent
from sulq.privacy.noise import Binomial, Gaussian, Laplace, Law, Stitched, root_up
from sulq.privacy.promise_terms import (
    chances,
    delta_of,
    growth,
    one_of,
    positive,
    real,
    share_of,
    whole_number,
)

NOISES = ("gaussian", "laplace", "binomial", "stitched")
GUARANTEES = ("beliefs", "dp")
FEWEST_STEPS = 2**10  # grid steps in one unit, where the promise leans on a fine grid
GRID_MARGIN = 1 + 1e-5  # with GRID_VARIANCE, what the grid adds to the noise of a dp promise:
GRID_VARIANCE = 3  # steps squared; docs/proofs/promise.md
BEND = 3  # the stitched law bends at this many sqrt(R)
SAYS_LITTLE = 20.0  # an epsilon above this is allowed, and warned about
LARGEST_STD = 2.0**44  # units; beyond this the noise does not fit the grid
SMALLEST = 2.0**-30  # R/T never goes below this, however large epsilon is

NOT_HIDDEN = (
    "Not hidden: the number of rows n, keys, who is in the table, public columns, "
    "and what other rows teach."
)


@dataclass(frozen=True)
class Promise:
    """What nobody can learn about one row from all `queries` answers together.

    guarantee="beliefs" is Definition 1 of the SuLQ paper: whatever was believed about a row,
    the confidence ln(p/(1-p)) in any yes/no fact about it grows by more than epsilon with
    probability at most delta. guarantee="dp" is (epsilon, delta)-differential privacy with
    the row replaced by one that contributes nothing. Laplace noise needs no delta but for
    discoveries: without any, the promise is made with delta = 0, whatever was given.
    """

    epsilon: float
    delta: float = 1e-6
    queries: int = 1000
    noise: str = "gaussian"
    guarantee: str = "beliefs"
    subject: str = "row"  # or "person": all the rows that [unit] lets one person have
    group: str = ""  # the group of datasets about the same people that all `queries` are for
    discoveries: int = 0  # how often values that nobody listed may be named
    share: float = 0.0  # of delta, the part that all of these have together

    def __post_init__(self) -> None:
        one_of("noise", self.noise, NOISES)
        one_of("guarantee", self.guarantee, GUARANTEES)
        one_of("subject", self.subject, ("row", "person"))
        epsilon = real("epsilon", self.epsilon, "a positive number")
        if not 0 < epsilon < math.inf:
            raise PromiseError(f"epsilon={self.epsilon!r}: a positive number is needed.")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta_of(self.delta, self.noise, self.discoveries))
        object.__setattr__(self, "queries", whole_number("queries", self.queries))
        terms = (self.discoveries, self.share, self.delta, self.noise, self.group)
        object.__setattr__(self, "share", share_of(*terms))
        self._check_size()
        if epsilon > SAYS_LITTLE:
            warnings.warn(
                f"epsilon={epsilon:g} says little: a belief of 50% can become "
                f"{percent(self.belief(0.5))}. Values up to {SAYS_LITTLE:g} are usual.",
                stacklevel=3,
            )

    def _check_size(self) -> None:
        """Refuse a promise whose noise would not fit the grid, before computing it."""
        if self.noise == "laplace":
            log_std = math.log(2) / 2 + math.log(self.queries) - math.log(self.epsilon)
        else:  # the largest of the other kinds, to well within a factor 2
            log_std = _log_beliefs_variance(self.epsilon, self.delta, self.queries) / 2
        if log_std > math.log(LARGEST_STD):
            raise PromiseError(
                f"epsilon={self.epsilon:g}, delta={self.delta:g}, queries={self.queries} need "
                f"noise above {LARGEST_STD:g} per answer, the most the grid can carry. "
                "Raise epsilon or delta, or lower queries."
            )

    @property
    def variance(self) -> float:
        """R: the variance of one query, in units of a row function into [0, 1]."""
        return float(self.exact_variance)

    @property
    def exact_variance(self) -> Fraction:
        """R as an exact number, never below what the promise needs. Pricing uses this."""
        if self.noise == "laplace":
            return 2 * self.scale**2
        if self.noise == "binomial":
            return Fraction(self.coins, 4)
        if self.noise == "stitched":
            from sulq.privacy.calibration import stitched_variance

            terms = (self.epsilon, self.delta, self.queries, BEND, FEWEST_STEPS)
            return Fraction(stitched_variance(*terms))
        formula = dp_variance if self.guarantee == "dp" else beliefs_variance
        needed = formula(*self._left, self.queries)
        # Floats err by a few parts in 1e15; 2**-40 is far above that.
        return Fraction(max(needed, SMALLEST * self.queries)) * (1 + Fraction(1, 2**40))

    @property
    def _left(self) -> tuple[float, float]:
        """What discoveries leave of epsilon and delta. Proof: docs/proofs/discover.md."""
        epsilon = self.epsilon + math.log1p(-self.share)
        if epsilon <= 0:
            raise PromiseError(f"epsilon={self.epsilon:g} leaves nothing beside {self.share:g}.")
        return epsilon, self.delta - self.share

    @property
    def std(self) -> float:
        """The standard deviation of one answer, in units.

        The square root of R, but for stitched noise a little above it: R is the variance of
        its Gaussian middle.
        """
        if self.noise == "stitched":
            return self.law(self._fine).std / self._fine
        return math.sqrt(self.variance)

    @property
    def _fine(self) -> int:
        """A grid to compute widths on: as fine as the noise leaves room for."""
        return 2**20 if self.variance < 2**60 else FEWEST_STEPS

    @property
    def coins(self) -> int:
        """How many fair coins one answer takes (binomial noise)."""
        if self.noise != "binomial":
            raise PromiseError(f"noise={self.noise!r} tosses no coins; noise='binomial' does.")
        from sulq.privacy.calibration import binomial_coins

        return binomial_coins(self.epsilon, self.delta, self.queries)

    @property
    def bend(self) -> float:
        """Where the stitched law turns from Gaussian to exponential, in units."""
        if self.noise != "stitched":
            raise PromiseError(f"noise={self.noise!r} has no bend; noise='stitched' does.")
        return BEND * math.sqrt(self.variance)

    @property
    def scale(self) -> Fraction:
        """Laplace: T/epsilon, of what discoveries leave of epsilon; never below."""
        if not self.share:
            return self.queries / Fraction(self.epsilon)
        return self.queries / Fraction(self._left[0]) * (1 + Fraction(1, 2**40))

    def law(self, unit: Fraction | int, dilation: Fraction | int = 1) -> Law:
        """Return the noise of one number, in grid steps.

        `unit` is how many steps of the grid one unit [0, 1] has; `dilation` multiplies the
        variance: an answer with variance R * dilation has another price.
        """
        unit, dilation = positive("unit", unit), positive("dilation", dilation)
        self._check_grid(unit, dilation)
        try:
            return self._law(unit, dilation)
        except ValueError as error:
            raise PromiseError(
                f"unit={float(unit):g}, dilation={float(dilation):g}: the noise does not fit the "
                f"grid. {error}"
            ) from error

    def _check_grid(self, unit: Fraction, dilation: Fraction) -> None:
        if self.noise in ("binomial", "stitched") and dilation != 1:
            raise PromiseError(
                f"dilation={dilation}: noise={self.noise!r} has one variance. "
                "Use noise='gaussian' to ask for another error."
            )
        if self.noise == "binomial" and unit != 1:
            raise PromiseError(f"unit={unit}: coins are counted on whole numbers, unit=1.")
        fine = self.noise == "stitched" or (self.noise, self.guarantee) == ("gaussian", "dp")
        if fine and unit < FEWEST_STEPS:
            raise PromiseError(
                f"unit={unit} grid steps: noise={self.noise!r} with "
                f"guarantee={self.guarantee!r} needs at least {FEWEST_STEPS}."
            )

    def _law(self, unit: Fraction, dilation: Fraction) -> Law:
        if self.noise == "binomial":
            return Binomial(self.coins)
        if self.noise == "laplace":
            return Laplace(self.scale * unit * Fraction(root_up(dilation)))
        if self.noise == "stitched":
            root = math.ceil(unit * Fraction(root_up(self.exact_variance)))
            return Stitched(variance=root * root, bend=BEND * root)
        grid = GRID_VARIANCE if self.guarantee == "dp" else 0
        return Gaussian(self.exact_variance * unit**2 * dilation + grid)

    def belief(self, p: float, facts: int | None = None, values: int | None = None) -> float:
        """Return what a belief of probability p can become: ln(p/(1-p)) grows by epsilon.

        With `facts`, so many facts at once, surer or less sure, and with `values` every fact about
        a row that has one of so many values; except with probability delta for all together.

        Under beliefs, p is of any yes/no fact about the row; under dp, of "this row is in the
        table" against "it is absent"; for binomial and stitched noise, of one of two
        alternatives for the row.
        """
        if not 0 <= real("p", p, "a probability") <= 1:
            raise PromiseError(f"p={p!r}: a probability from 0 to 1 is needed.")
        doubt = (1 - p) * math.exp(-self._growth(facts, values))
        return float(p / (p + doubt)) if p else 0.0

    def _growth(self, facts: int | None, values: int | None) -> float:
        """Return how far confidence can grow in any of these facts."""
        ways = chances(facts, values)
        if ways == 1 or self.noise == "laplace":  # but for its share, by epsilon at most
            return self.epsilon
        if self.guarantee == "dp" or self.noise != "gaussian":
            raise PromiseError(
                "several facts at once: shown for guarantee='beliefs' with gaussian or laplace "
                "noise."
            )
        most = growth(self.queries / self.variance, self._left[1], ways)
        return max(self.epsilon, most - math.log1p(-self.share))

    def __str__(self) -> str:
        return f"{self._sentence(0.5)}\n{NOT_HIDDEN}"

    def _sentence(self, p: float) -> str:
        """Say what a belief p can become, in one sentence."""
        before, after, who = percent(p), percent(self.belief(p)), self._who
        total = f"all {self.queries:,} queries" if self.queries > 1 else "the one query"
        if self.group:
            total += f" to the datasets of the group {self.group!r} together"
        if self.guarantee == "dp":
            what = (
                f"that a {who} is in the {'tables' if self.group else 'table'}, rather than absent "
                f"(a {who} that counts nothing),"
            )
        elif self.noise in ("binomial", "stitched"):
            what = f"of one of two alternatives for a {who}"
        else:
            what = f"of a fact about a {who}"
        return (
            f"After {total}, someone who is {before} sure {what} can become at most {after} "
            f"sure from that {who}'s {'rows in them' if self.group else 'presence'}, "
            f"{self._except()}."
        )

    @property
    def _who(self) -> str:
        """Whom it is about: the datasets of a group share people, whatever rows they have."""
        return "person" if self.group else self.subject

    def _except(self) -> str:
        if self.delta == 0:
            return "without exception"
        if self.guarantee == "dp" and self.noise in ("gaussian", "laplace"):
            return f"up to a slack of {one_in(self.delta)} in every probability"
        return f"except with a chance of {one_in(self.delta)}"

    def explain(self, rows: int | None = None) -> str:
        """Return the promise at length: beliefs, noise, and the sampling error beside it."""
        lines = [
            self._sentence(0.5),
            f"A belief of 90% can become at most {percent(self.belief(0.9))}.",
            *self._at_once(),
            *self._scope(),
            f"The noise of one query has a standard deviation of {_short(self.std)}, and is within "
            f"{_short(self.half_width())} in 95 of 100 answers.",
        ]
        if rows is not None:
            lines.append(self._beside_sampling(rows))
        return "\n".join([*lines, NOT_HIDDEN])

    def _at_once(self) -> list[str]:
        """Say what holds both ways, and for several facts."""
        if self.guarantee == "dp" or self.noise != "gaussian" or 20 * self.delta >= 1:
            return []
        both, ten = one_in(2 * self.delta), one_in(20 * self.delta)
        return [
            "Nor can they become less sure by as much: that one of the two fails has a chance of "
            f"{both}, and of {ten} for one of ten facts. With the chance as above for all ten "
            f"together, 50% can become at most {percent(self.belief(0.5, facts=10))}."
        ]

    def _scope(self) -> list[str]:
        """Say what this promise means that another does not."""
        lines = []
        if self.discoveries:
            times = "once" if self.discoveries == 1 else f"{self.discoveries:,} times"
            lines.append(
                f"Values that nobody listed may be named {times}; a value that only one "
                f"{self.subject} has is among them with a chance of {one_in(self.share)} at most, "
                "which is counted above."
            )
        if self.group:
            lines.append(
                "What is asked of one dataset of the group is counted in full for everyone in the "
                "others" + (", and a person has at most one row in each."
                            if self.subject == "row" else ".")
            )  # fmt: skip
        if self.guarantee == "dp":
            more = f", plus a chance of {one_in(self.delta)}" if self.delta else ""
            lines.append(
                f"Any outcome is at most {math.exp(min(self.epsilon, 700)):.4g} times as likely "
                f"with the {self._who} as without it{more}; n stays public."
            )
        if self.noise in ("binomial", "stitched"):
            lines.append("This is shown for two alternatives, not for every mixture of beliefs.")
        if self.noise == "binomial":
            lines.append(f"The noise of an answer is {self.coins:,} fair coins minus their mean.")
        if self.noise == "stitched":
            most = BEND * self.queries / math.sqrt(self.variance)
            lines.append(
                f"Beyond delta there is still a limit: confidence never grows by "
                f"more than {most:.4g}."
            )
        return lines

    def _beside_sampling(self, rows: int) -> str:
        rows = whole_number("rows", rows)
        sampling = math.sqrt(rows) / 2
        verdict = (
            f"is below it: {self.queries:,} queries are few enough for {rows:,} rows"
            if self.variance < rows / 4
            else f"is above it: {self.queries:,} queries are too many for {rows:,} rows"
        )
        return (
            f"If these {rows:,} rows are a sample of more, chance alone moves a count over them by "
            f"up to {_short(sampling)} (a standard deviation); the noise {verdict}."
        )

    def half_width(self, level: float = 0.95) -> float:
        """Return the half width of the interval of one answer, in units."""
        unit = 1 if self.noise == "binomial" else self._fine
        return self.law(unit).half_width(level) / unit

    def to_json(self) -> dict[str, Any]:
        """Return a dict of plain values that `from_json` reads."""
        found = asdict(self)
        unsaid = {"group"} if not self.group else set()
        unsaid |= {"discoveries", "share"} if not self.discoveries else set()
        return {n: v for n, v in found.items() if n not in unsaid}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Promise:
        """Return the promise that `to_json` wrote."""
        names = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or not set(value) <= names or "epsilon" not in value:
            raise PromiseError(f"promise={value!r}: an object with {', '.join(sorted(names))}.")
        return cls(**value)


def beliefs_variance(epsilon: float, delta: float, queries: int) -> float:
    """Return the smallest R with min over s >= 1 of (s**2 + s) T/2R - s epsilon <= -L.

    L = ln(1/delta). R = T / (sqrt(2(L + epsilon)) - sqrt(2L))**2 if epsilon <= 3L, where the
    best s is at least 1; else T / (epsilon - L), at s = 1.
    """
    return math.exp(_log_beliefs_variance(epsilon, delta, queries))


def _log_beliefs_variance(epsilon: float, delta: float, queries: int) -> float:
    """Return ln R, with the difference of roots written as epsilon over their sum."""
    e, ln, log_t = epsilon, -math.log(delta), math.log(queries)
    if e > 3 * ln:
        return log_t - math.log(e - ln)
    return log_t + 2 * math.log(math.sqrt(ln + e) + math.sqrt(ln)) - math.log(2) - 2 * math.log(e)


@lru_cache(maxsize=1024)
def dp_variance(epsilon: float, delta: float, queries: int) -> float:
    """Return the smallest R = T/mu**2 with gdp_log_delta(mu) <= ln(delta), times a margin.

    T answers of variance R are mu-GDP with mu = sqrt(T/R); the margin is for the grid.
    """
    target = math.log(delta)
    low = high = -0.5 * math.log(beliefs_variance(epsilon, delta, 1))  # beliefs imply dp
    while gdp_log_delta(math.exp(high), epsilon) <= target:
        low, high = high, high + 1
    while high - low > 1e-12:
        middle = (low + high) / 2
        if gdp_log_delta(math.exp(middle), epsilon) > target:
            high = middle
        else:
            low = middle
    return queries * math.exp(-2 * low) * GRID_MARGIN


def gdp_log_delta(mu: float, epsilon: float) -> float:
    """Return ln of Phi(mu/2 - epsilon/mu) - e**epsilon * Phi(-mu/2 - epsilon/mu).

    With z = epsilon/mu - mu/2 and Mills' ratio M(z) = (1 - Phi(z))/phi(z) this is
    phi(z) * (M(z) - M(z + mu)), which neither overflows nor cancels.
    """
    from scipy.special import erfc, erfcx

    def mills(t: float) -> float:
        return float(math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2)))

    z = epsilon / mu - mu / 2
    log_phi = -z * z / 2 - math.log(2 * math.pi) / 2
    if z < 0:
        return math.log(float(erfc(z / math.sqrt(2))) / 2 - math.exp(log_phi) * mills(z + mu))
    middle = z + mu / 2
    small = mu * (1 + middle) < 1e-3
    drop = mu * _mills_slope(middle, mills(middle)) if small else mills(z) - mills(z + mu)
    return log_phi + math.log(drop) if drop > 0 else -math.inf


def _mills_slope(t: float, mills: float) -> float:
    """Return -M'(t) = 1 - t M(t)."""
    return 1 - t * mills if t < 100 else 1 / t**2 - 3 / t**4


def _short(x: float) -> str:
    """Four figures, and all of those before the point."""
    return f"{x:,.0f}" if x >= 1000 else f"{x:.4g}"
