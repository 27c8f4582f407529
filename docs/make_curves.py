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
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

import sulq
from sulq.learn import ID3, NaiveBayes

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from learn import test_real as real  # noqa: E402

FOLDER = ROOT / "docs" / "howto" / "learn"
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RUNS = 11
BLUE, GREY = "#4c78a8", "#8a8a8a"
BEGIN, END = "<!-- curve: docs/make_curves.py -->", "<!-- end of curve -->"


@dataclass(frozen=True, slots=True)
class Curve:
    """What is measured, on which data, and what the method has without noise."""

    measure: Callable[[float], float]
    what: str
    data: str
    exact: Callable[[], float] = lambda: 1.0


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


def tree(epsilon: float) -> float:
    """The share of rows that a tree of depth 3 classifies rightly."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = ID3(epsilon=epsilon, guarantee="dp", bounds=real.CANCER)
    return model.fit(X, y).score(X, y)


def exact_tree() -> float:
    """scikit-learn's tree of the same depth, which may cut anywhere and not at bins only."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = DecisionTreeClassifier(criterion="entropy", max_depth=3, random_state=0)
    return float(model.fit(X, y).score(X, y))


def bayes(epsilon: float) -> float:
    """The share of digits that are read rightly."""
    X, y = datasets.load_digits(return_X_y=True)
    model = NaiveBayes(epsilon=epsilon, guarantee="dp", bounds=real.DIGITS)
    return model.fit(X, y).score(X, y)


def exact_bayes() -> float:
    """scikit-learn's naive Bayes with normal distributions."""
    from sklearn.naive_bayes import GaussianNB

    X, y = datasets.load_digits(return_X_y=True)
    return float(GaussianNB().fit(X, y).score(X, y))


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
    "id3": Curve(
        tree, "share of rows classified rightly", "breast cancer, 569 x 30, depth 3", exact_tree
    ),
    "naive-bayes": Curve(
        bayes, "share of rows classified rightly", "digits, 1,797 x 64, 10 classes", exact_bayes
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

    def draw(alt: Any) -> Any:
        across = alt.Scale(type="log", domain=[EPSILONS[0], EPSILONS[-1]], nice=False)
        base = alt.Chart(alt.Data(values=rows)).encode(
            x=alt.X("epsilon:Q", scale=across, axis=alt.Axis(values=list(EPSILONS), format="~g"))
        )
        ends = [r[k] for r in rows for k in ("low", "high")] + [exact]
        scale = alt.Scale(zero=False, domain=[min(ends), max(ends)], nice=True)
        y = alt.Y("median:Q", scale=scale, title=None)
        band = base.mark_area(color=BLUE, opacity=0.2).encode(
            y=alt.Y("low:Q", scale=scale, title=None), y2="high:Q"
        )
        line = base.mark_line(color=BLUE, strokeWidth=2.5).encode(y=y)
        dots = base.mark_point(color=BLUE, filled=True, size=55).encode(y=y)
        rule = (
            alt.Chart(alt.Data(values=[{}]))
            .mark_rule(color=GREY, strokeDash=[6, 4])
            .encode(y=alt.datum(exact))
        )
        heading = alt.Title(
            curve.what[:1].upper() + curve.what[1:],
            subtitle=f"{curve.data}; {RUNS} runs, median and 2nd to 10th; dashed: without noise",
        )
        return alt.layer(band, rule, line, dots).properties(title=heading, width=520, height=260)

    return sulq.Picture(f"{curve.what} on {curve.data}: {said}; {exact:.2f} without noise.", draw)


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
