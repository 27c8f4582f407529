"""How close an answer will be, as a page says it before it is paid."""

from __future__ import annotations

import math

from sulq.audit.promise import is_audited
from sulq.database import Database
from sulq.kept_rehearsals import KeptRehearsals
from sulq.preview import Width
from sulq.values.query import Query


class Rehearsals(KeptRehearsals):
    """Rehearsals of a server's datasets."""

    def errors(self, real: Database, asked: str | Query) -> list[tuple[str, str]]:
        """Each number of the answer and how close it will be, at 95%."""
        if is_audited(real.promise):
            half = max(real.question(asked).price.half_widths, default=0.0)
            return [("if it is answered", f"± {half:.3g}" if half else "exact")]
        return [(name, _reach(width)) for name, width in self.widths(real, asked).items()]


def _reach(width: Width) -> str:
    if math.isnan(width.usual):
        return "not known before"
    return ("" if width.even else "about ") + str(width).replace("+/-", "±")
