"""Values that enough rows have, with noisy counts: what a discovery gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sulq.values.answer import Answer
from sulq.values.table import Table


class Discovered(Answer):
    """An answer whose cells nobody knew before: each is named, even if it is the only one."""

    @property
    def _single(self) -> bool:
        return False

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The noisy counts, one below the other."""
        return super().values.reshape(-1, 1)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Low and high ends of every count, as arrays even if there is but one or none."""
        if not self.cells:
            return self.values, self.values
        low, high = super().interval(level)
        return np.reshape(low, (-1, 1)), np.reshape(high, (-1, 1))

    def table(self, by: Sequence[str] | None = None, names: Sequence[str] | None = None) -> Table:
        """The values and their counts; none is exact, and there may be none."""
        return replace(super().table(by, names), exact=frozenset())
