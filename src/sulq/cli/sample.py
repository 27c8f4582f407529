"""sulq sample: synthetic rows from a model that `sulq learn synthesizer` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sulq.cli.common import Said
from sulq.cli.options import Json
from sulq.errors import Refused

ModelFile = Annotated[Path, typer.Argument(help="A model that `sulq learn synthesizer` wrote.")]
Out = Annotated[Path, typer.Argument(help="Where the rows go: a .parquet file.")]
Rows = Annotated[int | None, typer.Option("--rows", help="How many; by default as the table has.")]
Seed = Annotated[int | None, typer.Option("--random-state", help="Seeds the drawing, not noise.")]


def sample(
    model: ModelFile, out: Out, rows: Rows = None, random_state: Seed = None, as_json: Json = False
) -> Said:
    """Draw synthetic rows from a model into a Parquet file marked as such. Nothing is spent.

    The error of every measured table is said.

    Example: sulq sample rows.json synthetic.parquet --rows 10000
    """
    from sulq.learn import Synthesizer, load

    if out.suffix.lower() != ".parquet":
        raise Refused(f"out={str(out)!r}: want a .parquet file, which can say what it holds.")
    found = load(model)
    if not isinstance(found, Synthesizer):
        raise Refused(f"{str(model)!r} is a {type(found).__name__}, want a Synthesizer.")
    made = found.sample(rows, random_state)
    made.to_parquet(out)
    errors = [{"columns": list(e.columns), "noise": e.noise, "off": e.off} for e in made.errors]
    body = {"out": str(out), "rows": len(made), "note": made.note, "errors": errors}
    return Said(body, made.summary(), notes=[f"Written: {out}"])
