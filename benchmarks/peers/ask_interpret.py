"""InterpretML's DP-EBM, an additive model: epsilon 1, delta 1e-6. Argument: the folder."""

import sys
import warnings

import pandas as pd
from answering import serve
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

warnings.simplefilter("ignore")
train, test = (pd.read_csv(f"{sys.argv[1]}/{name}.csv") for name in ("train", "test"))
NUMBERS = ["carat", "depth", "table", "x", "y", "z"]
FEATURES = [*NUMBERS, "cut", "color", "clarity"]
KINDS = ["continuous"] * 6 + ["nominal"] * 3
bounds = dict.fromkeys(NUMBERS, (0.0, 1.0))


def additive(_):
    model = DPExplainableBoostingClassifier(
        epsilon=1.0, delta=1e-6, feature_types=KINDS, privacy_bounds=bounds
    )
    return model.fit(train[FEATURES], train["dear"]).predict_proba(test[FEATURES])[:, 1]


def regression(_):
    """No line, but what it has for a number."""
    model = DPExplainableBoostingRegressor(
        epsilon=1.0, delta=1e-6, privacy_bounds=bounds, privacy_target_min=0.0,
        privacy_target_max=1.0,
    )  # fmt: skip
    return model.fit(train[NUMBERS], train["price"]).predict(test[NUMBERS])


serve({"additive": additive, "regression": regression})
