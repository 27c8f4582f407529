"""A refresh that changes how rows are read: nobody's spending stays behind under an old label.

Every table has a private column `worth` in which each row has a power of two of its own, and noise
is silent: the digits of a sum say exactly which rows took part in it. No luck is involved.
"""

from collections import Counter

import pandas as pd
import pytest
from attacks.old_identity import with_the_old_rule
from helpers import SilentNoise

import sulq
from sulq.open_database import refresh
from sulq.questions.shards import KeySet, shards_with
from sulq.values.query import Rows

T = 10
TERMS = {"epsilon": 1.0, "queries": T}


def silent(db):
    db._pipeline.noise = SilentNoise()
    return db


class Part:
    """In how many paid answers each row was, read off the answers themselves."""

    def __init__(self):
        self.rows = Counter()
        self.asked = 0

    def ask(self, db, where="", rows=None):
        """One new question; None: it was refused."""
        self.asked += 1
        public = f" and {where}" if where else ""
        try:
            found = int(db.sum("worth", f"worth <> {2**39 - self.asked}{public}", rows=rows).value)
        except sulq.BudgetExceeded:
            return False
        self.rows.update(bit for bit in range(found.bit_length()) if found >> bit & 1)
        return True

    def spend(self, db, where="", rows=None):
        """Ask until it is refused."""
        while self.ask(db, where, rows):
            pass

    @property
    def most(self):
        return max(self.rows.values(), default=0)


WORTH = {"type": "integer", "low": 0, "high": 2**40, "nullable": False}


def double_ids(folder):
    """Parquet, id stored as DOUBLE, shards = 50: high rises from 20 to 39 in refreshes."""
    path = folder / "rows.parquet"
    ids = [float(i) for i in range(40)]
    pd.DataFrame({"id": ids, "worth": [2**i for i in range(40)]}).to_parquet(path)

    def schema(high):
        key = {"key": True, "type": "integer", "low": 0, "high": high, "shards": 50}
        return {"id": key, "worth": WORTH}

    part = Part()
    for high in (20, 25, 30, 35, 39):
        if high == 20:
            db = sulq.open(path, schema(high), **TERMS)
        else:
            db = refresh(path, schema(high), reason="more ids")
        for key in {39, high}:  # release 2 looked for row 39 where its clamped key would be
            (shard,) = shards_with(KeySet.of((key,)), db.schema)
            part.spend(silent(db), rows=Rows.shard(shard))
        db.close()
    return part.most


def typed_ids(folder):
    """CSV, shards = 2, and the key declared text first and integer later."""
    path = folder / "rows.csv"
    rows = {"id": range(40), "worth": [2**i for i in range(40)]}
    pd.DataFrame(rows).to_csv(path, index=False)
    part = Part()
    for kind in ("text", "integer"):
        declared = {"id": {"key": True, "type": kind, "shards": 2}, "worth": WORTH}
        if kind == "text":
            db = sulq.open(path, declared, **TERMS)
            part.spend(silent(db), rows=Rows.shard(0))
        else:
            db = refresh(path, declared, reason="these are numbers")
            part.spend(silent(db), rows=Rows.shard(1))
        db.close()
    return part.most


@pytest.mark.parametrize("life", [double_ids, typed_ids])
def test_a_row_whose_key_is_read_otherwise_takes_along_what_it_spent(tmp_path, life):
    """At T = 10 every row is in ten answers and not one more."""
    assert life(tmp_path) == T


def test_control_the_old_rule_lets_a_row_into_twice_as_many(tmp_path, monkeypatch):
    """Spending stays with the label of a shard, and half of the rows are in another one."""
    with_the_old_rule(monkeypatch)
    assert typed_ids(tmp_path) == 2 * T


MONTHS = ["jan", "feb", "mar"]


def people(kind):
    return {
        "columns": {
            "key": {"key": True, "type": "integer"},
            "person": {"type": kind},
            "month": {"values": MONTHS, "public": True},
            "worth": WORTH,
        },
        "unit": {"column": "person", "max_rows": 1, "max_periods": 1},
        "period": {"column": "month"},
    }


def one_person(folder):
    """CSV, persons 1, 01 and 001 in three months, max_periods = 1; later they are numbers."""
    path = folder / "people.csv"
    rows = {"key": [1, 2, 3], "person": ["1", "01", "001"], "month": MONTHS, "worth": [1, 2, 4]}
    pd.DataFrame(rows).to_csv(path, index=False)
    part = Part()
    with silent(sulq.open(path, people("text"), **TERMS)) as db:
        for month in MONTHS[1:]:
            part.spend(db, f"month = '{month}'")
    with silent(refresh(path, people("integer"), reason="these are numbers")) as db:
        part.spend(db, "month = 'jan'")
    return part.rows.total()  # all rows are of one person by now


def test_a_refresh_that_makes_one_person_of_three_is_refused(tmp_path):
    """Named after the column and its types; nothing is written, and the old schema goes on."""
    with pytest.raises(sulq.SchemaError, match="type='integer' but the ledger has 'text'"):
        one_person(tmp_path)
    with sulq.open(tmp_path / "people.csv", people("text"), **TERMS) as db:
        assert [e.kind for e in db.entries()].count("refresh") == 0
        assert {c["month"]: int(c["spent"]) for c in db.budget_by_cell()} == {
            "jan": 0, "feb": T, "mar": T, None: 0
        }  # fmt: skip


def test_control_the_old_rule_makes_one_person_of_three(tmp_path, monkeypatch):
    """One person is in thirty answers at T = 10."""
    with_the_old_rule(monkeypatch)
    assert one_person(tmp_path) == 3 * T


def star(kind):
    return {
        "unit": {"column": "person", "type": kind},
        "tables": {
            "people": {"columns": {"old": {"type": "boolean"}}},
            "visits": {"max_rows": 2, "columns": {"visit": {"key": True}, "worth": WORTH}},
        },
    }


def test_persons_of_several_tables_are_read_as_they_were(tmp_path):
    """The name of the column is not all that makes a person: its type does, too."""
    pd.DataFrame({"person": ["01", "02"], "old": [1, 0]}).to_csv(
        tmp_path / "people.csv", index=False
    )
    visits = pd.DataFrame({"person": ["01", "02"], "visit": [1, 2], "worth": [1, 2]})
    visits.to_csv(tmp_path / "visits.csv", index=False)
    sulq.open(tmp_path, star("text"), **TERMS).close()
    with pytest.raises(sulq.SchemaError, match="'person' is read as type='integer'"):
        refresh(tmp_path, star("integer"), reason="these are numbers")
    refresh(tmp_path, star("text"), reason="the same").close()


def test_a_folder_above_the_source_gives_no_public_values(tmp_path):
    """A file whose bytes are the same would be of another year, once its folder is renamed."""
    folder = tmp_path / "year=2024"
    folder.mkdir()
    rows = {"id": range(4), "worth": [1, 2, 4, 8]}
    pd.DataFrame(rows).to_parquet(folder / "rows.parquet")
    declared = {
        "columns": {
            "id": {"key": True},
            "year": {"values": ["2024", "2025"], "public": True},
            "worth": WORTH,
        },
        "file": {"hive_partitions": True},
    }
    for source in (folder, folder / "rows.parquet", f"{folder}/*.parquet"):
        with pytest.raises(sulq.SchemaError, match="folder above the source"):
            sulq.open(source, declared, **TERMS)
    part = Part()
    with silent(sulq.open(tmp_path, declared, ledger=tmp_path / "l", **TERMS)) as db:
        part.spend(db, "year = '2024'")
    folder.rename(tmp_path / "year=2025")
    with pytest.raises(sulq.SourceChanged):
        sulq.open(tmp_path, declared, ledger=tmp_path / "l", **TERMS)
    with silent(refresh(tmp_path, declared, ledger=tmp_path / "l", reason="renamed")) as db:
        part.spend(db, "year = '2025'")
    assert part.most == T


def test_the_same_bytes_read_as_another_kind_are_other_rows(tmp_path):
    """Lines of CSV are rows of nobody's cell once the file is called .jsonl."""
    path = tmp_path / "rows.csv"
    path.write_text("s,worth\nx,1\ny,2\n")
    declared = {"columns": {"s": {"values": ["x", "y"], "public": True}, "worth": WORTH}}
    with silent(sulq.open(path, declared, ledger=tmp_path / "l", **TERMS)) as db:
        for k in range(T):
            db.sum(f"worth * {k + 1}", "s = 'x'")
    lines = path.rename(path.with_suffix(".jsonl"))
    with pytest.raises(sulq.SourceChanged, match="read as json"):
        sulq.open(lines, declared, ledger=tmp_path / "l", **TERMS)
    with silent(refresh(lines, declared, ledger=tmp_path / "l", reason="renamed")) as db:
        assert {cell["s"]: cell["remaining"] for cell in db.budget_by_cell()} == {
            "x": 0, "y": 0, None: 0,
        }  # fmt: skip
