"""Questions that are paid one after the other, as learners and several databases ask them.

A refusal says that nothing was charged, and means its own question. Where others were paid before
it, whoever reads it must hear that these stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from sulq.errors import Refused, SulqError

NOTHING = "Nothing was charged."
EARLIER = "This step was not charged; what was paid before it stands."


@contextmanager
def in_steps(*databases: Any) -> Iterator[None]:
    """Let a refusal say what it means if something was spent since this began."""
    before = _spent(databases)
    try:
        yield
    except Refused as error:
        if error.charged is False and before is not None and _spent(databases) != before:
            error.charged = None
            said = str(error)
            more = said.replace(NOTHING, EARLIER) if NOTHING in said else f"{said} {EARLIER}"
            error.args = (more, *error.args[1:])
        raise


def _spent(databases: tuple[Any, ...]) -> list[Fraction] | None:
    """What each has spent; None where that cannot be read."""
    try:
        return [db.budget.spent for db in databases]
    except SulqError:
        return None
