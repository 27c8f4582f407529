"""PipelineDP on its local backend: epsilon 1, delta 1e-6. Argument: the folder.

A row is a person, partitions are public. Tables that one row is in several of are asked as one
aggregation over (table, cell), each person in as many partitions, with Gaussian noise.
"""

import itertools
import sys

import pipeline_dp
from answering import columns, serve
from pipeline_dp import Metrics, NoiseKind

folder = sys.argv[1]
CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
diamonds = columns(f"{folder}/diamonds.csv", "cut")
prices = list(enumerate(int(x) for x in diamonds["price"]))
cuts = list(enumerate(diamonds["cut"]))
fair = {c: [int(x) for x in v] for c, v in columns(f"{folder}/fair.csv").items()}
PAIRS = list(itertools.combinations(fair, 2))


def aggregate(rows, keys, metric, partition, value=lambda r: 1, each=1, **more):
    """One number for each key, from rows that begin with their person."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[metric], max_contributions_per_partition=1, max_partitions_contributed=each,
        noise_kind=NoiseKind.GAUSSIAN if each > 1 else NoiseKind.LAPLACE, **more,
    )  # fmt: skip
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda r: r[0], partition_extractor=partition, value_extractor=value
    )
    found = engine.aggregate(rows, params, extractors, public_partitions=keys)
    accountant.compute_budgets()
    numbers = dict(found)
    return [numbers[k][0] for k in keys]


def of_price(metric):
    bounds = {"min_value": 0, "max_value": 20_000}
    return lambda _: aggregate(
        prices, [0], metric, lambda r: 0, value=lambda r: r[1], **bounds
    )  # fmt: skip


def count(_):
    rows = [r for r in prices if r[1] > 5000]
    return aggregate(rows, [0], Metrics.COUNT, lambda r: 0)


def counts(_):
    keys = list(range(1, 101))
    rows = [(i, k) for i, price in prices for k in keys if price >= 198 * k]
    return aggregate(rows, keys, Metrics.COUNT, lambda r: r[1], each=100)


def pairs(_):
    rows = [
        (i, (a, b, x, y))
        for a, b in PAIRS
        for i, (x, y) in enumerate(zip(fair[a], fair[b], strict=True))
    ]
    keys = [
        (a, b, x, y)
        for a, b in PAIRS
        for x in range(max(fair[a]) + 1)
        for y in range(max(fair[b]) + 1)
    ]
    return aggregate(rows, keys, Metrics.COUNT, lambda r: r[1], each=len(PAIRS))


WAYS = {
    "count": count,
    "counts": counts,
    "sum": of_price(Metrics.SUM),
    "mean": of_price(Metrics.MEAN),
    "group": lambda _: aggregate(cuts, CUTS, Metrics.COUNT, lambda r: r[1]),
    "histogram": lambda _: aggregate(
        prices, list(range(20)), Metrics.COUNT, lambda r: r[1] // 1000
    ),
    "median": of_price(Metrics.PERCENTILE(50)),
    "p90": of_price(Metrics.PERCENTILE(90)),
    "pairs": pairs,
}
serve(WAYS)
