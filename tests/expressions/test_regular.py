"""Regular expressions: what is accepted is RE2's, means the same on every engine, and ends soon."""

import random
import re
import string

import pyarrow as pa
import pytest
from helpers import ENGINES, opened, sums
from hypothesis import given, settings
from hypothesis import strategies as st
from soak import times

import sulq
from sulq.expressions.regular import MAX_PIECES, check_pattern, matcher, pieces_of

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
        how = pick.choice(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"])
        if how.startswith("{") and kind == 0 and re.search(r"[*+?{]", found.removeprefix("(?:")):
            how = "+"  # a group that holds a repetition is not counted
        return found + how


def as_python(pattern):
    r"""$ is the end alone, not before a line's end; \d, \w and \s are ASCII."""
    bare = re.sub(r"(?<!\\)\$$", r"\\Z", pattern)
    return re.compile(bare, re.ASCII)


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
    patterns = [Patterns(seed).text() for seed in range(times(60, 2000))]
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
    """RE2 reads whatever the check lets through, and Python means the same by it."""
    try:
        check_pattern(pattern)
    except sulq.QueryNotAllowed:
        return
    matcher(pattern)(["", "a", "aXb 01", "ä"])
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
    "a((a|b)?(a|b)?){20}c",
    "(a{2}b){3}",
    "a.{100}c",
    "a" + "." * 100 + "c",
    "a(a|b){60}c",
    "a[acegikmoqsuwy]{30}c",
    "a[" + "".join(map(chr, range(0x4E00, 0x4E00 + 90, 2))) + "]{2}c",
    "a" + "(a?b?|b?a?)" * 15,
    "(){100}(){100}",
]


@pytest.mark.parametrize("pattern", ATTACKS)
def test_patterns_whose_matches_are_slow_by_choice_are_refused(pattern):
    """A text that gets past an anchor would take hundreds of times as long as one that does not."""
    table = pa.table({"row": range(50), "t": ["ab"] * 50})
    with opened(table, SCHEMA, epsilon=1.0, queries=10) as db:
        with pytest.raises(sulq.QueryNotAllowed, match=r"pieces|not counted"):
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
    ],
)  # fmt: skip
def test_ordinary_patterns_are_accepted(pattern, text):
    """Addresses, numbers, codes, a dozen words: with room to spare, and found."""
    assert matcher(check_pattern(pattern))([text, "?"]) == [True, False]


def written_out(pattern):
    """The pattern without braces: the single pieces before them as often as they may come."""
    piece = r"(\\.|\[(?:\\.|[^\]])*\]|\((?:\?:)?[^()]*\)|[^()\[\]\\|])"

    def out(found):
        least, comma, most = found[2], found[3], found[4]
        return found[1] * max(int(most or least) + (comma == "," and not most), 1)

    while (shorter := re.sub(piece + r"\{(\d+)(,?)(\d*)\}", out, pattern, count=1)) != pattern:
        pattern = shorter
    return pattern


def test_pieces_are_at_least_what_is_written_out():
    """For generated patterns: no fewer than the pieces of the pattern without its braces."""
    seen = 0
    for seed in range(times(300, 20_000)):
        pattern = Patterns(seed).text()
        flat = written_out(pattern)
        assert pieces_of(pattern) >= pieces_of(flat), (pattern, flat)
        seen += flat != pattern
    assert seen > 50
    for least, most in ((0, 30), (5, 30), (30, 30)):
        assert pieces_of(f"(a|b){{{least},{most}}}") == 30 * pieces_of("(a|b)") + most - least


@settings(max_examples=times(100, 5_000), deadline=None)
@given(st.lists(st.sampled_from(["a", ".", "[ab]", "(a|b)", "ä", r"\W", "()"]), min_size=1,
                max_size=6), st.integers(0, 100))  # fmt: skip
def test_no_accepted_pattern_is_larger_than_the_limit(parts, most):
    """Counted alone or as a group: what is accepted has at most the stated number of pieces."""
    for pattern in ("".join(f"{p}{{0,{most}}}" for p in parts), f"({''.join(parts)}){{{most}}}"):
        try:
            check_pattern(pattern)
        except sulq.QueryNotAllowed:
            assert len(pattern) > 200 or pieces_of(pattern) > MAX_PIECES
        else:
            assert len(parts) * max(most, 1) <= MAX_PIECES
