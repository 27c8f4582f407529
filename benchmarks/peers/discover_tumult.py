"""Tumult Analytics: words of a Zipf law that its partition selection names. See ../discoveries.py.

Run by hand in an environment with tmlt.analytics 0.21, PYSPARK_PYTHON set to its python.
"""

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, ApproxDPBudget, QueryBuilder, Session

spark = (
    SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false").getOrCreate()
)  # fmt: skip
weights = 1 / np.arange(1, 5001) ** 1.3
counts = np.random.default_rng(0).multinomial(20_000, weights / weights.sum())
words = [f"w{i}" for i, count in enumerate(counts) for _ in range(count)]
rows = spark.createDataFrame(pd.DataFrame({"word": words})).cache()
groups = QueryBuilder("rows").get_groups(["word"])
for k in (1, 2, 3, 10):
    named = []
    for _ in range(10):
        whole = ApproxDPBudget(1, 1e-6)
        session = Session.from_dataframe(whole, "rows", rows, protected_change=AddOneRow())
        named.append(session.evaluate(groups, ApproxDPBudget(1 / k, 1e-6 / k)).count())
    print(k, np.mean(named))
