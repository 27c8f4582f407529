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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sulq.audit.class_size import smallest_crowd
from sulq.audit.priors import KINDS
from sulq.audit.promise import AuditPromise
from sulq.audit.total import Total
from sulq.audit.truth_tables import MAX_VALUES, Ints, Partition, Parts, Split, is_mixed
from sulq.audit.verdicts import Auditor, CountsByColumns, Verdict
from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import arrow_vector
from sulq.privacy.chance import percent
from sulq.values.schema import Schema

MAX_TRUTHS = 2**28  # truth values worked out for one question

Groups = Callable[[Sequence[str]], Any]  # public columns -> an Arrow table of them, counts last


@dataclass
class Trial:
    """The classes with some questions that may yet be refused."""

    state: Partition
    admitted: list[Total]
    split: Split | None = None  # by the last of them


class Classes(Auditor):
    """The auditor of rule="classes": public columns and past questions decide, by exact laws."""

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
        self._judged: tuple[list[str], int, Trial | None] = ([], 0, None)

    def look_with(self, engine: CountsByColumns) -> None:
        """Count by public columns with this engine from now on."""
        self._groups = engine.groups

    def judge(self, totals: Sequence[Total]) -> Verdict:
        """May all of these be answered beside everything admitted so far?

        Classes only become finer, so those of them all are looked at, once.
        """
        trial = self._trial()
        for total in totals:
            # `check` may not have known of all that was answered.
            wide = self._too_wide(total, trial.state)
            if wide:
                return Verdict(False, wide, "too many values", wide)
            self._add(trial, total)
        self._judged = ([t.text for t in totals], len(self._admitted), trial)
        split = trial.split
        if split is None:
            return Verdict(True)
        for number in np.argsort(split.sizes, kind="stable").tolist():
            if not split.is_told(number):
                continue
            size, needed = int(split.sizes[number]), self._crowd(split, number)
            if needed is None or size - math.ceil(self._promise.known * size) < needed:
                return self._refusal(totals, split, size, needed)
        return Verdict(True, added=len(totals))

    def admit(self, totals: Sequence[Total]) -> None:
        """These are answered: later ones are judged beside them."""
        texts, before, trial = self._judged
        if trial is None or (texts, before) != ([t.text for t in totals], len(self._admitted)):
            trial = self._trial()
            for total in totals:
                self._add(trial, total)
        self._state, self._admitted = trial.state, trial.admitted

    def _trial(self) -> Trial:
        return Trial(self._state, list(self._admitted))

    def _add(self, trial: Trial, total: Total) -> None:
        """Admit a question on trial; one whose answer is public changes nothing."""
        split = self._with(total, trial)
        if split is not None:
            trial.split, trial.state = split, split.done()
            trial.admitted.append(total)

    def check(self, total: Total) -> None:
        """Refuse what no truth table can be made of, before anything is paid."""
        if not total.boolean:
            raise QueryNotAllowed(
                "rule='classes' answers counts only: the low-order digits of a sum of numbers can "
                "carry one row's value. Ask db.count(predicate). Nothing was charged."
            )
        for name in total.named(self._schema, public=False):
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
        wide = self._too_wide(total, self._state)
        if wide:
            raise QueryNotAllowed(f"{wide} Nothing was charged.")

    # --- classes ------------------------------------------------------------------------

    def _with(self, total: Total, trial: Trial) -> Split | None:
        """The classes with this question too; None if its answer is public."""
        state, used = trial.state, set(total.named(self._schema, public=True))
        if not used <= set(state.parts.names):
            state = Partition.of(self._parts(tuple(sorted(used | set(state.parts.names)))))
            for earlier in trial.admitted:
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

    def _too_wide(self, total: Total, state: Partition) -> str:
        """Why its truth tables would be too large, beside those of what was answered; or ''."""
        names = {*state.private, *total.named(self._schema, public=False)}
        wide = self._priors.width(names)
        parts = self._most_parts(total, state) if is_mixed(total, self._schema) else 1
        if wide <= MAX_VALUES and wide * parts <= MAX_TRUTHS:
            return ""
        return (
            f"with what was answered before, {wide:,} combinations of private values would have to "
            f"be told apart for up to {parts:,} public ones, which is too many. Ask about fewer "
            "columns at a time."
        )

    def _most_parts(self, total: Total, state: Partition) -> int:
        """How many public parts there can be, from the declarations and n."""
        names = {*state.parts.names, *total.named(self._schema, public=True)}
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
            promise, share = self._promise, self._promise.delta / self._promise.queries
            self._crowds[key] = smallest_crowd(one, two, promise.epsilon, share, max(self._rows, 1))
        return self._crowds[key]

    def _rarest(self, private: tuple[str, ...], atoms: Ints) -> tuple[float, float]:
        """How rare the two rarest sets of values may be: the pair that hides worst."""
        found: list[float] = []
        for a in np.argsort(np.bincount(atoms), kind="stable").tolist():  # small ones are rare
            found.append(self._priors.rarest(private, atoms == a))
            if found[-1] == 0.0:  # no crowd hides it
                return 0.0, 0.0
        one, two, *_ = sorted(found)
        return one, two

    def _refusal(
        self, totals: Sequence[Total], split: Split, size: int, needed: int | None
    ) -> Verdict:
        """In public terms: which rows would stand alone, and how many it takes."""
        asked = {name for total in totals for name in total.named(self._schema, public=True)}
        used = sorted(asked) or list(split.before.parts.names)
        rows = f"{size:,} row{'' if size == 1 else 's'}"
        alone = f"this would single out {rows} by {', '.join(used)}"
        if size == self._rows:
            alone = f"the table has {rows}"
        names = ", ".join(split.private)  # of everything asked: the answers are put together
        if needed is None:
            why = f"{alone}, and what is asked about {names} may be too rare to hide in this table."
            if len(split.private) > 1 and not self._priors.independent:
                why += (
                    " Only bounds on each of these columns are known, and they may go together in "
                    "any way: the owner may give joint priors, or declare independent_columns=True."
                )
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
