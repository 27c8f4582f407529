"""Additive models: a sum of shape functions, one per column and chosen pair, from noisy histograms.

The first question asks, for every term, for the rows and the sum of the label in each of its cells.
From them each term by itself has a shape, as naive Bayes would have it. The rounds after it ask for
the sum of what the model predicts in the same cells, all terms at once: where that differs from the
sum of the label, shapes move. The label itself is asked about once. A prediction lies in
[-1/2, 1/2], so its price is a quarter of that of a residual in [-1, 1].
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, Classifier, Learner, Regressor
from sulq.learn.cuts import Cut, cut_of, cuts_of, usable
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, parameter
from sulq.learn.shape_pictures import isotonic, shapes_text
from sulq.learn.shapes import (
    Identity,
    Link,
    Logistic,
    Pull,
    Seen,
    Term,
    label_sql,
    noise_of,
    prior,
    pull,
    rescaled,
    rightness,
    seen,
    written,
)
from sulq.learn.task import (
    NOBODY,
    LeftOut,
    Task,
    all_within,
    bounds_of,
    conjoined,
    equals,
    lacking,
)

FIRST = Fraction(1, 2)  # of the budget, for the first question
# Of a row and of its label in the first question: its price goes to the label, by 144 of 169.
WEIGHTS = (Fraction(5, 13), Fraction(12, 13))
PAIR_BINS = 5  # of a number that is one of a pair
LEVEL_STEP = 0.7  # of what all rows together are off by
PAIRS = "Pairs of columns that say something together, such as age*sex, age*income."


@dataclass(kw_only=True, eq=False, repr=False)
class Additive(Drawn, Learner):
    """What the additive models share."""

    max_iter: int = parameter(
        4, "Rounds after the first question.", low=1, words="Rounds", first=4, most=50
    )
    bins: int = parameter(
        16, "For numbers without declared bins.", low=2, words="Bins of a number", first=16, most=50
    )
    pairs: str | None = parameter(None, PAIRS)
    bounds: Any = parameter(None, BOUNDS)

    link: ClassVar[Link]
    _usable = staticmethod(usable)

    @abstractmethod
    def _label(self, task: Task) -> str:
        """The label as a SQL expression in [-1/2, 1/2]."""

    @abstractmethod
    def _known(self, task: Task) -> str | None:
        """The predicate of rows that have all columns and a label; None: every row has."""

    # --- learning -----------------------------------------------------------------------

    def _terms(self, task: Task) -> list[Term]:
        terms = [Term((cut,)) for cut in cuts_of(task, self.bins)]
        for pair in chosen_pairs(self.pairs, task.columns):
            terms.append(Term(tuple(cut_of(task.db.schema, name, PAIR_BINS) for name in pair)))
        return terms

    def _first(self, task: Task, terms: Sequence[Term]) -> list[sulq.Query]:
        values, where = ("1", self._label(task)), self._known(task)
        return [sulq.Query(values, by=term.by, where=where, weights=WEIGHTS) for term in terms]

    def _price(self, task: Task) -> sulq.Price:
        asked = self._first(task, self._terms(task))
        natural = sum(task.db.price(query).micro for query in asked) * (1 + self.max_iter)
        return task.most(sulq.Price(natural), asked, FIRST / self.max_iter)

    def _fit(self, task: Task) -> None:
        price, terms = self._price(task), self._terms(task)
        task.check(price)
        with self._steps(task.db, 1 + self.max_iter) as steps:
            state = self._begun(task, terms, price.queries * FIRST)
            steps.step()
            for _ in range(self.max_iter):
                state.round(task.db, self._known(task), price.queries * (1 - FIRST) / self.max_iter)
                steps.step()
        self._use(task)
        plain = [tuple((c.column, c.values, c.edges, c.other) for c in t.cuts) for t in terms]
        self.cuts_ = tuple(cuts[0] for cuts in plain if len(cuts) == 1)
        self.pair_cuts_ = tuple(cuts for cuts in plain if len(cuts) == 2)
        self.n_iter_ = self.max_iter
        self.intercept_ = float(state.level)
        whole = zip(state.shapes, state.noise(), state.found, strict=True)
        self.shapes_, self.shape_stds_, self.shape_rows_ = (
            tuple(each) for each in zip(*(_by_cell(*one) for one in whole), strict=True)
        )
        self.edited_: tuple[str, ...] = ()

    def _begun(self, task: Task, terms: list[Term], share: Fraction) -> State:
        """What the first question says: each term by itself."""
        db, unit = task.db, self.link.unit
        answers = db.ask(all_within(db, self._first(task, terms), share), share=False)
        found, totals = [], []
        for term, answer in zip(terms, answers, strict=True):
            counts, sums = (term.read(answer.values[:, i]) for i in (0, 1))
            count_std, sum_std = answer.stds[0][:2]
            found.append(seen(term, counts, sums / unit, count_std, sum_std / unit))
            totals.append((counts.sum(), sums.sum() / unit, max(len(counts), 1)))
        rows, sums, sizes = (np.array(column) for column in zip(*totals, strict=True))
        weights = 1 / sizes / (1 / sizes).sum()
        std = count_std * math.sqrt((weights**2 * sizes).sum())
        counted = float(weights @ rows) if self._known(task) else db.rows
        self._leave_out(LeftOut(db.rows - counted, std) if self._known(task) else NOBODY)
        n = max(counted, 1.0)
        found = [rescaled(each, n) for each in found]
        return State(self.link, terms, found, n, float(weights @ sums))

    # --- using it -----------------------------------------------------------------------

    @property
    def terms(self) -> list[Term]:
        """The terms of a fitted model, each with a name, its cells and their labels."""
        self._check_fitted()
        found = [*((cut,) for cut in self.cuts_), *self.pair_cuts_]
        return [Term(tuple(Cut(*cut) for cut in cuts)) for cuts in found]

    def _total(self, X: Any) -> Array:
        self._check_fitted()
        rows = self._rows(X)
        total = np.full(len(rows), self.intercept_)
        for term, shape in zip(self.terms, self.shapes_, strict=True):
            # A row that is in no cell has what all rows have on average, which is 0.
            total += np.append(shape, 0.0)[term.codes(rows, self.columns_)]
        return total

    def edit(self, term: str, values: Any) -> Self:
        """Change a shape by hand: a number for all its cells, one for each, or {label: number}.

        The cells' labels are those of `terms`. Nothing is asked; edited_ names what was changed.
        """
        number = self._number(term)
        shape = np.array(self.shapes_[number])
        labels = self.terms[number].labels
        if isinstance(values, dict):
            unknown = [label for label in values if label not in labels]
            if unknown:
                raise sulq.Refused(f"{term!r} has no cell {unknown[0]!r}, but {', '.join(labels)}.")
            for label, value in values.items():
                shape[labels.index(label)] = float(value)
        else:
            given = np.asarray(values, dtype=np.float64)
            if given.shape not in ((), shape.shape) or not np.isfinite(given).all():
                raise sulq.Refused(f"{term!r}: want one finite number, or {len(shape)} of them.")
            shape[:] = given
        self.shapes_ = (*self.shapes_[:number], shape, *self.shapes_[number + 1 :])
        self.edited_ = tuple(dict.fromkeys((*self.edited_, term)))
        return self

    def monotonize(self, term: str, increasing: bool = True) -> Self:
        """Let a number's shape only rise, or only fall: the nearest such shape, by its rows."""
        number = self._number(term)
        if not self.terms[number].ordered:
            raise sulq.Refused(f"{term!r} has no order.")
        shape, rows = self.shapes_[number], self.shape_rows_[number]
        sign = 1.0 if increasing else -1.0
        return self.edit(term, sign * isotonic(sign * shape, rows))

    def _number(self, term: str) -> int:
        names = [each.name for each in self.terms]
        if term not in names:
            raise sulq.Refused(f"term={term!r}, want one of {', '.join(names)}.")
        return names.index(term)

    def _words(self) -> str:
        return shapes_text(self)


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveClassifier(Additive, Classifier):
    """Two classes from a sum of shapes, in log odds of the second class.

    The label is a Boolean column or one with two listed values; `fit(X, y)` needs `classes`, what y
    can be, unless y is an array of Booleans. `max_iter` rounds share half of `budget`, the first
    question has the other half. Numbers without declared bins are cut into `bins` equal ones;
    cells with too few rows for the noise share a value with others.

    shapes_ has an array for each of `terms`, one value a cell, intercept_ what is added to them.
    shape_stds_ is what noise alone gives each value, shape_rows_ about how many rows it has.
    """

    about = About(
        "additive-classifier", "Two classes from a sum of shapes, one per column, each to look at.",
        "--columns age,region --label smoker --out shapes.json", "Additive classifier", "class",
        True,
    )  # fmt: skip

    _many_classes = False
    link: ClassVar[Link] = Logistic()

    def _label(self, task: Task) -> str:
        classes = task.classes.tolist()
        if len(classes) != 2:
            raise sulq.QueryNotAllowed(
                f"label={task.label!r} has {len(classes)} classes: this model tells two apart."
            )
        return f"CASE WHEN {equals(str(task.label), classes[1])} THEN 0.5 ELSE -0.5 END"

    def _known(self, task: Task) -> str | None:
        return task.known

    def _fit(self, task: Task) -> None:
        super()._fit(task)
        self.classes_ = task.classes

    def decision_function(self, X: Any) -> Array:
        """The log odds of the second class."""
        return self._total(X)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of classes_."""
        p = 0.5 + self.link.mean(self._total(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Any:
        """The class of each row."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveRegressor(Additive, Regressor):
    """A number from a sum of shapes, in the number's own units.

    As AdditiveClassifier, for a label that is a number with declared bounds, or Boolean; `fit(X,
    y)` needs `label_bounds`, the range that y can have. A prediction stays within the bounds.
    """

    about = About(
        "additive-regressor", "A number from a sum of shapes, one per column, each to look at.",
        "--columns age,region --label income --out shapes.json", "Additive regression", "number",
        True,
    )  # fmt: skip

    link: ClassVar[Link] = Identity()

    def _label(self, task: Task) -> str:
        if task.label is None:
            raise sulq.QueryNotAllowed("label=None: name the column to predict.")
        ((low,), (width,)) = bounds_of(task.db.schema, [task.label])
        if task.db.schema[task.label].type == "boolean":
            return f"CASE WHEN {quote(task.label)} THEN 0.5 ELSE -0.5 END"
        return label_sql(quote(task.label), low, width)

    def _known(self, task: Task) -> str | None:
        names = lacking(task.db.schema, [*task.columns, str(task.label)])
        return conjoined(*(f"{quote(name)} IS NOT NULL" for name in names))

    def _fit(self, task: Task) -> None:
        super()._fit(task)
        ((low,), (width,)) = bounds_of(task.db.schema, [str(task.label)])
        self.label_low_, self.label_width_ = float(low), float(width)
        self.intercept_ = float(low + width * (0.5 + self.intercept_))
        self.shapes_ = tuple(width * shape for shape in self.shapes_)
        self.shape_stds_ = tuple(width * std for std in self.shape_stds_)

    def predict(self, X: Any) -> Array:
        """The label of each row, in its own units."""
        total = self._total(X)
        return np.clip(total, self.label_low_, self.label_low_ + self.label_width_)


Told = list[tuple[Array, Array]]


class State:
    """Shapes on their way, and what the last round said of them."""

    def __init__(
        self, link: Link, terms: list[Term], found: list[Seen], n: float, total: float
    ) -> None:
        self.link, self.terms, self.found, self.n, self.total = link, terms, found, n, total
        self.level = link.level(total * link.unit / n)
        self.priors: list[Array] = []
        self.shapes: list[Array] = []
        alone = 1 / math.sqrt(max(len(terms), 4))  # of what a term by itself says
        for term, each in zip(terms, found, strict=True):
            raw, variance = link.raw(each, self.level)
            precision = prior(raw, variance, each, term.ordered)
            self.priors.append(precision)
            known = np.diag(1 / variance)
            solved = np.linalg.solve(known + precision, raw / variance)
            shape = each.centred(np.asarray(solved, dtype=np.float64))
            # What a pair says is mostly what its columns say: it begins at nothing.
            self.shapes.append(alone * shape * (len(term.cuts) == 1))
        self.length = min(1.2 * alone, 0.4)
        self.lengths: list[float] = []
        self.heard: list[list[Array]] = [[] for _ in terms]
        self.pulls: list[Pull] = []
        self.moves: list[Array] = []

    def round(self, db: sulq.Queryable, where: str | None, share: Fraction) -> None:
        """Ask what the model predicts in each group, and move the shapes by what it is off."""
        cells = [shape[each.group] for shape, each in zip(self.shapes, self.found, strict=True)]
        sql, self.level, cells = written(self.level, self.terms, cells)
        first = [np.unique(each.group, return_index=True)[1] for each in self.found]
        self.shapes = [cell[i] for cell, i in zip(cells, first, strict=True)]
        flat = not any(shape.any() for shape in self.shapes)
        told = self._flat() if flat else self._asked(db, sql, where, share)
        pulls, offs, curves = [], [], []
        for i, (sums, variance) in enumerate(told):
            curve = self.link.curve(self.found[i], sums)
            off = self.found[i].sums - sums
            pulls.append(pull(self.found[i], self.priors[i], self.shapes[i], off, curve, variance))
            offs.append((self.total - sums.sum(), variance.sum()))
            curves.append(curve.sum())
            self.heard[i].append(variance)
        if self.pulls:
            self.length = rightness(self.moves, self.pulls, pulls)
        self.moves = [self.length * each.move for each in pulls]
        self.shapes = [shape + move for shape, move in zip(self.shapes, self.moves, strict=True)]
        self.pulls, self.lengths = pulls, [*self.lengths, self.length]
        weights = np.array([1 / max(v, 1e-12) for _, v in offs])
        whole = float(weights @ np.array([o for o, _ in offs]) / weights.sum())
        self.level += LEVEL_STEP * min(max(whole / float(np.mean(curves)), -1.0), 1.0)

    def _asked(self, db: sulq.Queryable, sql: str, where: str | None, share: Fraction) -> Told:
        """Sums of what is predicted in each term's groups, and the variance of their noise."""
        values, unit = (self.link.sql(sql),), self.link.unit
        both = list(zip(self.terms, self.found, strict=True))
        asked = [sulq.Query(values, by=term.coarse(each), where=where) for term, each in both]
        answers = db.ask(all_within(db, asked, share), share=False)
        return [
            term.grouped(answer.values[:, 0] / unit, answer.stds[0][0] / unit, each)
            for (term, each), answer in zip(both, answers, strict=True)
        ]

    def _flat(self) -> Told:
        """The same where all rows have one prediction: no question is needed for it."""
        mean = float(self.link.mean(np.array(self.level))) / self.link.unit
        return [(each.rows * mean, np.zeros(len(each.rows))) for each in self.found]

    def noise(self) -> list[Array]:
        """The standard deviation that noise gives each value of each shape."""
        told = zip(self.heard, self.pulls, self.found, strict=True)
        return [noise_of(self.lengths, *each) for each in told]


def _by_cell(shape: Array, std: Array, found: Seen) -> tuple[Array, Array, Array]:
    """A value, its noise and its rows for each cell, from those of its group."""
    size = np.bincount(found.group)
    return shape[found.group], std[found.group], (found.rows / size)[found.group]


def chosen_pairs(pairs: Any, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of the columns from "age*sex, age*income", or from a list of two names each."""
    if pairs is None:
        return []
    if isinstance(pairs, str):
        pairs = [[name.strip() for name in pair.split("*")] for pair in pairs.split(",")]
    out = []
    for pair in pairs:
        names = tuple(pair) if isinstance(pair, list | tuple) else (pair,)
        if len(names) != 2 or len(set(names)) < 2 or not set(names) <= set(columns):
            raise sulq.Refused(
                f"pairs: {pair!r}, want two of the columns {', '.join(columns)}, such as 'age*sex'."
            )
        out.append((names[0], names[1]))
    return list(dict.fromkeys(out))
