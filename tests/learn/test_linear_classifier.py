"""What models of two classes with one weight a column share."""

import numpy as np
import pytest
from helpers import opened
from learn.data import schema, table

import sulq
from sulq.learn import LinearSVM, LogisticRegression

TOWN = {"town": {"values": ["rome", "oslo", "lima"]}}
FLAG = {"flag": {"type": "boolean", "nullable": False}}


@pytest.mark.parametrize("model", [LinearSVM(), LogisticRegression()], ids=["svm", "logistic"])
@pytest.mark.parametrize(
    ("columns", "label", "said"),
    [
        (["x0"], "town", "has 3 classes"), (["x0", "flag"], "flag", "not the label"),
        (["x0"], None, "label=None"), (["town"], "flag", "not a number"),
    ],
)  # fmt: skip
def test_refusals_are_free(model, columns, label, said):
    """A label or columns that it cannot be made from are refused before anything is paid."""
    X, y = np.full((50, 3), 0.5), np.arange(50) % 2 == 0
    db = opened(table(X, flag=y, town=["rome"] * 50), schema(3, **FLAG, **TOWN))
    for call in (model.price, model.fit):
        with pytest.raises(sulq.Refused, match=said):
            call(db, columns=columns, label=label)
    assert db.history() == []
