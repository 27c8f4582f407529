"""`sulq learn` and `sulq predict`, as an analyst types them."""

from __future__ import annotations

import csv
import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.calls import run, run_json

import sulq
from sulq import learn

SCHEMA = """\
[columns.age]
type = "integer"
low = 0
high = 120
nullable = false
[columns.income]
type = "number"
low = 0
high = 100000
nullable = false
[columns.region]
values = ["north", "south", "east"]
public = true
[columns.smoker]
type = "boolean"
nullable = false
[columns.sick]
type = "boolean"
nullable = false
"""
SETTINGS = """\
source = "people.parquet"
schema = "people.toml"
epsilon = 20.0
queries = 10000
"""
ROWS = 4000
NUMBERS = ("--columns", "age,income")
OPTIONS = {
    "pca": NUMBERS,
    "svd": NUMBERS,
    "kmeans": (*NUMBERS, "--n-clusters", "2", "--max-iter", "2"),
    "perceptron": (*NUMBERS, "--label", "smoker", "--max-iter", "3"),
    "id3": ("--columns", "age,region", "--label", "smoker"),
    "naive-bayes": ("--columns", "age,region", "--label", "smoker"),
    "random-trees": ("--columns", "age,region", "--label", "smoker", "--n-estimators", "4"),
    "linear-svm": (*NUMBERS, "--label", "smoker"),
    "gaussian-mixture": (*NUMBERS, "--n-components", "2", "--max-iter", "1"),
    "local-regression": ("--columns", "age", "--label", "income"),
    "lsi": NUMBERS,
    "spectral-clustering": (*NUMBERS, "--n-clusters", "2", "--max-iter", "2"),
    "logistic-regression": (*NUMBERS, "--label", "smoker"),
    "additive-classifier": (
        "--columns", "age,region", "--label", "smoker", "--pairs", "age*region", "--max-iter", "2",
    ),
    "additive-regressor": ("--columns", "age", "--label", "income", "--max-iter", "2"),
    "regression": ("--columns", "age", "--label", "income"),
    "conjunction": (
        "--columns", "smoker", "--columns", "region", "--label", "sick", "--max-error", "0.4",
    ),
}  # fmt: skip


def people():
    rng = np.random.default_rng(0)
    smoker, region = rng.random(ROWS) < 0.5, rng.choice(["north", "south", "east"], ROWS)
    age = np.clip(rng.normal(40 + 25 * smoker, 6), 0, 120).astype(int)
    return pa.table(
        {
            "age": age,
            "income": np.clip(500.0 * age + rng.normal(0, 2000, ROWS), 0, 100000),
            "region": region,
            "smoker": smoker,
            "sick": smoker & (region != "east"),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with people.parquet, its schema and a sulq.toml; the tests run in it."""
    pq.write_table(people(), tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "sulq.toml").write_text(SETTINGS)
    (tmp_path / "rows.csv").write_text(
        "region,smoker,age,income,name\nnorth,true,70,35000,Ann\neast,false,35,,Bob\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spent(folder):
    if not (folder / "people.parquet.ledger").exists():
        return None  # not begun
    with sulq.open("people.parquet", "people.toml", epsilon=20.0, queries=10000) as db:
        return db.budget.spent


# ---- learning -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OPTIONS)
def test_price_pay_predict(kind, folder):
    """Each kind: the price first, at most that is paid, the file is JSON that predicts."""
    priced = run_json("learn", kind, *OPTIONS[kind], "--price")
    assert spent(folder) is None
    done = run_json("learn", kind, *OPTIONS[kind], "--out", "model.json", "--yes")
    assert 0 < done["price_micro"] <= priced["price_micro"]
    assert spent(folder) == Fraction(done["price_micro"], 1_000_000)
    assert done["kind"] == json.loads((folder / "model.json").read_text())["kind"]
    assert done["summary"] == learn.load("model.json").summary()
    predicted = run_json("predict", "model.json", "rows.csv")["predictions"]
    assert {len(column) for column in predicted.values()} == {2}


@pytest.mark.parametrize("kind", OPTIONS)
def test_each_kind_explains_itself(kind):
    """Every kind of model has a help page with an example."""
    text = " ".join(run("learn", kind, "--help").stdout.split())
    assert f"Example: sulq learn {kind}" in text
    for word in ("--columns", "--budget", "--out", "--price", "--yes"):
        assert word in text


def test_someone_is_asked_before_paying(folder):
    """Without --yes the price is shown and a no costs nothing."""
    asked = ("learn", "pca", *NUMBERS, "--out", "pca.json")
    no = run(*asked, input="n\n", code=1)
    assert "price at most" in no.stderr
    assert spent(folder) is None
    run(*asked, input="", code=1)
    assert run_json(*asked, code=2)["error"]["message"].startswith("with --json nobody")
    assert spent(folder) is None
    assert not (folder / "pca.json").exists()
    yes = run(*asked, input="y\n")
    assert "Written: pca.json" in yes.stderr
    assert "pc1" in yes.stdout
    assert spent(folder) > 0


def test_the_same_fit_again_is_free(folder):
    """A fit with the same data and parameters gets its stored answers."""
    asked = ("learn", "kmeans", *OPTIONS["kmeans"], "--out", "k.json", "--yes")
    run(*asked)
    first, before = (folder / "k.json").read_text(), spent(folder)
    again = run(*asked)
    assert "asked before: free" in again.stdout
    assert (folder / "k.json").read_text() == first
    assert spent(folder) == before


def test_parameters_reach_the_model(folder):
    """Options of the command are parameters of the learner."""
    run(
        "learn", "pca", *NUMBERS, "--n-components", 1, "--no-scaled", "--row-norm", 0.6, "--budget",
        50, "--out", "m.json", "--yes",
    )  # fmt: skip
    params = learn.load("m.json").get_params()
    found = [params[name] for name in ("n_components", "scaled", "row_norm", "budget")]
    assert found == [1, False, 0.6, 50.0]
    assert float(spent(folder)) == pytest.approx(50, rel=1e-5)
    run(
        "learn", "conjunction", *OPTIONS["conjunction"], "--beta", 0.1, "--label-noise", 0.1,
        "--out", "c.json", "--yes",
    )  # fmt: skip
    params = learn.load("c.json").get_params()
    assert [params[n] for n in ("max_error", "beta", "label_noise")] == [0.4, 0.1, 0.1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("pca", *NUMBERS), "--out model.json"),
        (("pca", *NUMBERS, "--out", "nowhere/m.json"), "folder that exists"),
        (("pca", *NUMBERS, "--out", "m.pickle"), ".json"),
        (("pca", *NUMBERS, "--out", "m.json", "--plot", "m.pdf"), ".svg and .png"),
        (("pca", "--columns", "age,nope", "--out", "m.json"), "nope"),
        (("perceptron", *NUMBERS, "--out", "m.json"), "label=None"),
        (("regression", *NUMBERS, "--label", "age", "--out", "m.json"), "label='age'"),
        (("kmeans", *NUMBERS, "--budget", "-1", "--out", "m.json"), "budget"),
        (("kmeans", *NUMBERS, "--budget", "20000", "--out", "m.json"), "remaining=10,000"),
        (("kmeans", "--columns", "age", "--plot", "m.svg", "--price"), "--columns"),
    ],
)
def test_refusals_are_free(folder, asked, said):
    """What cannot be learned is refused before anything is paid."""
    refused = run("learn", *asked, "--yes", code=2)
    assert said in refused.stderr
    assert not spent(folder)
    assert not (folder / "m.json").exists()


@pytest.mark.parametrize("kind", ["pca", "svd", "kmeans", "id3", "regression"])
def test_pictures(kind, folder):
    """A picture of clusters asks one more query, which the price says."""
    plain = run_json("learn", kind, *OPTIONS[kind], "--price")["price_micro"]
    asked = ("learn", kind, *OPTIONS[kind], "--plot", "m.svg")
    price = run_json(*asked, "--price")["price_micro"]
    assert (price > plain) == (kind == "kmeans")
    run(*asked, "--out", "m.json", "--yes")
    assert (folder / "m.svg").read_text().startswith("<svg")
    assert spent(folder) <= Fraction(price, 1_000_000)


# ---- predicting -----------------------------------------------------------------------------


@pytest.fixture
def models(folder):
    """One that takes numbers, one that takes categories, and one that does not predict."""
    for kind in ("perceptron", "conjunction", "pca"):
        run("learn", kind, *OPTIONS[kind], "--out", f"{kind}.json", "--yes")
    return folder


def test_predictions_are_the_models(models):
    """By column name, whatever their order; a row with a missing number stays, without one."""
    rows = list(csv.DictReader(run("predict", "perceptron.json", "rows.csv").stdout.splitlines()))
    assert list(rows[0]) == ["region", "smoker", "age", "income", "name", "prediction"]
    model = learn.load("perceptron.json")
    want = model.predict([[70, 35000]])
    assert [row["prediction"] for row in rows] == [str(want.tolist()[0]), ""]
    rule = run_json("predict", "conjunction.json", "rows.csv")
    assert rule["predictions"] == {"prediction": [True, False]}
    scores = run_json("predict", "pca.json", "rows.csv")["predictions"]
    assert scores["pc1"][1] is None
    assert scores["pc1"][0] == pytest.approx(
        learn.load("pca.json").transform([[70, 35000]])[0, 0]
    )  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_come_and_go_as_files(models, ending):
    """Predictions are read from one file and written to another."""
    table = pa.table({"age": [70, 35], "income": [35000.0, None], "smoker": [True, None]})
    pq.write_table(table, "rows.parquet")
    said = run("predict", "perceptron.json", "rows.parquet", "--out", f"out.{ending}")
    assert f"Written: out.{ending}" in said.stderr
    read = pa.csv.read_csv if ending == "csv" else pq.read_table
    assert read(f"out.{ending}").column_names == [*table.column_names, "prediction"]


def test_no_rows_give_no_predictions(models):
    """A file with a head and no rows gives a file with a head and no rows."""
    (models / "none.csv").write_text("age,income\n")
    assert run("predict", "perceptron.json", "none.csv").stdout == "age,income,prediction\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age\n3\n", "no column 'income'. The model takes age, income"),
        ("age,income,age\n3,4,5\n", "two columns 'age'"),
        ("age,income\n3,4\n5,much\n", "column 'income', row 2: 'much' is not a number"),
        ("age,income,prediction\n3,4,5\n", "column 'prediction' already"),
        ("age,income\n3,4,5\n", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_rows_that_do_not_fit(models, text, said):
    """A row that does not fit the model is named with what is wrong in it."""
    (models / "bad.csv").write_text(text)
    assert said in run("predict", "perceptron.json", "bad.csv", code=2).stderr


def test_an_unknown_category_is_named(models):
    """A category that the model does not know is named."""
    (models / "bad.csv").write_text("smoker,region\ntrue,west\n")
    refused = run("predict", "conjunction.json", "bad.csv", code=2).stderr
    assert "'west' is no declared value of 'region': north, south, east" in refused
    (models / "bad.csv").write_text("age,region\n30,north\n40,\n50,west\n")
    for kind in ("id3", "naive-bayes"):
        run("learn", kind, *OPTIONS[kind], "--out", "m.json", "--yes")
        refused = run("predict", "m.json", "bad.csv", code=2).stderr
        assert "column 'region', row 3: 'west' is no declared value: north, south, east" in refused


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.json", None, "cannot be read"),
        ("m.json", "nonsense", "a model is a JSON object"),
        ("m.json", '{"kind": "Pickle"}', "kind='Pickle'"),
        ("m.json", '{"kind": "KMeans", "params": {}}', "not a whole KMeans"),
        ("m.json", '{"kind": "KMeans", "learned": {"columns_": ["age"]}}', "not a whole KMeans"),
    ],
)
def test_what_is_no_model(folder, name, text, said):
    """A file that is no model is refused in words."""
    if text is not None:
        (folder / name).write_text(text)
    assert said in run("predict", name, "rows.csv", code=2).stderr


def test_files_of_another_kind(models):
    """Endings other than CSV and Parquet are refused, and folders that are not there."""
    assert "rows='rows.xlsx'" in run("predict", "pca.json", "rows.xlsx", code=2).stderr
    refused = run("predict", "pca.json", "rows.csv", "--out", "o.txt", code=2)
    assert "out='o.txt'" in refused.stderr
    gone = run("predict", "pca.json", "rows.csv", "--out", "nowhere/o.csv", code=2)
    assert "cannot be written" in gone.stderr
