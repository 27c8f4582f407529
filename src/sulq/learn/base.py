"""What every learner shares: parameters, data or a database, JSON.

The shape is scikit-learn's, which need not be installed. Rows that the analyst holds are given
in the columns' own units; inside, every column is scaled to [0, 1] by its declared bounds, as
the database does it. A row with a missing value in a column that a model uses is left out of it.
"""

from __future__ import annotations

import inspect
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

import sulq
from sulq.learn.arrays import (
    Array,
    Column,
    as_matrix,
    as_source,
    class_label,
    number_columns,
    number_label,
    value_matrix,
)
from sulq.learn.parameters import About, parameter, parameters_of
from sulq.learn.task import NOBODY, LeftOut, Task, bounded, with_functions
from sulq.learn.validation import check_features, feature_names, not_fitted
from sulq.stepwise import in_steps

ARRAY_QUERIES = 1000  # T of the database that an array is opened as
WELL_ABOVE = 4.0  # standard deviations that tell substance from noise
LABEL = "label"  # the name of y where an array was given

# What parameters of several learners mean.
ROW_NORM = "Clip rows to this distance from the middle."
BOUNDS = "For arrays: the range that X can have, or low ends and high ends."


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(ABC):
    """A model whose hyper-parameters are its constructor's arguments, kept unchanged.

    Every learner takes `budget`, the queries that `fit` on a database may spend: None is the
    price of its questions at the database's own noise. epsilon, delta, guarantee and bounds are for
    `fit` on arrays, which opens a database in memory under that promise and spends all of it.
    bounds is (low, high), or a list of low ends and one of high ends; only an X of Booleans needs
    none, because nothing is read off X.

    Rows with a missing value in a column that the model uses are left out: left_out_ is about how
    many, left_out_std_ the standard deviation of its noise (0 where none can be missing).
    """

    about: ClassVar[About]
    estimator_type: ClassVar[str | None] = None  # in scikit-learn's words
    _many_classes: ClassVar[bool] = True  # or two only

    budget: float | None = parameter(
        None, "Queries to spend; by default at usual noise.", shared=True
    )
    epsilon: float | None = parameter(None, "For arrays: the promise to make.", shared=True)
    delta: float = parameter(1e-6, "For arrays: except with this probability.", shared=True)
    guarantee: str = parameter(
        "beliefs", "For arrays: beliefs, or dp.", choices=("beliefs", "dp"), shared=True
    )

    # --- learning -----------------------------------------------------------------------

    def fit(
        self, data: Any, y: Any = None, *, columns: Sequence[str] | None = None,
        label: str | None = None, progress: Callable[[sulq.Steps], Any] | bool = True,
    ) -> Self:  # fmt: skip
        """Learn from a database's columns, or from an array X (and y).

        A long fit shows its steps and the budget left on a terminal; progress=False does not,
        and a function is called after each step instead.
        """
        self._check_parameters()
        self._watch: Callable[[sulq.Steps], Any] | bool = progress  # told of the steps of this fit
        try:
            if hasattr(data, "ask") and hasattr(data, "price"):  # a database, here or over a wire
                with in_steps(data):
                    self._fit(self._task(data, columns, label))
                self._name_features(self.columns_)
                return self
            with self._opened(data, y) as task:
                self._fit(task)
            self._name_features(feature_names(data))
        finally:
            del self._watch
        return self

    def _name_features(self, names: Sequence[str] | None) -> None:
        """Remember the names that rows must come with, if they come with names."""
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _steps(self, db: sulq.Queryable, total: int) -> sulq.Steps:
        """What `progress` is told: with self._steps(db, 5) as steps, steps.step() after each."""
        return sulq.Steps(type(self).__name__, total, db, getattr(self, "_watch", True))

    def price(
        self, db: sulq.Queryable, columns: Sequence[str] | None = None, label: str | None = None
    ) -> sulq.Price:
        """The most that `fit(db, ...)` will charge. Nothing is spent."""
        self._check_parameters()
        return self._price(self._task(db, columns, label))

    def _check_parameters(self) -> None:
        for declared in parameters_of(type(self)):
            declared.check(getattr(self, declared.name))

    @abstractmethod
    def _fit(self, task: Task) -> None: ...

    @abstractmethod
    def _price(self, task: Task) -> sulq.Price: ...

    def _task(self, db: sulq.Queryable, columns: Sequence[str] | None, label: str | None) -> Task:
        """With the columns asked for, or every one that is usable but the label and keys."""
        if isinstance(columns, str) or (columns is not None and not len(columns)):
            raise sulq.Refused(f"columns={columns!r}, want a list such as ['age', 'income'].")
        db, columns, label = with_functions(db, columns, label)
        if columns is None:
            others = (c for c in db.schema.columns if c.name != label and not c.key)
            columns = [c.name for c in others if self._usable(c)]
        return Task(db, tuple(columns), label, self.budget)

    @staticmethod
    def _usable(column: Any) -> bool:
        """Is it learned from where no columns are named?"""
        return bounded(column)

    def _scale(self, task: Task) -> None:
        """Remember the columns and their declared bounds."""
        self._use(task)
        self.low_, self.width_ = task.bounds

    def _use(self, task: Task) -> None:
        self.columns_, self.n_features_in_ = task.columns, len(task.columns)

    def _unit(self, X: Any) -> Array:
        """Rows in own units -> rows in [0, 1]; what is missing stays NaN."""
        self._check_fitted()
        rows = as_matrix(X)
        self._check_features(X, rows.shape[1])
        return np.asarray((rows - self.low_) / self.width_)

    def _rows(self, X: Any) -> Any:
        """Rows that the analyst holds, of whatever values, as a 2-D array."""
        self._check_fitted()
        rows = value_matrix(X)
        self._check_features(X, rows.shape[1])
        return rows

    def _check_features(self, X: Any, width: int) -> None:
        known = getattr(self, "feature_names_in_", None)
        check_features(X, type(self).__name__, width, self.columns_, known)

    def _own(self, unit: Array) -> Array:
        """Rows in [0, 1] -> rows in own units."""
        return np.asarray(self.low_ + unit * self.width_)

    def _leave_out(self, found: LeftOut) -> None:
        """Remember how many rows the model is not made from."""
        self.left_out_: Any = float(found.rows)  # or one for each database, where there are several
        self.left_out_std_: Any = float(found.std)

    def _left_out_line(self) -> str:
        """A line of `summary`, or nothing where no row can have been left out."""
        found = LeftOut(getattr(self, "left_out_", 0.0), getattr(self, "left_out_std_", 0.0))
        return "" if found == NOBODY else f"\n{found}"

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            raise not_fitted(type(self).__name__)

    # --- arrays -------------------------------------------------------------------------

    @contextmanager
    def _opened(self, X: Any, y: Any) -> Iterator[Task]:
        """A database in memory that holds an array, under the constructor's promise."""
        if self.epsilon is None:
            raise sulq.Refused(
                f"{type(self).__name__}(epsilon=...): an array has no promise of its own. Give "
                "epsilon to the constructor, or fit on a database."
            )
        columns = self._inputs(X)
        names, target = tuple(columns), self._target(y)
        if target is not None:
            columns[LABEL] = target
        rows = as_source({name: values for name, (values, _) in columns.items()})
        declared = {name: declaration for name, (_, declaration) in columns.items()}
        with warnings.catch_warnings():
            # Each fit is one promise, made and spent here; the constructor states it.
            warnings.filterwarnings("ignore", message="the ledger is in memory")
            db = sulq.open(
                rows, {"columns": declared}, epsilon=self.epsilon, delta=self.delta,
                queries=ARRAY_QUERIES, guarantee=self.guarantee, ledger=":memory:",
            )  # fmt: skip
        with db:
            yield Task(db, names, None if target is None else LABEL, db.budget.remaining)

    def _inputs(self, X: Any) -> dict[str, Column]:
        """X as columns x0, x1, ... and their declarations."""
        return number_columns(X, getattr(self, "bounds", None))

    def _target(self, y: Any) -> Column | None:
        """y as a column and its declaration; None where a learner has no use for it."""
        return None

    # --- parameters, as scikit-learn wants them -----------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        order = [declared.name for declared in parameters_of(cls)]
        taken = inspect.signature(cls).parameters
        return sorted(taken, key=lambda name: order.index(name) if name in order else -1)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(
                    f"{type(self).__name__} has no {name!r}; it has {', '.join(self._names())}."
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of a member of a pipeline; only it calls this."""
        from sklearn import utils  # type: ignore[import-untyped,unused-ignore]

        kind = self.estimator_type
        return utils.Tags(
            estimator_type=kind,
            target_tags=utils.TargetTags(required=kind in ("classifier", "regressor")),
            transformer_tags=utils.TransformerTags() if hasattr(self, "transform") else None,
            classifier_tags=utils.ClassifierTags(multi_class=self._many_classes)
            if kind == "classifier"
            else None,
            regressor_tags=utils.RegressorTags() if kind == "regressor" else None,
            input_tags=utils.InputTags(allow_nan=True),
        )

    def summary(self) -> str:
        """What was learned, in words."""
        self._check_fitted()
        return self._words() + self._left_out_line()

    def _words(self) -> str:
        return str(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # --- JSON ---------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The model as plain JSON: its parameters and what it learned."""
        learned = {k: v for k, v in vars(self).items() if k.endswith("_")}
        return {
            "kind": type(self).__name__,
            "params": {k: to_plain(v) for k, v in self.get_params().items()},
            "learned": {k: to_plain(v) for k, v in learned.items()},
        }

    def save(self, path: str | Path) -> None:
        """Write the JSON form to a file, for `sulq.learn.load`."""
        text = json.dumps(self.to_json(), ensure_ascii=False) + "\n"
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise sulq.Refused(
                f"model={str(path)!r} cannot be written: {error.strerror}."
            ) from None

    @classmethod
    def from_json(cls, body: Mapping[str, Any] | str) -> Self:
        """Read the JSON form back; anything unknown is refused."""
        plain = cls.parsed(body)
        if plain.get("kind") != cls.__name__:
            raise sulq.Refused(f"kind={plain.get('kind')!r}, want {cls.__name__!r}.")
        params = {k: from_plain(v) for k, v in plain.get("params", {}).items()}
        unknown = sorted(set(params) - set(cls._names()))
        if unknown:
            raise sulq.Refused(f"{cls.__name__} has no parameter {unknown[0]!r}.")
        model = cls(**params)
        for name, value in plain.get("learned", {}).items():
            if not name.isidentifier() or not name.endswith("_") or name.startswith("_"):
                raise sulq.Refused(f"{cls.__name__}: {name!r} is no learned value.")
            setattr(model, name, from_plain(value))
        return model

    @staticmethod
    def parsed(body: Mapping[str, Any] | str) -> dict[str, Any]:
        """A JSON object from its text, or as it is."""
        try:
            plain = json.loads(body) if isinstance(body, str) else dict(body)
        except (TypeError, ValueError):
            plain = None
        if not isinstance(plain, dict):
            raise sulq.Refused("a model is a JSON object, as to_json() gives it.")
        return plain


class Clusterer(Learner):
    """A learner of groups, each with a number."""

    estimator_type = "clusterer"

    @abstractmethod
    def _nearness(self, X: Any) -> Array:
        """How near each row is to each group; NaN for a row with a missing value."""

    def predict(self, X: Any) -> Any:
        """The number of the group that each row is nearest to; -1 where a value is missing."""
        near = self._nearness(X)
        return np.where(np.isnan(near).any(axis=1), -1, near.argmax(axis=1))

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Fit an array and give its rows' groups: these are exact, not private."""
        return self.fit(X, y).predict(X)


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(Learner):
    """A learner of classes, which are what the label is declared to be."""

    estimator_type = "classifier"

    classes: Any = parameter(None, "For arrays: what y can be.")

    @abstractmethod
    def predict(self, X: Any) -> Any:
        """The class of each row."""

    def score(self, X: Any, y: Any) -> float:
        """The share of rows the analyst holds that are classified as y says."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def _target(self, y: Any) -> Column:
        return class_label(y, self.classes)


@dataclass(kw_only=True, eq=False, repr=False)
class Regressor(Learner):
    """A learner of a number, whose bounds are declared."""

    estimator_type = "regressor"

    label_bounds: Any = parameter(None, "For arrays: the range that y can have.")

    @abstractmethod
    def predict(self, X: Any) -> Any:
        """The label of each row, in its own units."""

    def score(self, X: Any, y: Any) -> float:
        """R^2 on rows the analyst holds."""
        target = np.asarray(y, dtype=np.float64)
        wrong = ((target - self.predict(X)) ** 2).sum()
        return float(1 - wrong / max(((target - target.mean()) ** 2).sum(), 1e-300))

    def _target(self, y: Any) -> Column:
        return number_label(y, self.label_bounds)


# --- plain values ------------------------------------------------------------------------


def to_plain(value: Any) -> Any:
    """Arrays as {"array": [...]}, tuples as lists, numpy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, list | tuple | range):
        return [to_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise sulq.Refused(f"{value!r} has no JSON form.")


def from_plain(value: Any) -> Any:
    """The inverse; lists come back as tuples."""
    if isinstance(value, dict):
        return np.array(value.get("array"))
    return tuple(from_plain(v) for v in value) if isinstance(value, list) else value
