"""Naive Bayes from one batch of noisy sums: counts, sums and squares by class.

A number is scaled to y in [-1/2, 1/2]; within a class it is taken to be normal. By class the
query releases the count and, for every number, the sums of y and of q = y^2 - 1/8, which has
half the reach of y^2. A category has a histogram by class. All of it is one scan, over the rows
that have all the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, Classifier
from sulq.learn.cuts import Cut, cuts_of, numbers_in, usable
from sulq.learn.parameters import About, parameter
from sulq.learn.task import NOBODY, LeftOut, Task, bounds_of
from sulq.learn.trees import shares_of

MIDDLE = 0.125  # of the range of y^2
ENOUGH = 2.0  # standard deviations of a count; its noise is in var_ too, so few are enough
LEAST = 2.0**-32  # a variance of y: numbers are cut into steps


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: numbers in the first query, then a histogram per category."""

    classes: Any
    numbers: tuple[str, ...]
    cuts: tuple[Cut, ...]
    queries: tuple[sulq.Query, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class NaiveBayes(Classifier):
    """A normal distribution per class and number, shares per class and category.

    The label is a Boolean column or one with listed values; `fit(X, y)` needs `classes`, what y can
    be, unless y is an array of Booleans. Booleans and numbers with declared
    bins count as categories. A class with too few rows for the noise is given what all rows
    together have, and named in small_classes_.

    theta_ and var_ are each class's means and variances in own units, theta_std_ and var_std_
    what noise alone gives them; var_ is at least that, and includes the mean's. class_count_
    holds the noisy counts, class_count_std_ their noise.
    """

    about = About(
        "naive-bayes", "Classes from each column by itself, from one query.",
        "--columns age,region --label smoker --out bayes.json", "Naive Bayes", "class", True,
    )  # fmt: skip

    _usable = staticmethod(usable)

    bounds: Any = parameter(None, BOUNDS)

    def _question(self, task: Task) -> Question:
        schema, label = task.db.schema, str(task.label)
        classes = task.classes  # refused before the columns are
        numbers, listed = [], []
        for cut in cuts_of(task, bins=1):
            if cut.edges and schema[cut.column].bins is None:
                numbers.append(cut.column)
            else:
                listed.append(cut)
        where = task.complete
        queries = [moments(task.db, tuple(numbers), label, where)] if numbers else []
        queries += [sulq.Query(by=(cut.by, label), where=where) for cut in listed]
        return Question(classes, tuple(numbers), tuple(listed), tuple(queries))

    def _price(self, task: Task) -> sulq.Price:
        queries = dict.fromkeys(task.finest(self._question(task).queries))
        return sum((task.db.price(query) for query in queries), sulq.Price(0))

    def _fit(self, task: Task) -> None:
        db, asked = task.db, self._question(task)
        # Tables asked together would not be independent, as what is learned from them supposes.
        answers = db.ask(task.finest(asked.queries), share=False)
        self._use(task)
        self.classes_ = asked.classes
        self.numbers_ = asked.numbers
        self.cuts_ = tuple((c.column, c.values, c.edges, c.other) for c in asked.cuts)
        self._learn(db, asked, answers)
        found = LeftOut.of(db.rows, self.class_count_, self.class_count_std_)
        self._leave_out(found if task.known else NOBODY)

    def _learn(self, db: sulq.Queryable, asked: Question, answers: list[Any]) -> None:
        """Everything after the query: no more data is touched."""
        k, first = len(self.classes_), answers.pop(0) if asked.numbers else None
        tables = [
            Counts(answer.values[:, 0].reshape(cut.cells, -1)[: cut.size, :k], answer.stds[0][0])
            for cut, answer in zip(asked.cuts, answers, strict=True)
        ]
        sums = [Counts(table.values.sum(axis=0), table.std * math.sqrt(len(table.values)))
                for table in tables]  # fmt: skip
        if first is not None:
            sums.append(Counts(first.values[:k, 0], first.stds[0][0]))
        counted = best_mean(sums)
        self.class_count_, self.class_count_std_ = counted.values, counted.std
        small = counted.values <= ENOUGH * counted.std
        self.small_classes_ = self.classes_[small]
        self.class_prior_ = shares_of(np.maximum(counted.values, counted.std))
        self.category_shares_ = tuple(category_shares(table, small) for table in tables)
        low, width = bounds_of(db.schema, asked.numbers)
        empty = np.empty((k, 0))
        bells = Bells(*(empty,) * 4) if first is None else bells_of(first, counted, small)
        self.theta_ = low + (0.5 + bells.mean) * width
        self.theta_std_ = bells.mean_std * width
        self.var_, self.var_std_ = bells.var * width**2, bells.var_std * width**2

    # --- using it -----------------------------------------------------------------------

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of each class's probability, in the order of classes_."""
        self._check_fitted()
        rows = self._rows(X)
        found = np.log(self.class_prior_) + np.zeros((len(rows), 1))
        for i, name in enumerate(self.numbers_):
            x = numbers_in(rows[:, self.columns_.index(name)], name)[:, None]
            off = np.where(np.isnan(x), 0.0, (x - self.theta_[:, i]) ** 2 / self.var_[:, i])
            found += np.where(np.isnan(x), 0.0, -0.5 * (off + np.log(self.var_[:, i])))
        for cut, shares in zip((Cut(*c) for c in self.cuts_), self.category_shares_, strict=True):
            found += np.log(shares)[cut.codes(rows[:, self.columns_.index(cut.column)])]
        found -= found.max(axis=1, keepdims=True)
        return np.asarray(found - np.log(np.exp(found).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> Array:
        """Each class's probability; a missing number says nothing."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """The class of each row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _words(self) -> str:
        return "\n".join(line for i in range(len(self.classes_)) for line in self._class(i))

    def _class(self, i: int) -> Iterator[str]:
        """Its rows, its means and spreads, and its shares of each category."""
        few = ", too few for the noise" if self.classes_[i] in self.small_classes_ else ""
        counted = f"{self.class_count_[i]:,.0f} +/- {1.96 * self.class_count_std_:,.0f}"
        yield f"{self.classes_[i]}: {self.class_prior_[i]:.1%}, {counted} rows{few}"
        for j, name in enumerate(self.numbers_):
            mean, off = self.theta_[i, j], 1.96 * self.theta_std_[i, j]
            yield f"  {name}: {mean:,.4g} +/- {off:,.2g}, spread {math.sqrt(self.var_[i, j]):,.3g}"
        for cut, shares in zip((Cut(*c) for c in self.cuts_), self.category_shares_, strict=True):
            parts = zip(cut.labels, shares[:, i], strict=True)
            yield f"  {cut.column}: " + ", ".join(f"{label} {share:.1%}" for label, share in parts)


@dataclass(frozen=True, slots=True)
class Counts:
    """Noisy counts and the standard deviation of each."""

    values: Array
    std: float


@dataclass(frozen=True, slots=True)
class Bells:
    """Means and variances of y, classes x numbers, and what noise gives them."""

    mean: Array
    var: Array
    mean_std: Array
    var_std: Array


def moments(
    db: sulq.Queryable, numbers: tuple[str, ...], label: str, where: str | None
) -> sulq.Query:
    """Counts, sums of y and of q by class, weighted for the least error at its price.

    A mean is off by what y and the count are off by, a variance by what q, y and the count are,
    against standard deviations of about a seventh of the range. One count serves d numbers: it
    needs a weight of about sqrt(d)/2 squared where y and q have 1.
    """
    low, width = bounds_of(db.schema, numbers)
    scaled = [
        f"({quote(name)} - {float(a + w / 2)!r}) / {float(w)!r}"
        for name, a, w in zip(numbers, low, width, strict=True)
    ]
    squares = [f"ABS({y}) * ABS({y}) - {MIDDLE!r}" for y in scaled]
    count = Fraction(round(math.sqrt(math.sqrt(len(numbers)) / 2), 6))
    ones = (Fraction(1),) * (2 * len(numbers))
    weights = (count, *ones)
    return sulq.Query(("1", *scaled, *squares), by=label, where=where, weights=weights)


def best_mean(heard: Sequence[Counts]) -> Counts:
    """The same counts heard several times."""
    weights = 1 / np.maximum([c.std**2 for c in heard], 1e-300)
    values = weights @ np.array([c.values for c in heard]) / weights.sum()
    return Counts(values, float(1 / math.sqrt(weights.sum())))


def bells_of(answer: Any, counted: Counts, small: Any) -> Bells:
    """Mean s/n and variance q/n + 1/8 - mean^2 of each class; a small one has everybody's.

    To first order the noises e move the mean by (e_s - m e_n)/n and the variance by
    (e_q - 2 m e_s + (m^2 - v + 1/8) e_n)/n. A variance that noise could have made is as large
    as that noise, and a mean that is off spreads the class.
    """
    k = len(small)
    sums = answer.values[:k, 1:]
    d = sums.shape[1] // 2
    n = np.where(small, counted.values.sum(), counted.values)[:, None]
    n = np.maximum(n, counted.std)
    sums = np.where(small[:, None], sums.sum(axis=0), sums)
    more = np.where(small, math.sqrt(k), 1.0)[:, None]  # the noise of k classes together
    n_std, s_std, q_std = (more * answer.stds[0][j] for j in (0, 1, 1 + d))
    m = np.clip(sums[:, :d] / n, -0.5, 0.5)
    v = np.clip(sums[:, d:] / n + MIDDLE - m**2, 0.0, 0.25)
    mean_std = np.sqrt(s_std**2 + m**2 * n_std**2) / n
    by_count = (m**2 - v + MIDDLE) * n_std
    var_std = np.sqrt(q_std**2 + (2 * m * s_std) ** 2 + by_count**2) / n
    least = np.maximum(var_std, LEAST)
    return Bells(m, np.maximum(v, least) + mean_std**2, mean_std, var_std)


def category_shares(table: Counts, small: Any) -> Array:
    """P(value | class), values x classes: each count lifted by its noise, so that none is 0."""
    values = np.where(small, table.values.sum(axis=1, keepdims=True), table.values)
    lifted = np.maximum(values, 0.0) + max(table.std, 1e-9)
    return np.asarray(lifted / lifted.sum(axis=0))
