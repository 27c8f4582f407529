"""How well rows fit their declarations: for the owner, on the owner's machine.

What cannot be read as declared counts as missing, without a word, in every answer. So an owner
looks once, before the first question. The figures are exact and about private rows: they are
shown to whoever holds the rows, and neither stored nor logged nor reachable by an analyst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sulq.engines.duckdb_files import texts_of
from sulq.engines.first_rows import left_out
from sulq.engines.scan_progress import watched
from sulq.errors import Refused
from sulq.expressions.quoting import quote, text
from sulq.sources.source import FILES, Source, open_source
from sulq.sources.star_source import star_source
from sulq.sources.text_values import typed
from sulq.values.schema import Column, Schema, Star, Unit
from sulq.values.star import TABLE

HALF_READ = 0.05  # of a Boolean: N reads as false and J as nothing, so that nothing is ever true
BAD = 0.5  # a share of unreadable values from which on a declaration is taken to be wrong
AT_ONCE = 100  # columns in one scan; what DuckDB takes to plan grows faster than their number
FORMATS = {  # dates that are not ISO's, as examples
    "%d-%m-%Y": "17-08-1984",
    "%d/%m/%Y": "17/08/1984",
    "%d.%m.%Y": "17.08.1984",
    "%m/%d/%Y": "08/17/1984",
    "%Y/%m/%d": "1984/08/17",
    "%Y%m%d": "19840817",
    "%d %b %Y": "17 Aug 1984",
}
NUMBERS = {  # patterns of numbers that are not plain, and how to mend them
    r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?": "thousands such as 1,234: declare thousands = ','",
    r"[+-]?\d{1,3}(\.\d{3})+,\d+": "1.234,5: declare decimal = ',' and thousands = '.'",
    r"[+-]?\d+,\d+": "decimal commas, such as 3,5: declare decimal = ','",
    r"[+-]?\d{1,3}( \d{3})+": "gaps between thousands, such as 1 234: declare thousands = ' '",
    r"[^\d]*[+-]?[\d.]+ ?[^\d.]+": "a sign or unit beside the number: write the number alone",
}
TRUTHS = ("j", "n", "ja", "nein", "nee", "oui", "non", "o", "si", "sí", "s", "x", "-", "on", "off")


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """How many values of a column do not fit its declaration, and how to mend that."""

    name: str
    rows: int
    missing: int  # nothing there
    unreadable: int  # something there, but not of the declared type: counts as missing
    outside: int  # beyond the declared ends, or none of the declared values
    advice: str = ""
    listed: bool = False  # a category: what is outside it counts as missing too
    truths: bool = False  # a Boolean with another language's words, of which some may be read

    def share(self, count: int) -> float:
        """A count as a share of all rows."""
        return count / self.rows if self.rows else 0.0

    @property
    def lost(self) -> float:
        """The share of what is there that no question will see."""
        there = self.rows - self.missing
        return (self.unreadable + self.outside * self.listed) / there if there else 0.0

    @property
    def half_read(self) -> bool:
        """Is one of a Boolean's two values lost, and the other one read?"""
        return self.truths and HALF_READ < self.lost < 1.0

    @property
    def is_bad(self) -> bool:
        """Is more than half of what is there lost, or one of two values?"""
        return self.lost > BAD or self.half_read

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        counts = {"missing": self.missing, "unreadable": self.unreadable, "outside": self.outside}
        shares = {f"{name}_share": self.share(count) for name, count in counts.items()}
        shares["lost_share"] = self.lost
        return {"name": self.name, **counts, **shares, "advice": self.advice}


@dataclass(frozen=True, slots=True)
class RowLimit:
    """How many rows of people do not count, since they have more than `max_rows` of them."""

    table: str  # of a schema with several; empty: the only one
    max_rows: int
    people: int
    people_over: int  # of whom some rows do not count
    rows: int
    rows_left_out: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def __str__(self) -> str:
        name = f"{self.table}: " if self.table else ""
        return (
            f"{name}max_rows = {self.max_rows:,} leaves out {self.rows_left_out:,} of "
            f"{self.rows:,} rows, of {self.people_over:,} of {self.people:,} people"
        )


@dataclass(frozen=True, slots=True)
class DataCheck:
    """What `sulq.check_data` found. For the owner alone: these are exact facts about rows."""

    rows: int
    columns: tuple[ColumnFit, ...]
    limits: tuple[RowLimit, ...] = ()  # of the tables in which a person has several rows

    @property
    def bad(self) -> tuple[ColumnFit, ...]:
        """Columns of which more than half is lost, or one of two values."""
        return tuple(c for c in self.columns if c.is_bad)

    def warnings(self) -> list[str]:
        """A sentence for each column of which nothing, or one of two values, can be read."""
        half = [
            f"column {c.name!r}: one of its two values cannot be read as declared, so every answer "
            f"about it will be of the other alone. {c.advice}"
            for c in self.columns
            if c.half_read
        ]
        return half + [
            f"column {c.name!r}: no value can be read as declared, so every answer about it will "
            f"be of no rows. {c.advice}".rstrip()
            for c in self.columns
            if c.lost == 1.0
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        columns = [c.to_json() for c in self.columns]
        limits = [limit.to_json() for limit in self.limits]
        warnings = self.warnings()
        return {"rows": self.rows, "columns": columns, "limits": limits, "warnings": warnings}

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows. Share of each column that does not fit its declaration:"]
        width = max((len(c.name) for c in self.columns), default=0)
        for c in self.columns:
            said = ", ".join(
                f"{c.share(count):.2%} {what}"
                for what, count in (("unreadable", c.unreadable), ("outside", c.outside),
                                    ("missing", c.missing))
                if count
            )  # fmt: skip
            lines.append(f"{c.name.ljust(width)}  {said or 'fits'}")
            if c.advice:
                lines.append(f"{' ' * width}  {c.advice}")
        lines += [f"{limit}." for limit in self.limits]
        return "\n".join(lines)


def check_data(
    source: Any, schema: Schema | str | Path | Mapping[str, Any], table: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> DataCheck:  # fmt: skip
    """The exact share of each column that is unreadable, outside or missing. For the owner only.

    With [unit] also how many rows `max_rows` leaves out, and of how many people.

    `source` is a file or a frame, as `sulq.open` takes it. Nothing is
    stored and no ledger is touched. Do not show it to analysts: it is not noisy.
    """
    from sulq.engines.duckdb import DuckDBEngine

    opened = source if isinstance(source, Source) else open_source(source, table)
    schema = Schema.load(schema)
    star, unit = schema.star, schema.unit
    if star is not None:
        return _of_tables(opened, schema, star, progress)
    if opened.kind not in (*FILES, "arrow"):
        store = "a store has lost what did not fit when it was written. Check the file it is from."
        elsewhere = (
            "files and frames are checked, not tables of a server. Copy a part of it to a file, or "
            "look in the server itself."
        )
        said = store if opened.kind == "store" else elsewhere
        raise Refused(f"source={opened.name!r}: {said}")
    declared = replace(schema, unit=None)  # every row is looked at
    engine = DuckDBEngine(opened, declared, progress)
    try:
        texts = set(texts_of(opened, declared, engine.schema.names))
        looks = [_Look(c, c.name in texts) for c in engine.schema.columns]
        parts = [looks[i : i + AT_ONCE] for i in range(0, len(looks), AT_ONCE)]
        fits = (fit for part in parts for fit in _found(engine, opened.name, part))
        limits = () if unit is None else (_limit(engine, opened.name, "", unit, "source"),)
        return DataCheck(engine.rows, tuple(fits), limits)
    finally:
        engine.close()


def _of_tables(
    opened: Source, schema: Schema, star: Star, progress: Callable[[float], None] | None
) -> DataCheck:
    """The same of each table of a schema that has several, columns under their tables' names."""
    from sulq.engines.duckdb import DuckDBEngine

    star_source(opened, schema)  # refuses what has not all of them
    rows, fits = 0, []
    for t in star.tables:
        if opened.kind == "duckdb":
            part = replace(opened, table=t.source)
        elif opened.path is not None:
            part = star_source(opened, schema).frame[t.source]
        else:
            part = open_source(opened.frame[t.source])
        own = Schema((replace(star.person, name=t.person), *t.columns), file=schema.file)
        found = check_data(part, own, None, progress)
        rows += found.rows
        fits += [replace(c, name=f"{t.name}.{c.name}") for c in found.columns]
    engine = DuckDBEngine(star_source(opened, schema), schema)
    try:
        limits = [
            _limit(engine, opened.name, t.name, star.unit((t.name,)), _rows_of(t.name))
            for t in star.tables if t.max_rows is not None
        ]  # fmt: skip
    finally:
        engine.close()
    return DataCheck(rows, tuple(fits), tuple(limits))


def _rows_of(table: str) -> str:
    """The rows of one of several tables, of people who are there."""
    return f"(SELECT * FROM all_rows WHERE {quote(TABLE)} = {text(table)})"


def _limit(engine: Any, name: str, table: str, unit: Unit, rows: str) -> RowLimit:
    """Count the rows of people that do not count."""
    from duckdb import Error

    try:
        found = engine._ask(left_out(engine._writer, engine.schema, unit, rows))[0]
    except Error:  # its words may quote rows
        raise _unread(name) from None
    people, over, every, beyond = map(int, found)
    return RowLimit(table, unit.max_rows, people, over, every, beyond)


def _found(engine: Any, name: str, looks: list[_Look]) -> Iterator[ColumnFit]:
    """Count everything about some columns in one scan."""
    counts = [count for look in looks for count in look.counts()]
    view = "raw_source" if any(look.is_text for look in looks) else "source"
    listed = ", ".join(f"count(*) FILTER (WHERE {test})" for test in counts) or "1"
    from duckdb import Error

    try:
        with watched(engine.progress, engine._connection):
            numbers = iter(engine._ask(f"SELECT {listed} FROM {view}")[0])
    except Error:  # its words may quote rows
        raise _unread(name) from None
    for look in looks:
        yield look.fit(engine.rows, [int(next(numbers)) for _ in look.counts()])


def _unread(name: str) -> Refused:
    return Refused(
        f"the rows of {name!r} could not be read to the end, so nothing is known "
        "of how they fit. Nothing was charged or changed.\nIs the file whole, and of the kind "
        "that its name says?"
    )


class _Look:
    """What to count about one column."""

    def __init__(self, column: Column, is_text: bool) -> None:
        self.column = column
        self.is_text = is_text  # as in a CSV
        self.raw = quote(column.name)
        self.value = typed(column, self.raw) if is_text else self.raw
        self.hints = list(self._hints()) if is_text else []

    def counts(self) -> list[str]:
        """Conditions: missing, unreadable, outside, then one for each hint."""
        there = f"({self.raw} IS NOT NULL)"
        if self.is_text:
            there = f"({self.raw} IS NOT NULL AND trim({self.raw}) <> '')"
        elif self.column.type == "number":
            there = f"({self.raw} IS NOT NULL AND NOT isnan({self.raw}::DOUBLE))"
        lost = f"({there} AND {self.value} IS NULL)"
        if self.column.type == "boolean" and not self.is_text:
            lost = f"({there} AND {self.raw}::INTEGER NOT IN (0, 1))"
        hints = [f"({lost} OR {self._outside()}) AND {test}" for test, _ in self.hints]
        return [f"NOT {there}", lost, f"({there} AND {self._outside()})", *hints]

    def _outside(self) -> str:
        column, known = self.column, f"{self.value} IS NOT NULL"
        if column.type == "category" and column.values is not None:
            listed = ", ".join(text(v) if isinstance(v, str) else str(v) for v in column.values)
            return f"({known} AND {self.value} NOT IN ({listed}))"
        if column.type == "date" and column.bounded:
            ends = (f"DATE '{end.isoformat()}'" for end in (column.low, column.high))
            return "({} AND NOT {}::DATE BETWEEN {} AND {})".format(known, self.value, *ends)
        if column.type == "timestamp" and column.bounded:
            ends = (f"TIMESTAMP '{end.isoformat(' ')}'" for end in (column.low, column.high))
            return "({} AND NOT {}::TIMESTAMP BETWEEN {} AND {})".format(known, self.value, *ends)
        if column.type in ("integer", "number") and column.bounded:
            return f"({known} AND NOT {self.value} BETWEEN {column.low!r} AND {column.high!r})"
        return "false"

    def _hints(self) -> Iterator[tuple[str, str]]:
        """Ways in which a text may almost fit, and what to say of each."""
        trimmed = f"trim({self.raw})"
        if self.column.type == "date":
            for form, example in FORMATS.items():
                test = f"try_strptime({trimmed}, {text(form)}) IS NOT NULL"
                yield test, f"dates such as {example}: declare date_format = '{form}'"
        elif self.column.type in ("integer", "number"):
            for pattern, said in NUMBERS.items():
                yield f"regexp_full_match({trimmed}, {text(pattern)})", said
        elif self.column.type == "boolean":
            listed = ", ".join(map(text, TRUTHS))
            said = "J and N or the like: declare true = ['J'] and false = ['N']"
            yield f"lower({trimmed}) IN ({listed})", said
        elif self.column.values and isinstance(self.column.values[0], str):
            listed = ", ".join(text(str(v).strip().lower()) for v in self.column.values)
            yield f"lower({trimmed}) IN ({listed})", "other capitals or spaces than the schema"

    def fit(self, rows: int, counts: list[int]) -> ColumnFit:
        """The counts, and the hint that explains most of what does not fit."""
        missing, unreadable, outside, *hinted = counts
        best = max(range(len(hinted)), key=hinted.__getitem__, default=None)
        advice = ""
        if best is not None and hinted[best]:
            advice = f"{hinted[best]:,} have {self.hints[best][1]}."
        listed = self.column.type == "category"
        truths = self.column.type == "boolean" and bool(advice)
        return ColumnFit(
            self.column.name, rows, missing, unreadable, outside, advice, listed, truths
        )
