"""Random lives of tables whose rows, schemas and places change: nobody outspends T.

Attributes are found by walking the schema's dataclasses, so a new one is tried as soon as it is
there. Every row has a private power of two and noise is silent: the digits of each stored sum say
which rows took part, which is by how much the sums of their twins would be apart. What that adds
up to, per row and per person, is compared with T after every step. No luck but the lives' seeds.
"""

import random
import shutil
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace

import pandas as pd
import pyarrow as pa
import pytest
from attacks.old_identity import with_the_old_rule
from helpers import SilentNoise
from soak import SOAK, some, times

import sulq
from sulq.errors import SulqError
from sulq.ledger.open_periods import schema_of
from sulq.open_database import append, refresh
from sulq.values.assignment import Assignment
from sulq.values.query import Rows

T = 2
TERMS = {"epsilon": 1.0, "queries": T}
ROWS = 39
REGIONS, MONTHS = ["1", "2", "x"], ["1", "2", "03", "4"]
WORTH = {"type": "integer", "low": 0, "high": 2**40, "nullable": False}
SICK = {"type": "integer", "low": 0, "high": 9}
# What an attribute may become, whatever it is: what does not fit is refused.
POOL = [
    None, True, False, 1, 2, 3, 4, 20, 0, 9, 1.5, "text", "integer", "number", "category",
    "boolean", "date", "timestamp", "key", "id", "person", "region", "month", "sick", ",", ";", ".",
    "'", "latin-1", "utf-16", "%Y-%m-%d", "people", "visits", ("1",), ("2",), ("x", "1", "2"),
    (1, 2, 3), (3, 2, 1), ("1", "2", "x"), (0, 5, 9),
]  # fmt: skip


# ---- changing any attribute -----------------------------------------------------------------


def attributes(value, path=()):
    """Every attribute of a declaration and of its parts, as the way to it."""
    if is_dataclass(value):
        for field in fields(value):
            if field.compare:
                step = (*path, field.name)
                yield type(value).__name__, step
                yield from attributes(getattr(value, field.name), step)
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from attributes(each, (*path, i))


def at(value, path):
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def changed(value, path, new):
    """The declaration with another value there."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    inner = changed(at(value, (step,)), rest, new)
    if isinstance(step, int):
        return (*value[:step], inner, *value[step + 1 :])
    return replace(value, **{step: inner})


def others(luck, value):
    """Something else than this value."""
    if isinstance(value, tuple) and value and luck.random() < 0.5:
        return luck.choice([value[::-1], value[1:], value[:-1], (*value, value[0])])
    if isinstance(value, int) and not isinstance(value, bool) and luck.random() < 0.5:
        return value + luck.choice([-1, 1, 10])
    like = [each for each in POOL if type(each) is type(value)]
    return luck.choice(like if like and luck.random() < 0.5 else POOL)


def mutated(luck, schema, tried, only=""):
    """The schema with one attribute changed, as an owner could write it; None: they could not."""
    ways, decides = list(attributes(schema)), {c.name for c in Assignment.of(schema).columns}
    if luck.random() < 0.8:  # most often one of what decides where a row is
        kept = {i for i, c in enumerate(schema.columns) if c.name in decides}
        ways = [w for w in ways if w[1][0] != "columns" or not w[1][1:] or w[1][1] in kept]
    ways = [w for w in ways if w[1][-1] == (only or w[1][-1])]
    owner, path = luck.choice(ways)
    tried[owner, path[-1]] += 1
    for _ in range(30):  # each attribute is as likely, however few values it can have
        try:
            new = sulq.Schema.load(changed(schema, path, others(luck, at(schema, path))).to_json())
        except (SulqError, AttributeError, TypeError, ValueError, KeyError):
            continue
        same_worth = "worth" in new.names and new["worth"] == schema["worth"]
        if same_worth and new.to_json() != schema.to_json():
            return new
    return None


# ---- worlds ---------------------------------------------------------------------------------

KEY = {"key": True, "type": "integer"}
REGION = {"type": "category", "values": REGIONS, "public": True}
MONTH = {"type": "category", "values": MONTHS, "public": True}
LOOKUPS = {"areas": {"on": "region", "rows": [{"region": "1", "flat": True}]}}


def schemas(luck):
    """A schema of each kind, by its name."""
    kind = luck.choice(["text", "integer"])
    key = {"key": True, "type": kind}
    person = {"type": kind}
    base = {"worth": WORTH, "sick": SICK}
    unit = {"column": "person", "max_rows": luck.choice([1, 2])}
    by_month = {"period": {"column": "month"}}
    ranged = key | ({} if kind == "text" else {"low": 0, "high": 9})
    return {
        "cells": {"columns": {"id": key, "region": REGION} | base, "lookups": LOOKUPS},
        "shards": {"columns": {"id": ranged | {"shards": 4}} | base},
        "both": {"columns": {"id": ranged | {"shards": 2}, "region": REGION} | base},
        "periods": {"columns": {"id": key, "month": MONTH} | base} | by_month,
        "people": {"columns": {"id": KEY, "person": person} | base, "unit": unit},
        "people by periods": {
            "columns": {"id": KEY, "person": person, "month": MONTH} | base,
            "unit": unit | {"max_periods": luck.choice([1, 2])},
        } | by_month,
        "tables": {
            "unit": {"column": "person"} | person,
            "tables": {
                "people": {"columns": {"sick": SICK}},
                "visits": {"max_rows": unit["max_rows"], "columns": {"id": KEY, "worth": WORTH}},
            },
        },
        "folders": {
            "columns": {"id": key, "region": REGION} | base, "file": {"hive_partitions": True},
        },
    }  # fmt: skip


class Life:
    """A table that changes, the questions about it, and in which answers each row was."""

    def __init__(self, folder, seed, tried, world="", only=""):
        self.luck = luck = random.Random(seed)
        self.tried, self.only = tried, only
        worlds = schemas(luck)
        self.world = world or luck.choice(list(worlds))
        declared = worlds[self.world]
        self.format = luck.choice(["csv", "csv", "csv", "parquet", "jsonl", "frame"])
        if self.world in ("tables", "folders"):
            self.format = {"tables": "csv", "folders": "parquet"}[self.world]
        self.stored = luck.choice([int, float, str])  # a Parquet file's keys
        self.folder, self.ledger = folder, folder / "t.ledger"
        self.bit, self.asked, self.steps = 0, 0, Counter()
        self.rows = [self.row() for _ in range(10)]
        for row in self.rows:
            row["month"] = MONTHS[0]
        self.answers = []  # rows and persons in each paid answer, how many of one may be in it
        self.schema = sulq.Schema.load(declared)
        if self.format in ("parquet", "frame") and self.stored is not str:  # as the file has it
            self.schema = sulq.Schema.load(_whole(self.schema.to_json()))
        elif self.format in ("parquet", "frame"):
            self.schema = sulq.Schema.load(_texts(self.schema.to_json()))
        self.db = None
        self.write(self.rows)
        self.reopen()

    def row(self):
        luck, bit = self.luck, self.bit
        self.bit += 1
        number = luck.randrange(5)
        person = luck.choice([f"{number}", f"0{number}", f"00{number}"])
        return {
            "bit": bit, "id": str(bit), "person": person, "region": luck.choice([*REGIONS, "9"]),
            "month": luck.choice(MONTHS), "worth": 2**bit, "sick": luck.randrange(10),
        }  # fmt: skip

    # -- the rows --

    def frame(self, rows):
        table = pd.DataFrame(rows).drop(columns="bit")
        if self.format in ("parquet", "frame"):
            for name in ("id", "person"):
                table[name] = table[name].map(self.stored)
        return table

    def write(self, rows):
        """The rows where they lie."""
        table, folder = self.frame(rows), self.folder
        if self.world == "folders":
            shutil.rmtree(folder / "t", ignore_errors=True)
            for region, part in table.groupby("region"):
                (folder / "t" / f"region={region}").mkdir(parents=True)
                part.drop(columns="region").to_parquet(
                    folder / "t" / f"region={region}" / "p.parquet"
                )
        elif self.world == "tables":
            (folder / "t").mkdir(exist_ok=True)
            table[["person", "id", "worth"]].to_csv(folder / "t" / "visits.csv", index=False)
            named = table["person"].map(self.person)  # one row for each person
            people = table[["person", "sick"]][~named.duplicated()]
            people.to_csv(folder / "t" / "people.csv", index=False)
        elif self.format == "csv":
            table.to_csv(folder / "t.csv", index=False)
        elif self.format == "jsonl":
            table.to_json(folder / "t.jsonl", orient="records", lines=True)
        elif self.format == "parquet":
            table.to_parquet(folder / "t.parquet")
        else:
            self.table = pa.Table.from_pandas(table, preserve_index=False)

    @property
    def source(self):
        if self.world in ("folders", "tables"):
            return self.folder / "t"
        return self.table if self.format == "frame" else self.folder / f"t.{self.format}"

    # -- what may happen --

    def opened(self, make, *args, **more):
        """A database made so, its noise silent; the one before is closed."""
        if self.db is not None:
            self.db.close()
        self.db = make(self.source, *args, ledger=self.ledger, **more)
        self.db._pipeline.noise = SilentNoise()

    def reopen(self):
        self.opened(sulq.open, self.schema, **TERMS)

    def renewed(self, rows, schema):
        """Go on with these rows and this schema, or stay as it was."""
        self.write(rows)
        try:
            self.opened(refresh, schema, reason="a life")
        except SulqError:
            self.steps["refused"] += 1
            self.write(self.rows)
            self.reopen()
            return
        book = self.db._ledger
        self.steps[[e.body["spending"] for e in book.decisions() if e.kind == "refresh"][-1]] += 1
        self.rows, self.schema = rows, schema_of(book.terms)

    def move(self):
        """Rows in other cells, under other keys, of other people; some leave, some arrive."""
        luck, rows = self.luck, [dict(row) for row in self.rows]
        for row in luck.sample(rows, min(3, len(rows))):
            name = luck.choice(["region", "month", "person", "id", "sick"])
            row[name] = self.row()[name] if self.bit < ROWS else row[name]
        if luck.random() < 0.3:  # numbered anew
            ids = [row["id"] for row in rows]
            luck.shuffle(ids)
            for row, other in zip(rows, ids, strict=True):
                row["id"] = other
        if luck.random() < 0.3 and len(rows) > 4:
            rows.remove(luck.choice(rows))
        if luck.random() < 0.3 and self.bit < ROWS:
            rows.append(self.row())
        self.renewed(rows, self.schema if luck.random() < 0.5 else None)

    def declare(self):
        """Another schema on the same rows, once in a while on others."""
        for _ in range(5):
            new = mutated(self.luck, self.schema, self.tried, self.only)
            if new is not None:
                self.renewed(self.rows, new)
                return

    def arrive(self):
        """Rows of a month that had none."""
        left = [m for m in MONTHS if m not in {row["month"] for row in self.rows}]
        if self.schema.period is None or not left or self.bit > ROWS - 3:
            return
        new = [self.row() | {"month": left[0]} for _ in range(3)]
        self.write([*self.rows, *new])
        try:
            self.opened(append)
        except SulqError:
            self.write(self.rows)
            self.reopen()
        else:
            self.rows = [*self.rows, *new]
            self.steps["append"] += 1

    def set_back(self):
        """An older copy of the ledger in its place: noticed, and the newer one goes on."""
        self.db.close()
        copy, now = self.folder / "older", self.folder / "newer"
        if copy.exists() and copy.read_bytes() != self.ledger.read_bytes():
            shutil.copy(self.ledger, now)
            shutil.copy(copy, self.ledger)
            with pytest.raises(sulq.LedgerDamaged):
                sulq.open(self.source, self.schema, ledger=self.ledger, **TERMS)
            shutil.copy(now, self.ledger)
        else:
            shutil.copy(self.ledger, copy)
        self.reopen()

    def question(self):
        """About some cells, some keys, or everybody."""
        self.ask(*self.chosen())

    def spend(self):
        """About the same rows until it is refused."""
        where, rows = self.chosen()
        while self.ask(where, rows):
            pass

    def chosen(self):
        luck, key = self.luck, self.schema.key
        wheres = [f"{n} = '{v}'" for n, vs in (("region", REGIONS), ("month", MONTHS))
                  if n in self.schema.names for v in vs]  # fmt: skip
        where = luck.choice(wheres) if wheres and luck.random() < 0.9 else ""
        if key is None or self.schema.unit is not None or luck.random() < 0.1:
            return where, None
        if key.shards and luck.random() < 0.9:
            return where, Rows.shard(luck.randrange(key.shards))
        if luck.random() < 0.7:
            return where, None
        ids = luck.sample(range(self.bit), 2)
        return where, Rows.keys(map(str, ids) if key.type == "text" else ids)

    def ask(self, where, rows):
        """One new question: was it paid and answered?"""
        self.asked += 1
        test = f"worth <> {2**38 - self.asked}{' and ' * bool(where)}{where}"
        try:
            if self.world == "tables":
                sql = f"select sum(worth) as sum from visits where {test}"
                (value,) = self.db.sql(sql)["sum"]
            else:
                value = self.db.sum("worth", test, rows=rows).value
        except SulqError:
            return False
        bits = [bit for bit in range(ROWS + 1) if int(value) >> bit & 1]
        assert set(bits) <= {row["bit"] for row in self.rows}
        unit, star = self.schema.unit, self.schema.star
        most = 1 if unit is None else unit.max_rows if star is None else star.tables[1].most
        names = {row["bit"]: row["person"] for row in self.rows}
        self.answers.append(([(bit, names[bit]) for bit in bits], most))
        self.steps["answers"] += 1
        return True

    # -- what it comes to --

    def person(self, text):
        """The name of a person as the schema reads it now."""
        kind = self.schema[self.schema.unit.column].type
        if self.format in ("parquet", "frame"):
            text = self.stored(text)
        if kind == "integer" or isinstance(text, float):
            with suppress(ValueError):
                return float(text)
        return text

    def most(self):
        """The largest sum, over all answers, of the squared movement of one row or person."""
        if self.schema.unit is None:
            return max(Counter(b for rows, _ in self.answers for b, _ in rows).values(), default=0)
        met = Counter()
        for rows, most in self.answers:
            for person, count in Counter(self.person(name) for _, name in rows).items():
                met[person] += (count / most) ** 2
        return max(met.values(), default=0)

    def live(self, steps):
        """So many steps: the most that anybody met after any of them.

        It begins with some cells spent, another schema, and all cells spent.
        """
        ways = {
            self.question: 3, self.spend: 6, self.declare: 6, self.move: 0.6, self.arrive: 1,
            self.reopen: 0.3, self.set_back: 0.3,
        }  # fmt: skip
        begin, found = [self.spend, self.spend, self.declare, self.spend, self.spend, self.spend], 0
        for step in [*begin, *self.luck.choices(list(ways), list(ways.values()), k=steps)]:
            step()
            found = max(found, self.most())
        self.db._ledger.verify()
        self.db.close()
        return found


def _whole(body):
    """The schema with whole numbers for keys and persons, as a file stores them."""
    return _typed(body, "integer")


def _texts(body):
    """The schema with texts for keys and persons."""
    return _typed(body, "text")


def _typed(body, kind):
    for name in ("id", "person"):
        spec = body["columns"].get(name)
        if spec is not None:
            spec["type"] = kind
            if kind == "text":
                spec.pop("low", None), spec.pop("high", None)
    return body


LIVES, PARTS, STEPS = 2000, 20, 6


def lives(folder, seeds, tried, **more):
    """The most that anybody met in each of these lives, and what happened in all of them."""
    found, steps = [], Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            place = folder / str(seed)
            place.mkdir()
            life = Life(place, seed, tried, **more)
            found.append(life.live(STEPS))
            steps += life.steps
            shutil.rmtree(place)
    return found, steps


@pytest.mark.parametrize("part", some(range(PARTS), 1))
def test_no_life_lets_anybody_outspend_t(tmp_path, part):
    """Whatever attribute of the schema, its tables, unit, period, key and shards changes."""
    tried, seeds = Counter(), range(part, LIVES, PARTS)
    found, steps = lives(tmp_path, some(seeds, 10), tried)
    print(f"{len(found)} lives, {dict(steps)}; attributes: {dict(tried)}")
    assert max(found) <= T
    if SOAK:  # the lives reach what they are about
        assert found.count(T) > len(found) / 3
        assert min(steps[each] for each in ("kept", "highest", "append", "refused")) > 0


def test_control_the_old_rule_lets_somebody_outspend_t(tmp_path, monkeypatch):
    """Lives in which types change find what release 2 left behind."""
    with_the_old_rule(monkeypatch)
    more = {"world": "shards", "only": "type"}
    found, _ = lives(tmp_path, range(times(12, 200)), Counter(), **more)
    print(f"old rule: {sum(most > T for most in found)} of {len(found)} lives above T")
    assert max(found) > T
