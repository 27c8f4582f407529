"""Table: rows of noisy numbers, shown, drawn and handed on."""

from __future__ import annotations

import datetime
import html
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sulq.drawing.bars import Bar, bars
from sulq.drawing.column_charts import columns, standing, stretches
from sulq.drawing.picture import Picture
from sulq.drawing.svg import SHEET, Figure
from sulq.errors import MissingExtra, QueryNotAllowed
from sulq.values.number_text import FEW, NOISY, receipt, too_noisy, with_interval
from sulq.values.price import Price
from sulq.values.safe_text import csv_text, one_line
from sulq.values.schema import OTHER, plain

MAX_DRAWN = 300  # bars of a picture


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

    def __post_init__(self) -> None:
        """A number that is too noisy to say is missing: a 0 in its place would look like data."""
        columns = dict(self.columns)
        for name, marks in self.too_noisy.items():
            if any(marks):
                pairs = zip(columns[name], marks, strict=True)
                columns[name] = [None if vague else x for x, vague in pairs]
        object.__setattr__(self, "columns", columns)

    @property
    def notes(self) -> list[str]:
        """A note for each row: too few rows, or which numbers are too noisy; mostly empty."""
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

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """As comma-separated text with a header, or into a file if a path is given.

        Numbers with all digits, a low and a high column beside each; what is missing is empty. A
        label that a spreadsheet would run begins with an apostrophe.
        """
        columns = self._noted()
        rows = zip(*columns.values(), strict=True)
        written = [["" if x is None or x != x else x for x in row] for row in rows]
        text = csv_text([list(columns), *written])
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8", newline="")
        return None

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
        """The same, and a column of notes: always, so that the columns follow from the question."""
        out = self.typed()
        return out | {apart(["note"], list(out))[0]: self.notes}

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
        head = [*map(one_line, self.by), *(f"{one_line(n)} ({how})" for n, how in sure.items())]
        return [head] + [
            [one_line(str(row[b])) for b in self.by] + [self.said(i, n) for n in self.numbers]
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
        return "\n".join([*lines, receipt(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells_as_text()
        rows = "".join(f"<tr>{_row('td', cells)}</tr>" for cells in body[:1000])
        return (
            f"<table><thead><tr>{_row('th', head)}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p><small>{html.escape(receipt(self))}</small></p>"
        )


def _row(tag: str, cells: list[str]) -> str:
    return "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells)


def apart(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names that differ from each other and from those taken."""
    out: list[str] = []
    for name in names:
        new, count = name, 2
        while new in taken or new in out:
            new, count = f"{name} {count}", count + 1
        out.append(new)
    return out


def label_text(label: Any) -> Any:
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
        return [label_text(x) if isinstance(x, tuple) else x for x in labels]
    if all(isinstance(x, str) for x in labels):
        return labels
    return [None if x == OTHER else x for x in labels]
