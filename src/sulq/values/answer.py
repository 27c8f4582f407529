"""Sums + noise + Charge -> Answer, Table: the number, its error bar and its price."""

from __future__ import annotations

import datetime
import html
import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.drawing.bars import Bar, bars
from sulq.drawing.column_charts import columns, standing, stretches
from sulq.drawing.picture import Picture
from sulq.drawing.svg import SHEET, Figure
from sulq.errors import MissingExtra, QueryNotAllowed, Refused, in_queries
from sulq.values.price import Price
from sulq.values.schema import OTHER, plain

if TYPE_CHECKING:
    import numpy as np

MAX_DRAWN = 300  # bars of a picture
FEW = "too few rows"
NOISY = "too noisy to say"
Spread = Callable[[float], float]  # level -> half-width of an interval, in standard deviations


@dataclass(frozen=True)
class Answer:
    """What came back: noisy numbers in their own units, exact to the last noisy digit.

    `value`, `std` and `float(answer)` are for a single number; `values` is the whole matrix,
    cells x values, and `cells` names its rows (None is '(other)').
    """

    exact: tuple[tuple[Fraction, ...], ...]  # the noisy numbers, as fractions
    stds: tuple[tuple[float, ...], ...]
    cells: tuple[Any, ...]
    names: tuple[str, ...]
    price: Price  # what this question costs; asked again it is free
    remaining: int  # micro-queries left for the rows that have spent most
    spread: Spread = field(repr=False, compare=False)
    note: str = ""
    width: float | None = None  # of the range of a single number, where the schema tells
    axes: tuple[str, ...] = ()  # what the cells are cells of; two axes make pairs of labels
    ruled_out: frozenset[int] = frozenset()  # cells no row can be in, as the schema has it
    matrix: Any = field(default=None, repr=False, compare=False)  # of a Strategy: its combinations
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
        number = isinstance(level, int | float) and not isinstance(level, bool)
        if not number or not 0 < level < 1:
            raise Refused(f"level={level!r}, want a number between 0 and 1, such as 0.95.")
        import numpy as np

        reach = self.spread(level) * np.array(self.stds)
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
                columns[name].append(_label(label))
        names_shown = _apart(names or self.names, by)
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
            return f"{self._said()}, {_receipt(self)}"
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
                f"<small>{html.escape(_receipt(self))}</small></p>"
            )
        return self.table()._repr_html_()


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of noisy numbers, each with a low and a high end beside it (95%)."""

    columns: dict[str, list[Any]]
    by: tuple[str, ...]
    price: Price
    remaining: int
    note: str = ""
    too_few: tuple[bool, ...] = ()  # rows that are of too few rows of the table for the noise
    too_noisy: Mapping[str, Sequence[bool]] = field(default_factory=dict)  # by number, by row
    exact: frozenset[str] = frozenset()  # numbers without noise, whatever their intervals look like

    @property
    def notes(self) -> list[str]:
        """What there is to say of each row: too few rows, or which numbers say nothing."""
        out = []
        for i in range(len(self)):
            said = [FEW] if self.too_few and self.too_few[i] else []
            vague = [name for name in self.numbers if self.is_vague(i, name)]
            out.append("; ".join(said + [f"{NOISY}: {', '.join(vague)}"] * bool(vague)))
        return out

    def is_vague(self, row: int, name: str) -> bool:
        """Is this number too noisy to say anything?"""
        return bool(self.too_noisy) and bool(self.too_noisy.get(name, [False] * len(self))[row])

    @property
    def numbers(self) -> list[str]:
        """The names of the noisy columns."""
        return [n for n in self.columns if f"{n}_low" in self.columns]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for i in range(len(self)):
            yield {name: column[i] for name, column in self.columns.items()}

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def to_arrow(self) -> Any:
        """As an Arrow table."""
        import pyarrow as pa

        return pa.table(self._noted())

    def to_pandas(self) -> Any:
        """As a pandas frame."""
        return self._frame_of("pandas")

    def to_polars(self) -> Any:
        """As a Polars frame."""
        return self._frame_of("polars")

    def _frame_of(self, library: str) -> Any:
        try:
            module = importlib.import_module(library)
        except ImportError:
            raise MissingExtra(
                f"{library} is not installed: pip install 'sulq[{library}]'"
            ) from None
        return module.DataFrame(self._noted())

    def typed(self) -> dict[str, list[Any]]:
        """The columns, each of one type: beside numbers and dates '(other)' is missing."""
        return {n: _one_type(c) if n in self.by else c for n, c in self.columns.items()}

    def _noted(self) -> dict[str, list[Any]]:
        """The same, and a column of notes where a row has one."""
        out, notes = self.typed(), self.notes
        return out | ({_apart(["note"], list(out))[0]: notes} if any(notes) else {})

    def to_json(self) -> dict[str, Any]:
        """As plain values, row by row."""
        body: dict[str, Any] = {
            "rows": [{k: plain(v) for k, v in row.items()} for row in self],
            "price_micro": self.price.micro,
            "remaining_micro": self.remaining,
        }
        if any(notes := self.notes):
            body |= {"notes": notes, "too_noisy": {n: list(v) for n, v in self.too_noisy.items()}}
        return body | ({"note": self.note} if self.note else {})

    def plot(self, path: str | Path | None = None) -> Picture:
        """Bars with error bars, grouped by a second label; saved as SVG or PNG if a path is given.

        Bins of numbers stand on an axis; several noisy columns give one figure below the other.
        """
        Picture.ready(path)
        if not self.numbers or len(self.by) not in (1, 2):
            raise QueryNotAllowed(
                f"plot: {len(self.by)} label columns and {len(self.numbers)} numbers, want one or "
                "two label columns and a number. Use .to_pandas() and draw it your own way."
            )
        drawn = [self._figure(f"chart-{i}", name) for i, name in enumerate(self.numbers)]
        picture = Picture(str(self), drawn)
        return picture if path is None else picture.save(path)

    def _figure(self, key: str, name: str) -> Figure:
        title, caption = f"{name} by {' and '.join(self.by)}", self._said_below(name)
        found = self._bars(name)
        axis = stretches([bar.label for bar in found]) if len(self.by) == 1 else None
        if axis is None:
            return bars(key, title, found, width=SHEET, most=MAX_DRAWN, caption=caption)
        return columns(
            key, title, standing(found, axis), marks=axis.marks(5), across=self.by[0], width=SHEET,
            caption=caption,
        )  # fmt: skip

    def _said_below(self, name: str) -> str:
        sure = "Exact." if name in self.exact else "With 95% intervals of the noise."
        return f"{sure} {self.note[:1].upper()}{self.note[1:]}".strip()

    def _bars(self, name: str) -> list[Bar]:
        """Each number but those too noisy: a bar would say what the noise made of it."""
        first, second = self.by[0], self.by[1:]
        return [
            Bar(str(row[first]), row[name], row[f"{name}_low"], row[f"{name}_high"],
                "".join(str(row[label]) for label in second),
                said=self.said(i, name).replace("+/-", "±"))
            for i, row in enumerate(self)
            if not self.is_vague(i, name)
        ]  # fmt: skip

    def _cells_as_text(self) -> list[list[str]]:
        sure = {n: "exact" if n in self.exact else "95%" for n in self.numbers}
        head = [*self.by, *(f"{n} ({how})" for n, how in sure.items())]
        return [head] + [
            [str(row[b]) for b in self.by] + [self.said(i, n) for n in self.numbers]
            for i, row in enumerate(self)
        ]

    @property
    def said_shortly(self) -> str | None:
        """Its only number with its error, if it has one: 4,213 +/- 340."""
        if len(self) != 1 or len(self.numbers) != 1:
            return None
        return self.said(0, self.numbers[0])

    def said(self, row: int, name: str) -> str:
        """One number as people read it, with its error; or that the noise leaves nothing to say."""
        ends = [self.columns[name + end][row] for end in ("", "_low", "_high")]
        return too_noisy(*ends[1:]) if self.is_vague(row, name) else with_interval(*ends)

    def __str__(self) -> str:
        rows = self._cells_as_text()
        shown = rows if len(rows) <= 41 else [*rows[:31], ["..."] * len(rows[0]), *rows[-9:]]
        widths = [max(len(r[i]) for r in shown) for i in range(len(shown[0]))]
        left = len(self.by)
        lines = [
            "  ".join(
                c.ljust(w) if i < left else c.rjust(w)
                for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in shown
        ]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join([*lines, _receipt(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells_as_text()
        rows = "".join(f"<tr>{_row('td', cells)}</tr>" for cells in body[:1000])
        return (
            f"<table><thead><tr>{_row('th', head)}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p><small>{html.escape(_receipt(self))}</small></p>"
        )


def _row(tag: str, cells: list[str]) -> str:
    return "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells)


def _receipt(found: Answer | Table) -> str:
    left = in_queries(found.remaining).rsplit(" ", 1)[0]
    return f"price {found.price}, {left} left" + (f" ({found.note})" if found.note else "")


def with_error(value: float, reach: float) -> str:
    """12,345 +/- 105: as many digits as the error makes worth reading."""
    if not math.isfinite(value) or not math.isfinite(reach):
        return f"{value} +/- {reach}"
    digits = _digits(reach)
    return f"{round(value, digits) + 0.0:,.{digits}f} +/- {reach:,.{digits}f}"


def too_noisy(low: float, high: float) -> str:
    """What is said instead of a number that the noise drowns."""
    reach = (high - low) / 2
    return NOISY + (f" (+/- {with_error(0.0, reach).split()[-1]})" if math.isfinite(reach) else "")


def plainly(value: float) -> str:
    """A number without error: 200,000, or 12.5."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.12g}"


def with_interval(value: float, low: float, high: float) -> str:
    """The same, or 41 (38 to 52) where the ends are not equally far away, as of a quantile."""
    reach = (high - low) / 2
    ends = (value, low, high)
    if low == value == high:
        return plainly(value)
    if not all(map(math.isfinite, ends)) or abs((low + high) / 2 - value) <= 0.01 * reach:
        return with_error(value, reach)
    digits = 0 if all(x == round(x) for x in ends) else _digits(reach)
    said = [f"{round(x, digits) + 0.0:,.{digits}f}" for x in ends]
    return f"{said[0]} ({said[1]} to {said[2]})"


def _digits(reach: float) -> int:
    """Digits after the point that are worth reading beside this error."""
    if reach <= 0 or reach >= 10:
        return 0
    return min(2 - math.floor(math.log10(reach)), 12)


def _apart(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names that differ from each other and from those taken."""
    out: list[str] = []
    for name in names:
        new, count = name, 2
        while new in taken or new in out:
            new, count = f"{name} {count}", count + 1
        out.append(new)
    return out


def _label(label: Any) -> Any:
    """A cell's name as a table shows it."""
    if label is None:
        return OTHER
    if isinstance(label, tuple):
        ends = (e.isoformat() if isinstance(e, datetime.date) else f"{e:,.12g}" for e in label)
        return " to ".join(ends)
    if isinstance(label, bool):
        return str(label).lower()
    return label if isinstance(label, str) else str(label)


def _one_type(labels: list[Any]) -> list[Any]:
    """Labels that a typed column can hold; '(other)' stands among text only."""
    if any(isinstance(x, tuple) for x in labels):
        return [_label(x) if isinstance(x, tuple) else x for x in labels]
    if all(isinstance(x, str) for x in labels):
        return labels
    return [None if x == OTHER else x for x in labels]
