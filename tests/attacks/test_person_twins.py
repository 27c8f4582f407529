"""All that one person has is exchanged: controls, which the tests of features and joins would find.

`engines/test_people.py` and `engines/test_star.py` hold every form of statement against its price:
features of people, events beside people, LEFT JOIN, IN and EXISTS. `test_period_prices.py` does so
with periods and running totals. Here are values that nobody listed, and what is wrong on purpose:
rows beyond max_rows, and features beyond their range. Exact, without luck.
"""

from __future__ import annotations

import copy
import itertools
import random
from fractions import Fraction

import pyarrow as pa
import pytest
from engines import people_statements, star_statements
from engines.test_people import checked_all as about_people
from engines.test_star import checked_all as about_tables
from engines.test_star import star_engine
from engines.test_unit import distance
from helpers import ENGINES, opened

import sulq
from sulq.privacy.pricing import tariff_of
from sulq.values.query import Discover, Query

PROMISE = sulq.Promise(1.0, queries=100)


def reached(asked, engines, answered=None):
    """How far twins are apart at most, squared, as a share of the price.

    `answered` are other questions than those that were paid for.
    """
    answers = [engine.sums(answered or asked) for engine in engines]
    worst = Fraction(0)
    for a, b in itertools.combinations(answers, 2):
        for query, one, other in zip(asked, a, b, strict=True):
            price = tariff_of(query, PROMISE).price.queries
            moved = distance(query, (one, other), "gaussian")
            assert price or not moved
            worst = max(worst, moved / price if price else 0)
    return worst


# --- features of a person --------------------------------------------------------------------

FEATURES = [
    f"select sum(x) as s from (select person, {what} as x from events group by person)"
    for what in ("count(*)", "count(sev) filter (where sev > 0)", "least(count(*), 9)")
]


def people(own):
    pick = random.Random(1)
    others = [people_statements.event(pick, i, 1 + i % 5) for i in range(20)]
    first = [people_statements.event(pick, 10_000, 0) | {"month": "jan", "sev": 0}]
    more = [people_statements.event(pick, 20_000 + i, 0) | {"sev": 3} for i in range(own)]
    rows = people_statements.table_of(others + first + more)
    return ENGINES["duckdb"](rows, people_statements.SCHEMA)


def test_a_feature_stays_within_its_range():
    """However many rows somebody has, and the whole of the range is reached."""
    assert Fraction(1, 2) < reached(about_people(FEATURES), [people(own) for own in (0, 40)]) <= 1


def test_a_feature_beyond_its_range_is_found():
    """Control: counts up to nine and forty, where the price knows of four and nine."""
    asked, wide = about_people([FEATURES[0], FEATURES[2]]), [FEATURES[2], FEATURES[2]]
    wide[1] = wide[1].replace("9)", "40)")
    assert reached(asked, [people(own) for own in (0, 40)], about_people(wide)) > 3


# --- events beside their person --------------------------------------------------------------


def tables(own, declared=star_statements.SCHEMA):
    """People with visits, of whom one has three visits and so many more."""
    rows = star_statements.rows_of(4, 8)
    pick = random.Random(2)
    rows["people"].append(star_statements.person_row(pick, 5000))
    rows["visits"] += [star_statements.visit_row(pick, 90_000 + i, 5000) | {"sev": None}
                       for i in range(3)]  # fmt: skip
    sick = [star_statements.visit_row(pick, i - 1000, 5000) | {"sev": 5, "score": 8.0}
            for i in range(own)]  # fmt: skip
    rows["visits"] += sick
    return star_engine("duckdb", star_statements.tables_of(rows), declared)


EVENTS = [
    "select count(*) as n from visits v join people p on v.patient = p.person where v.sev > 1",
    "select p.sex, sum(v.sev) as s from visits v left join people p on v.patient = p.person group "
    "by p.sex",
    "select count(*) as n from people p where p.person in (select patient from visits where sev > "
    "1)",
    "select sum(k) as s from (select p.person, count(v.visit) filter (where v.sev > 1) as k from "
    "people p left join visits v on p.person = v.patient group by p.person)",
]


def test_rows_beyond_max_rows_move_nothing():
    """Twelve more visits are three at most, in each kind of join."""
    engines = [tables(own) for own in (0, 3, 12)]
    found = [reached(about_tables([text], engines[0].schema), engines) for text in EVENTS]
    assert max(found) <= 1
    assert min(found) > Fraction(1, 3)


def test_rows_beyond_max_rows_are_found():
    """Control: engines that let twelve visits count, where the price knows of three."""
    loose = copy.deepcopy(star_statements.SCHEMA)
    loose["tables"]["visits"]["max_rows"] = 15
    asked = about_tables(EVENTS[:2], tables(0).schema)
    assert reached(asked, [tables(own, loose) for own in (0, 12)]) > 4


# --- values that nobody listed ---------------------------------------------------------------


def words(own, most):
    """Five words of a hundred people each, and one person with these."""
    everybody = [(i, f"w{i % 5}") for i in range(500)] + [(-1, word) for word in own]
    return pa.table({
        "id": range(len(everybody)), "person": [p for p, _ in everybody],
        "word": [w for _, w in everybody],
    }), {
        "columns": {"id": {"key": True, "type": "integer"}, "person": {"type": "integer"},
                    "word": {"type": "text"}},
        "unit": {"column": "person", "max_rows": most},
    }  # fmt: skip


def found_of(own, most):
    """What is found below the noise."""
    db = opened(*words(own, most), discoveries=1, queries=100)
    question = db.question(Query(Discover("word", 40)))
    ((checked, _),) = question.bundles[0].parts
    return dict(db._pipeline.engine.sums([checked])[0])


def moved(most):
    """How far somebody's words move the counts, squared."""
    each = [["w0"] * 4, ["w1"] * 4, ["w0", "w1", "w2", "w3"], ["w4", None, "w4", "w4"]]
    seen = [found_of(own, most) for own in each]
    pairs = itertools.combinations(seen, 2)
    return max(sum((a.get(w, 0) - b.get(w, 0)) ** 2 for w in a.keys() | b.keys()) for a, b in pairs)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_words_of_one_person_move_no_further_than_is_paid(most):
    """All of them from one value to another: 2 m squared, which is reached."""
    db = opened(*words([], most), discoveries=1, queries=100)
    assert moved(most) == 2 * most**2 == db.price(Query(Discover("word"))).queries


def test_more_words_than_are_paid_for_are_found():
    """Control: four rows that count, at the price of two."""
    db = opened(*words([], 2), discoveries=1, queries=100)
    assert moved(4) > db.price(Query(Discover("word"))).queries
