"""The nearest of some words to one that was mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MOST = 20  # words worth listing


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word that was probably meant; None if none is near."""
    folded = {k.casefold(): k for k in reversed(list(known)) if k}
    found = difflib.get_close_matches(word.strip().casefold()[:200], folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def listed(words: Sequence[str]) -> str:
    """The first of many words."""
    return ", ".join(words[:MOST]) + (", ..." if len(words) > MOST else "")
