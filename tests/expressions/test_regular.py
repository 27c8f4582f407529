"""Regular expressions: what is accepted is RE2's, means the same on every engine, and ends soon."""

import random
import re
import string
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from helpers import ENGINES, opened, sums
from hypothesis import given, settings
from hypothesis import strategies as st
from soak import in_soak, times

import sulq
from sulq.expressions.automaton import FEW, MAX_CELLS, MAX_STATES
from sulq.expressions.regular import automaton, check_pattern, matcher

ALPHABET = "abcXYZ019 _-.,äß(]"
SCHEMA = {
    "row": {"type": "integer", "low": 0, "high": 99, "public": True},
    "t": {"type": "text", "max_length": 20},
}


class Patterns:
    """Random patterns of the subset, and the same as Python writes it."""

    def __init__(self, seed):
        self.pick = random.Random(seed)

    def text(self, depth=2):
        pieces = [self.piece(depth) for _ in range(self.pick.randint(1, 3))]
        found = "".join(pieces)
        if depth == 2:
            found = self.pick.choice(["", "^"]) + found + self.pick.choice(["", "$"])
        return found

    def piece(self, depth):
        pick = self.pick
        kind = pick.randint(0, 6)
        if kind == 0 and depth:
            inner = "|".join(self.text(depth - 1) for _ in range(pick.randint(1, 2)))
            found = f"{pick.choice(['(', '(?:'])}{inner})"
        elif kind == 1:
            found = pick.choice(["[a-c]", "[^a-cX]", r"[\d_]", "[0-9,.]", r"[^\s]", "[äß]"])
        elif kind == 2:
            found = pick.choice([r"\d", r"\w", r"\D", r"\W", r"\S", r"\.", r"\(", r"\]", "."])
        else:
            found = pick.choice("abcXYZ019 _,äß")
        return found + pick.choice(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"])


def as_python(pattern):
    r"""$ is the end alone, not before a line's end; \d, \w and \s are ASCII."""
    bare = re.sub(r"(?<!\\)\$$", r"\\Z", pattern)
    return re.compile(bare, re.ASCII)


def is_accepted(pattern):
    """All but a few of those with many states."""
    try:
        return bool(check_pattern(pattern))
    except sulq.QueryNotAllowed:
        return False


def texts(seed, count=100):
    pick = random.Random(seed)
    return ["".join(pick.choices(ALPHABET, k=pick.randint(0, 12))) for _ in range(count - 1)] + [
        None
    ]


@pytest.mark.parametrize("name", ENGINES)
def test_random_patterns_are_what_python_says(name):
    """Every row of every pattern, on every engine: as Python's own matcher has it."""
    rows = texts(1)
    table = pa.table({"row": range(100), "t": pa.array(rows, pa.string())})
    engine, seen = ENGINES[name](table, SCHEMA), set()
    patterns = list(filter(is_accepted, (Patterns(s).text() for s in range(times(60, 2000)))))
    for first in range(0, len(patterns), 20):
        some = patterns[first : first + 20]
        asked = [sulq.Query([f"case when regexp_matches(t, '{p}') then 1 else 0 end"], by="row")
                 for p in some]  # fmt: skip
        for pattern, told in zip(some, sums(engine, *asked), strict=True):
            found = as_python(pattern)
            plain = [int(x is not None and found.search(x) is not None) for x in rows]
            assert [x for (x,) in told][:100] == plain, pattern
            seen.add(sum(plain))
    assert len(seen) > 10  # neither always nor never


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a" * 201, "(?=a)", "(?!a)", "(?<=a)b", "(?<n>a)", "(?i)a", r"(a)\1", r"\ba", r"\p{L}",
        r"\Qa\E", r"a\z", "a**", "a+?", "a{2}{3}", "a{101}", "a{3,2}", "a{,3}", "a{x}", "(a", "a)",
        "[a", "[]", "[z-a]", r"[\d-z]", "[[:alpha:]]", "*a", "+", "a|*", "^*", "${2}", "a\\",
        "a\nb",
        "((((((((((((a))))))))))))", "((a{100}){100}){100}", r"\x41", r"\C", "]", "{", "a\x00",
    ],
)  # fmt: skip
def test_what_is_not_in_the_subset_is_refused(pattern):
    """Before anything is paid, with the place where it leaves the subset."""
    with pytest.raises(sulq.QueryNotAllowed, match="regexp_matches: "):
        check_pattern(pattern)


@settings(max_examples=times(300, 20_000), deadline=None)
@given(st.text(alphabet=string.ascii_letters[:4] + r"\.^$|?*+()[]{}-,:019dwsPbZ", max_size=14))
def test_what_is_accepted_never_fails_a_scan(pattern):
    """RE2 and Python read whatever the check lets through."""
    try:
        check_pattern(pattern)
    except sulq.QueryNotAllowed:
        return
    matcher(pattern)(["", "a", "aXb 01", "ä"])
    pc.match_substring_regex(pa.array(["a"]), pattern)
    re.compile(pattern, re.ASCII)


def test_a_pattern_that_would_backtrack_takes_no_longer():
    """(a|a)*b on 20 letters: Python's matcher would try a million ways; RE2 walks once."""
    table = pa.table({"row": range(50), "t": ["a" * 20] * 50})
    with opened(table, SCHEMA, epsilon=1.0, queries=10) as db:
        assert db.price(sulq.Query(where="regexp_matches(t, '^(a|a|aa)*b$')")).queries == 1
        db.count("regexp_matches(t, '^(a|a|aa)*b$')")


def test_the_pattern_is_a_constant_and_part_of_the_question():
    """Two patterns are two questions; one is free the second time, in any spelling."""
    table = pa.table({"row": range(50), "t": ["ab"] * 50})
    with opened(table, SCHEMA, epsilon=1.0, queries=10) as db:
        first = db.count("regexp_matches(t, 'a.')")
        assert db.count("t ~ 'a.'").exact == first.exact
        assert db.count("regexp_like(t, 'a.')").exact == first.exact
        assert db.budget.spent == 1
        db.count("regexp_matches(t, 'a')")
        assert db.budget.spent == 2
        for wrong in ("regexp_matches(t, t)", "regexp_matches(row, 'a')", "t ~* 'a'",
                      "regexp_matches(t, 'a', 'i')"):  # fmt: skip
            with pytest.raises(sulq.QueryNotAllowed):
                db.count(wrong)


ATTACKS = [
    "^aab.*a((a|b){0,30}(a|b){0,30}){0,15}c",
    "^aab.*(a|b)*a((a|b){0,40}(a|b){0,40}){0,20}c",
    "a.{100}c",
    "a" + "." * 100 + "c",
    "a(a|b){60}c",
    "a[acegikmoqsuwy]{30}c",
    "((ab?){0,9}c?(a|b){0,9}){0,9}d",
    "".join(map(chr, range(0x4E00, 0x4E00 + 180))) + "{2,9}",
]


@pytest.mark.parametrize("pattern", ATTACKS)
def test_patterns_with_many_states_are_refused(pattern):
    """Before anything is paid, in a moment, and with what to do instead."""
    table = pa.table({"row": range(50), "t": ["ab"] * 50})
    with opened(table, SCHEMA, epsilon=1.0, queries=10) as db:
        with pytest.raises(sulq.QueryNotAllowed, match=r"places|states"):
            db.count(f"regexp_matches(t, '{pattern}')")
        assert db.budget.spent == 0


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$", "ann.lee@example.org"),
        (r"^\+?\d{1,3}[- ]?\(?\d{3}\)?[- ]?\d{3}[- ]?\d{4}$", "+1 (555) 010-9999"),
        (r"^[A-TV-Z]\d[0-9AB](\.[0-9A-Z]{1,4})?$", "E11.65"),
        ("^(E1[0-4]|I2[0-5]|J4[0-7]|C50)", "I21.9"),
        (r"^\d{4}-\d{2}-\d{2}$", "2024-05-01"),
        (r"^[A-Z]{2}\d{2}[A-Z0-9]{11,20}$", "DE02120300000000202051"),
        (r"^\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}$", "10.0.0.255"),
        ("aspirin|statin|insulin|heparin|codeine|morphine|metformin|warfarin|digoxin|nitrate|zinc|iron",
         "warfarin 5 mg"),
        ("^(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*$", "october"),
        ("(ab)+c*", "abab"),
        (r"^(\d{1,3}\.){3}\d{1,3}$", "10.0.0.255"),
        ("^a.{90}c", "a" + "b" * 90 + "c"),
        ("stroke.*(left|right)", "stroke of the left side"),
    ],
)  # fmt: skip
def test_ordinary_patterns_are_accepted(pattern, text):
    """Addresses, numbers, codes, a dozen words: with room to spare, and found."""
    assert matcher(check_pattern(pattern))([text, "?"]).tolist() == [True, False]


class Counted(np.ndarray):
    """A table that knows how often it was looked into."""

    looks = 0

    def __getitem__(self, places):
        Counted.looks += np.size(places)
        return np.asarray(self)[places]


FAR = "^aab.*a(a|b){7}c"  # 500 states for texts that begin with aab, 5 for others
LETTERS = "".join(random.Random(3).choices("ab", k=1800))
TWINS = ["aab" + LETTERS, "zab" + LETTERS]


def test_every_letter_is_one_look_into_a_table():
    """No more where a text goes through many states, and no fewer where it is found at once."""
    found = automaton(FAR)
    vars(found)["_steps"] = found._steps.view(Counted)
    for text in (*TWINS, "aab" + "a" * 8 + "c" * 1792):
        Counted.looks = 0
        found.found_in([text] * FEW)
        assert Counted.looks == FEW * len(text)
    automaton.cache_clear()


def quickest(call):
    def once():
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return min(once() for _ in range(20))


@in_soak
@pytest.mark.parametrize("many", [1, FEW])
def test_no_text_is_slower_than_another_of_its_length(many):
    """By the clock; and control: RE2 makes its states as it meets them, and is slower by choice."""

    def ratio(found):
        slow, quick = (quickest(lambda text=text: found([text] * many)) for text in TWINS)
        return slow / quick

    def by_re2(texts):
        return pc.match_substring_regex(pa.array(texts), FAR)

    assert 0.7 < ratio(matcher(FAR)) < 1.4
    assert ratio(by_re2) > 5


def test_few_and_many_texts_are_walked_alike():
    """One by one or together, of all lengths, empty ones and none at all."""
    pick = random.Random(5)
    rows = ["".join(pick.choices("ab0ä\n", k=pick.randint(0, 40))) for _ in range(3 * FEW)]
    for pattern in ("ab|ä$", "^(a|b)*$", "$^", "^$", "a.b", r"^\d|\Dä.{3}$", "(a|)"):
        found = matcher(pattern)
        assert found([]).tolist() == []
        assert found(rows).tolist() == [found([text]).item() for text in rows], pattern
        assert found(rows).tolist() == pc.match_substring_regex(pa.array(rows), pattern).to_pylist()


@settings(max_examples=times(100, 5_000), deadline=None)
@given(st.text(alphabet="ab.|()*+?{2}[^$]", min_size=1, max_size=12), st.integers(0, 10**6))
def test_what_is_found_is_what_re2_finds(pattern, seed):
    """Random patterns of the subset, anchors anywhere, on random texts."""
    try:
        check_pattern(pattern)
    except sulq.QueryNotAllowed:
        return
    rows = [x or "" for x in texts(seed)] + ["\n", "a\nb", "\x0b", "\t", "\U0001f600a"]
    found = matcher(pattern)(rows).tolist()
    assert found == pc.match_substring_regex(pa.array(rows), pattern).to_pylist()


def test_no_accepted_pattern_is_larger_than_the_limit():
    """Patterns made to be large are refused, or their tables have so many cells at most."""
    pick, accepted, refused = random.Random(7), 0, 0
    for _ in range(times(30, 1000)):
        pieces = pick.choices(["a", "b", ".", "[a-f]", "(a|b)", "(ab?)", r"\w", "x"], k=8)
        pattern = "".join(f"{piece}{{0,{pick.randint(1, 9)}}}z" for piece in pieces)
        try:
            table = automaton(pattern).table
        except sulq.QueryNotAllowed:
            refused += 1
        else:
            accepted += 1
            assert len(table) <= MAX_STATES
            assert len(table) * len(table[0]) <= MAX_CELLS
    assert accepted
    assert refused
