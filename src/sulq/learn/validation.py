"""What scikit-learn expects of whoever takes an array: its errors, names of columns, frames out.

scikit-learn need not be installed. Where it is loaded, its own kinds of error and warning are used
too. No message here depends on a row: only on shapes, types and names of columns.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

import numpy as np

import sulq

OUTPUTS = ("default", "pandas", "polars")


class InvalidData(sulq.Refused, ValueError):
    """An array that cannot be taken, by its shape, type or names."""


class NotFitted(sulq.Refused, ValueError, AttributeError):
    """A model was used before it learned anything."""


def not_fitted(name: str) -> NotFitted:
    """The error of a model that has learned nothing, scikit-learn's too where that is loaded."""
    known = sys.modules.get("sklearn.exceptions")
    kind = NotFitted if known is None else _both(known.NotFittedError)
    return kind(f"this {name} has learned nothing yet: call fit.")


@cache
def _both(theirs: type) -> type[NotFitted]:
    return type("NotFitted", (NotFitted, theirs), {"__module__": __name__})


def warn_of_column(what: str) -> None:
    """Say that a single column stands where one value a row was expected."""
    known = sys.modules.get("sklearn.exceptions")
    kind = UserWarning if known is None else known.DataConversionWarning
    said = f"A column-vector {what} was passed when a 1d array was expected; it is taken as one."
    warnings.warn(said, kind, stacklevel=5)


def refuse_sparse(values: Any) -> None:
    """Sparse arrays would be taken for one value."""
    if hasattr(values, "tocsr"):
        raise InvalidData("X: sparse arrays are not supported. Give X.toarray().")


def feature_names(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, if all have one."""
    names = getattr(X, "columns", None)
    found = tuple(names) if names is not None else ()
    return found if found and all(isinstance(name, str) for name in found) else None


def check_features(X: Any, name: str, width: int, columns: Sequence[str], known: Any) -> None:
    """Refuse rows of another number of columns than were learned from, or of other names."""
    refuse_sparse(X)
    if width != len(columns):
        raise InvalidData(
            f"X has {width} features, but {name} is expecting {len(columns)} features as input: "
            f"{', '.join(columns)}."
        )
    found = feature_names(X)
    if found is not None and known is not None and found != tuple(known):
        raise InvalidData(
            "The feature names should match those that were passed during fit, in their order: "
            f"{', '.join(known)}. X has {', '.join(found)}."
        )


class Transformer:
    """What a learner with `transform` shares: fit_transform, and frames out."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit an array and transform its rows: these are exact, not private."""
        model: Any = self
        return model.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Any:
        """pc1, pc2, ...: a name for each column that `transform` gives."""
        model: Any = self
        model._check_fitted()
        return np.array([f"pc{i + 1}" for i in range(model.n_components_)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` gives: "default" (an array), "pandas" or "polars"."""
        if transform is None:
            return self
        if transform not in OUTPUTS:
            raise InvalidData(f"transform={transform!r}, want one of {', '.join(OUTPUTS)}.")
        self._sklearn_output_config = {"transform": transform}  # where clone looks for it
        return self

    def _laid_out(self, values: Any, X: Any) -> Any:
        """An array, or a frame with the names of get_feature_names_out and the index of X."""
        sklearn = sys.modules.get("sklearn")
        usual = "default" if sklearn is None else sklearn.get_config()["transform_output"]
        how = getattr(self, "_sklearn_output_config", {}).get("transform", usual)
        if how == "default":
            return np.asarray(values)
        model: Any = self
        names = list(model.get_feature_names_out())
        try:
            if how == "pandas":
                import pandas as pd

                return pd.DataFrame(values, columns=names, index=getattr(X, "index", None))
            import polars as pl

            return pl.DataFrame(np.asarray(values), schema=names, orient="row")
        except ImportError:
            raise sulq.MissingExtra(f"{how} frames need: pip install 'sulq[{how}]'") from None
