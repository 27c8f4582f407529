"""sulq learn: models from noisy sums, priced before they are paid, written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Json, Yes, command, confirm, emit, looked_at, note, opened
from sulq.config import Settings
from sulq.errors import MICRO, Refused, in_queries

if TYPE_CHECKING:
    from sulq import Database, Price
    from sulq.learn import Learner

PANEL = "Learning"
MODEL = ".json"

Columns = Annotated[
    list[str] | None, typer.Option("--columns", help="Which columns: age,income; by default all.")
]
Label = Annotated[str | None, typer.Option("--label", help="The column to learn from the others.")]
Budget = Annotated[
    float | None, typer.Option("--budget", help="Queries to spend; by default at usual noise.")
]
Out = Annotated[Path | None, typer.Option("--out", help="The file for the model: model.json.")]
PriceOnly = Annotated[bool, typer.Option("--price", help="Only say the price. Nothing is spent.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Also draw it: out.svg or out.png.")]
RowNorm = Annotated[
    float | None, typer.Option("--row-norm", help="Clip rows to this distance from the middle.")
]
Components = Annotated[
    int | None, typer.Option("--n-components", min=1, help="How many; by default all.")
]
Scaled = Annotated[
    bool, typer.Option("--scaled/--no-scaled", help="Columns scaled by their bounds, or as is.")
]
Clusters = Annotated[int, typer.Option("--n-clusters", min=1, help="How many clusters.")]
Steps = Annotated[int, typer.Option("--max-iter", min=1, help="The most steps, or rounds.")]
Seed = Annotated[int, typer.Option("--random-state", help="Seeds the public start, not noise.")]
Depth = Annotated[int, typer.Option("--max-depth", min=1, help="The deepest that a leaf may be.")]
Bins = Annotated[int, typer.Option("--bins", min=1, help="For numbers without declared bins.")]
Prune = Annotated[
    bool, typer.Option("--prune/--no-prune", help="Take away what noise alone could have made.")
]
Alpha = Annotated[
    float | None, typer.Option("--alpha", help="The ridge; by default what the noise asks for.")
]
MaxError = Annotated[float, typer.Option("--max-error", help="The share of rows it may get wrong.")]
Beta = Annotated[float, typer.Option("--beta", help="Except with this probability.")]
Flipped = Annotated[float, typer.Option("--label-noise", help="The known share of false labels.")]


@dataclass(frozen=True, slots=True)
class Fitting:
    """What every kind of model is told."""

    columns: list[str] | None
    label: str | None
    budget: float | None
    out: Path | None
    price: bool
    yes: bool


def fitting_from(
    columns: Columns = None, label: Label = None, budget: Budget = None, out: Out = None,
    price: PriceOnly = False, yes: Yes = False,
) -> Fitting:  # fmt: skip
    """The options that all of them share; columns may stand between commas."""
    names = [name.strip() for part in columns or () for name in part.split(",")]
    return Fitting(names or None, label, budget, out, price, yes)


def add(app: typer.Typer) -> None:
    """Add `sulq learn` to the app."""
    learn = typer.Typer(no_args_is_help=True, help="Learn a model from noisy sums.")
    for name, function in KINDS.items():
        command(learn, name, fitting=fitting_from)(function)
    app.add_typer(learn, name="learn", rich_help_panel=PANEL)


# ---- kinds ----------------------------------------------------------------------------------


def pca(
    settings: Settings, fitting: Fitting, n_components: Components = None,
    row_norm: RowNorm = None, scaled: Scaled = True, plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Directions along which rows vary: principal components, from one query.

    Example: sulq learn pca --columns age,income --out pca.json
    """
    params = {"n_components": n_components, "row_norm": row_norm, "scaled": scaled}
    _learn(settings, fitting, "PCA", params, as_json, plot)


def svd(
    settings: Settings, fitting: Fitting, n_components: Components = None,
    row_norm: RowNorm = None, scaled: Scaled = True, plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The same about zero instead of the mean: singular vectors, from one query.

    Example: sulq learn svd --columns age,income --out svd.json
    """
    params = {"n_components": n_components, "row_norm": row_norm, "scaled": scaled}
    _learn(settings, fitting, "SVD", params, as_json, plot)


def kmeans(
    settings: Settings, fitting: Fitting, n_clusters: Clusters = 8, max_iter: Steps = 5,
    row_norm: RowNorm = None, random_state: Seed = 0, plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Groups of rows near each other. A picture of them asks one more query.

    Example: sulq learn kmeans --columns age,income --n-clusters 3 --budget 200 --out groups.json
    """
    params = {
        "n_clusters": n_clusters, "max_iter": max_iter, "row_norm": row_norm,
        "random_state": random_state,
    }  # fmt: skip
    _learn(settings, fitting, "KMeans", params, as_json, plot)


def perceptron(
    settings: Settings, fitting: Fitting, max_iter: Steps = 20, row_norm: RowNorm = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """A linear threshold between classes, from rounds of noisy sums.

    Example: sulq learn perceptron --columns age,income --label smoker --out smokers.json
    """
    params = {"max_iter": max_iter, "row_norm": row_norm}
    _learn(settings, fitting, "Perceptron", params, as_json)


def id3(
    settings: Settings, fitting: Fitting, max_depth: Depth = 3, bins: Bins = 4,
    prune: Prune = True, plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """A decision tree of categories and bins, a few histograms per level.

    Example: sulq learn id3 --columns age,region --label smoker --out tree.json
    """
    params = {"max_depth": max_depth, "bins": bins, "prune": prune}
    _learn(settings, fitting, "ID3", params, as_json, plot)


def naive_bayes(settings: Settings, fitting: Fitting, as_json: Json = False) -> None:
    """Classes from each column by itself, from one query.

    Example: sulq learn naive-bayes --columns age,region --label smoker --out bayes.json
    """
    _learn(settings, fitting, "NaiveBayes", {}, as_json)


def regression(
    settings: Settings, fitting: Fitting, alpha: Alpha = None, row_norm: RowNorm = None,
    plot: Plot = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Least squares from one query, with what noise may do to each coefficient.

    Example: sulq learn regression --columns age,smoker --label income --out income.json
    """
    params = {"alpha": alpha, "row_norm": row_norm}
    _learn(settings, fitting, "LinearRegression", params, as_json, plot)


def conjunction(
    settings: Settings, fitting: Fitting, max_error: MaxError = 0.05, beta: Beta = 0.05,
    label_noise: Flipped = 0.0, as_json: Json = False,
) -> None:  # fmt: skip
    """The conjunction that a label is, from one statistical query per literal.

    Example: sulq learn conjunction --columns smoker,region --label disease --out rule.json
    """
    params = {"max_error": max_error, "beta": beta, "label_noise": label_noise}
    _learn(settings, fitting, "ConjunctionLearner", params, as_json)


KINDS = {
    "pca": pca,
    "svd": svd,
    "kmeans": kmeans,
    "perceptron": perceptron,
    "id3": id3,
    "naive-bayes": naive_bayes,
    "regression": regression,
    "conjunction": conjunction,
}


# ---- price, pay, write ----------------------------------------------------------------------


def _learn(
    settings: Settings, fitting: Fitting, kind: str, params: dict[str, Any], as_json: bool,
    plot: Path | None = None,
) -> None:  # fmt: skip
    """Say the price, ask whether to pay it, then fit and write the model."""
    from sulq import learn

    model: Learner = getattr(learn, kind)(**params, budget=fitting.budget)
    if fitting.price:
        with looked_at(settings) as db:
            price, left = _price(model, db, fitting, plot), db.budget
        body = {"price_micro": price.micro, "price_queries": str(price.queries)}
        emit(body, f"price at most {price}. Nothing was spent; {left}.", as_json)
        return
    out = _checked(fitting, plot)
    if not fitting.yes:
        with looked_at(settings) as db:
            asked = f"price at most {_price(model, db, fitting, plot)}; {db.budget}. Pay?"
        confirm(asked, fitting.yes, as_json)
    with opened(settings) as db:
        before = db.budget.remaining
        model.fit(db, columns=fitting.columns, label=fitting.label)
        model.save(out)
        if plot is not None:
            _draw(model, db, fitting, plot)
        after = db.budget.remaining
    _show(model, out, int((before - after) * MICRO), int(after * MICRO), as_json)
    if plot is not None:
        note(f"Drawn: {plot}")


def _show(model: Learner, out: Path, paid: int, left: int, as_json: bool) -> None:
    body = {
        "kind": type(model).__name__, "out": str(out), "summary": model.summary(),
        "price_micro": paid, "remaining_micro": left,
    }  # fmt: skip
    paid_text = f"price {in_queries(paid)}" if paid else "asked before: free"
    text = f"{model.summary()}\n{paid_text}, {in_queries(left).split()[0]} left"
    emit(body, text, as_json)
    note(f"Written: {out}")


def _checked(fitting: Fitting, plot: Path | None) -> Path:
    """Where the model goes, refused before anything is paid for."""
    from sulq import Picture

    out = fitting.out
    if out is None:
        raise Refused("where to? Say --out model.json, or --price to see the price only.")
    if out.suffix.lower() != MODEL or not out.parent.is_dir() or out.is_dir():
        raise Refused(f"out={str(out)!r}, want a .json file in a folder that exists.")
    if plot is not None:
        Picture.ready(plot)
    return out


def _price(model: Any, db: Database, fitting: Fitting, plot: Path | None) -> Price:
    price: Price = model.price(db, fitting.columns, fitting.label)
    if plot is not None and hasattr(model, "plot_price"):
        price += model.plot_price(db, _drawn_columns(fitting))
    return price


def _draw(model: Any, db: Database, fitting: Fitting, plot: Path) -> None:
    if hasattr(model, "plot_price"):  # a picture that asks
        model.plot(db, _drawn_columns(fitting), path=plot)
    else:
        model.plot(plot)


def _drawn_columns(fitting: Fitting) -> list[str]:
    if len(fitting.columns or ()) < 2:
        raise Refused("plot: say which --columns; the first two of them are drawn.")
    return (fitting.columns or [])[:2]
