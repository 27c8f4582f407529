"""fit(X, y): nothing that describes X or y is read off them. Twins differ in one row alone."""

import warnings

import numpy as np
import pandas as pd
import pytest

import sulq
from sulq.learn import (
    ID3,
    PCA,
    SVD,
    ConjunctionLearner,
    KMeans,
    LinearRegression,
    NaiveBayes,
    Perceptron,
)
from sulq.privacy.noise import SystemNoise

N = 400
BOUNDS = {"bounds": (0, 1)}
CLASSES = {"classes": ["no", "yes"]}
LEARNERS = {
    "PCA": (PCA, BOUNDS),
    "SVD": (SVD, BOUNDS),
    "KMeans": (KMeans, BOUNDS | {"n_clusters": 2, "max_iter": 2}),
    "Perceptron": (Perceptron, BOUNDS | CLASSES | {"max_iter": 2}),
    "NaiveBayes": (NaiveBayes, BOUNDS | CLASSES),
    "ID3": (ID3, BOUNDS | CLASSES | {"max_depth": 2}),
    "LinearRegression": (LinearRegression, BOUNDS | {"label_bounds": (0, 1)}),
    "ConjunctionLearner": (ConjunctionLearner, CLASSES),
}
ODD_CELLS = [
    "text",
    None,
    float("nan"),
    1e300,
    -5.0,
    float("inf"),
    True,
    "0.5",
    10**400,
    [1, 2],
    1j,
    -(10**400),
    b"1",
    "",
]
ODD_LABELS = ["hiv", None, float("nan"), 7, "", True, b"yes", ("yes",), 2.5, 10**400]


def rows(kind):
    """Rows as lists of Python values, and labels that the learner takes."""
    rng = np.random.default_rng(0)
    X = (rng.random((N, 3)) < 0.5).astype(float)
    y = [0.25 + 0.5 * v for v in X[:, 0]] if kind is LinearRegression else \
        [("no", "yes")[int(v)] for v in X[:, 0]]  # fmt: skip
    return X.tolist(), y


def outcome(kind, settings, X, y):
    """All that is seen of a fit but the numbers: shapes, names, prices, messages and warnings."""
    seen = []
    real = sulq.open

    def watched(*args, **given):
        db = real(*args, **given)
        ask = db.ask

        def asked(queries, **how):
            listed = queries if isinstance(queries, list) else [queries]
            seen.append([db.price(q).micro for q in listed])
            return ask(queries, **how)

        db.ask = asked
        return db

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patch.setattr(sulq, "open", watched)
        try:
            model = kind(epsilon=1e-3, **settings).fit(X, y)
        except Exception as error:
            return type(error).__name__, str(error), str(error.__context__)
    shapes = {name: shape(value) for name, value in vars(model).items()}
    classes = getattr(model, "classes_", np.array([]))
    prices = seen[:1]  # what comes after may depend on noise
    return shapes, classes.tolist(), str(classes.dtype), prices, [str(w.message) for w in told]


def shape(value):
    if isinstance(value, np.ndarray):
        return value.shape if value.dtype.kind != "O" else len(value)
    return type(value).__name__


def same(kind, one, two):
    """Equal; but how long a list of kept things is may be what noise made of it."""
    loose = {"small_clusters_", "small_classes_", "literals_", "node_columns_", "node_children_",
             "node_counts_", "node_stds_", "node_shares_"}  # fmt: skip
    if isinstance(one[0], dict) and isinstance(two[0], dict):
        one = ({k: v for k, v in one[0].items() if k not in loose}, *one[1:])
        two = ({k: v for k, v in two[0].items() if k not in loose}, *two[1:])
    return one == two


@pytest.mark.parametrize("name", LEARNERS)
def test_one_cell_of_x_changes_nothing_that_is_seen(name):
    """Text, missing, huge, nested or complex: the same outcome but for the numbers."""
    kind, settings = LEARNERS[name]
    X, y = rows(kind)
    plain = outcome(kind, settings, X, y)
    assert isinstance(plain[0], dict), plain
    for odd in ODD_CELLS:
        twin = [[odd, *X[0][1:]], *X[1:]]
        assert same(kind, outcome(kind, settings, twin, y), plain), odd


@pytest.mark.parametrize("name", [n for n in LEARNERS if n not in ("PCA", "SVD", "KMeans")])
def test_one_label_changes_nothing_that_is_seen(name):
    """One row labelled 'hiv' shows in no class, message, price or shape."""
    kind, settings = LEARNERS[name]
    X, y = rows(kind)
    plain = outcome(kind, settings, X, y)
    assert isinstance(plain[0], dict), plain
    for odd in ODD_LABELS:
        labels = np.empty(N, dtype=object)
        labels[:] = y
        labels[3] = odd
        assert same(kind, outcome(kind, settings, X, labels), plain), odd
        assert same(kind, outcome(kind, settings, X, labels.tolist()), plain), odd


def test_the_harness_sees_a_class_that_is_read_off_y():
    """The control: classes taken from y, as release 1 did, differ on twins."""
    X, y = rows(Perceptron)

    def careless(labels):
        return outcome(Perceptron, BOUNDS | {"classes": sorted(set(labels))}, X, labels)

    assert careless(y) != careless(["hiv", *y[1:]])


@pytest.mark.parametrize("kind", [Perceptron, NaiveBayes, ID3, ConjunctionLearner])
def test_classes_are_given_or_the_type_is_boolean(kind):
    """Zeros and ones are Booleans to nobody: the array's type decides, or classes= does."""
    X, y = rows(kind)
    more = {} if kind is ConjunctionLearner else BOUNDS
    flags = np.array([label == "yes" for label in y])
    for given in (y, flags.astype(int), flags.astype(float), flags.tolist(), flags.astype(object)):
        with pytest.raises(sulq.Refused, match=r"classes=\['no', 'yes'\].*Nothing was charged"):
            kind(epsilon=1.0, **more).fit(X, given)
    assert kind(epsilon=1.0, **more).fit(X, flags).classes_.tolist() == [False, True]
    whole = kind(epsilon=1.0, classes=[0, 1], **more).fit(X, flags.astype(int))
    assert whole.classes_.tolist() == [0, 1]
    floats = kind(epsilon=1.0, classes=np.array([0.0, 1.0]), **more).fit(X, flags.astype(float))
    assert floats.classes_.tolist() == [0, 1]
    for wrong in (["no"], ["no", "no"], "no", 3, ["no", 1], [0.5, 1.5], [None, "a"]):
        with pytest.raises(sulq.Refused, match="want two or more different"):
            kind(epsilon=1.0, classes=wrong, **more).fit(X, y)


@pytest.mark.parametrize("kind", [PCA, SVD, KMeans, Perceptron, NaiveBayes, ID3, LinearRegression])
def test_bounds_are_given_or_the_type_is_boolean(kind):
    """A default would clamp silently: without bounds= only an array of Booleans is taken."""
    X, _ = rows(kind)
    flags = np.array(X) == 1
    y = flags[:, 0]
    with pytest.raises(sulq.Refused, match=r"bounds=\(0, 120\).*Nothing was charged"):
        kind(epsilon=1.0).fit(X, y)
    assert kind(epsilon=1.0).fit(flags, y).columns_ == ("x0", "x1", "x2")
    with pytest.raises(sulq.Refused, match="two lists of 3"):
        kind(epsilon=1.0, bounds=([0, 0], [1, 1])).fit(X, y)
    with pytest.raises(sulq.Refused, match="low < high"):
        kind(epsilon=1.0, bounds=(0, float("inf"))).fit(X, y)


def test_label_bounds_are_given_or_y_is_boolean():
    """y of 20 to 60 is not clamped to [0, 1] by a default nobody gave."""
    x = np.linspace(0, 1, 4000)
    y = 20 + 40 * x
    model = LinearRegression(epsilon=10.0, bounds=(0, 1))
    with pytest.raises(sulq.Refused, match=r"label_bounds=\(0, 100\).*Nothing was charged"):
        model.fit(x[:, None], y)
    model.set_params(label_bounds=(0, 100)).fit(x[:, None], y)
    assert model.coef_[0] == pytest.approx(40, abs=6 * model.coef_std_[0])
    share = LinearRegression(epsilon=10.0, bounds=(0, 1)).fit(x[:, None], x > 0.5)
    assert share.coef_[0] == pytest.approx(1.5, abs=0.1)


def test_x_and_y_are_of_one_length():
    """How many rows there are is public, and must agree."""
    X, y = rows(Perceptron)
    with pytest.raises(sulq.Refused, match=f"X has {N} rows and y {N - 1}"):
        Perceptron(epsilon=1.0, **BOUNDS, **CLASSES).fit(X, y[1:])


def ways(X):
    """The same rows in other orders and types of memory."""
    return {"Fortran": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}


@pytest.mark.parametrize("kind", [PCA, KMeans, LinearRegression, Perceptron])
def test_how_an_array_lies_in_memory_changes_nothing(kind, monkeypatch):
    """With silent noise the same model comes out, also of a frame and of float32."""
    from helpers import SilentNoise

    monkeypatch.setattr(SystemNoise, "draw", SilentNoise.draw)
    rng = np.random.default_rng(0)
    X = rng.random((3000, 5)).astype(np.float32).astype(np.float64)
    y = X[:, 0] + 0.1 * X[:, 1] > 0.6
    settings = {PCA: {}, KMeans: {"n_clusters": 3}}.get(kind, {})
    model = kind(epsilon=1.0, bounds=(0, 1), **settings)
    want = model.fit(X, y).to_json()["learned"]
    others = {**ways(X), "float32": X.astype(np.float32), "frame": pd.DataFrame(X)}
    for name, other in others.items():
        assert model.fit(other, y).to_json()["learned"] == want, name
