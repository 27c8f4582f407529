"""sulq predict: a model applied to rows that the analyst holds. No database is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Said, note
from sulq.cli.options import Json
from sulq.errors import Refused
from sulq.values.safe_text import csv_text

if TYPE_CHECKING:
    import pyarrow as pa

    from sulq.learn import Learner

ModelFile = Annotated[Path, typer.Argument(help="A model that `sulq learn` wrote.")]
RowsFile = Annotated[Path, typer.Argument(help="Rows that you hold: a CSV or Parquet file.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write rows and predictions there: .csv or .parquet.")
]
ENDINGS = (".csv", ".parquet")
PREDICTION = "prediction"


def predict(
    model: ModelFile, rows: RowsFile, out: Out = None, as_json: Json = False
) -> Said | None:
    """Apply a model to rows that you hold, by the names of their columns. Nothing is spent.

    Rows come back with a column `prediction`, or with pc1, pc2, ... from components.

    Example: sulq predict smokers.json rows.csv --out predicted.csv
    """
    from sulq.learn import load

    if out is not None:
        _ending(out, "out")
    found, table = load(model), read_rows(rows)
    made = predictions(found, table, model, rows)
    if as_json:
        return Said({"kind": type(found).__name__, "rows": table.num_rows, "predictions": made})
    whole = with_predictions(table, made, rows)
    if out is None:
        return Said(None, as_csv(whole).removesuffix("\n"))
    write_rows(whole, out)
    note(f"Written: {out}")
    return None


# ---- models ---------------------------------------------------------------------------------


def predictions(model: Learner, table: pa.Table, path: Path, rows: Path) -> dict[str, list[Any]]:
    """The new columns by name; a row that misses a number which the model takes has nothing."""
    import numpy as np

    try:
        X = matrix(model, table, rows)
        there = ~np.isnan(X).any(axis=1) if X.dtype == float else np.ones(len(X), dtype=bool)
        if hasattr(model, "predict"):
            return {PREDICTION: spread(model.predict(X[there]).tolist(), there)}
        scores = model.transform(X[there]).T.tolist()  # type: ignore[attr-defined]
        return {f"pc{i + 1}": spread(score, there) for i, score in enumerate(scores)}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        kind = type(model).__name__
        raise Refused(f"{str(path)!r} is not a whole {kind}: learn it again.") from None


def spread(made: list[Any], there: Any) -> list[Any]:
    """What was predicted, and nothing for a row with a missing number."""
    found = iter(made)
    return [next(found) if known else None for known in there.tolist()]


def matrix(model: Any, table: pa.Table, path: Path) -> Any:
    """The model's columns, in its order: numbers where it wants numbers, else as they are."""
    import numpy as np

    names = list(model.columns_)
    for name in names:
        if table.column_names.count(name) != 1:
            few = "no column" if name not in table.column_names else "two columns"
            raise Refused(f"{str(path)!r} has {few} {name!r}. The model takes {', '.join(names)}.")
    only_numbers = hasattr(model, "width_")
    listed = {name: values for name, values, *_ in getattr(model, "cuts_", ()) if values}
    out = np.empty((table.num_rows, len(names)), dtype=float if only_numbers else object)
    for i, name in enumerate(names):
        values = table.column(name).to_pylist()
        if name in listed:
            check_categories(values, listed[name], name)
        out[:, i] = [number(v, name, j) for j, v in enumerate(values)] if only_numbers else values
    return out


def check_categories(values: list[Any], known: tuple[Any, ...], name: str) -> None:
    """Models count an unknown value as missing; in a file it is rather a mistake."""
    texts = {str(v).lower() for v in known}
    for row, value in enumerate(values):
        if value is not None and str(value).lower() not in texts:
            raise Refused(
                f"column {name!r}, row {row + 1}: {value!r} is no declared value: "
                f"{', '.join(map(str, known))}."
            )


def number(value: Any, name: str, row: int) -> float:
    """A value as a number; a missing one is NaN."""
    if value is None:
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Refused(f"column {name!r}, row {row + 1}: {value!r} is not a number.") from None


# ---- rows -----------------------------------------------------------------------------------


def read_rows(path: Path) -> pa.Table:
    """A table from a CSV with a header, or from Parquet."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    empty = arrow_csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    try:
        if _ending(path, "rows") == ".csv":
            return arrow_csv.read_csv(path, convert_options=empty)
        return parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0].rstrip(".")
        raise Refused(f"rows={str(path)!r} cannot be read: {why}.") from None


def with_predictions(table: pa.Table, made: dict[str, list[Any]], path: Path) -> pa.Table:
    """The rows with the new columns after their own."""
    import pyarrow as pa

    for name, column in made.items():
        if name in table.column_names:
            raise Refused(f"{str(path)!r} has a column {name!r} already: rename it, or use --json.")
        table = table.append_column(name, pa.array(column))
    return table


def as_csv(table: pa.Table) -> str:
    """Rows as text; a missing value is empty."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return csv_text([table.column_names, *rows])


def write_rows(table: pa.Table, path: Path) -> None:
    """Rows into a file of their ending's kind."""
    from pyarrow import parquet

    try:
        if path.suffix.lower() == ".csv":
            path.write_text(as_csv(table), encoding="utf-8")
        else:
            parquet.write_table(table, path)
    except OSError as error:
        raise Refused(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def _ending(path: Path, name: str) -> str:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise Refused(f"{name}={str(path)!r}: the ending says the kind, one of .csv and .parquet.")
    return ending
