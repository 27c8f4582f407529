"""Small matrices in one thread: OpenBLAS shares out even these, and its threads wait for each
other by spinning. On a machine with other work an eigenvector then takes a hundred times as long.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)

SMALL = 256  # columns

_lock = threading.Lock()
_inside: list[int] = []  # how many threads there were, once for everybody who is inside


@contextmanager
def one_thread(columns: int = 0) -> Iterator[None]:
    """What numpy's linear algebra does meanwhile, it does in one thread, in this whole process.

    Unless matrices have more than so many columns: threads are worth their while there.
    """
    get, set_ = _openblas()
    if columns > SMALL:
        yield
        return
    with _lock:
        _inside.append(_inside[0] if _inside else get())
        set_(1)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                set_(before)


@lru_cache(maxsize=1)
def _openblas() -> tuple[Any, Any]:
    """How numpy's OpenBLAS says and is told its number of threads; another library is let be."""
    library = ctypes.CDLL(np.linalg._umath_linalg.__file__)
    for name in NAMES:
        found = [getattr(library, name.format(verb), None) for verb in ("get", "set")]
        if None not in found:
            return found[0], found[1]
    return lambda: 1, lambda number: None
