"""The owner's terms of an audited table: what is promised, and against whom, in words.

Not a `sulq.Promise`: no noise makes it true. It rests on what an attacker does not know. The
dither, a small whole-number noise, hides low-order digits from whoever would read them off one
answer; no promise rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, TypeGuard

from sulq.audit.priors import Priors, exact
from sulq.errors import PromiseError
from sulq.privacy.chance import one_in, percent
from sulq.privacy.noise import Gaussian, Law
from sulq.privacy.promise import Promise
from sulq.values.schema import Schema

RULES = ("classes", "duan")
SMALLEST, LARGEST_DITHER = Fraction(1, 1000), 10**6

WEAK = (
    "rule='duan' tests a Gaussian limit. It does not see low-order digits, residues, variation "
    "that public columns explain, or what a refusal tells: docs/howto/audited.md shows each. "
    "rule='classes' does."
)
NOT_HIDDEN = (
    "Not hidden: the number of rows n, keys, who is in the table, public columns, what other rows "
    "teach, and exact sums themselves."
)


@dataclass(frozen=True, slots=True)
class Nothing(Law):
    """No dither: always 0."""

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        return 0.0

    def pmf(self, k: int) -> float:
        """Return the probability of k."""
        return float(k == 0)

    def draw(self, count: int) -> list[int]:
        """Return `count` zeros."""
        return [0] * count


def dither_law(std: Fraction, unit: Fraction) -> Law:
    """The dither of one sum on a grid with `unit` steps to one row; `std` is in rows."""
    return Gaussian((std * unit) ** 2) if std else Nothing()


@dataclass(frozen=True)
class AuditPromise:
    """Exact sums, up to a dither, while an attacker cannot tell one row from them.

    Against someone who knows at most the fraction `known` of the rows, to whom the rest are
    independent and as likely as the priors say.
    """

    epsilon: float
    delta: float
    queries: int  # m, refusals included
    rule: str = "classes"
    dither: Fraction = Fraction(2)  # its standard deviation, in units of one row
    known: Fraction = Fraction(1, 2)
    priors: Priors | None = None  # of rule="classes"
    sample: str | None = None  # names the public sample that rule="duan" decides from

    noise: ClassVar[str] = "dither"
    guarantee: ClassVar[str] = "audited"
    subject: ClassVar[str] = "row"

    @property
    def reads_rows(self) -> bool:
        """Do verdicts depend on private rows? Then a review of questions is the owner's."""
        return self.rule == "duan" and self.sample is None

    @property
    def variance(self) -> float:
        """Of one count: the dither's."""
        return float(self.dither**2)

    @property
    def std(self) -> float:
        """Of one count: the dither's."""
        return float(self.dither)

    def half_width(self, level: float = 0.95) -> float:
        """The half width of the interval of one count."""
        return dither_law(self.dither, Fraction(1)).half_width(level)

    def belief(self, p: float) -> float:
        """What a belief of probability p can become, as epsilon allows."""
        return Promise(self.epsilon, self.delta, self.queries).belief(p)

    def __str__(self) -> str:
        return self.explain()

    def explain(self, rows: int | None = None) -> str:
        """The promise at length: what, against whom, and what is not proved."""
        before, after = percent(0.5), percent(self.belief(0.5))
        how = f"exact up to a dither of {float(self.dither):g}" if self.dither else "exact"
        lines = [
            f"Up to {self.queries:,} questions, answered ({how}) or refused.",
            f"Someone who is {before} sure of a fact about a row can become at most {after} sure, "
            f"up to a slack of {one_in(self.delta)} in every probability, if: they know at most "
            f"{percent(float(self.known))} of the rows that are asked about alike; rows are "
            "independent, as the owner declared; "
            + ("and the priors hold." if self.rule == "classes" else "and sums were Gaussian."),
        ]
        if self.rule == "classes":
            assert self.priors is not None
            lines.append(f"Priors, given all public columns: {self.priors}.")
            lines += [self.priors.premise] if self.priors.premise else []
            lines.append("That this holds for questions chosen after seeing answers is not proved.")
        else:
            lines.append(WEAK)
        return "\n".join([*lines, NOT_HIDDEN])

    def bound(
        self, schema: Schema, priors: Any, sample: str | None, independent_columns: bool = False
    ) -> AuditPromise:
        """The promise about one table: its priors, or the public sample that decides."""
        unit = schema.unit
        if unit is not None and max(unit.max_rows, unit.max_periods or 1) > 1:
            raise PromiseError(
                "unit: rows of one person are not independent, so mode='audited' cannot protect "
                "them together. Keep one row per person, or open without mode='audited'."
            )
        if self.rule == "duan":
            return replace(self, sample=sample)
        return replace(self, priors=Priors.read(priors, schema, independent_columns))

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads."""
        more: dict[str, Any] = {}
        if self.priors is not None and self.priors.joints:
            more["joint_priors"] = self.priors.joints_json()
        if self.priors is not None and not self.priors.independent:
            more["independent_columns"] = False
        return more | {
            "mode": "audited",
            "epsilon": self.epsilon,
            "delta": self.delta,
            "queries": self.queries,
            "rule": self.rule,
            "dither": str(self.dither),
            "known": str(self.known),
            "priors": self.priors.to_json() if self.priors is not None else None,
            "sample": self.sample,
            "noise": self.noise,
            "guarantee": self.guarantee,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> AuditPromise:
        """The promise that `to_json` wrote."""
        priors = body["priors"]
        return cls(
            body["epsilon"], body["delta"], body["queries"], body["rule"],
            Fraction(body["dither"]), Fraction(body["known"]),
            None if priors is None else Priors.from_json(
                priors, body.get("joint_priors", ()), body.get("independent_columns", True)
            ),
            body["sample"],
        )  # fmt: skip


def is_audited(promise: Any) -> TypeGuard[AuditPromise]:
    """Are answers under this promise exact, or refused?"""
    return isinstance(promise, AuditPromise)


def audit_promise(
    epsilon: float | None, delta: float, queries: int | None, *, rule: str, dither: Any, known: Any,
    independent_rows: bool, independent_columns: bool, priors: Any, simulate: Any, noise: str,
    guarantee: str,
) -> AuditPromise:  # fmt: skip
    """Read what `sulq.open` was given for mode="audited", or say what is missing."""
    if epsilon is None or queries is None:
        raise PromiseError("state the promise: epsilon=..., queries=m, the number of questions.")
    if (noise, guarantee) != ("gaussian", "beliefs"):
        raise PromiseError("noise, guarantee: mode='audited' adds no noise. Leave them out.")
    plain = Promise(epsilon, delta, queries)  # its own checks of the three numbers
    if rule not in RULES:
        raise PromiseError(f"rule={rule!r}, want one of {', '.join(RULES)}.")
    if independent_rows is not True:
        raise PromiseError(
            "mode='audited' rests on rows that say nothing about one another: no families, no "
            "repeated visits, no time series. If that is so, open with independent_rows=True."
        )
    if not isinstance(independent_columns, bool):
        raise PromiseError(f"independent_columns={independent_columns!r}, want True or False.")
    if rule == "duan" and (priors is not None or independent_columns):
        raise PromiseError("priors: rule='duan' takes none; rule='classes' does.")
    if rule == "classes" and simulate is not None:
        raise PromiseError(
            "simulate: rule='classes' reads no private column to decide, so there is nothing to "
            "simulate. It belongs to rule='duan'."
        )
    return AuditPromise(
        plain.epsilon, plain.delta, plain.queries, rule,
        _number("dither", dither, LARGEST_DITHER), _number("known", known, 1),
    )  # fmt: skip


def _number(name: str, value: Any, most: int) -> Fraction:
    """An exact number from 0 to `most`, as it was written; a share stays below 1."""
    with suppress(ValueError):
        found = exact(value)
        if found == 0 or (SMALLEST <= found <= most and (name != "known" or found < 1)):
            return found
    want = "a share from 0 to below 1" if name == "known" else "a standard deviation, or 0"
    raise PromiseError(f"{name}={value!r}, want {want}.")
