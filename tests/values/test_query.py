"""Questions as plain values: JSON and back, equality, and what cannot be asked."""

from __future__ import annotations

import datetime
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import sulq
from sulq.questions.check import check
from sulq.values.per_person import PerPerson
from sulq.values.query import KINDS, People, Percentile, Residual, Running, Terms
from sulq.values.schema import Schema

SCHEMA = Schema.load(
    {
        "id": {"type": "integer", "key": True},
        "region": {"values": ["north", "south"], "public": True},
        "age": {"type": "integer", "low": 0, "high": 120},
        "income": {"type": "number", "low": 0, "high": 1000},
        "born": {"type": "date", "low": "1900-01-01", "high": "2020-01-01"},
        "note": {"type": "text"},
        "smoker": {"type": "boolean"},
    }
)
TREE = {
    "column": "age",
    "threshold": 18,
    "below": None,
    "above": {"column": "region", "branches": [["north", None]], "other": None},
}

EVERY_KIND = [
    sulq.Query(),
    sulq.Query("age"),
    sulq.Query(["age", "income * 2"], by="region", where="smoker", error=5),
    sulq.Query(["age"], by=["region", "smoker"], weights=[0.5]),
    sulq.Query(by=sulq.Bins("age", [0, 18, 120])),
    sulq.Query(by=sulq.Bins("income", [0, 0.1, 1 / 3])),
    sulq.Query(by=sulq.Bins("born", [datetime.date(1950, 1, 1), datetime.date(1960, 1, 1)])),
    sulq.Query(by=sulq.NearestCentre(["age", "income"], [[0, 0.5], [1, 0.25]])),
    sulq.Query(by=sulq.Side(["age"], [1.5], -0.25)),
    sulq.Query(by=sulq.Leaf(TREE)),
    sulq.Query(by=sulq.Leaf(None)),
    sulq.Query(by=sulq.Blocks(2**70, 9)),
    sulq.Query(by=("region", sulq.Blocks(1, 2), sulq.Bins("age", [0, 5]))),
    sulq.Query(sulq.Mean("income"), where="smoker"),
    sulq.Query(sulq.Sums(["age", "income"], 0.25, 0.5), weights=[1, Fraction(1, 3)]),
    sulq.Query(sulq.Products(["age", "income"], mean_weight=0.5)),
    sulq.Query(sulq.Strategy("ranges"), by="age"),
    sulq.Query(sulq.Strategy(matrix=[[1, -2]], columns=[0, 1, -1]), by="smoker"),
    sulq.Query(Residual(), by=["smoker", "region"], weights=[Fraction(3, 2)]),
    sulq.Query(Percentile(Fraction(9, 10)), by=["smoker", "region"]),
    sulq.Query(Terms(["age"], [["smoker", "income"]], counted=False)),
    sulq.Query(rows=sulq.Rows.where("region = 'north'")),
    sulq.Query(rows=sulq.Rows.sample(3, Fraction(1, 3))),
    sulq.Query(rows=sulq.Rows.blocks(3, 4)),
    sulq.Query(error=Fraction(1, 3)),
    sulq.Query(sulq.Discover("note", 70), where="smoker"),
]


def _text(query):
    return check(query, SCHEMA, "gaussian", "beliefs").text


@pytest.mark.parametrize("query", EVERY_KIND, ids=lambda q: json.dumps(q.to_json())[:60])
def test_every_kind_survives_json(query):
    """To JSON text and back: the same JSON, the same checked question, the same hash."""
    body = json.loads(json.dumps(query.to_json()))
    again = sulq.Query.from_json(body)
    assert again.to_json() == query.to_json()
    assert _text(again) == _text(query)
    assert again == sulq.Query.from_json(body)
    assert hash(again) == hash(sulq.Query.from_json(body))
    if "born" not in str(body):  # dates come back as text
        assert again == query
        assert hash(again) == hash(query)


def test_every_kind_is_covered():
    """The list above has an example of each kind there is."""
    text = json.dumps([q.to_json() for q in EVERY_KIND])
    left = [k for k in KINDS if f'"kind": "{k}"' not in text]
    assert left == ["people", "running", "per_person"]
    declared = [  # checked only where a unit or a period is declared
        sulq.Query(People(), by="region"),
        sulq.Query(Running("sum(age)", over="month", horizon=24)),
        sulq.Query(per_person=PerPerson({"visits": "count(*)"}, "age > 40")),
    ]
    for query in declared:
        assert sulq.Query.from_json(json.loads(json.dumps(query.to_json()))) == query


def test_all_these_are_different():
    """No two of them are equal, hash alike by accident, or read alike by the ledger."""
    assert len(set(EVERY_KIND)) == len(EVERY_KIND)
    assert len({_text(q) for q in EVERY_KIND}) == len(EVERY_KIND)


def test_queries_are_frozen():
    """A query that was priced cannot change before it is asked."""
    with pytest.raises(AttributeError):
        sulq.Query().where = "smoker"
    with pytest.raises(AttributeError):
        sulq.Blocks(1, 2).count = 3


def test_lists_arrays_and_tuples_are_the_same():
    """Whatever sequence is given, the value is the same."""
    assert sulq.Query(["age"]) == sulq.Query(("age",)) == sulq.Query("age")
    a = sulq.NearestCentre(["age", "income"], np.array([[0.0, 1.0]]))
    assert a == sulq.NearestCentre(("age", "income"), [(0.0, 1.0)])
    assert sulq.Bins("age", np.arange(3)) == sulq.Bins("age", [0, 1, 2])
    assert sulq.Leaf(TREE) == sulq.Leaf(json.dumps(TREE))


def test_equal_meaning_is_one_question():
    """Spelling, order and spaces do not matter to the ledger; meaning does."""
    same = [
        "age > 3 and smoker",
        "smoker AND age>3",
        "(smoker) and ((3 < age))",
        "smoker and smoker and age > 3",
    ]
    assert len({_text(sulq.Query(where=w)) for w in same}) == 1
    other = ["age > 3 or smoker", "age >= 3 and smoker", "age > 3 and not smoker"]
    assert len({_text(sulq.Query(where=w)) for w in [*same, *other]}) == 4
    assert _text(sulq.Query(error=5)) != _text(sulq.Query())
    assert _text(sulq.Query(weights=[2])) != _text(sulq.Query())


REFUSED = [
    (lambda: sulq.Query(5), "values"),
    (lambda: sulq.Query(None), "values"),
    (lambda: sulq.Query([None]), "values"),
    (lambda: sulq.Query([["age"]]), "values"),
    (lambda: sulq.Query(sulq.Bins("age", [0, 1])), "values"),
    (lambda: sulq.Query({"a": 1}), "values"),
    (lambda: sulq.Query([]), "at least one expression"),
    (lambda: sulq.Query([""]), "SQL expression as text"),
    (lambda: sulq.Query(["note"]), "only numbers"),
    (lambda: sulq.Query(["id"]), "range"),
    (lambda: sulq.Query(["0"]), "always 0"),
    (lambda: sulq.Query(["missing"]), "no column"),
    (lambda: sulq.Query(by=5), "by=5"),
    (lambda: sulq.Query(by=[5]), "by=5"),
    (lambda: sulq.Query(by=object()), "by="),
    (lambda: sulq.Query(by=sulq.Mean("age")), "by="),
    (lambda: sulq.Query(by="income"), "Bins"),
    (lambda: sulq.Query(by=["region", "region"]), "twice"),
    (lambda: sulq.Query(by=["age"] * 2), "twice"),
    (lambda: sulq.Query(by=sulq.Blocks(1, 100_001)), "1 to 100,000"),
    (lambda: sulq.Query(by=[sulq.Blocks(1, 50_000), "age"]), "cells"),
    (lambda: sulq.Query(["age"] * 3, by=sulq.Blocks(1, 100_000)), "numbers"),
    (lambda: sulq.Query(where=True), "where=True"),
    (lambda: sulq.Query(where=3), "where=3"),
    (lambda: sulq.Query(where="age"), "compare it"),
    (lambda: sulq.Query(where="age >"), "not a SQL expression"),
    (lambda: sulq.Query(rows="smoker"), "sulq.Rows.where"),
    (lambda: sulq.Query(rows=sulq.Rows.where("smoker")), "not public"),
    (lambda: sulq.Query(rows=sulq.Rows.sample(1, 2)), "rate"),
    (lambda: sulq.Query(rows=sulq.Rows.sample(1, 0)), "rate"),
    (lambda: sulq.Query(rows=sulq.Rows.sample("x", 0.5)), "seed"),
    (lambda: sulq.Query(rows=sulq.Rows.sample(True, 0.5)), "seed"),
    (lambda: sulq.Query(rows=sulq.Rows.blocks(None, 3)), "seed"),
    (lambda: sulq.Query(rows=sulq.Rows.blocks(1, 0)), "1 to"),
    (lambda: sulq.Query(rows=sulq.Rows.blocks(1, 2.5)), "integer"),
    (lambda: sulq.Query(rows=sulq.Rows(rate=Fraction(1, 2))), "seed"),
    (lambda: sulq.Query(rows=sulq.Rows(seed=1)), "rate"),
    (lambda: sulq.Query(error=0), "error=0"),
    (lambda: sulq.Query(error=-1), "error=-1"),
    (lambda: sulq.Query(error=math.nan), "error=nan"),
    (lambda: sulq.Query(error=math.inf), "error=inf"),
    (lambda: sulq.Query(error="1_000"), "error="),
    (lambda: sulq.Query(error="1e999999999"), "error="),
    (lambda: sulq.Query(error="ten"), "error="),
    (lambda: sulq.Query(error=True), "error=True"),
    (lambda: sulq.Query(weights=3), "weights"),
    (lambda: sulq.Query(weights="12"), "weights"),
    (lambda: sulq.Query(weights=[1, 1]), "weights: want 1"),
    (lambda: sulq.Query(weights=[-1]), "weights=-1"),
    (lambda: sulq.Query(sulq.Products(["age"]), weights=[1]), "mean_weight"),
    (lambda: sulq.Query(sulq.Products(["age"], mean_weight=-1)), "mean_weight"),
    (lambda: sulq.Query(sulq.Products(["note"])), "not a number"),
    (lambda: sulq.Query(sulq.Products([])), "list"),
    (lambda: sulq.Query(sulq.Products("age")), "list"),
    (lambda: sulq.Query(sulq.Products(["age", "age"])), "twice"),
    (lambda: sulq.Query(sulq.Products(["age", 5])), "no column"),
    (lambda: sulq.Query(sulq.Sums(["age"], centre=2)), "centre"),
    (lambda: sulq.Query(sulq.Sums(["age"], centre="x")), "not a number"),
    (lambda: sulq.Query(sulq.Sums(["age"], row_norm=0)), "row_norm"),
    (lambda: sulq.Query(sulq.Sums(["age"], row_norm=math.nan)), "not a number"),
    (lambda: sulq.Query(sulq.Sums(["id"])), "declared low and high"),
    (lambda: sulq.Query(sulq.Mean("note")), "only numbers"),
    (lambda: sulq.Query(sulq.Mean("3")), "same value"),
    (lambda: sulq.Query(sulq.Mean(5)), "SQL expression"),
    (lambda: sulq.Query(sulq.Mean(["age"])), "SQL expression"),
    (lambda: sulq.Query(by=sulq.Bins("age", [1])), "two rising edges"),
    (lambda: sulq.Query(by=sulq.Bins("age", [2, 1])), "two rising edges"),
    (lambda: sulq.Query(by=sulq.Bins("age", [0, math.nan])), "edges must be"),
    (lambda: sulq.Query(by=sulq.Bins("age", ["a", "b"])), "edges must be"),
    (lambda: sulq.Query(by=sulq.Bins("age", 5)), "edges must be"),
    (lambda: sulq.Query(by=sulq.Bins("age", [0, 10**400])), "edges must be"),
    (lambda: sulq.Query(by=sulq.Bins("born", ["x", "y"])), "edges must be"),
    (lambda: sulq.Query(by=sulq.Bins("note", [0, 1])), "want a number or a date"),
    (lambda: sulq.Query(by=sulq.Bins(5, [0, 1])), "name a column"),
    (lambda: sulq.Query(by=sulq.NearestCentre(["age"], [])), "centres"),
    (lambda: sulq.Query(by=sulq.NearestCentre(["age"], 5)), "centres"),
    (lambda: sulq.Query(by=sulq.NearestCentre(["age"], [0.5])), "coordinates"),
    (lambda: sulq.Query(by=sulq.NearestCentre(["age"], [[0.5, 0.5]])), "1 coordinates"),
    (lambda: sulq.Query(by=sulq.NearestCentre(["age"], [["x"]])), "not a number"),
    (lambda: sulq.Query(by=sulq.NearestCentre(["age"], [[9]])), "not a number between"),
    (lambda: sulq.Query(by=sulq.Side(["age"], [1, 2])), "1 weights"),
    (lambda: sulq.Query(by=sulq.Side(["age"], 3)), "weights"),
    (lambda: sulq.Query(by=sulq.Side(["age"], ["1e999999999"])), "finite"),
    (lambda: sulq.Query(by=sulq.Side(["age"], [math.inf])), "finite"),
    (lambda: sulq.Query(by=sulq.Side(["age"], [1], math.nan)), "finite"),
    (lambda: sulq.Query(by=sulq.Leaf("{")), "JSON"),
    (lambda: sulq.Query(by=sulq.Leaf({1, 2})), "Leaf"),
    (lambda: sulq.Query(by=sulq.Leaf("[" * 100_000)), "Leaf"),
    (lambda: sulq.Query(by=sulq.Leaf({"column": "nobody"})), "declared column"),
    (lambda: sulq.Query(by=sulq.Leaf({"column": "age", "branches": 5})), "Leaf"),
    (lambda: sulq.Query(by=sulq.Leaf({"column": "age", "branches": [5]})), "Leaf"),
    (lambda: sulq.Query(by=sulq.Leaf({"column": "age", "branches": [[None, None]]})), "constant"),
    (lambda: sulq.Query(by=sulq.Leaf({"column": "age", "threshold": "x"})), "compare"),
    (lambda: sulq.Query(by=sulq.Leaf({"column": "age", "threshold": math.nan})), "beyond"),
    (lambda: sulq.Query(by=sulq.Leaf(5)), "Leaf"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_cannot_be_asked_is_refused_in_words(make, words):
    """QueryNotAllowed, at construction or when checked, with words that say what is wanted."""
    with pytest.raises(sulq.QueryNotAllowed, match=words):
        check(make(), SCHEMA, "gaussian", "beliefs")


@pytest.mark.parametrize("query", [None, "count", 5, {"values": ["1"]}, sulq.Blocks(1, 2)])
def test_only_queries_are_checked(query):
    """Anything else is refused with an example."""
    with pytest.raises(sulq.QueryNotAllowed, match=r"sulq\.Query"):
        check(query, SCHEMA, "gaussian", "beliefs")


BAD_JSON = [
    {"kind": "query", "value": ["1"]},
    {"values": {"kind": "nothing"}},
    {"values": {"kind": ["mean"]}},
    {"values": {"kind": "mean"}},
    {"values": {"kind": "mean", "expression": "age", "extra": 1}},
    {"values": {"expression": "age"}},
    {"values": 7},
    {"values": [{"kind": "mean", "expression": "age"}]},
    {"by": {"kind": "bins", "column": "age"}},
    {"by": {"kind": "leaf", "tree": "{"}},
    {"by": 3},
    {"rows": "x"},
    {"rows": {"kind": "rows", "rate": "1e9999999", "seed": 1}},
    {"rows": {"kind": "rows", "rate": "x", "seed": 1}},
    {"error": "1e9999999"},
    {"error": -3},
    {"weights": {"a": 1}},
    {"weights": ["x"]},
    {"where": ["age"]},
]


@pytest.mark.parametrize("body", BAD_JSON, ids=json.dumps)
def test_bad_json_is_refused(body):
    """Unknown kinds, unknown fields, missing fields and wrong types."""
    with pytest.raises(sulq.QueryNotAllowed):
        sulq.Query.from_json(body)


def test_unknown_fields_are_named_in_order():
    """The message does not depend on how this process hashes text."""
    with pytest.raises(sulq.QueryNotAllowed, match="query has no 'aa'"):
        sulq.Query.from_json({"zz": 1, "aa": 1, "mm": 1})
