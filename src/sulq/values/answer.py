"""Sums + noise + Charge -> Answer: the number, its error bar and its price."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sulq.errors import Refused
from sulq.values.number_text import Spread, plainly, receipt, too_noisy, with_error
from sulq.values.price import Price
from sulq.values.schema import plain
from sulq.values.table import Table, apart, label_text
from sulq.values.uncertain import Arithmetic, Linked, Own, Uncertain, checked_level

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Answer(Arithmetic):
    """What came back: noisy numbers in their own units, exact to the last noisy digit.

    `value`, `std` and `float(answer)` are for a single number; `values` is the whole matrix,
    cells x values, and `cells` names its rows (None is '(other)').
    """

    exact: tuple[tuple[Fraction, ...], ...]  # the noisy numbers, as fractions
    stds: tuple[tuple[float, ...], ...]
    cells: tuple[Any, ...]
    names: tuple[str, ...]
    price: Price  # of this question; asked again it is free
    remaining: int  # micro-queries that a question about the same rows may have after it
    spread: Spread = field(repr=False, compare=False)
    note: str = ""
    width: float | None = None  # of the range of a single number, where the schema tells
    axes: tuple[str, ...] = ()  # what the cells are cells of; two axes make pairs of labels
    ruled_out: frozenset[int] = frozenset()  # cells no row can be in, as the schema has it
    matrix: Any = field(default=None, repr=False, compare=False)  # of a Strategy: its combinations
    # Which noise a single number has; None: noise that others may have a part in.
    noise: Hashable = field(default=None, repr=False, compare=False)
    # How the errors of a cell's numbers hang together: each is a weighted sum of independent ones
    # of size 1, numbers x those. (): they are independent.
    factors: tuple[tuple[tuple[float, ...], ...], ...] = ()

    @property
    def value(self) -> float:
        """The number, if there is one."""
        return float(self._only(self.exact))

    @property
    def std(self) -> float:
        """The standard deviation of its noise."""
        return float(self._only(self.stds))

    def std_of(self, weights: Sequence[float], cell: int = 0) -> float:
        """The standard deviation of a weighted sum of a cell's numbers."""
        if not self.factors:
            return math.hypot(*(w * s for w, s in zip(weights, self.stds[cell], strict=True)))
        columns = zip(*self.factors[cell], strict=True)
        return math.hypot(*(sum(w * x for w, x in zip(weights, c, strict=True)) for c in columns))

    @property
    def public(self) -> bool:
        """Is it what anybody may know: exact, and free?"""
        return self.price.micro == 0 and not any(any(row) for row in self.stds)

    @property
    def too_noisy(self) -> bool:
        """Does the noise of a single number leave nothing to say of it?"""
        if not self._single:
            return False
        reach = self.spread(0.95) * self.std
        wide = self.width is not None and reach > 0 and 2 * reach >= self.width
        return wide or not math.isfinite(reach)

    @property
    def _single(self) -> bool:
        return len(self.exact) == 1 and len(self.names) == 1

    def _only(self, matrix: Sequence[Sequence[Any]]) -> Any:
        if not self._single:
            raise Refused(
                f"this answer has {len(matrix)} cells x {len(self.names)} values; use .values, "
                "or .interval() for arrays of them."
            )
        return matrix[0][0]

    def __float__(self) -> float:
        return self.value

    def uncertain(self) -> Uncertain:
        """A single number for computing with, its error known by the noise it is from."""
        value, std = self.value, self.std
        source: Hashable = self._linked if self.noise is None else Own(self.noise)
        return Uncertain(value, {source: std} if std else {}, self.spread)

    @cached_property
    def _linked(self) -> Linked:
        return Linked()

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The noisy numbers, cells x values."""
        import numpy as np

        return np.array([[float(x) for x in row] for row in self.exact])

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Low and high ends that hold the true number with probability `level`.

        The uncertainty is that of the noise alone. Two numbers for a single answer, two
        arrays for a vector.
        """
        reach_of_one = self.spread(checked_level(level))
        import numpy as np

        reach = reach_of_one * np.array(self.stds)
        low, high = self.values - reach, self.values + reach
        if low.shape == (1, 1):
            return float(low[0, 0]), float(high[0, 0])
        return low, high

    def table(self, by: Sequence[str] | None = None, names: Sequence[str] | None = None) -> Table:
        """The answer as rows: the cell, each number, and a low/high pair beside it."""
        reach = self.spread(0.95)
        by = by or self.axes or ("cell",)
        columns: dict[str, list[Any]] = {name: [] for name in by}
        shown = [i for i in range(len(self.cells)) if i not in self.ruled_out]
        for cell in (self.cells[i] for i in shown):
            parts = cell if len(by) > 1 else (cell,)
            for name, label in zip(by, parts, strict=True):
                columns[name].append(label_text(label))
        names_shown = apart(names or self.names, by)
        for j, name in enumerate(names_shown):
            columns[name] = [float(self.exact[i][j]) for i in shown]
            ends = [reach * self.stds[i][j] for i in shown]
            pairs = list(zip(columns[name], ends, strict=True))
            columns[f"{name}_low"] = [x - e for x, e in pairs]
            columns[f"{name}_high"] = [x + e for x, e in pairs]
        vague = {names_shown[0]: [True]} if self.too_noisy else {}
        sure = {n for j, n in enumerate(names_shown) if not any(self.stds[i][j] for i in shown)}
        return Table(
            columns, tuple(by), self.price, self.remaining, self.note, too_noisy=vague,
            exact=frozenset(sure),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers also as exact fractions, so that nothing is lost on the way."""
        low, high = self.interval()
        single = self._single
        body: dict[str, Any] = {
            "value": self.value if single else self.values.tolist(),
            "std": self.std if single else [list(row) for row in self.stds],
            "low": low if single else low.tolist(),
            "high": high if single else high.tolist(),
            "exact": [[str(x) for x in row] for row in self.exact],
            "price_micro": self.price.micro,
            "remaining_micro": self.remaining,
        }
        if not single:
            body |= {"cells": plain(self.cells), "names": list(self.names)}
        if self.factors:
            body["factors"] = plain(self.factors)
        if self.too_noisy:
            body["too_noisy"] = True
        return body | ({"note": self.note} if self.note else {})

    def __str__(self) -> str:
        if self._single:
            return f"{self._said()}, {receipt(self)}"
        return str(self.table())

    __repr__ = __str__

    @property
    def said_shortly(self) -> str | None:
        """A single number with its error: 4,213 +/- 340."""
        if not self._single:
            return None
        return self._said() if self.public else self._said().removesuffix(" (95%)")

    def _said(self) -> str:
        if self.public:
            return f"{plainly(self.value)} (public, exact)"
        reach = self.spread(0.95) * self.std
        said = too_noisy(-reach, reach) if self.too_noisy else with_error(self.value, reach)
        return f"{said} (95%)"

    def _repr_html_(self) -> str:
        if self._single:
            return (
                f"<p><b>{html.escape(self._said())}</b><br>"
                f"<small>{html.escape(receipt(self))}</small></p>"
            )
        return self.table()._repr_html_()
