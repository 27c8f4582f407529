"""Measures what each learner makes of real data at several epsilons, and draws it for its page.

    python docs/make_curves.py              all of them, a few minutes
    python docs/make_curves.py pca kmeans   some

Data and bounds are those of tests/learn/test_real.py. Each point is the median of RUNS fits, the
band from the second lowest to the second highest. A page holds its table between two marks, and
the figure beside it; both are written here and nowhere else.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

import sulq
from sulq.drawing.lines import Axis, Line, lines
from sulq.drawing.svg import SHEET
from sulq.learn import (
    ID3,
    LSI,
    AdditiveClassifier,
    AssociationRules,
    GaussianMixture,
    LinearSVM,
    LocallyWeightedRegression,
    LogisticRegression,
    NaiveBayes,
    RandomTrees,
    SpectralClustering,
)

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from learn import test_real as real  # noqa: E402

FOLDER = ROOT / "docs" / "howto" / "learn"
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RUNS = 11
BEGIN, END = "<!-- curve: docs/make_curves.py -->", "<!-- end of curve -->"


@dataclass(frozen=True, slots=True)
class Curve:
    """What is measured, on which data, and what the method has without noise."""

    measure: Callable[[float], float]
    what: str
    data: str
    exact: Callable[[], float] = lambda: 1.0


def without_noise(measure: Callable[[float], float]) -> Callable[[], float]:
    """The same without noise worth speaking of."""
    return lambda: measure(1e8)


def cancer(kind: Any) -> Callable[[float], float]:
    """The share of rows of the breast cancer set that a model classifies rightly."""

    def share(epsilon: float) -> float:
        X, y = datasets.load_breast_cancer(return_X_y=True)
        model = kind(epsilon=epsilon, guarantee="dp", bounds=real.CANCER, classes=[0, 1])
        return float(model.fit(X, y).score(X, y))

    return share


def exact_perceptron() -> float:
    """scikit-learn's perceptron on the same columns, scaled by the same bounds."""
    from sklearn.linear_model import Perceptron

    X, y = datasets.load_breast_cancer(return_X_y=True)
    low, high = map(np.array, real.CANCER)
    unit = (X - low) / (high - low)
    return float(Perceptron(random_state=0).fit(unit, y).score(unit, y))


def exact_regression() -> float:
    """Least squares without noise."""
    from sklearn.linear_model import LinearRegression

    X, y = datasets.load_diabetes(return_X_y=True)
    return float(LinearRegression().fit(X, y).score(X, y))


def exact_tree() -> float:
    """scikit-learn's tree of the same depth, which may cut anywhere and not at bins only."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = DecisionTreeClassifier(criterion="entropy", max_depth=3, random_state=0)
    return float(model.fit(X, y).score(X, y))


def bayes(epsilon: float) -> float:
    """The share of digits that are read rightly."""
    X, y = datasets.load_digits(return_X_y=True)
    model = NaiveBayes(epsilon=epsilon, guarantee="dp", bounds=real.DIGITS, classes=list(range(10)))
    return model.fit(X, y).score(X, y)


def exact_bayes() -> float:
    """scikit-learn's naive Bayes with normal distributions."""
    from sklearn.naive_bayes import GaussianNB

    X, y = datasets.load_digits(return_X_y=True)
    return float(GaussianNB().fit(X, y).score(X, y))


def synthetic(epsilon: float) -> float:
    """The mean total variation of synthetic pairs of columns from the real ones."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.synthetic import fitted, people, variations

    rows = people(10_000)
    model = fitted(rows.table, rows.schema, 0, epsilon)
    return float(np.mean(variations(model, rows.table, model.sample().to_arrow())))


def exact_logistic() -> float:
    """scikit-learn's, hardly regularised, on the same scaled columns."""
    from sklearn import linear_model

    X, y = datasets.load_breast_cancer(return_X_y=True)
    low, high = map(np.array, real.CANCER)
    unit = (X - low) / (high - low)
    return float(linear_model.LogisticRegression(C=1e4, max_iter=5000).fit(unit, y).score(unit, y))


def exact_svm() -> float:
    """scikit-learn's, with the same ridge on the same scaled columns."""
    from sklearn.svm import LinearSVC

    X, y = datasets.load_breast_cancer(return_X_y=True)
    low, high = map(np.array, real.CANCER)
    unit = (X - low) / (high - low) - 0.5
    made = LinearSVC(loss="hinge", C=1000 / len(X), max_iter=50_000, intercept_scaling=30)
    return float(made.fit(unit, y).score(unit, y))


def mixture(epsilon: float) -> float:
    """The mean logarithm of the density at the rows."""
    X = datasets.load_iris().data
    bounds = ([4, 2, 1, 0], [8, 4.5, 7, 2.5])
    made = GaussianMixture(
        3, covariance_type="diag", epsilon=epsilon, guarantee="dp", bounds=bounds
    )
    return made.fit(X).score(X)


def exact_mixture() -> float:
    """scikit-learn's."""
    from sklearn.mixture import GaussianMixture as Exact

    X = datasets.load_iris().data
    return float(Exact(3, covariance_type="diag", n_init=10, random_state=0).fit(X).score(X))


def local(epsilon: float) -> float:
    """R^2 of the disease's progression from the body mass index alone."""
    X, y = datasets.load_diabetes(return_X_y=True)
    made = LocallyWeightedRegression(
        epsilon=epsilon, guarantee="dp", bounds=(-0.2, 0.2), label_bounds=(0, 350)
    )
    return made.fit(X[:, [2]], y).score(X[:, [2]], y)


def lsi(epsilon: float) -> float:
    """Of the five pixels nearest to each, how many are those without noise."""
    near = [_nearest(e) for e in (epsilon, 1e10)]
    return float(np.mean([len(a & b) / 5 for a, b in zip(*near, strict=True)]))


def _nearest(epsilon: float) -> list[set[str]]:
    X = datasets.load_digits().data
    model = LSI(8, epsilon=epsilon, guarantee="dp", bounds=real.DIGITS).fit(X)
    return [{name for name, _ in model.terms_like(term, 5)} for term in model.columns_]


def spectral(epsilon: float) -> float:
    """How far ten groups of pictures are the ten digits: the adjusted Rand index."""
    from sklearn.metrics import adjusted_rand_score

    X, y = datasets.load_digits(return_X_y=True)
    made = SpectralClustering(10, epsilon=epsilon, guarantee="dp", bounds=real.DIGITS).fit(X)
    return float(adjusted_rand_score(y, made.predict(X)))


def rules(epsilon: float) -> float:
    """The F1 score of the rules found, against those without noise."""
    found, true = _rules(epsilon), _true_rules()
    return 2 * len(found & true) / max(len(found) + len(true), 1)


@cache
def _true_rules() -> set[str]:
    return _rules(1e8)


def _rules(epsilon: float) -> set[str]:
    sys.path.insert(0, str(ROOT))
    from benchmarks.synthetic import PROMISE, people

    rows = people(10_000)
    db = sulq.open(rows.table, {"columns": rows.schema}, epsilon=epsilon, **PROMISE)
    names = [name for name, said in rows.schema.items() if not said.get("bins")]
    return set(map(str, AssociationRules(budget=1000).fit(db, columns=names).rules()))


CURVES = {
    "pca": Curve(
        real.digits, "captured variance, as a share of exact PCA's",
        "digits, 1,797 x 64, 8 components",
    ),
    "kmeans": Curve(
        real.iris, "squared distances, over those of exact k-means", "iris, 150 x 4, 3 clusters"
    ),
    "perceptron": Curve(
        real.cancer, "share of rows classified rightly", "breast cancer, 569 x 30, 10 rounds",
        exact_perceptron,
    ),
    "regression": Curve(real.diabetes, "R²", "diabetes, 442 x 10", exact_regression),
    "additive": Curve(
        cancer(AdditiveClassifier), "share of rows classified rightly",
        "breast cancer, 569 x 30, 4 rounds", without_noise(cancer(AdditiveClassifier)),
    ),
    "logistic": Curve(
        cancer(LogisticRegression), "share of rows classified rightly",
        "breast cancer, 569 x 30, one round", exact_logistic,
    ),
    "svm": Curve(
        cancer(LinearSVM), "share of rows classified rightly",
        "breast cancer, 569 x 30, two rounds", exact_svm,
    ),
    "mixture": Curve(
        mixture, "mean log density of a row", "iris, 150 x 4, 3 components", exact_mixture
    ),
    "local-regression": Curve(local, "R²", "diabetes, 442 x 1", without_noise(local)),
    "lsi": Curve(
        lsi, "share of the five nearest terms found", "digits, 1,797 x 64, 8 components"
    ),
    "spectral-clustering": Curve(
        spectral, "adjusted Rand index against the digits", "digits, 1,797 x 64, 10 clusters",
        without_noise(spectral),
    ),
    "id3": Curve(
        cancer(ID3), "share of rows classified rightly", "breast cancer, 569 x 30, depth 3",
        exact_tree,
    ),
    "random-trees": Curve(
        cancer(RandomTrees), "share of rows classified rightly",
        "breast cancer, 569 x 30, 32 trees", without_noise(cancer(RandomTrees)),
    ),
    "naive-bayes": Curve(
        bayes, "share of rows classified rightly", "digits, 1,797 x 64, 10 classes", exact_bayes
    ),
    "synthesizer": Curve(
        synthetic, "total variation of pairs of columns", "made people, 10,000 x 12", lambda: 0.0
    ),
    "association-rules": Curve(
        rules, "F1 score of rules, against those without noise", "made people, 10,000 x 8"
    ),
}  # fmt: skip


def measured(curve: Curve) -> list[dict[str, float]]:
    """For every epsilon the median and the band."""
    rows = []
    for epsilon in EPSILONS:
        found = sorted(curve.measure(epsilon) for _ in range(RUNS))
        low, middle, high = found[1], found[RUNS // 2], found[-2]
        rows.append({"epsilon": epsilon, "low": low, "median": middle, "high": high})
    return rows


def table(curve: Curve, rows: list[dict[str, float]], exact: float) -> str:
    """The medians for a page."""
    head = " | ".join(f"{r['epsilon']:g}" for r in rows)
    numbers = " | ".join(f"{r['median']:.2f}" for r in rows)
    return (
        f"| epsilon | {head} | no noise |\n|---{'|---' * (len(rows) + 1)}|\n"
        f"| {curve.data} | {numbers} | {exact:.2f} |"
    )


def figure(curve: Curve, rows: list[dict[str, float]], exact: float) -> sulq.Picture:
    """Quality against epsilon, and a dashed line for the method without noise."""
    said = ", ".join(f"{r['median']:.2f} at {r['epsilon']:g}" for r in rows)

    ends = [r[k] for r in rows for k in ("low", "high")] + [exact]
    margin = 0.05 * (max(ends) - min(ends) or 1)
    title, words = f"{curve.what[:1].upper()}{curve.what[1:]}", f"{curve.what} on {curve.data}"
    text = f"{words}: {said}; {exact:.2f} without noise."
    median = Line([(r["epsilon"], r["median"]) for r in rows], dots=True,
                  band=[(r["low"], r["high"]) for r in rows])  # fmt: skip
    drawn = lines(
        "curve", title, text, [median],
        Axis(EPSILONS[0], EPSILONS[-1], log=True, marks=[(e, f"{e:g}") for e in EPSILONS],
             name="epsilon"),
        Axis(min(ends) - margin, max(ends) + margin), level=exact, width=SHEET, height=300.0,
        caption=f"{curve.data}; {RUNS} runs, median and 2nd to 10th; dashed: without noise.",
    )  # fmt: skip
    return sulq.Picture(text, [drawn])


def put(page: Path, block: str) -> None:
    """Put a block between the marks of a page."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not marked.search(text):
        raise SystemExit(f"{page.name} has no place for its curve: {BEGIN} ... {END}")
    page.write_text(marked.sub(lambda _: f"{BEGIN}\n\n{block}\n\n{END}", text), encoding="utf-8")


def main() -> None:
    """Measure, draw and write."""
    warnings.filterwarnings("ignore", message="epsilon=.* says little")
    for name in sys.argv[1:] or CURVES:
        curve = CURVES[name]
        rows, exact = measured(curve), curve.exact()
        figure(curve, rows, exact).save(FOLDER / f"{name}.svg")
        shown = f"![{curve.what}, against epsilon]({name}.svg)"
        put(FOLDER / f"{name}.md", f"{table(curve, rows, exact)}\n\n{shown}")
        print(name, *(f"{r['median']:.3f}" for r in rows), f"without noise {exact:.3f}")


if __name__ == "__main__":
    main()
