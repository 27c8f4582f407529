"""What is done when a ledger's server is lost on the way: the same again, until it is known.

A question is charged once under its own hash and an answer is kept once under its charge, so
doing either twice is doing it once. A commit whose fate is unknown counts as made, and is
found when the same is done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sulq.errors import EngineFailed, Refused, SourceChanged, SulqError, placed

PATIENCE_SECONDS = 30  # for a server that is started again
PAUSE_SECONDS = 0.1

_P = ParamSpec("_P")
_T = TypeVar("_T")
Method = Callable[Concatenate[Any, _P], _T]


class Lost(SulqError):
    """The server failed the ledger, and not the other way round.

    `unknown`: while a commit was under way. `hopeless`: trying again at once would not help.
    """

    def __init__(
        self, shown: str, reason: str, failure: type[SulqError], *, unknown: bool = False,
        hopeless: bool = False,
    ) -> None:  # fmt: skip
        self.unknown = unknown
        self.hopeless = hopeless
        stands = "The charge stands, asking again does not pay again."
        what = "Nothing was charged." if issubclass(failure, Refused) else stands
        self.final = failure(f"The ledger {shown!r} cannot be used: {reason}. {what}")
        if unknown:
            self.final = EngineFailed(
                f"The connection to the ledger {shown!r} was lost while something was being kept. "
                "A question that was being paid counts as charged; asking it again does not pay "
                "again."
            )
        placed(self.final)
        super().__init__(str(self.final))


def patient(method: Method[_P, _T]) -> Method[_P, _T]:
    """Do it again while the server is away. Only for what is the same done twice."""

    @wraps(method)
    def run(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        since: float | None = None
        unknown: SulqError | None = None  # what to say if it never becomes known
        while True:
            try:
                return method(self, *args, **kwargs)
            except Lost as lost:
                since = since or time.monotonic()
                unknown = unknown or (lost.final if lost.unknown else None)
                if lost.hopeless or time.monotonic() - since > PATIENCE_SECONDS:
                    raise unknown or lost.final from None
            except SourceChanged as changed:  # it may have been kept before the rows changed
                raise unknown or changed from None
            time.sleep(PAUSE_SECONDS)

    return run


@contextmanager
def plainly() -> Iterator[None]:
    """Say plainly when the server was lost; for what is not the same done twice."""
    try:
        yield
    except Lost as lost:
        raise lost.final from None
