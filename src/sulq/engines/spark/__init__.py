"""Rows that stay in a cluster.

engine.py          SparkEngine: a table, a path or a frame of Spark's
executor.py        the numpy kernel inside Spark's executors
writer.py          expressions -> Spark's SQL, the same in every mode and time zone
"""
