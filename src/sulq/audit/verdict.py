"""What an auditor says of one question, and what every auditor is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sulq.audit.total import Total

ALIKE = "{alike}"  # in a detail: the questions it is like


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer it or not. `why` is for everyone; `kind` and `detail` are for the owner's review."""

    ok: bool
    why: str = ""
    kind: str = ""
    detail: str = ""
    alike: tuple[int, ...] = ()  # admitted questions that it is like, from 0
    exact: int | None = None  # the sum, where deciding has computed it already

    def told(self, numbers: Sequence[int]) -> str:
        """The detail, with the questions it is like by the numbers of all those admitted."""
        return self.detail.replace(ALIKE, ", ".join(f"#{numbers[j]}" for j in self.alike))


class Auditor(Protocol):
    """Decides one question after the other. A refused one leaves no trace."""

    def check(self, total: Total) -> None:
        """Raise QueryNotAllowed if the rule cannot judge it at all. Reads the schema only."""
        ...

    def judge(self, total: Total) -> Verdict:
        """May this be answered beside everything admitted so far? Changes nothing."""
        ...

    def admit(self, totals: Sequence[Total]) -> None:
        """These are answered: every later verdict takes them into account."""
        ...
