"""Counts for owners, in the text form that Prometheus reads.

Each owner sees their own tenant. There are no times in it: they may depend on rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

HELP = {
    "sulq_requests_total": "Requests to your datasets, by status.",
    "sulq_answers_total": "Questions answered, stored answers included.",
    "sulq_late_total": "Batches whose rows were not read in time.",
    "sulq_waiting": "Questions that wait for their turn.",
    "sulq_spent_micro": "Micro-queries spent, of the rows that spent most.",
    "sulq_remaining_micro": "Micro-queries left.",
    "sulq_alarms": "Alarms that the owner has not seen.",
    "sulq_can_be_asked": "1 if a dataset answers; 0 if it is stopped or frozen.",
    "sulq_stopped": "1 for a dataset that answers nothing, by the reason.",
    "sulq_ready": "Whether this server may be sent questions: 1 or 0.",
}


Sample = tuple[str, dict[str, Any], int]


class Metrics:
    """What this process has counted since it started."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, str, tuple[tuple[str, str], ...]]] = Counter()

    def add(self, tenant: int, name: str, **labels: Any) -> None:
        """Count one."""
        self._counts[tenant, name, tuple((k, str(v)) for k, v in sorted(labels.items()))] += 1

    def of(self, tenant: int) -> Iterator[Sample]:
        """All of a tenant's counts."""
        for (owner, name, labels), value in sorted(list(self._counts.items())):
            if owner == tenant:
                yield name, dict(labels), value

    def text(self, samples: Iterable[Sample]) -> str:
        """Samples as Prometheus reads them, those of one name together."""
        lines: dict[str, list[str]] = {}
        for name, said, value in samples:
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
