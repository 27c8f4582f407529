"""The price of several residuals of the same rows together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sulq.errors import MICRO
from sulq.privacy.pricing import Tariff
from sulq.privacy.residuals import Part, diameter2, radius2
from sulq.questions.check import CheckedQuery
from sulq.questions.residual import Projected, cells_of

Parts = tuple[tuple[CheckedQuery, Tariff], ...]


def priced_together(parts: Parts, guarantee: str) -> Parts:
    """The same parts; residuals of the same rows are priced by what a row can move in all of them.

    Under dp that is the sum of their prices, rounded up once. Two rows that are furthest apart in
    one residual are not so in all, so under beliefs it is less. Each part bears its share.
    """
    groups: dict[Any, list[int]] = {}
    for i, (query, _) in enumerate(parts):
        if isinstance(query.measurement, Projected):
            groups.setdefault((query.about, query.rows, query.where, query.sample), []).append(i)
    out = list(parts)
    for members in groups.values():
        each = [parts[i][1].price.micro for i in members]
        if not any(each):
            continue
        total = min(_price_of([parts[i][0] for i in members], guarantee), sum(each))
        shares = [total * micro // sum(each) for micro in each]
        shares[0] += total - sum(shares)
        for i, share in zip(members, shares, strict=True):
            query, tariff = parts[i]
            out[i] = query, replace(tariff, price=replace(tariff.price, micro=share))
    return tuple(out)


def _price_of(queries: Sequence[CheckedQuery], guarantee: str) -> int:
    """The price of residuals of the same rows together, in micro-queries."""
    axes = list(dict.fromkeys(a.text for q in queries for a in q.axes))
    found = {a.text: a for q in queries for a in q.axes}
    parts = tuple(
        Part(tuple(axes.index(a.text) for a in q.axes), q.releases[0].weight2) for q in queries
    )
    sizes = tuple(cells_of(found[text]) for text in axes)
    known = frozenset(i for i, text in enumerate(axes) if found[text].public)
    dp = guarantee == "dp"
    size = radius2(parts, sizes) if dp else diameter2(parts, sizes, known)
    return math.ceil(size * queries[0].squared_each * MICRO)
