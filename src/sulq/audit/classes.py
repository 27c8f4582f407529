"""rule="classes": decides from public columns and past questions alone.

Fix a row's public part: each question is then a truth table over its private part. Rows with
equal tables for all answered questions and the new one form a class, and all the answers together
tell no more than how often, in each class, the private values occur that its tables tell apart.
Every class that is told anything about must have K rows that the attacker does not know.

No private column is read here, so a refusal tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sulq.audit.crowd import smallest_crowd
from sulq.audit.priors import KINDS
from sulq.audit.promise import AuditPromise
from sulq.audit.tables import MOST_VALUES, Ints, Partition, Parts, Split, is_mixed
from sulq.audit.total import Total
from sulq.audit.verdict import Verdict
from sulq.errors import QueryNotAllowed
from sulq.promise import percent
from sulq.schema import Schema
from sulq.vectors import arrow_vector

MOST_TRUTHS = 2**28  # truth values worked out for one question

Groups = Callable[[Sequence[str]], Any]  # public columns -> an Arrow table of them, counts last


class Classes:
    """The auditor of rule="classes"."""

    def __init__(self, promise: AuditPromise, schema: Schema, rows: int, groups: Groups) -> None:
        assert promise.priors is not None
        self._promise = promise
        self._priors = promise.priors
        self._schema = schema
        self._rows = rows
        self._groups = groups
        self._sizes = {name: len(bounds) for name, bounds in promise.priors.columns.items()}
        self._admitted: list[Total] = []
        self._state = Partition.of(self._parts(()))
        self._crowds: dict[tuple[tuple[str, ...], bytes], int | None] = {}
        self._judged: tuple[str, int, Split | None] = ("", 0, None)

    def judge(self, total: Total) -> Verdict:
        """May this be answered beside everything admitted so far?"""
        wide = self._too_wide(total)  # `check` may not have known of all that was answered
        if wide:
            return Verdict(False, wide, "too many values", wide)
        split = self._with(total)
        self._judged = (total.text, len(self._admitted), split)
        if split is None:
            return Verdict(True)
        for number in np.argsort(split.sizes, kind="stable").tolist():
            if not split.is_told(number):
                continue
            size, needed = int(split.sizes[number]), self._crowd(split, number)
            if needed is None or size - math.ceil(self._promise.known * size) < needed:
                return self._refusal(total, split, size, needed)
        return Verdict(True)

    def admit(self, totals: Sequence[Total]) -> None:
        """These are answered: later ones are judged beside them."""
        for total in totals:
            just = self._judged[:2] == (total.text, len(self._admitted))
            split = self._judged[2] if just else self._with(total)
            if split is not None:
                self._state = split.done()
                self._admitted.append(total)

    def check(self, total: Total) -> None:
        """Refuse what no truth table can be made of, before anything is paid."""
        if not total.boolean:
            raise QueryNotAllowed(
                "rule='classes' answers counts only: the low-order digits of a sum of numbers can "
                "carry one row's value. Ask db.count(predicate). Nothing was charged."
            )
        private = self._private(total)
        for name in private:
            if self._schema[name].type not in KINDS:
                raise QueryNotAllowed(
                    f"{name!r} is {self._schema[name].type}: rule='classes' answers for Booleans "
                    "and declared categories only. Store bands of it as a category. Nothing was "
                    "charged."
                )
            if name not in self._sizes:
                raise QueryNotAllowed(
                    f"{name!r} has no prior, so how many rows hide one another is not known. Only "
                    f"columns in priors= can be asked about. Nothing was charged."
                )
        wide = self._too_wide(total)
        if wide:
            raise QueryNotAllowed(f"{wide} Nothing was charged.")

    # --- classes ------------------------------------------------------------------------

    def _with(self, total: Total) -> Split | None:
        """The classes with this question too; None if its answer is public."""
        state, used = self._state, set(self._public(total))
        if not used <= set(state.parts.names):
            state = Partition.of(self._parts(tuple(sorted(used | set(state.parts.names)))))
            for earlier in self._admitted:
                tables = state.parts.tables(earlier, self._schema)
                state = state.split(tables, self._sizes).done()
        tables = state.parts.tables(total, self._schema)
        return None if tables.public else state.split(tables, self._sizes)

    def _parts(self, names: tuple[str, ...]) -> Parts:
        """Every public part there is; without columns, all rows are alike."""
        if not names:
            return Parts((), {}, np.array([self._rows], dtype=np.int64))
        found = self._groups(names)
        columns = {name: arrow_vector(found.column(i)) for i, name in enumerate(names)}
        return Parts(names, columns, found.column(len(names)).to_numpy().astype(np.int64))

    def _too_wide(self, total: Total) -> str:
        """Why its truth tables would be too large, beside those of what was answered; or ''."""
        names = {*self._state.private, *self._private(total)}
        wide = math.prod(self._sizes[n] for n in names)
        parts = self._most_parts(total) if is_mixed(total, self._schema) else 1
        if wide <= MOST_VALUES and wide * parts <= MOST_TRUTHS:
            return ""
        return (
            f"with what was answered before, {wide:,} combinations of private values would have to "
            f"be told apart for up to {parts:,} public ones, which is too many. Ask about fewer "
            "columns at a time."
        )

    def _private(self, total: Total) -> list[str]:
        return sorted(n for n in total.columns() if not self._schema[n].public)

    def _public(self, total: Total) -> list[str]:
        return sorted(n for n in total.columns() if self._schema[n].public)

    def _most_parts(self, total: Total) -> int:
        """How many public parts there can be, from the declarations and n."""
        names = {*self._state.parts.names, *self._public(total)}
        listed = [self._schema[n].listed for n in names]
        if any(values is None for values in listed):
            return self._rows
        return min(self._rows, math.prod(len(v or ()) + 1 for v in listed))

    # --- crowds -------------------------------------------------------------------------

    def _crowd(self, split: Split, number: int) -> int | None:
        """K of a class: a row may go from any values that are told apart to any others."""
        atoms = split.atoms(number)
        key = (split.private, atoms.tobytes())
        if key not in self._crowds:
            one, two = self._rarest(split.private, atoms)
            promise = self._promise
            share = promise.delta / promise.queries
            self._crowds[key] = smallest_crowd(one, two, promise.epsilon, share, max(self._rows, 1))
        return self._crowds[key]

    def _rarest(self, private: tuple[str, ...], atoms: Ints) -> tuple[float, float]:
        """How rare the two rarest sets of values may be: the pair that hides worst."""
        count = int(atoms.max()) + 1
        one, two, *_ = sorted(self._priors.rarest(private, atoms == a) for a in range(count))
        return one, two

    def _refusal(self, total: Total, split: Split, size: int, needed: int | None) -> Verdict:
        """In public terms: which rows would stand alone, and how many it takes."""
        used = self._public(total) or list(split.before.parts.names)
        rows = f"{size:,} row{'' if size == 1 else 's'}"
        alone = f"this would single out {rows} by {', '.join(used)}"
        if size == self._rows:
            alone = f"the table has {rows}"
        names = ", ".join(split.private)  # of everything asked: the answers are put together
        if needed is None:
            why = f"{alone}, and what is asked about {names} may be too rare to hide in this table."
        else:
            least = _least(needed, self._promise.known)
            share = f"{percent(float(self._promise.known))} of them may be known already"
            why = f"{alone}; at least {least:,} rows must be asked alike about {names} ({share})."
        return Verdict(False, why, "too few alike", why)


def _least(needed: int, known: Fraction) -> int:
    """How many rows a class must have so that `needed` of them are not known."""
    size = math.ceil(needed / (1 - known))
    while size - math.ceil(known * size) < needed:
        size += 1
    return size
