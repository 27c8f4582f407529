"""What went wrong, in PostgreSQL's words: SQLSTATE, message, detail, hint.

The message is the first line of sulq's own, the hint how to mend it, the detail whether a charge
was made. None of it depends on rows.
"""

from __future__ import annotations

from pathlib import Path

from sulq import errors
from sulq.errors import SulqError
from sulq.server.pgwire import messages
from sulq.server.services.allowed_sources import without_paths
from sulq.server.services.responses import told

# The first class that fits decides.
STATES: tuple[tuple[type[SulqError], str], ...] = (
    (errors.KeyRefused, "28P01"),
    (errors.NotPermitted, "42501"),
    (errors.NotFound, "42P01"),
    (errors.BudgetExceeded, "53400"),
    (errors.AuditRefused, "42501"),
    (errors.LimitReached, "53000"),
    (errors.SourceChanged, "55000"),
    (errors.Frozen, "55000"),
    (errors.QueryNotAllowed, "42000"),
    (errors.Refused, "55000"),
    (errors.Late, "40001"),  # ask again: it is free then
    (errors.EngineFailed, "58000"),
    (errors.LedgerDamaged, "XX001"),
    (SulqError, "XX000"),
)
NOTHING = "Nothing was charged."
CHARGED = {
    False: NOTHING,
    True: "The charge stands; asking the same again is free.",
    None: "If a charge was made, asking the same again is free.",
}


class Problem(Exception):
    """A statement, or a connection, that is refused."""

    def __init__(
        self, state: str, message: str, hint: str = "", *, charged: bool | None = False,
        fatal: bool = False,
    ) -> None:  # fmt: skip
        self.state, self.message, self.hint = state, message, hint
        self.charged, self.fatal = charged, fatal
        super().__init__(message)

    def sent(self) -> bytes:
        """As the client gets it."""
        severity = "FATAL" if self.fatal else "ERROR"
        return messages.report("E", {
            "S": severity, "V": severity, "C": self.state, "M": self.message,
            "D": CHARGED[self.charged], "H": self.hint,
        })  # fmt: skip


def problem_of(error: SulqError, is_owner: bool, folder: Path) -> Problem:
    """What a principal hears of an error."""
    heard = told(error, is_owner)
    state = next(state for kind, state in STATES if isinstance(heard, kind))
    first, _, rest = without_paths(str(heard), folder).partition("\n")
    first = first.replace(" Nothing was charged or changed.", "").replace(f" {NOTHING}", "")
    ended = isinstance(error, errors.KeyRefused)
    return Problem(state, first, rest.strip(), charged=heard.charged, fatal=ended)


def notice(message: str) -> bytes:
    """Something to know, beside a result."""
    return messages.report("N", {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": message})


def malformed() -> Problem:
    """Bytes that are no message."""
    return Problem("08P01", "this is no message of PostgreSQL's protocol", fatal=True)
