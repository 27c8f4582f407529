"""Counts for owners, in the text form that Prometheus reads.

Each owner sees their own house. There are no times in it: they may depend on rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

HELP = {
    "sulq_requests_total": "Requests to datasets of this house, by status.",
    "sulq_answers_total": "Questions answered, stored answers included.",
    "sulq_late_total": "Replies that left as noise because the sum was late.",
    "sulq_waiting": "Questions that wait for their turn.",
    "sulq_spent_micro": "Micro-queries spent, of the rows that spent most.",
    "sulq_remaining_micro": "Micro-queries left.",
    "sulq_alarms": "Alarms that the owner has not seen.",
}


class Metrics:
    """What this process has counted since it started."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, str, tuple[tuple[str, str], ...]]] = Counter()

    def add(self, house: int, name: str, **labels: Any) -> None:
        """Count one."""
        self._counts[house, name, tuple((k, str(v)) for k, v in sorted(labels.items()))] += 1

    def page(self, house: int, now: Iterable[tuple[str, dict[str, Any], int]]) -> str:
        """All of a house's counts, and values of this moment."""
        lines: dict[str, list[str]] = {}
        for (owner, name, labels), value in sorted(list(self._counts.items())):
            if owner == house:
                lines.setdefault(name, []).append(_line(name, dict(labels), value))
        for name, said, value in now:
            lines.setdefault(name, []).append(_line(name, said, value))
        out: list[str] = []
        for name, found in lines.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            out += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}", *found]
        return "\n".join([*out, ""])


def _line(name: str, labels: dict[str, Any], value: int) -> str:
    said = ",".join(f'{k}="{_escaped(str(v))}"' for k, v in labels.items())
    return f"{name}{{{said}}} {value}" if said else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
