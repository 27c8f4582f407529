"""A checked query -> its price, and the noise each released number will carry.

The currency is the paper's: one query is one sum of a function into [0, 1] with variance R.
The price of a vector answer is the size of what one row can change, as its noise kind wants it:
squared L2 for gaussian, L1 for laplace, coordinates for binomial and stitched. Prices are
whole micro-queries, rounded up, and never depend on the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from sulq.errors import MICRO, PromiseError, QueryNotAllowed
from sulq.privacy.choice import choosing, root_down
from sulq.privacy.geometry import Geometry, Release
from sulq.privacy.noise import Law
from sulq.privacy.promise import FEWEST_STEPS, Promise
from sulq.values.price import Price

PRICINGS = ("geometry", "paper")
FURTHEST = 10**12  # how far a variance may be from R, either way
FEW = 4  # numbers: beyond, comparing two questions is no quicker than pricing one
MAX_KNOWN = 1_000  # tariffs kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What a price is taken from: of a checked query, the numbers that rows do not change."""

    releases: tuple[Release, ...]  # the numbers that leave, of each cell
    geometry: Geometry
    private_cells: bool = False  # is it a secret which cell a row is in?
    rows_each: int = 1  # rows of one person that may count, each with this geometry
    periods_each: int = 1  # periods of one person that add up in the same numbers
    error: Fraction | None = None  # of the widest number; None: as the promise has it
    share: Fraction | None = None  # of the rows below a value that is chosen: no noise is added

    @property
    def released(self) -> int:
        """Of how many cells, or combinations of them, numbers leave."""
        raise NotImplementedError

    @property
    def squared_each(self) -> int:
        """What squared L2 of one row is to be multiplied by, for each period that pays.

        k periods of one person move an answer by the sum of what each moves it by: squared, by at
        most k times the sum of the squares (Cauchy and Schwarz).
        """
        return self.rows_each**2 * self.periods_each


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of one checked query and, per released number, its grid and noise.

    Engine integers are multiplied by `multiples` so that the noise has fine steps, then the
    noise of `laws` is added, then `steps` turns them into the number's own units.
    """

    price: Price
    multiples: tuple[int, ...]
    laws: tuple[Law, ...]
    steps: tuple[Fraction, ...]


def tariff_of(query: Priced, promise: Promise, pricing: str = "geometry") -> Tariff:
    """The price of `query` under `promise`, and the noise that buys."""
    kinds = tuple(_kind(r) for r in query.releases)
    if len(kinds) > FEW:
        return _computed(query, kinds, promise, pricing)
    # Most questions are of a few sorts: all counts of a table have one tariff.
    cells = query.released if pricing == "paper" else 1
    sort = (
        kinds, query.geometry, query.private_cells, query.rows_each, query.periods_each,
        query.error, query.share, cells, promise, pricing,
    )  # fmt: skip
    found = _known.get(sort)
    if found is None:
        found = _computed(query, kinds, promise, pricing)
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[sort] = found
    return found


def _computed(
    query: Priced, kinds: tuple[tuple[int, ...], ...], promise: Promise, pricing: str
) -> Tariff:
    """The tariff, each kind of number computed once."""
    if query.share is not None:
        return _of_choice(query, query.share, promise, pricing)
    kept = dict(zip(kinds, query.releases, strict=True))
    grids = [_grid(r, promise) for r in kept.values()]
    dilation = _dilation(query, promise, grids)
    laws = _laws(query, promise, grids, dilation)
    size = _size(query, promise, pricing)
    if promise.noise == "laplace":
        amount = Fraction(0) if size == 0 else size / root_down(dilation)
    else:
        amount = size / dilation
    each = {
        kind: (grid.multiple, law, grid.step, law.half_width(0.95) * float(grid.step))
        for kind, grid, law in zip(kept, grids, laws, strict=True)
    }
    multiples, chosen, steps, widths = zip(*[each[kind] for kind in kinds], strict=True)
    return Tariff(Price(math.ceil(amount * MICRO), widths), multiples, chosen, steps)


def _of_choice(query: Priced, share: Fraction, promise: Promise, pricing: str) -> Tariff:
    """The price of a choice is what a row can change; how sharp it is follows from the promise."""
    law = choosing(promise, share)
    price = Price(math.ceil(_size(query, promise, pricing) * MICRO), (law.half_width(0.95),))
    return Tariff(price, (1,), (law,), (Fraction(1),))


_known: dict[tuple[Any, ...], Tariff] = {}


class _Grid(NamedTuple):
    """The grid of one kind of number: fine enough for its noise."""

    multiple: int  # of its steps in one engine integer
    step: Fraction  # in own units
    unit: Fraction  # steps in one unit of the geometry
    weight2: Fraction


def _kind(r: Release) -> tuple[int, ...]:
    """Equal for numbers with the same grid and noise; whole numbers are quick to look up."""
    return (
        *r.step.as_integer_ratio(), *r.unit.as_integer_ratio(), *r.weight2.as_integer_ratio(),
        *r.least_variance.as_integer_ratio(),
    )  # fmt: skip


def _grid(r: Release, promise: Promise) -> _Grid:
    multiple = _multiple(r, promise)
    return _Grid(multiple, r.step / multiple, r.unit * multiple, r.weight2)


def _laws(
    query: Priced, promise: Promise, grids: list[_Grid], dilation: Fraction
) -> tuple[Law, ...]:
    try:
        return tuple(promise.law(g.unit, dilation / g.weight2) for g in grids)
    except PromiseError:
        if query.error is None:
            raise
        raise QueryNotAllowed(
            f"error={float(query.error):g} is wider or narrower than any noise here can be. Ask "
            "for something nearer to what the question has without error=; db.price(...) says."
        ) from None


def _size(query: Priced, promise: Promise, pricing: str) -> Fraction:
    """How much of a query the whole answer is, at variance R.

    The papers charge one query per released number. Where weights or a corner make what a row
    can change larger than that, the geometry is charged, or the promise would not hold. m rows of
    one person move an answer m times as far: m^2 for squared L2, m for L1.
    """
    size = _change(query, promise)
    if pricing == "paper":
        size = max(Fraction(query.released * len(query.releases)), size)
    return size * (query.squared_each if promise.noise == "gaussian" else query.rows_each)


def _change(query: Priced, promise: Promise) -> Fraction:
    """The size of what one row can change, as the noise kind measures it."""
    g = query.geometry
    if promise.noise in ("binomial", "stitched"):
        twice = query.private_cells and promise.guarantee == "beliefs"
        return Fraction(g.coordinates * (2 if twice else 1))
    l1 = promise.noise == "laplace"
    radius, diameter = (g.radius1, g.diameter1) if l1 else (g.radius2, g.diameter2)
    if promise.guarantee == "dp":
        return radius
    # Two contributions in different cells are orthogonal.
    apart = query.private_cells and not g.whole
    return max(2 * radius, diameter) if apart else max(radius, diameter)


def _multiple(r: Release, promise: Promise) -> int:
    """How much finer than the engine's integers the noise must be.

    Whole numbers alone would leave the true delta above the promise (docs/proofs/promise.md).
    """
    if promise.noise == "binomial":
        return 1
    least = FEWEST_STEPS**2 * max(r.weight2, Fraction(1)) / r.unit**2
    if r.least_variance:  # R * unit^2 / weight2, in steps of the finer grid
        least = max(least, r.least_variance * r.weight2 / (promise.exact_variance * r.unit**2))
    return 1 if least <= 1 else math.isqrt(math.ceil(least) - 1) + 1


def _dilation(query: Priced, promise: Promise, grids: list[_Grid]) -> Fraction:
    """Variance over R: 1, or what makes the widest number as exact as `error` asks."""
    if query.error is None:
        return Fraction(1)
    widest = max(
        Fraction(promise.law(g.unit, 1 / g.weight2).half_width(0.95)) * g.step for g in grids
    )
    dilation: Fraction = (query.error / widest) ** 2
    if not Fraction(1, FURTHEST) <= dilation <= FURTHEST:
        raise QueryNotAllowed(
            f"error={float(query.error):g}: this question has {float(widest):g} without error=, "
            "and at most a million times more or less can be asked for."
        )
    return dilation
