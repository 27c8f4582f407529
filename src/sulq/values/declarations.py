"""A mapping, as TOML gives it, -> columns; what is wrong with it, with its line."""

from __future__ import annotations

import codecs
import datetime
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import SchemaError
from sulq.values.column import (
    FIELDS,
    LARGEST,
    LONGEST_TEXT,
    MAX_CELLS,
    MAX_NAME,
    OTHER,
    PLAIN,
    TYPES,
    WRITTEN,
    Column,
    FileFormat,
    Unit,
)

DATES = frozenset("YymbBdaAHIMSpfzZ%")  # what may stand in the form of a date
DELIMITERS = (",", "\t", ";", "|")  # of a CSV


@dataclass(frozen=True, slots=True)
class Place:
    """Where a declaration stands, so that an error can name its line."""

    text: str
    where: str
    column: str

    def error(self, problem: str, field_name: str = "") -> SchemaError:
        """Name the place, then the problem and its fix."""
        return SchemaError(f"{self.at(field_name)}column {self.column!r}: {problem}")

    def at(self, field_name: str = "") -> str:
        """The file and line, as an error begins."""
        line = self._line(field_name)
        return f"{self.where}, line {line}: " if line else f"{self.where}: " if self.where else ""

    def _line(self, field_name: str) -> int | None:
        if not self.text:
            return None
        quoted = re.escape(self.column)
        name = rf"[\"']?{quoted}[\"']?\s*"  # as [columns.name], or name = {{ ... }} in [columns]
        header = re.compile(rf"^\s*(\[\s*columns\s*\.\s*{name}\]|(columns\s*\.\s*)?{name}[=.])")
        found = None
        for number, line in enumerate(self.text.splitlines(), 1):
            if found is None:
                found = number if header.match(line) else None
            elif line.lstrip().startswith("["):
                break
            elif field_name and re.match(rf"\s*{field_name}\s*=", line):
                return number
        return found


def read_unit(spec: Any, where: str) -> Unit | None:
    """Whose rows are whose, if that is declared."""
    if spec is None:
        return None
    at = f"{where}: " if where else ""
    needed = {"column", "max_rows"}
    if not isinstance(spec, Mapping) or not needed <= set(spec) <= needed | {"max_periods"}:
        raise SchemaError(
            f'{at}unit: want column = "person_id" and max_rows = 5, with [period] also '
            "max_periods = 12, nothing else."
        )
    for name in ("max_rows", "max_periods"):
        most = spec.get(name, 1)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1000:
            raise SchemaError(f"{at}unit: {name} = {most!r}, want a whole number from 1 to 1000.")
    return Unit(str(spec["column"]), spec["max_rows"], spec.get("max_periods"))


def read_column(name: str, spec: Any, place: Place) -> Column:
    """Check one declaration and make it total: every default filled in."""
    if not isinstance(spec, Mapping):
        raise place.error(f'got {spec!r}, want a table such as {{ type = "boolean" }}.')
    for unknown in sorted(set(spec) - set(FIELDS), key=str):
        raise place.error(
            f"{unknown!r} is not a setting. Known: {', '.join(FIELDS)}.", str(unknown)
        )
    for flag in ("public", "key", "nullable"):
        if not isinstance(spec.get(flag, False), bool):
            raise place.error(f"{flag} = {spec[flag]!r}, want true or false.", flag)
    key = spec.get("key", False)
    kind = _kind(spec, key, place)
    values = _values(spec, kind, place)
    low, high = (_end(spec, end, kind, place) for end in ("low", "high"))
    if (low is None) != (high is None):
        missing = "high" if high is None else "low"
        raise place.error(f"{missing} is missing: declare both ends, or neither.")
    if low is not None and not low < high:
        raise place.error(f"low = {low} is not below high = {high}.", "low")
    bins = _bins(spec, kind, low, high, place)
    return Column(
        name, kind, low, high, values,
        public=spec.get("public", False) or key, key=key,
        nullable=spec.get("nullable", True), bins=bins,
        max_length=_max_length(spec, kind, key, place), shards=_shards(spec, key, place),
        **_written(spec, kind, key, place),
    )  # fmt: skip


def _shards(spec: Mapping[str, Any], key: bool, place: Place) -> int | None:
    count = spec.get("shards")
    if count is None:
        return None
    if not key:
        raise place.error("shards parts rows by their key: it applies to key = true.", "shards")
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count < MAX_CELLS:
        raise place.error(
            f"shards = {count!r}, want a whole number from 2 to {MAX_CELLS - 1:,}.", "shards"
        )
    return count


def _written(spec: Mapping[str, Any], kind: str, key: bool, place: Place) -> dict[str, Any]:
    """How a file of texts writes the values, for types that can be written in several ways."""
    belongs = {"date_format": ("date", "timestamp"), "decimal": ("number",), "true": ("boolean",),
               "thousands": ("integer", "number"), "false": ("boolean",)}  # fmt: skip
    said = {name: spec[name] for name in WRITTEN if name in spec}
    for name, value in said.items():
        if kind not in belongs[name] or key:
            raise place.error(f"{name} applies to {' or '.join(belongs[name])}.", name)
        if name in ("true", "false"):
            said[name] = _words(value, name, place)
        elif name == "date_format":
            said[name] = _date_format(value, place)
        elif not (isinstance(value, str) and len(value) == 1 and value in ".,'_ \u00a0\u202f"):
            raise place.error(f"{name} = {value!r}, want one of . , ' _ or a space.", name)
    if len({said.get("decimal", "."), said.get("thousands", "")}) == 1:
        raise place.error("decimal and thousands are the same sign.", "thousands")
    if ("true" in said) != ("false" in said):
        raise place.error('declare both: true = ["J"] and false = ["N"].', min(said))
    both = set(map(str.lower, said.get("true", ()))) & set(map(str.lower, said.get("false", ())))
    if both:
        raise place.error(f"{sorted(both)[0]!r} is both true and false.", "true")
    return said


def _words(value: Any, name: str, place: Place) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else tuple(value) if _is_list(value) else ()
    if not words or not all(isinstance(w, str) and w.strip() for w in words):
        raise place.error(f'{name} = {value!r}, want words such as ["J", "ja"].', name)
    return words


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _date_format(value: Any, place: Place) -> str:
    """A form that says year, month and day, each once."""
    codes = re.findall(r"%-?(.)", value) if isinstance(value, str) else []
    if any(sum(c in codes for c in one) != 1 for one in ("Yy", "mbB", "d")) or set(codes) - DATES:
        raise place.error(
            f"date_format = {value!r}, want year, month and day as in '%d-%m-%Y' for 17-08-1984.",
            "date_format",
        )
    return str(value)


def read_file_format(spec: Any, where: str) -> FileFormat:
    """What is said of the file: its encoding, its delimiter, its folders."""
    at = f"{where}: " if where else ""
    if spec is None:
        return PLAIN
    known = ("encoding", "delimiter", "hive_partitions")
    if not isinstance(spec, Mapping) or set(spec) - set(known):
        raise SchemaError(f"{at}file: want {', '.join(known)}, nothing else.")
    encoding, delimiter = spec.get("encoding"), spec.get("delimiter")
    hive = spec.get("hive_partitions", False)
    if encoding is not None:
        try:
            encoding = codecs.lookup(encoding).name
            "a".encode(encoding)
        except (LookupError, TypeError, UnicodeError):
            raise SchemaError(
                f"{at}file: encoding = {encoding!r} is not known; 'cp1252' and 'utf-16' are."
            ) from None
    if delimiter is not None and not (isinstance(delimiter, str) and delimiter in DELIMITERS):
        raise SchemaError(f"{at}file: delimiter = {delimiter!r}, want a comma, ';', '|' or a tab.")
    if not isinstance(hive, bool):
        raise SchemaError(f"{at}file: hive_partitions = {hive!r}, want true or false.")
    return FileFormat(encoding, delimiter, hive)


def _max_length(spec: Mapping[str, Any], kind: str, key: bool, place: Place) -> int | None:
    most = spec.get("max_length")
    if most is None:
        return None
    if kind != "text" or key:
        raise place.error("max_length applies to a text that is no key.", "max_length")
    if type(most) is not int or not 1 <= most <= LONGEST_TEXT:
        raise place.error(
            f"max_length = {most!r}, want a whole number from 1 to {LONGEST_TEXT:,}.", "max_length"
        )
    return most


def _kind(spec: Mapping[str, Any], key: bool, place: Place) -> str:
    kind = spec.get("type")
    if kind is None:
        if "values" in spec:
            return "category"
        if key:
            return "key"  # text or integer: the source's metadata decides
        raise place.error(f"type is missing. Give one of {', '.join(TYPES)}, or list its values.")
    if kind not in TYPES:
        raise place.error(f"type = {kind!r}, want one of {', '.join(TYPES)}.", "type")
    if key and kind not in ("integer", "text"):
        raise place.error(f"a key is integer or text, not {kind}.", "type")
    if kind == "category" and "values" not in spec:
        raise place.error(
            "values is missing. List the categories you know can occur, for example "
            'values = ["north", "south"]; anything else is counted as \'(other)\'.'
        )
    return str(kind)


def _values(spec: Mapping[str, Any], kind: str, place: Place) -> tuple[Any, ...] | None:
    if "values" not in spec:
        return None
    if kind != "category":
        raise place.error(f"values belong to a category, not to type = {kind!r}.", "values")
    values = spec["values"]
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise place.error(f"values = {values!r}, want a list with at least one value.", "values")
    if not (
        all(isinstance(v, str) for v in values)
        or all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    ):
        raise place.error("values must all be strings or all be integers.", "values")
    if len(set(values)) != len(values):
        twice = sorted({str(v) for v in values if list(values).count(v) > 1})
        raise place.error(f"values listed twice: {', '.join(twice)}.", "values")
    if OTHER in values:
        raise place.error(
            f"values: {OTHER!r} is the name of the cell for whatever is missing or was not "
            "declared. Call the category 'other', say.",
            "values",
        )
    if len(values) > MAX_CELLS:
        raise place.error(f"{len(values):,} values, at most {MAX_CELLS:,}.", "values")
    if any(isinstance(v, int) and abs(v) > LARGEST for v in values):
        raise place.error("integer values must lie within +-2**53.", "values")
    return tuple(values)


def _end(spec: Mapping[str, Any], end: str, kind: str, place: Place) -> Any:
    if end not in spec:
        return None
    if kind not in ("integer", "number", "date", "timestamp", "key"):
        raise place.error(f"{end} does not apply to type = {kind!r}.", end)
    return _point(spec[end], kind, place, end)


def _point(value: Any, kind: str, place: Place, field_name: str) -> Any:
    """A bound or bin edge, in the column's own type."""
    if kind == "date":
        try:
            if isinstance(value, datetime.date):
                return value.date() if isinstance(value, datetime.datetime) else value
            return datetime.date.fromisoformat(value)
        except (TypeError, ValueError):
            raise place.error(
                f"{field_name} = {value!r}, want a date such as 2020-01-31.", field_name
            ) from None
    if kind == "timestamp":
        return _moment(value, place, field_name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.error(f"{field_name} = {value!r}, want a number.", field_name)
    if not abs(value) <= 1e300:  # an integer may be too large for a float
        raise place.error(f"{field_name} = {value!r}, want a finite number.", field_name)
    if kind == "number":
        return float(value)
    if value != int(value) or abs(value) > LARGEST:
        raise place.error(
            f"{field_name} = {value!r}, want a whole number within +-2**53.", field_name
        )
    return int(value)


def _moment(value: Any, place: Place, field_name: str) -> datetime.datetime:
    """A moment in UTC, to the second; a date is its first one."""
    try:
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = value.isoformat()
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime.fromisoformat(value)
        said = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        said = said.replace(tzinfo=None)
        if said.microsecond:
            raise ValueError(value)
        return datetime.datetime(*said.timetuple()[:6])
    except (TypeError, ValueError, OverflowError):
        raise place.error(
            f"{field_name} = {value!r}, want a moment such as 2020-01-31T14:30:00.", field_name
        ) from None


def _bins(
    spec: Mapping[str, Any], kind: str, low: Any, high: Any, place: Place
) -> tuple[Any, ...] | None:
    if "bins" not in spec:
        return None
    if kind not in ("integer", "number", "date"):
        raise place.error(f"bins do not apply to type = {kind!r}.", "bins")
    edges = spec["bins"]
    if isinstance(edges, str) or not isinstance(edges, Sequence) or len(edges) < 2:
        raise place.error(f"bins = {edges!r}, want a list of at least two edges.", "bins")
    points = tuple(_point(e, "number" if kind == "integer" else kind, place, "bins") for e in edges)
    if any(a >= b for a, b in itertools.pairwise(points)):
        raise place.error("bins must rise from edge to edge.", "bins")
    if low is not None and (points[0] > high or points[-1] < low):
        raise place.error(f"bins lie outside low = {low}, high = {high}.", "bins")
    return points


def check_names(columns: tuple[Column, ...], where: str, text: str = "") -> None:
    """Refuse names that no column can have, that differ in case alone, and a second key."""
    seen: dict[str, str] = {}
    for column in columns:
        name = column.name
        at = Place(text, where, name).at()
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise SchemaError(
                f"{at}column name {name[:40]!r} is empty, unprintable or longer than {MAX_NAME}."
            )
        if name.lower() in seen:
            raise SchemaError(
                f"{at}columns {seen[name.lower()]!r} and {name!r} differ only in case; SQL "
                "cannot tell them apart. Rename one in the source."
            )
        seen[name.lower()] = name
    keys = [c.name for c in columns if c.key]
    if len(keys) > 1:
        at = Place(text, where, keys[1]).at("key")
        raise SchemaError(f"{at}columns {', '.join(keys)} are all keys; declare one.")
