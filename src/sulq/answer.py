"""Sums + noise + Charge -> Answer, Table: the number, its error bar and its price."""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.errors import MissingExtra, Refused, in_queries
from sulq.price import Price

if TYPE_CHECKING:
    import numpy as np

OTHER = "other"  # what is missing or was not declared, in a column of labels
Spread = Callable[[float], float]  # level -> half-width of an interval, in standard deviations


@dataclass(frozen=True)
class Answer:
    """What came back: noisy numbers in their own units, exact to the last noisy digit.

    `value`, `std` and `float(answer)` are for a single number; `values` is the whole matrix,
    cells x values, and `cells` names its rows (None is 'other').
    """

    exact: tuple[tuple[Fraction, ...], ...]  # the noisy numbers, as fractions
    stds: tuple[tuple[float, ...], ...]
    cells: tuple[Any, ...]
    names: tuple[str, ...]
    price: Price  # what this question costs; asked again it is free
    remaining: int  # micro-queries left for the rows that have spent most
    spread: Spread = field(repr=False, compare=False)
    note: str = ""
    axes: tuple[str, ...] = ()  # what the cells are cells of; two axes make pairs of labels

    @property
    def value(self) -> float:
        """The number, if there is one."""
        return float(self._only(self.exact))

    @property
    def std(self) -> float:
        """The standard deviation of its noise."""
        return float(self._only(self.stds))

    def _only(self, matrix: Sequence[Sequence[Any]]) -> Any:
        if len(matrix) != 1 or len(matrix[0]) != 1:
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
        for cell in self.cells:
            parts = cell if len(by) > 1 else (cell,)
            for name, label in zip(by, parts, strict=True):
                columns[name].append(_label(label))
        for j, name in enumerate(_apart(names or self.names, by)):
            columns[name] = [float(row[j]) for row in self.exact]
            ends = [reach * row[j] for row in self.stds]
            pairs = list(zip(columns[name], ends, strict=True))
            columns[f"{name}_low"] = [x - e for x, e in pairs]
            columns[f"{name}_high"] = [x + e for x, e in pairs]
        return Table(columns, tuple(by), self.price, self.remaining, self.note)

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers also as exact fractions, so that nothing is lost on the way."""
        low, high = self.interval()
        single = len(self.exact) == 1 and len(self.names) == 1
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
            body |= {"cells": [_plain(c) for c in self.cells], "names": list(self.names)}
        return body | ({"note": self.note} if self.note else {})

    def __str__(self) -> str:
        if len(self.exact) == 1 and len(self.names) == 1:
            reach = self.spread(0.95) * self.std
            receipt = _receipt(self.price, self.remaining, self.note)
            return f"{with_error(self.value, reach)} (95%), {receipt}"
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if len(self.exact) == 1 and len(self.names) == 1:
            reach = self.spread(0.95) * self.std
            return (
                f"<p><b>{html.escape(with_error(self.value, reach))}</b> (95%)<br>"
                f"<small>{html.escape(_receipt(self.price, self.remaining, self.note))}</small></p>"
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

        return pa.table(self.typed())

    def to_pandas(self) -> Any:
        """As a pandas frame."""
        pandas = _extra("pandas", "pandas")
        return pandas.DataFrame(self.typed())

    def to_polars(self) -> Any:
        """As a Polars frame."""
        polars = _extra("polars", "polars")
        return polars.DataFrame(self.typed())

    def typed(self) -> dict[str, list[Any]]:
        """The columns, each of one type: beside numbers and dates 'other' is missing."""
        return {n: _one_type(c) if n in self.by else c for n, c in self.columns.items()}

    def to_json(self) -> dict[str, Any]:
        """As plain values, row by row."""
        body: dict[str, Any] = {
            "rows": [{k: _plain(v) for k, v in row.items()} for row in self],
            "price_micro": self.price.micro,
            "remaining_micro": self.remaining,
        }
        return body | ({"note": self.note} if self.note else {})

    def plot(self, path: str | Path | None = None) -> Any:
        """Bars with error bars; saved as SVG or PNG if a path is given."""
        from sulq.plots import bars

        return bars(self, path)

    def _cells_as_text(self) -> list[list[str]]:
        head = [*self.by, *(f"{n} (95%)" for n in self.numbers)]
        body = []
        for row in self:
            cells = [str(row[b]) for b in self.by]
            for n in self.numbers:
                cells.append(with_error(row[n], (row[f"{n}_high"] - row[f"{n}_low"]) / 2))
            body.append(cells)
        return [head, *body]

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
        return "\n".join([*lines, _receipt(self.price, self.remaining, self.note)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells_as_text()
        rows = "".join(f"<tr>{_row('td', cells)}</tr>" for cells in body[:1000])
        return (
            f"<table><thead><tr>{_row('th', head)}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p><small>{html.escape(_receipt(self.price, self.remaining, self.note))}</small></p>"
        )


def _row(tag: str, cells: list[str]) -> str:
    return "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells)


def _extra(module: str, extra: str) -> Any:
    """An optional library, or how to get it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"{module} is not installed: pip install 'sulq[{extra}]'") from None


def _receipt(price: Price, remaining: int, note: str) -> str:
    left = in_queries(remaining).rsplit(" ", 1)[0]
    return f"price {price}, {left} left" + (f" ({note})" if note else "")


def with_error(value: float, reach: float) -> str:
    """12,345 +/- 105: as many digits as the error makes worth reading."""
    if not math.isfinite(value) or not math.isfinite(reach):
        return f"{value} +/- {reach}"
    digits = 0 if reach <= 0 else max(0, 2 - math.floor(math.log10(reach)))
    digits = 0 if reach >= 10 else min(digits, 12)
    return f"{value:,.{digits}f} +/- {reach:,.{digits}f}"


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
        return f"{_edge(label[0])} to {_edge(label[1])}"
    if isinstance(label, bool):
        return str(label).lower()
    return label if isinstance(label, str) else str(label)


def _one_type(labels: list[Any]) -> list[Any]:
    """Labels that a typed column can hold; 'other' stands among text only."""
    if any(isinstance(x, tuple) for x in labels):
        return [_label(x) if isinstance(x, tuple) else x for x in labels]
    if all(isinstance(x, str) for x in labels):
        return labels
    return [None if x == OTHER else x for x in labels]


def _edge(edge: Any) -> str:
    if isinstance(edge, datetime.date):
        return edge.isoformat()
    return f"{edge:,.12g}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value.isoformat() if isinstance(value, datetime.date) else value
