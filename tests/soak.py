"""How much of what takes long is run: a fixed part in `make test`, all of it in `make soak`.

`make test` takes the same cases in every run, never a random part of them. SULQ_SOAK=1, as in
`make soak`, takes them all; SULQ_SOAK=20 also draws twenty times as many random examples. A file
that imports from here is run by `make soak`.
"""

from __future__ import annotations

import os

import pytest

SOAK = int(os.environ.get("SULQ_SOAK", "0"))
in_soak = pytest.mark.skipif(not SOAK, reason="takes long or measures time: make soak")


def some(cases, short):
    """`short` of the cases, evenly spread from the first on; all of them in `make soak`."""
    cases = list(cases)
    if SOAK or len(cases) <= short:
        return cases
    return [cases[i * len(cases) // short] for i in range(short)]


def times(short, full):
    """How often something random is done: `short`, or in `make soak` `full`, or many times that."""
    return full * SOAK if SOAK else short
