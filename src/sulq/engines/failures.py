"""Ways a scan fails, told without a word of what the engine said.

The words of an engine may quote rows. They end here, and so do the exceptions and frames that hold
them. What a failure means for the database is decided in pipeline.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sulq.errors import EngineFailed, SulqError

if TYPE_CHECKING:
    from sulq.engines.base import Engine

Given = TypeVar("Given")
_P = ParamSpec("_P")

NO_SUM = (
    "the engine gave no sum. The charge stands; asking the same question again does not pay again."
)
NO_COUNT = "the engine gave no count. Nothing was charged; ask again."


class ScanFailed(EngineFailed):
    """An engine failed; `kind` is the class of what it raised, without its words."""

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__name__
        super().__init__(NO_SUM)


class ScanStopped(EngineFailed):
    """A scan was stopped from outside: cancelled, or out of time."""

    def __init__(self, message: str = NO_SUM) -> None:
        super().__init__(message)


class TooLate(ScanStopped):
    """The scan was not done by its deadline. The charge stands."""

    def __init__(self) -> None:
        super().__init__(
            "the engine was not done in time. The charge stands; asking the same question again "
            "does not pay again."
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a scan gave nothing."""

    kind: str  # the class of what was raised
    stopped: ScanStopped | None = None  # from outside


def attempt(work: Callable[[], Given]) -> Given | Failure:
    """What it gives, or why not. Nothing that was raised is left of it."""
    try:
        return work()
    except ScanStopped as error:
        return Failure(type(error).__name__, type(error)())
    except ScanFailed as error:
        return Failure(error.kind)
    except Exception as error:
        return Failure(type(error).__name__)


def is_there(engine: Engine) -> bool:
    """Does a fixed public scan succeed?"""
    return not isinstance(attempt(engine.probe), Failure)


def without_words(method: Callable[_P, Given]) -> Callable[_P, Given]:
    """Let errors leave without what they were raised from: its words may quote rows."""

    @wraps(method)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> Given:
        try:
            return method(*args, **kwargs)
        except SulqError as error:
            bare = error
        bare.__cause__ = bare.__context__ = None
        raise bare.with_traceback(None)

    return run
