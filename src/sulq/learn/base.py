"""What every learner shares: parameters, data or a database, JSON.

The shape is scikit-learn's, which need not be installed. Rows that the analyst holds are given
in the columns' own units; inside, every column is scaled to [0, 1] by its declared bounds, as
the database does it, and a missing value is the middle of its range.
"""

from __future__ import annotations

import inspect
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

import sulq

Array = NDArray[np.float64]
MICRO = 1_000_000  # micro-queries in one query
ARRAY_QUERIES = 1000  # T of the database that an array is opened as
WELL_ABOVE = 4.0  # standard deviations that tell substance from noise
LABEL = "label"  # the name of y where an array was given


class Learner(ABC):
    """A model whose hyper-parameters are its constructor's arguments, kept unchanged.

    Every learner takes `budget`, the queries that `fit` on a database may spend: None is what
    its questions cost at the database's own noise. epsilon, delta, guarantee and bounds are for
    `fit` on arrays, which opens a database in memory under that promise and spends all of it.
    """

    estimator_type: ClassVar[str | None] = None  # in scikit-learn's words

    budget: float | None
    epsilon: float | None
    delta: float
    guarantee: str
    bounds: Any
    _watch: Callable[[sulq.Steps], Any] | bool = True  # who is told of the steps of this fit

    # --- learning -----------------------------------------------------------------------

    def fit(
        self, data: Any, y: Any = None, *, columns: Sequence[str] | None = None,
        label: str | None = None, progress: Callable[[sulq.Steps], Any] | bool = True,
    ) -> Self:  # fmt: skip
        """Learn from a database's columns, or from an array X (and y).

        A long fit shows its steps and the budget left on a terminal; progress=False does not,
        and a function is called after each step instead.
        """
        self._watch = progress
        try:
            if is_database(data):
                self._fit(data, self._columns(data, columns, label), label, self.budget)
                return self
            with self._opened(data, y) as (db, names, target):
                self._fit(db, names, target, db.budget.remaining)
        finally:
            del self._watch
        return self

    def _steps(self, db: Any, total: int) -> sulq.Steps:
        """What `progress` is told: with self._steps(db, 5) as steps, steps.step() after each."""
        return sulq.Steps(type(self).__name__, total, db, self._watch)

    def price(
        self, db: Any, columns: Sequence[str] | None = None, label: str | None = None
    ) -> sulq.Price:
        """The most that `fit(db, ...)` will charge. Nothing is spent."""
        return self._price(db, self._columns(db, columns, label), label, self.budget)

    @abstractmethod
    def _fit(self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any) -> None: ...

    @abstractmethod
    def _price(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> sulq.Price: ...

    def _columns(
        self, db: Any, columns: Sequence[str] | None, label: str | None
    ) -> tuple[str, ...]:
        """The columns asked for, or every number with declared bounds but the label and keys."""
        if isinstance(columns, str) or (columns is not None and not len(columns)):
            raise sulq.Refused(f"columns={columns!r}, want a list such as ['age', 'income'].")
        if columns is not None:
            return tuple(columns)
        return tuple(
            c.name
            for c in db.schema.columns
            if c.name != label and not c.key and (c.bounded or c.type == "boolean")
            and c.type in ("integer", "number", "boolean")
        )  # fmt: skip

    def _scale(self, db: Any, columns: tuple[str, ...]) -> None:
        """Remember the columns and their declared bounds."""
        low, width = bounds_of(db.schema, columns)
        self.columns_, self.low_, self.width_ = columns, low, width
        self.n_features_in_ = len(columns)

    def _unit(self, X: Any) -> Array:
        """Rows in own units -> rows in [0, 1], missing values in the middle."""
        self._check_fitted()
        rows = as_matrix(X)
        if rows.shape[1] != self.n_features_in_:
            raise sulq.Refused(
                f"X has {rows.shape[1]} columns, the model has {self.n_features_in_}: "
                f"{', '.join(self.columns_)}."
            )
        unit = (rows - self.low_) / self.width_
        return np.where(np.isnan(unit), 0.5, unit)

    def _own(self, unit: Array) -> Array:
        """Rows in [0, 1] -> rows in own units."""
        return np.asarray(self.low_ + unit * self.width_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            raise sulq.Refused(f"this {type(self).__name__} has learned nothing yet: call fit.")

    # --- arrays -------------------------------------------------------------------------

    @contextmanager
    def _opened(self, X: Any, y: Any) -> Iterator[tuple[Any, tuple[str, ...], str | None]]:
        """A database in memory that holds an array, under the constructor's promise."""
        if self.epsilon is None:
            raise sulq.Refused(
                f"{type(self).__name__}(epsilon=...): an array has no promise of its own. Give "
                "epsilon to the constructor, or fit on a database."
            )
        frame, declared = self._inputs(X)
        names = tuple(frame)
        target = self._target(y)
        if target is not None:
            frame[LABEL], declared[LABEL] = target
        with warnings.catch_warnings():
            # Each fit is one promise, made and spent here; the constructor states it.
            warnings.filterwarnings("ignore", message="the ledger is in memory")
            db = sulq.open(
                as_arrow(frame), {"columns": declared}, epsilon=self.epsilon, delta=self.delta,
                queries=ARRAY_QUERIES, guarantee=self.guarantee, ledger=":memory:",
            )  # fmt: skip
        with db:
            yield db, names, LABEL if target is not None else None

    def _inputs(self, X: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """X as columns x0, x1, ... and their declarations."""
        rows = as_matrix(X)
        names = [f"x{i}" for i in range(rows.shape[1])]
        low, high = np.broadcast_arrays(*each_bound(self.bounds), np.empty(len(names)))[:2]
        declared = {
            n: {"type": "number", "low": float(a), "high": float(b)}
            for n, a, b in zip(names, low, high, strict=True)
        }
        return dict(zip(names, rows.T, strict=True)), declared

    def _target(self, y: Any) -> tuple[Any, dict[str, Any]] | None:
        """y as a column and its declaration; None where a learner has no use for it."""
        return None

    # --- parameters, as scikit-learn wants them -----------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters]

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
            classifier_tags=utils.ClassifierTags() if kind == "classifier" else None,
            regressor_tags=utils.RegressorTags() if kind == "regressor" else None,
            input_tags=utils.InputTags(allow_nan=True),
        )

    def summary(self) -> str:
        """What was learned, in words."""
        self._check_fitted()
        return str(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not same(value, defaults[name].default)
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


# --- the database, seen from here --------------------------------------------------------


def is_database(data: Any) -> bool:
    """Something that answers queries, here or over a wire."""
    return hasattr(data, "ask") and hasattr(data, "price")


def bounds_of(schema: Any, columns: Sequence[str]) -> tuple[Array, Array]:
    """Low ends and widths; a Boolean is 0 or 1."""
    low, width = [], []
    for name in columns:
        column = schema.get(name)
        if column is None:
            raise sulq.QueryNotAllowed(f"columns: there is no column {name!r}.")
        boolean = column.type == "boolean"
        if not boolean and not (column.type in ("integer", "number") and column.bounded):
            raise sulq.QueryNotAllowed(
                f"columns: {name!r} is not a number with declared low and high."
            )
        low.append(0.0 if boolean else float(column.low))
        width.append(1.0 if boolean else float(column.high) - float(column.low))
    return np.array(low), np.array(width)


def within(db: Any, query: sulq.Query, queries: Any) -> sulq.Query:
    """The query, asked as exactly as so many queries allow; None: at the database's own noise."""
    return all_within(db, [query], queries)[0]


def all_within(db: Any, asked: Sequence[sulq.Query], queries: Any) -> list[sulq.Query]:
    """The same for several: each with the same part more or less noise than it has by itself."""
    if queries is None:
        return list(asked)
    if isinstance(queries, bool) or not MICRO * queries >= 1:
        raise sulq.Refused(f"budget={queries!r}, want at least a millionth of a query a step.")
    natural = [db.price(query) for query in asked]
    rounded = min(Fraction(len(asked), MICRO), Fraction(queries) / 2)  # micro-queries, up
    ratio = float(sum(price.queries for price in natural) / (Fraction(queries) - rounded))
    # Price goes as 1/error^2 for gaussian noise, as 1/error for laplace.
    wider, more = ratio ** (1.0 if db.promise.noise == "laplace" else 0.5), 1e-12
    while True:
        out = [
            replace(query, error=Fraction(max(price.half_widths) * wider))
            for query, price in zip(asked, natural, strict=True)
        ]
        if sum(db.price(query).queries for query in out) <= queries:
            return out
        wider, more = wider * (1 + more), 4 * more  # by a last digit


def check_budget(db: Any, price: sulq.Price) -> None:
    """Refuse before the first query what the budget cannot pay to the end."""
    remaining = int(db.budget.remaining * MICRO)
    if price.micro > remaining:
        raise sulq.BudgetExceeded(price.micro, remaining, getattr(db, "name", ""))


# --- plain values ------------------------------------------------------------------------


def as_matrix(X: Any) -> Array:
    """Rows as a 2-D float array."""
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise sulq.Refused("X: want a 2-D array of numbers.") from None
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise sulq.Refused(f"X has shape {rows.shape}, want rows x columns.")
    return rows


def as_arrow(frame: dict[str, Any]) -> Any:
    """Columns as an Arrow table; NaN is a missing value."""
    import pyarrow as pa

    return pa.table({name: pa.array(column, from_pandas=True) for name, column in frame.items()})


def each_bound(bounds: Any) -> tuple[Array, Array]:
    """(low, high): two numbers, or two lists with one number per column."""
    try:
        low, high = (np.asarray(end, dtype=np.float64) for end in bounds)
    except (TypeError, ValueError):
        raise sulq.Refused(f"bounds={bounds!r}, want (low, high).") from None
    if not np.all(low < high):
        raise sulq.Refused(f"bounds={bounds!r}, want low < high. They come from knowledge, not X.")
    return low, high


def same(a: Any, b: Any) -> bool:
    """Equal, for arrays too."""
    return a is b or (type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b))


def to_plain(value: Any) -> Any:
    """Arrays as {"array": [...]}, tuples as lists, numpy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise sulq.Refused(f"{value!r} has no JSON form.")


def from_plain(value: Any) -> Any:
    """The inverse; lists come back as tuples."""
    if isinstance(value, dict):
        return np.array(value.get("array"))
    return tuple(from_plain(v) for v in value) if isinstance(value, list) else value
