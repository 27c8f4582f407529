"""scikit-learn's own checks of estimators, at a promise that hardly adds noise.

Noise has a least size, so that no epsilon makes two fits equal to the last digit. Each check that
noise, declared classes or the silence about rows contradicts is listed with its reason; the others
pass. docs/howto/learn/README.md has the counts. `make test` runs a fifth of them, `make soak` all.
"""

from __future__ import annotations

import re
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from soak import SOAK

import sulq
from sulq.learn import (
    ID3,
    LSI,
    PCA,
    SVD,
    AdditiveClassifier,
    AdditiveRegressor,
    ConjunctionLearner,
    GaussianMixture,
    KMeans,
    LinearRegression,
    LinearSVM,
    LocallyWeightedRegression,
    LogisticRegression,
    NaiveBayes,
    Perceptron,
    RandomTrees,
    SpectralClustering,
)

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "learn" / "README.md"
GIVEN = {"epsilon": 1e10, "bounds": (-10, 10)}
CLASSES = GIVEN | {"classes": [0, 1, 2]}
ESTIMATORS = [
    LSI(2, **GIVEN), PCA(2, **GIVEN), SVD(2, **GIVEN), KMeans(3, **GIVEN), Perceptron(**CLASSES),
    ID3(bins=5, max_depth=1, **CLASSES), NaiveBayes(**CLASSES),
    LinearRegression(label_bounds=(-200, 200), epsilon=1e10, bounds=(-4, 4)),
    ConjunctionLearner(epsilon=1e10, classes=[0, 1]),
    LogisticRegression(epsilon=1e10, bounds=(-10, 10), classes=[0, 1]),
    AdditiveClassifier(max_iter=2, epsilon=1e10, bounds=(-10, 10), classes=[0, 1]),
    AdditiveRegressor(max_iter=2, label_bounds=(-5, 5), bins=4, epsilon=1e10, bounds=(-4, 4)),
    LinearSVM(epsilon=1e10, bounds=(-10, 10), classes=[0, 1]),
    GaussianMixture(2, max_iter=1, covariance_type="diag", **GIVEN),
    LocallyWeightedRegression(
        bandwidth=4, bins=2, label_bounds=(-200, 200), epsilon=1e10, bounds=(-1.6, 1.6)
    ),
    RandomTrees(n_estimators=3, max_depth=3, **CLASSES), SpectralClustering(2, **GIVEN),
]  # fmt: skip

# Checks with dozens of columns or hundreds of predictions, each with the noise of its own.
LONG = {
    ("LocallyWeightedRegression", name)
    for name in ("check_dtype_object", "check_regressors_train", "check_regressors_int",
                 "check_regressor_data_not_an_array", "check_fit2d_1sample")
}  # fmt: skip

# Why a check cannot pass.
TWICE = "two fits draw two noises, and it wants one model from both"
CELL = "a cell that is no number is missing: no error may come from one row"
LABEL = "a label that was not declared is missing: no error may come from one row"
DECLARED = "classes are declared, never read off y; it has other ones than the constructor"
SIDE = "it has rows with missing values predicted, which are on neither side of a threshold"
BOOLEAN = "it gives numbers, and a conjunction is of Booleans"

ALL = {"check_dtype_object": CELL, "check_fit_idempotent": TWICE}
TRANSFORMS = ALL | {"check_pipeline_consistency": TWICE, "check_transformer_general": TWICE,
                    "check_transformer_data_not_an_array": TWICE}  # fmt: skip
CLASSIFIES = ALL | {
    "check_classifiers_regression_target": LABEL, "check_supervised_y_no_nan": LABEL,
    "check_classifiers_classes": DECLARED, "check_classifiers_train": DECLARED,
    "check_classifier_data_not_an_array": TWICE, "check_supervised_y_2d": TWICE,
}  # fmt: skip
EXPECTED = {
    "PCA": TRANSFORMS,
    "LSI": TRANSFORMS,
    "SVD": TRANSFORMS,
    "KMeans": TRANSFORMS,
    "SpectralClustering": TRANSFORMS,
    "Perceptron": CLASSIFIES | {"check_estimators_pickle": SIDE},
    "ID3": CLASSIFIES,
    "LogisticRegression": {
        name: why for name, why in CLASSIFIES.items() if name != "check_classifiers_train"
    } | {"check_classifier_not_supporting_multiclass": LABEL, "check_estimators_pickle": SIDE},
    "LinearSVM": {
        name: why for name, why in CLASSIFIES.items() if name != "check_classifiers_train"
    } | {"check_classifier_not_supporting_multiclass": LABEL, "check_estimators_pickle": SIDE},
    "AdditiveClassifier": {
        name: why for name, why in CLASSIFIES.items() if name != "check_classifiers_train"
    } | {"check_classifier_not_supporting_multiclass": LABEL},
    "AdditiveRegressor": ALL | {
        "check_supervised_y_no_nan": LABEL, "check_regressor_data_not_an_array": TWICE,
        "check_supervised_y_2d": TWICE, "check_regressors_int": TWICE,
    },
    "LocallyWeightedRegression": ALL | {
        "check_supervised_y_no_nan": LABEL, "check_regressor_data_not_an_array": TWICE,
        "check_supervised_y_2d": TWICE, "check_regressors_int": TWICE,
    },
    "NaiveBayes": CLASSIFIES,
    "GaussianMixture": ALL,
    "RandomTrees": CLASSIFIES,
    "LinearRegression": ALL | {
        "check_supervised_y_no_nan": LABEL, "check_regressor_data_not_an_array": TWICE,
        "check_supervised_y_2d": TWICE, "check_regressors_int": TWICE,
    },
    "ConjunctionLearner": CLASSIFIES | dict.fromkeys((
        "check_fit_score_takes_y", "check_estimators_dtypes", "check_dtype_object",
        "check_pipeline_consistency", "check_estimators_pickle", "check_fit_idempotent",
        "check_f_contiguous_array_estimator", "check_classifier_data_not_an_array",
        "check_classifiers_one_label", "check_classifiers_classes", "check_classifiers_train",
        "check_supervised_y_2d", "check_methods_sample_order_invariance",
        "check_methods_subset_invariance", "check_dict_unchanged",
    ), BOOLEAN),
}  # fmt: skip


def expected(estimator):
    return EXPECTED[type(estimator).__name__]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
def test_checks(estimator, check):
    """Every check passes, or is listed with why it cannot. Two noises may agree by luck."""
    if not SOAK and _in_soak(type(estimator).__name__, _name(check)):
        pytest.skip("takes long: make soak")
    check(estimator)
    if expected(estimator).get(_name(check)) == TWICE:
        pytest.xfail(TWICE)


def test_the_page_has_the_counts():
    """Checks, and how many of them are listed, of each estimator."""
    text = PAGE.read_text(encoding="utf-8")
    for estimator in ESTIMATORS:
        name = type(estimator).__name__
        ran = [_name(check) for _, check in estimator_checks_generator(estimator)]
        listed = [name for name in ran if name in expected(estimator)]
        row = re.search(rf"^\| {name} \| (\d+) \| (\d+) \|", text, re.MULTILINE)
        assert row is not None, name
        assert [int(x) for x in row.groups()] == [len(ran) - len(listed), len(listed)], name


def _name(check):
    return getattr(check, "func", check).__name__


def _in_soak(estimator, check):
    """Of each estimator's checks `make test` runs a fifth, always the same ones."""
    return (estimator, check) in LONG or crc32(f"{estimator} {check}".encode()) % 5 > 0


# --- what the checks leave out ---------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.random((300, 3)), columns=["a", "b", "c"], index=range(7, 307))


def test_an_unfitted_model_raises_both_libraries_errors():
    """NotFittedError is one of ours that charged nothing."""
    for estimator in ESTIMATORS:
        with pytest.raises(NotFittedError, match="has learned nothing yet") as caught:
            sklearn.clone(estimator).summary()
        assert isinstance(caught.value, sulq.Refused)
        assert caught.value.charged is False


def test_names_of_columns_are_held_to(frame):
    """The same names in the same order; rows without names are taken as they stand."""
    model = LinearRegression(epsilon=1e10, bounds=(0, 1), label_bounds=(0, 1)).fit(
        frame, frame["a"]
    )
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.allclose(model.predict(frame), model.predict(frame.to_numpy()))
    for wrong in (frame[["b", "a", "c"]], frame.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(wrong)
    with pytest.raises(ValueError, match="X has 2 features, but LinearRegression is expecting 3"):
        model.predict(frame[["a", "b"]])
    again = type(model).from_json(model.to_json())
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[["b", "a", "c"]])
    model.fit(frame.to_numpy(), frame["a"])
    assert not hasattr(model, "feature_names_in_")


def test_a_model_of_a_database_knows_its_columns(frame):
    """It predicts from frames by the names it was fitted on."""
    number = {"type": "number", "low": 0.0, "high": 1.0}
    db = sulq.open(
        frame, {"columns": dict.fromkeys("abc", number)}, epsilon=1.0, queries=10, ledger=":memory:"
    )
    model = KMeans(2, max_iter=1, budget=5).fit(db, columns=["a", "c"])
    assert model.predict(frame[["a", "c"]]).shape == (300,)
    with pytest.raises(ValueError, match=r"in their order: a, c\. X has c, a"):
        model.predict(frame[["c", "a"]])


def test_frames_come_out_where_asked_for(frame):
    """set_output, by itself, after clone, in a pipeline and by the library's own setting."""
    model = PCA(2, epsilon=1e10, bounds=(0, 1)).set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert list(out.columns) == ["pc1", "pc2"]
    assert out.index.tolist() == frame.index.tolist()
    assert isinstance(sklearn.clone(model).fit(frame).transform(frame), pd.DataFrame)
    plain = model.set_output(transform="default").transform(frame)
    assert isinstance(plain, np.ndarray)
    assert np.array_equal(plain, out)
    groups = KMeans(2, epsilon=1e10, bounds=(0, 1)).set_output(transform="polars")
    assert groups.fit_transform(frame).columns == ["kmeans0", "kmeans1"]
    assert isinstance(groups.transform(frame), pl.DataFrame)
    steps = make_pipeline(PCA(2, epsilon=1e10, bounds=(0, 1))).set_output(transform="pandas")
    assert isinstance(steps.fit_transform(frame), pd.DataFrame)
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(
            sklearn.clone(groups).set_output().fit(frame).transform(frame), pl.DataFrame
        )
        assert isinstance(PCA(epsilon=9.0, bounds=(0, 1)).fit_transform(frame), pd.DataFrame)
    with pytest.raises(ValueError, match="want one of default, pandas, polars"):
        model.set_output(transform="csv")


def test_a_column_of_labels_is_taken_with_a_warning(frame):
    """y of one column is flattened, as scikit-learn does."""
    model = LinearRegression(epsilon=1e10, bounds=(0, 1), label_bounds=(0, 1))
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model.fit(frame, frame[["a"]].to_numpy())
