"""Published tables: any Boolean function of twice their width, offline, from a file."""

from __future__ import annotations

import itertools
import json
import math
import os
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2
from vertical.data import BOOLEAN, database, people_apart

import sulq
from sulq import vertical
from sulq.vertical import Publication
from sulq.vertical.common_people import People
from sulq.vertical.publication import halves
from sulq.vertical.publication_file import KEY
from sulq.vertical.truth import truth_table

NAMES = ["p", "q", "r", "s", "t"]
BLOCKS, FEW = 800, 20


def attributes(n, seed=0):
    """Five Booleans that depend on each other."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    X = z @ rng.normal(size=(2, 5)) + rng.normal(size=(n, 5))
    return (X - [0.0, 0.5, -0.5, 0.2, -0.1]) > 0


def census(n, seed=0, **settings):
    X = attributes(n, seed)
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    return database(columns, BOOLEAN, name="census", **settings), X


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Forty people, each in a block of their own, no noise: the file is as good as the rows."""
    db, X = census(FEW, epsilon=1e9)
    path = tmp_path_factory.mktemp("published") / "census.parquet"
    vertical.publish(db, NAMES, 2, path, BLOCKS, seed=people_apart(FEW, BLOCKS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of so large an epsilon
        return Publication.load(path), X, path


FUNCTIONS = [
    "p", "not t", "p and q", "p or not r", "q xor s", "p and q and r", "p and not q and t",
    "p and q and r and s", "not p and q and not s and t", "(p or q) and (r or s)",
    "case when p then q else r end", "p = q and r = s", "(p and q) or (not p and t)", "p or true",
    "p and not p and q", "not (p and q and r and s)",
]  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_are_those_of_the_rows(exact, text):
    """Whatever the function, with up to twice the width of attributes."""
    file, X, _ = exact
    values = {name: X[:, i] for i, name in enumerate(NAMES)}
    logic = (text.replace("case when p then q else r end", "np.where(p, q, r)")
             .replace("p = q and r = s", "(p == q) & (r == s)").replace("not ", "~")
             .replace(" and ", " & ").replace(" or ", " | ").replace(" xor ", " ^ ")
             .replace("true", "True"))  # fmt: skip
    true = np.broadcast_to(eval(logic, {"np": np, **values}), len(X)).mean()
    found = file.probability(text)
    assert found == pytest.approx(true, abs=0.01)
    low, high = found.interval(0.99)
    assert low - 1e-9 <= found <= high + 1e-9


def test_an_answer_says_what_it_was_made_from(exact):
    """Direct answers name the tables that hold all attributes, others both halves of each split."""
    file, _, _ = exact
    assert file.probability("p and q").tables == (("p", "q"),)
    assert len(file.probability("p").tables) == 4
    four = file.probability("p and q and r and s").tables
    assert set(four) == set(itertools.combinations("pqrs", 2))
    assert file.probability("p or not p").tables == ()
    assert file.probability("p and q").to_json()["tables"] == [["p", "q"]]


def test_too_many_attributes_are_refused(exact):
    """A function is of at most four, and of published ones."""
    with pytest.raises(sulq.QueryNotAllowed, match="at most 4"):
        exact[0].probability("p and q and r and s and t")
    for text in ("nobody", "p +", "count(p)", 3, ""):
        with pytest.raises(sulq.QueryNotAllowed):
            exact[0].probability(text)


@pytest.mark.parametrize(("count", "width", "ways"), [(4, 2, 3), (3, 2, 3), (6, 3, 10), (2, 1, 1)])
def test_every_split_once(count, width, ways):
    """Halves cover all attributes, none twice."""
    found = list(halves(count, width))
    assert len(found) == ways
    assert len({frozenset((left, right)) for left, right in found}) == ways
    assert all(sorted(left + right) == list(range(count)) for left, right in found)
    assert all(len(left) <= width and len(right) <= width for left, right in found)


def published(X, rng, blocks, noise, width=2):
    """A publication made by hand, with normal noise."""
    n, k = X.shape
    cell = rng.integers(0, blocks, n)
    counts = []
    for table in itertools.combinations(range(k), width):
        code = sum(X[:, i].astype(int) << (width - 1 - j) for j, i in enumerate(table))
        exact = np.bincount(cell * 2**width + code, minlength=blocks * 2**width)
        counts.append(exact.reshape(blocks, -1) + rng.normal(size=(blocks, 2**width)) * noise)
    people = People(np.bincount(cell, minlength=blocks).astype(float))
    even = np.stack(counts)
    even += ((people.sizes - even.sum(axis=2)) / 2**width)[:, :, None]
    promise = sulq.Promise(1.0, queries=10)
    named = {name: name for name in NAMES[:k]}
    variance = noise**2 * (1 - 0.5**width)
    return Publication("x", named, width, 0, people, even, variance, promise, ())


def test_errors_are_those_announced():
    """Functions of one to four attributes, over 120 files; false alarm 1e-9 each."""
    X = attributes(20_000)[:, :4]
    p, q, r, s = X.T
    true = {"p": p.mean(), "p and q": (p & q).mean(), "p and q and r": (p & q & r).mean(),
            "p and not q and r and s": (p & ~q & r & s).mean(),
            "(p or q) and (r xor s)": ((p | q) & (r ^ s)).mean()}  # fmt: skip
    pulls = {text: [] for text in true}
    rng = np.random.default_rng(2)
    for _ in range(120):
        file = published(X, rng, 300, 2.0)
        for text in true:
            found = file.probability(text)
            pulls[text].append((found - true[text]) / found.std)
    for text, z in pulls.items():
        assert abs(np.mean(z)) * math.sqrt(len(z)) < 6.1, text
        assert 1e-9 < chi2.cdf(np.square(z).sum(), len(z)) < 1 - 1e-9, text


def test_direct_answers_have_the_announced_errors():
    """Read off tables: 1,500 draws of noise, false alarm 1e-9 each."""
    X = attributes(60)[:, :4]
    true = {"p": X[:, 0].mean(), "p and q": (X[:, 0] & X[:, 1]).mean()}
    pulls = {text: [] for text in true}
    rng = np.random.default_rng(3)
    for _ in range(1500):
        file = published(X, rng, 4, 0.2)
        for text in true:
            used, truth = truth_table(text, NAMES[:4])
            value, std, _, _ = file._direct(used, truth.astype(float))
            pulls[text].append((value - true[text]) / std)
    for text, z in pulls.items():
        assert 1e-9 < chi2.cdf(np.square(z).sum(), len(z)) < 1 - 1e-9, text


# --- price and file ----------------------------------------------------------------------------


@pytest.mark.parametrize(("guarantee", "each"), [("dp", 1), ("beliefs", 2)])
def test_the_price_is_one_histogram_a_table(tmp_path, guarantee, each):
    """C(5, 2) = 10 tables: 10 queries under dp, 20 under beliefs, known before."""
    db, _ = census(300, guarantee=guarantee, queries=10 * each, quiet=False)
    plan = vertical.plan(vertical.publish, db, NAMES, 2)
    assert plan.prices[0].queries == 10 * each
    assert db.budget.spent == 0
    file = vertical.publish(db, NAMES, 2, tmp_path / "f.parquet")
    assert db.budget.spent == file.price.queries == 10 * each
    again = vertical.publish(db, NAMES, 2, tmp_path / "g.parquet")  # the same tables: free
    assert np.array_equal(again.counts, file.counts)
    assert db.budget.spent == 10 * each


def test_a_file_says_what_it_is(exact):
    """Promise, block rule, attributes and prices are in its metadata, as JSON."""
    file, _, path = exact
    facts = json.loads(pq.read_schema(path).metadata[KEY])
    assert facts["promise"]["epsilon"] == 1e9
    assert facts["blocks"]["count"] == BLOCKS
    assert "mod 2^31-1" in facts["blocks"]["rule"]
    assert sum(facts["prices_micro"]) == file.price.micro
    assert facts["tables"][0] == ["p", "q"]
    assert pq.read_table(path).column_names == ["table", "block", "cell", "count"]
    assert "any Boolean function of up to 4 attributes" in str(file)


def test_predicates_and_missing_values(tmp_path):
    """Attributes may be predicates; a missing value counts as not."""
    smokes = [True, None, False, None] * 10
    ages = list(range(40))
    declared = {"smokes": {"type": "boolean"}, "age": {"type": "integer", "low": 0, "high": 99}}
    db = database({"smokes": pa.array(smokes), "age": ages}, declared, epsilon=1e9)
    file = vertical.publish(
        db, {"smoker": "smokes", "old": "age >= 30 -- or so"}, 2, tmp_path / "f.parquet", 5000
    )
    assert file.probability("smoker") == pytest.approx(0.25, abs=1e-3)
    assert file.probability("old and not smoker") == pytest.approx(8 / 40, abs=1e-3)


@pytest.mark.parametrize(
    ("named", "width"),
    [
        ([], 1), (["p"], 2), (["p", "p"], 1), (["nothing"], 1), ("pq", 1), (7, 1), (["p", 7], 1),
        ({"x": 7}, 1), ({"": "p"}, 1), (["p", "q"], 0), (["p", "q"], True), (["p", "q"], 7),
        ({"x": "p) or (true"}, 1), ({"a": "p", "A": "q"}, 1),
        ({"a": "p", "b": "p"}, 1), ({"a": "p", "b": " (P)"}, 1),
    ],
)  # fmt: skip
def test_what_cannot_be_published_is_refused_free(tmp_path, named, width):
    """No file is written and nothing charged."""
    db, _ = census(100)
    with pytest.raises(sulq.Refused):
        vertical.publish(db, named, width, tmp_path / "f.parquet")
    assert db.budget.spent == 0
    assert not (tmp_path / "f.parquet").exists()


def test_a_place_that_cannot_be_written_is_found_before_paying(tmp_path):
    """A file that is there stays."""
    db, _ = census(100)
    (tmp_path / "there.parquet").write_text("mine")
    for path in ("there.parquet", "nowhere/f.parquet"):
        with pytest.raises(sulq.Refused):
            vertical.publish(db, NAMES, 2, tmp_path / path)
    assert db.budget.spent == 0
    assert (tmp_path / "there.parquet").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["there.parquet"]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path):
    """Somebody else writes there while the rows are read: theirs stays, ours is free next time."""
    db, _ = census(100)
    path, ask = tmp_path / "f.parquet", db.ask

    def slow(*args, **options):
        path.write_text("theirs")
        return ask(*args, **options)

    db.ask = slow
    with pytest.raises(sulq.Refused, match="publishing again is free"):
        vertical.publish(db, NAMES, 2, path)
    assert path.read_text() == "theirs"
    db.ask = ask
    vertical.publish(db, NAMES, 2, tmp_path / "g.parquet")
    assert db.budget.spent == 20


@pytest.mark.parametrize("keys", [[0, 0, *range(2, 50)], [None, *range(1, 50)]])
def test_keys_must_name_people(tmp_path, keys):
    """Rows of one key would always share a block, and count as agreement."""
    db = database({"p": [True] * 50}, keys=keys)
    with pytest.raises(sulq.QueryNotAllowed, match="key"):
        vertical.publish(db, ["p"], 1, tmp_path / "f.parquet")
    assert db.budget.spent == 0


# --- files from strangers ------------------------------------------------------------------------


def changed(path, to, edit=None, table=None):
    """The file again, with what it says of itself edited, and perhaps another table."""
    found = pq.read_table(path)
    facts = json.loads(found.schema.metadata[KEY])
    said = edit(facts) if edit else facts
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    body = table(found) if table else found
    pq.write_table(body.replace_schema_metadata({KEY: text}), to)
    return to


def told(**changes):
    return lambda facts: facts | changes


def drop(name):
    return lambda facts: {k: v for k, v in facts.items() if k != name}


EDITS = {
    "another width": told(width=1), "a width of text": told(width="2"), "no width": drop("width"),
    "huge width": told(width=60), "true as width": told(width=True),
    "fewer sizes": lambda f: f | {"sizes": f["sizes"][:-1]}, "sizes of text": told(sizes="many"),
    "negative sizes": lambda f: f | {"sizes": [-x for x in f["sizes"]]},
    "empty blocks": lambda f: f | {"sizes": [0] * len(f["sizes"])},
    "no attributes": told(attributes=[]), "attributes as a dict": told(attributes={"p": "p"}),
    "twice the same": lambda f: f | {"attributes": [["p", "p"]] * 5},
    "a thousand attributes": told(attributes=[[f"a{i}", "x"] for i in range(1000)]),
    "other tables": lambda f: f | {"tables": f["tables"][::-1]},
    "a block rule that is none": told(blocks=7),
    "endless blocks": lambda f: f | {"blocks": f["blocks"] | {"count": 10**12}},
    "less noise": told(variance=0.0), "noise of text": told(variance="1"),
    "negative noise": told(variance=-1.0), "another promise": told(promise={"epsilon": 0.1}),
    "no promise": drop("promise"), "free": lambda f: f | {"prices_micro": [0] * 10},
    "another name": told(name="<b>"), "no digest": drop("digest"),
    "another version": told(version=2),
    "a list": lambda f: [f], "no JSON": lambda f: b"{", "not UTF-8": lambda f: b"\xff\xfe",
    "deep JSON": lambda f: b"[" * 100_000, "too long": lambda f: b" " * (2**23 + 1),
    "endless number": lambda f: b'{"version": 1, "width": 1e999}', "nothing": lambda f: b"{}",
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_metadata_is_refused(exact, tmp_path, name):
    """Whatever is changed in what the file says of itself: a refusal, no crash, no answer."""
    path = changed(exact[2], tmp_path / "f.parquet", EDITS[name])
    with pytest.raises(sulq.Refused, match=r"f\.parquet"):
        Publication.load(path)


def column(name, values):
    return lambda t: t.set_column(t.column_names.index(name), name, pa.array(values(t)))


TABLES = {
    "fewer rows": lambda t: t.slice(1), "more rows": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
    "another order": lambda t: t.take(np.arange(len(t))[::-1]),
    "one count changed": column("count", lambda t: np.r_[1e6, t["count"].to_numpy()[1:]]),
    "a count missing": column("count", lambda t: [None, *t["count"].to_pylist()[1:]]),
    "a count of NaN": column("count", lambda t: np.r_[math.nan, t["count"].to_numpy()[1:]]),
    "endless counts": column("count", lambda t: np.full(len(t), math.inf)),
    "counts of text": column("count", lambda t: [str(x) for x in t["count"].to_pylist()]),
    "wide integers": column("cell", lambda t: t["cell"].to_numpy().astype(np.int64)),
    "no cells": lambda t: t.drop_columns(["cell"]), "one column more": lambda t:
    t.append_column("more", t["count"]),
    "columns in another order": lambda t: t.select(["count", "cell", "block", "table"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_edited_counts_are_refused(exact, tmp_path, name):
    """A file that was changed is not loaded."""
    path = changed(exact[2], tmp_path / "f.parquet", table=TABLES[name])
    with pytest.raises(sulq.Refused, match=r"f\.parquet"):
        Publication.load(path)


def test_counts_beyond_reason_are_refused_with_a_digest_that_fits(exact, tmp_path):
    """Whoever forges a file can write its digest too; its sums must stay numbers."""
    file, path = exact[0], tmp_path / "f.parquet"
    replace(file, counts=file.counts * 1e300).save(path)
    with pytest.raises(sulq.Refused, match=r"f\.parquet"):
        Publication.load(path)


def test_an_unchanged_copy_is_accepted(exact, tmp_path):
    """The control: the same tools without an edit give a file that is read."""
    path = changed(exact[2], tmp_path / "f.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = Publication.load(path)
    assert found.probability("p and q and r") == exact[0].probability("p and q and r")


def test_a_file_cut_anywhere_is_refused(exact, tmp_path):
    """Cut short, or with a byte flipped: refused, or the same counts as before."""
    whole = exact[2].read_bytes()
    rng = np.random.default_rng(6)
    path = tmp_path / "f.parquet"
    for cut in [0, 1, 4, 8, *rng.integers(8, len(whole), 12).tolist(), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(sulq.Refused):
            Publication.load(path)
    for at in rng.integers(0, len(whole), 60).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = Publication.load(path)
        except sulq.Refused:
            continue
        assert np.array_equal(found.counts, exact[0].counts)


def test_other_files_are_refused(tmp_path):
    """Neither plain tables nor broken files are loaded."""
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"x": [1]}), plain)
    (tmp_path / "text").write_text("hello")
    lie = b"\xff" * 64 + (2**31 - 1).to_bytes(4, "little")  # how long what follows is
    (tmp_path / "bomb.parquet").write_bytes(b"PAR1" + lie + b"PAR1")
    for name in ("plain.parquet", "text", "bomb.parquet", "missing", "."):
        with pytest.raises(sulq.Refused):
            Publication.load(tmp_path / name)


def test_a_swollen_file_is_refused_before_it_is_read(exact, tmp_path):
    """A small file that says it has a billion rows, or is large itself, is not unpacked."""
    size = 30_000_000
    swollen = pa.table({name: pa.array(np.zeros(size, np.float64 if name == "count" else np.int32))
                        for name in ("table", "block", "cell", "count")})  # fmt: skip
    facts = pq.read_schema(exact[2]).metadata[KEY]
    path = tmp_path / "f.parquet"
    pq.write_table(swollen.replace_schema_metadata({KEY: facts}), path, compression="zstd")
    assert path.stat().st_size < 10**6
    with pytest.raises(sulq.Refused, match="another number of counts"):
        Publication.load(path)
    os.truncate(path, 2**30 + 1)
    with pytest.raises(sulq.Refused, match="larger than"):
        Publication.load(path)


def test_a_width_above_six_is_refused_with_its_size():
    """Seven of ten attributes: 120 tables of 128 cells, by block, before anything is paid."""
    db = database({f"a{i}": np.arange(40) % (i + 2) == 0 for i in range(10)}, BOOLEAN)
    with pytest.raises(sulq.Refused, match=r"120 tables of 128 cells, by .* numbers at least"):
        vertical.plan(vertical.publish, db, [f"a{i}" for i in range(10)], 7)
    assert db.history() == []
    with pytest.raises(sulq.Refused, match="width"):
        vertical.plan(vertical.publish, db, ["a0", "a1"], 0)


# --- random halves, as in the paper -------------------------------------------------------


@pytest.fixture(scope="module")
def in_halves(tmp_path_factory):
    """4,000 people in 400 random halves, no noise: only who is in which half is left to luck."""
    db, X = census(4000, epsilon=1e9, queries=10**5)
    path = tmp_path_factory.mktemp("halves") / "census.parquet"
    made = vertical.publish(db, NAMES, 1, path, subsets=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Publication.load(path), X, made


@pytest.mark.parametrize("text", ["p", "not t", "p and q", "q xor s", "p or not r"])
def test_halves_tell_what_blocks_tell(in_halves, text):
    """Keys and seeds are fixed, so this is the same in every run: within four deviations."""
    file, X, _ = in_halves
    values = {name: X[:, i] for i, name in enumerate(NAMES)}
    logic = text.replace("not ", "~").replace(" and ", " & ").replace(" or ", " | ")
    true = eval(logic.replace(" xor ", " ^ "), dict(values)).mean()
    found = file.probability(text)
    assert abs(found - true) <= 4 * found.std
    assert found.std < 0.03
    assert file.rows == 4000


def test_the_papers_test_on_published_halves(in_halves):
    """Its interval holds Delta; without halves, or of one attribute twice, it is refused."""
    file, X, _ = in_halves
    p, q = X[:, 0], X[:, 1]
    delta = q[p].mean() - q.mean()
    low, high = file.implication("p", "q").interval(0.95)
    assert low <= delta <= high
    assert high - low < 0.5
    with pytest.raises(sulq.QueryNotAllowed, match="'p' is in both"):
        file.implication("p", "not p")
    with pytest.raises(sulq.QueryNotAllowed, match="1 to 1 attributes"):
        file.implication("p and q", "r")


def test_the_test_wants_halves(exact):
    """An implication needs a publication by subsets."""
    with pytest.raises(sulq.Refused, match="publish with subsets="):
        exact[0].implication("p", "q")


def test_halves_cost_as_many_times_as_there_are(tmp_path):
    """Each half is a question; the price is known before, and the file says it."""
    db, _ = census(400, quiet=False, queries=10_000, guarantee="dp")
    plan = vertical.plan(vertical.publish, db, NAMES[:3], 2, subsets=20)
    (price,) = plan.prices
    assert price.queries == 3 * 20
    made = vertical.publish(db, NAMES[:3], 2, tmp_path / "f.parquet", subsets=20)
    assert db.budget.spent == price.queries == made.price.queries
    assert "20 random halves" in str(made)
    for options, said in (
        ({"subsets": 3}, "subsets=3"),
        ({"subsets": 20, "blocks": 20}, "Say one"),
    ):
        with pytest.raises(sulq.Refused, match=said):
            vertical.publish(db, NAMES[:3], 2, tmp_path / "g.parquet", **options)
