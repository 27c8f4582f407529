"""Stored questions in words, and back: what was asked can be read and asked again."""

from __future__ import annotations

import pytest

from sulq.questions.check import check
from sulq.questions.describe import groups_in, parts_of, query_of, readable
from sulq.values.query import Bins, Blocks, Leaf, Mean, NearestCentre, Query, Rows, Sums, Terms
from sulq.values.schema import Schema

SCHEMA = Schema.load(
    {
        "id": {"type": "integer", "key": True},
        "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
        "region": {"values": ["north", "so'uth"], "public": True},
        "income": {"type": "number", "low": 0, "high": 500000},
        "smoker": {"type": "boolean"},
        "born": {"type": "date", "low": "1900-01-01", "high": "2020-01-01"},
        "my col": {"type": "number", "low": -1, "high": 1},
    }
)


def stored(query):
    return check(query, SCHEMA, "gaussian", "beliefs").text


WORDS = {
    "age > 40": "age > 40",
    "40 >= age": "age <= 40",
    "smoker and age > 40": "age > 40 and smoker",
    "not (smoker and age < 5)": "age >= 5 or not smoker",
    "smoker or age <= 3 and income > 5000": "age <= 3 and income > 5000 or smoker",
    "(smoker or age = 3) and income > 5": "income > 5 and (age = 3 or smoker)",
    "region = 'north' and smoker": "region = 'north' and smoker",
    "region in ('so''uth')": "region = 'so''uth'",
    "region like 'n%'": "region = 'north'",
    "born > '1980-01-01'": "born > date '1980-01-01'",
    "extract(year from born) = 1990": "extract(year from born) = 1990",
    '"my col" > -0.5': '"my col" > -0.5',
    "income is not null": "income is not null",
    "income - (3 - age) > 2.5": "income - (3 - age) > 2.5",
    "age between 3 and 5": "age <= 5 and age >= 3",
    "case when age > 3 then smoker else false end": "age >= 4 and smoker",
    "case when smoker then income else age end > 5.5": "case when smoker then income else age end "
    "> 5.5",
    "ln(income + 1) > 2": "ln(income + 1) > 2",
    "age % 60 = 1": "age in (1, 61)",
    "round(income, 2) > 3": "round(income * 100) / 100 > 3",
    "xor(smoker, age > 3)": "age <= 3 and smoker or age >= 4 and not smoker",
    "born - date '1990-01-01' > 30": "born - date '1990-01-01' > 30",
    "-age > -income": "-income < -age",
    "smoker = 1": "smoker",
}


@pytest.mark.parametrize(("asked", "said"), WORDS.items())
def test_a_predicate_in_words(asked, said):
    """A stored predicate is shown as it would be asked."""
    assert readable(stored(Query(where=asked))) == f"count where {said}"


@pytest.mark.parametrize("where", WORDS)
@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(("income", "age * 2"), by=("region", Bins("age", [0, 50, 120])), error=50),
        Query(Mean("income - 2.0")),
        Query(Terms(("1", "age"), (("true", "income"), ("smoker", "age")))),
        Query(Terms((), (("true", "age", "income * income"),), counted=False), by="smoker"),
        Query(by=Blocks(3, 10)),
    ],
    ids=lambda q: str(q.values),
)
def test_a_question_can_be_rebuilt(query, where):
    """The rebuilt query has the same canonical text, so it is the same question."""
    from dataclasses import replace

    text = stored(replace(query, where=where))
    (part,) = parts_of(text)
    found = query_of(part)
    assert found is not None
    assert stored(found) == text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (Query(("1", "income")), "count, sum(income)"),
        (Query(Mean("age"), where="smoker", error=None), "mean(age) where smoker"),
        (Query(by=Bins("age", [0, 10, 120])), "count by age in 2 bins from 0 to 120"),
        (Query(by=("region", "smoker")), "count by region and smoker"),
        (Query(error=50), "count within 50"),
        (Query(by=Blocks(3, 1000)), "count by 1,000 blocks (seed 3)"),
        (Query(rows=Rows.sample(3, 0.1)), "count over a seeded sample of 0.1 of the rows"),
        (
            Query(Sums(["age", "income"]), by=NearestCentre(["age"], [[0.1], [0.5]])),
            "sums of age, income by nearest centre",
        ),
        (
            Query(by=Leaf({"column": "age", "threshold": 4, "below": None, "above": None})),
            "count by leaf of a tree",
        ),
        (
            Query(rows=Rows.where("region = 'north' or id < 5"), where="smoker"),
            "count where (region = 'north' or id < 5) and smoker",
        ),
    ],
)
def test_a_question_in_words(query, said):
    """A stored question is shown as one line."""
    assert readable(stored(query)) == said


@pytest.mark.parametrize(
    "text", ["", "{", "[]x", "{}", '{"values":[["nonsense",1]]}', "select 1", "[3]", '"a"', "3"]
)
def test_what_cannot_be_read_is_shown_as_it_is(text):
    """A text that is no question is its own wording."""
    assert readable(text) == text


@pytest.mark.parametrize(
    "part", [{}, {"values": [["nonsense", 1]]}, {"values": [1], "kind": "list", "by": [{}]}]
)
def test_what_is_no_question_has_no_query(part):
    """A part of which no query can be told gives none, and raises nothing."""
    assert query_of(part) is None


def test_a_batch_says_how_many():
    """A stored batch is shown by its number of questions."""
    assert readable('{"batch": ["a", "b"]}') == "a batch of 2 questions, charged one by one"


@pytest.mark.parametrize("letter", ["\x1b", "\x9b", "\r", "\n", "\u2028", "\u202e", "\x7f", "\t"])
def test_no_question_speaks_to_a_terminal_or_breaks_a_line(letter):
    """An owner reads what strangers asked: it moves no cursor and begins no line of its own."""
    schema = Schema.load({"name": {"type": "text"}})
    asked = Query(where=f"name = 'a{letter}[2J{letter}## Checked'")
    said = readable(check(asked, schema, "gaussian", "beliefs").text)
    code = letter.encode("unicode_escape").decode()
    assert said == f"count where name = 'a{code}[2J{code}## Checked'"
    assert said.isprintable()


def test_groups_have_the_names_of_their_columns():
    """Bins by their column, several with commas; none for what has no groups or is no question."""
    assert groups_in(stored(Query(by=Bins("age", [0, 10, 120])))) == ["age"]
    assert groups_in(stored(Query(by=("region", "smoker")))) == ["region, smoker"]
    assert groups_in(stored(Query())) == [""]
    assert groups_in("nonsense") == []
