"""Histograms with their subtotals from one strategy: the same numbers, for less, that agree."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq import Bins, Query
from sulq.policies import add_noise, drawn
from sulq.privacy.noise import SystemNoise

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100},
        "hour": {"type": "integer", "low": 0, "high": 23, "nullable": False},
        "height": {"type": "number", "low": 0.0, "high": 2.5},
        "smoker": {"type": "boolean"},
        "kind": {"values": ["x", "y"], "nullable": False},
        "place": {"values": ["n", "s"], "public": True, "nullable": False},
        "day": {"type": "date", "low": "2024-01-01", "high": "2024-12-31"},
    }
}


def table(rows=3000):
    pick = np.random.default_rng(4)
    days = np.datetime64("2024-01-01") + pick.integers(0, 366, rows)
    heights = np.where(pick.random(rows) < 0.2, 1.5, pick.uniform(0, 2.5, rows))
    return pa.table(
        {
            "age": [None if a > 100 else int(a) for a in pick.integers(0, 108, rows)],
            "hour": pick.integers(0, 24, rows),
            "height": pa.array(heights, mask=pick.random(rows) < 0.1),
            "smoker": pa.array(
                pick.choice(np.array([True, False, None], dtype=object), rows).tolist(), pa.bool_()
            ),
            "kind": pick.choice(["x", "y", "stray"], rows, p=[0.5, 0.49, 0.01]),
            "place": pick.choice(["n", "s"], rows),
            "day": days.astype("datetime64[D]"),
        }
    )


def ages(width, where=None, rows=None):
    return Query(by=Bins("age", tuple(range(0, 101, width))), where=where, rows=rows)


def quarter(*months):
    ends = [datetime.date(2024, m, 1) for m in months]
    return Bins("day", (*ends, datetime.date(2025, 1, 1)))


# A batch, and the most that it may cost under beliefs and under dp.
BATCHES = {
    "two widths": ([ages(5), ages(10)], 2.5, 1.2),
    "three widths": ([ages(5), ages(10), ages(20)], 2.9, 1.3),
    "ranges of it": (
        [ages(5), *(Query(where=w) for w in ("age < 20", "age >= 65", "age between 20 and 64"))],
        2.7, 1.1,
    ),
    "of smokers": ([ages(5, "smoker"), ages(10, "smoker"), Query(where="smoker")], 2.7, 2.2),
    "within another": (
        [
            Query(by=(Bins("hour", (0, 6, 12, 18, 23)), "smoker")),
            Query(by=Bins("hour", (0, 12, 23))),
        ],
        2.9, 1.3,
    ),
    "of public rows": (
        [ages(5, "place = 'n'"), ages(10, "place = 'n'"), ages(50, "place = 'n'")], 2.9, 1.3
    ),
    "numbers": (
        [
            Query(by=Bins("height", (0, 0.5, 1, 1.5, 2, 2.5))),
            Query(by=Bins("height", (0, 1, 2.5))),
            Query(where="height > 1.5"), Query(where="height = 2.5"),
        ],
        2.7, 1.1,
    ),
    "dates": (
        [Query(by=quarter(*range(1, 13))), Query(by=quarter(1, 4, 7, 10)), Query(by=quarter(1, 7))],
        2.9, 1.4,
    ),
    "many ranges": (
        [
            Query(by=quarter(*range(1, 13))),
            *(Query(where=f"day between '2024-{m:02}-{d:02}' and '2024-12-{2 * d - m:02}'")
              for m in range(1, 12) for d in range(7, 15)),
        ],
        15.0, 9.0,
    ),
    "stray values": (
        [Query(by=("kind", "hour")), Query(by=("kind", Bins("hour", (0, 12, 23))))], 3.3, 1.6
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_subtotals_count_what_each_table_does(name):
    """Without noise, for less than each by itself, at the same mean error of every table."""
    queries, beliefs, dp = BATCHES[name]
    for guarantee, most in (("beliefs", beliefs), ("dp", dp)):
        db = opened(table(), SCHEMA, guarantee=guarantee, queries=10_000)
        together = db.ask(queries)
        spent = db.budget.spent
        price = db.price(queries)
        assert spent == price.queries <= most
        widest = [max(s for (s,) in a.stds) * a.spread(0.95) for a in together]
        assert price.half_widths == pytest.approx(widest, rel=1e-6)  # as announced
        alone = db.ask(queries, share=False)
        stray = 40 if name == "stray values" else 1e-6  # what the schema rules out is put elsewhere
        for one, other in zip(together, alone, strict=True):
            assert one.cells == other.cells
            assert np.abs(one.values - other.values).max() <= stray
        variances = [np.mean([s[0] ** 2 for s in a.stds if s[0]]) for a in together]
        assert np.mean(variances) == pytest.approx(db.promise.std**2, rel=1e-4)
        assert sum(a.price.micro for a in together) == spent * 10**6


def test_noisy_subtotals_agree():
    """Wider bins are the sums of narrower ones, and all add up to the public number of rows."""
    db = opened(table(), SCHEMA, quiet=False, queries=10_000)
    fine, wide = db.ask([ages(5), ages(25)])
    sums = fine.values[:20, 0].reshape(4, 5).sum(axis=1)
    assert sums == pytest.approx(wide.values[:4, 0])
    assert fine.values.sum() == pytest.approx(db.rows)
    assert abs(fine.values - db.ask(ages(5)).values).max() > 1  # it is noise, drawn anew


def test_a_batch_in_another_order_is_the_same_question():
    """Only which tables there are decides what is measured, each once."""
    db = opened(table(), SCHEMA, quiet=False)
    first = db.ask([ages(5), ages(10), Query(where="age > 60")])
    spent = db.budget.spent
    again = db.ask([Query(where="age > 60"), ages(10), ages(5), ages(10)])
    assert db.budget.spent == spent
    for place, other in ((2, 0), (1, 1), (0, 2), (1, 3)):
        assert first[place].values == pytest.approx(again[other].values)


def test_a_histogram_with_subtotals():
    """One table, bins of every width below each other, for one price."""
    db = opened(table(), SCHEMA)
    found = db.histogram("hour", bins=12, subtotals=[4, [0, 12, 23]])
    assert found["bins"] == [12] * 12 + [4] * 4 + [2] * 2
    assert sum(found["count"][:12]) == pytest.approx(db.rows)
    assert sum(found["count"][:3]) == pytest.approx(found["count"][12])
    assert sum(found["count"][:6]) == pytest.approx(found["count"][16])
    assert found.price.queries == db.budget.spent < 2.9
    with pytest.raises(sulq.QueryNotAllowed, match="one query at a time"):
        db.histogram("hour", bins=24, subtotals=[4], combine=True)


def test_a_rollup_of_one_column():
    """Groups within groups of the same column cost less than groups of two; some cannot be."""
    db = opened(table(), SCHEMA, name="t", quiet=False)
    asked = (
        "select floor(hour / 12) as half, floor(hour / 3) as part, count(*) as n from t "
        "group by rollup(half, part)"
    )
    assert db.price(asked).queries < 2.3 < 4 == db.question(asked, share=False).price.queries
    found = list(db.sql(asked))
    cells = {(r["half"], r["part"]): r for r in found}
    assert len(cells) == len(found) == 2 * 8 + 2 + 1
    assert cells[0, 5]["n_low"] == cells[0, 5]["n_high"] == 0
    halves = [sum(cells[h, p]["n"] for p in range(8)) for h in (0, 1)]
    assert halves == pytest.approx([cells[h, "(all)"]["n"] for h in (0, 1)])
    assert sum(halves) == pytest.approx(cells["(all)", "(all)"]["n"]) == pytest.approx(db.rows)


def test_what_was_asked_together_is_known():
    """A range of the histogram is estimated from the stored combinations, as exactly."""
    db = opened(table(), SCHEMA, quiet=False)
    together = db.ask([ages(5), ages(10), Query(where="age >= 50")])
    found = db.estimate(Query(where="age >= 50"))
    assert found.value == pytest.approx(together[2].value)
    assert found.std == pytest.approx(together[2].std)


def test_a_ledger_that_is_opened_again_knows_them(tmp_path):
    """Subtotals, and a quantile of known rows: the same numbers, free, and estimates from them."""
    settings = {"ledger": tmp_path / "ledger.db", "name": "t", "quiet": False}
    median = "select median(hour) as m, place from t group by place"
    with opened(table(), SCHEMA, **settings) as db:
        first, m = db.ask([ages(5), ages(10)]), db.sql(median)
        spent = db.budget.spent
    with opened(table(), SCHEMA, **settings) as db:
        again = db.ask([ages(10), ages(5)])
        assert [a.exact for a in again] == [a.exact for a in first[::-1]]
        assert db.sql(median).columns == m.columns
        assert db.budget.spent == spent
        assert db.estimate(ages(20)).values[:5, 0] == pytest.approx(
            first[1].values[:10, 0].reshape(5, 2).sum(axis=1)
        )


def test_subtotals_hold_the_truth_as_often_as_they_say():
    """400 runs x 30 cells at 95%: outside 91% to 98% by chance less than once in 10^9."""
    for guarantee in ("beliefs", "dp"):
        db = opened(table(), SCHEMA, guarantee=guarantee)
        queries = [ages(5), ages(10), Query(where="age between 20 and 64")]
        truth = np.concatenate([a.values[:, 0] for a in db.ask(queries, share=False)])
        question = db.question(queries)
        (bundle,) = question.bundles
        ((checked, tariff),) = bundle.parts
        exact = db._pipeline.sums([checked])[0]
        known = db._pipeline.count(list(question.facts))
        held, too_sure = 0.0, 0.0
        for _ in range(400):
            noisy = add_noise(checked, tariff, exact, drawn([bundle], SystemNoise()))
            found = question.lay_out([bundle.answers([noisy], 0)], known)
            off = np.concatenate([a.values[:, 0] for a in found]) - truth
            std = np.concatenate([[s for (s,) in a.stds] for a in found])
            held += float((np.abs(off) <= 1.96 * std).mean()) / 400
            too_sure += float((np.abs(off) <= 1.96 * 0.7 * std).mean()) / 400
        assert 0.91 < held < 0.98
        assert too_sure < 0.91  # a standard deviation 30% too low is seen
