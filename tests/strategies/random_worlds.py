"""Random tables, and random questions about them that often tell something of each other.

Each world has few columns and few constants, so that many answers are combinations of others:
numbers from a millionth to a million millions wide, missing values, public columns, people with
several rows, periods, several tables. Rows are read by a database without noise.
"""

from __future__ import annotations

import datetime
import math
import random

import pandas as pd
from helpers import opened

import sulq
from sulq import Bins, Query

SCALES = [10.0**e for e in range(-6, 13)]
MONTHS = ["2026-01", "2026-02", "2026-03", "2026-04"]
DAY = datetime.date(2000, 1, 1)


class Field:
    """A column: its declaration, the values rows have, and the constants questions use."""

    def __init__(self, pick, name, kind):
        self.name, self.kind = name, kind
        self.declared, self.cuts = {}, []
        if kind == "boolean":
            self.declared = {"type": "boolean"}
        elif kind == "category":
            self.cuts = ["a", "b", "c"][: pick.choice([2, 3])]
            self.declared = {"values": self.cuts}
        elif kind == "date":
            self.declared = {"type": "date", "low": DAY, "high": DAY + datetime.timedelta(99)}
            self.cuts = [DAY + datetime.timedelta(d) for d in sorted(pick.sample(range(1, 99), 2))]
        elif kind == "small":
            low = pick.choice([0, -2, 10])
            self.ends = low, low + pick.choice([3, 6])
            self.declared = {"type": "integer"}
        elif kind == "integer":
            self.ends = pick.choice([(0, 5000), (-(10**6), 10**6), (0, 10**12)])
            self.declared = {"type": "integer"}
        else:
            scale = pick.choice(SCALES)
            self.ends = pick.choice([(0.0, scale), (-scale, scale), (scale / 2, scale)])
            self.declared = {"type": "number"}
        if hasattr(self, "ends"):
            low, high = self.ends
            self.declared |= {"low": low, "high": high}
            inner = [low + (high - low) * f for f in sorted(pick.sample([0.1, 0.25, 0.5, 0.8], 2))]
            self.cuts = inner if kind == "number" else sorted({round(c) for c in inner} - {low})
        if pick.random() < 0.4:
            self.declared["nullable"] = False

    @property
    def summed(self):
        return hasattr(self, "ends")

    @property
    def grouped(self):
        return self.kind in ("boolean", "category", "small")

    def value(self, pick):
        missing = self.declared.get("nullable", True) or self.kind != "category"
        if missing and pick.random() < 0.15:
            return None
        if self.kind == "boolean":
            return pick.random() < 0.4
        if self.kind == "category":
            return pick.choice(
                [*self.cuts, *(["z"] if self.declared.get("nullable", True) else [])]
            )
        if self.kind == "date":
            return DAY + datetime.timedelta(pick.randrange(-5, 110))
        low, high = self.ends
        if self.kind == "number":
            return low + (high - low) * pick.uniform(-0.1, 1.1)
        return pick.randint(low, high) if pick.random() < 0.9 else high + 3

    def atom(self, pick):
        """A condition on it."""
        n = self.name
        if pick.random() < 0.1:
            return f"{n} is null"
        if self.kind == "boolean":
            return pick.choice([n, f"not {n}"])
        if self.kind == "category":
            return pick.choice([f"{n} = '{pick.choice(self.cuts)}'", f"{n} in ('a', 'b')"])
        cut = pick.choice(self.cuts)
        if self.kind == "date":
            cut = f"'{cut}'"
        return pick.choice([f"{n} < {cut}", f"{n} >= {cut}", f"{n} > {cut}"])

    def bins(self):
        if self.kind == "date":
            ends = DAY, DAY + datetime.timedelta(99)
            return Bins(self.name, tuple(map(str, (ends[0], *self.cuts, ends[1]))))
        low, high = self.ends
        return Bins(self.name, (low, *self.cuts, high))


class World:
    """A schema, its rows, and questions."""

    def __init__(self, seed):
        self.pick = pick = random.Random(seed)
        self.kind = pick.choice(["plain", "plain", "unit", "period", "tables"])
        make = self._tables if self.kind == "tables" else self._one_table
        make()
        self.settings = {"name": "t", "guarantee": pick.choice(["beliefs", "dp"]), "queries": 100}
        if pick.random() < 0.1:
            self.settings["noise"] = "laplace"

    def _fields(self, prefix, count):
        pick = self.pick
        kinds = ["number", "number", "small", "integer", "boolean", "category", "date"]
        fields = [Field(pick, f"{prefix}{i}", pick.choice(kinds)) for i in range(count)]
        for f in fields:
            if f.grouped and pick.random() < 0.2:
                f.declared["public"] = True
        return fields

    def _one_table(self):
        pick = self.pick
        self.fields = {"t": self._fields("c", pick.randint(2, 4))}
        columns = {f.name: f.declared for f in self.fields["t"]}
        rows = [
            {f.name: f.value(pick) for f in self.fields["t"]} for _ in range(pick.randint(20, 150))
        ]
        self.schema = {"columns": columns}
        columns["id"] = {"key": True}
        for i, row in enumerate(rows):
            row["id"] = i
        if self.kind == "unit":
            columns["who"] = {"type": "integer"}
            self.schema["unit"] = {"column": "who", "max_rows": pick.choice([1, 2, 3])}
            for row in rows:
                row["who"] = pick.randrange(max(len(rows) // 3, 1))
        if self.kind == "period":
            columns["month"] = {"values": MONTHS, "public": True, "nullable": False}
            self.schema["period"] = {"column": "month"}
            for row in rows:
                row["month"] = pick.choice(MONTHS[:3])
            months = Field(pick, "month", "category")
            months.cuts, months.declared = MONTHS[:3], columns["month"]
            self.fields["t"].append(months)
        self.rows = frame(rows, columns)

    def _tables(self):
        pick = self.pick
        people, visits = (
            self._fields("p", pick.randint(1, 3)),
            self._fields("v", pick.randint(1, 3)),
        )
        for f in people + visits:
            f.declared.pop("public", None)
        self.fields = {"people": people, "visits": visits}
        most = pick.choice([1, 2, 3])
        self.schema = {"unit": {"column": "person"}, "tables": {
            "people": {"columns": {f.name: f.declared for f in people}},
            "visits": {"max_rows": most, "columns": {
                "visit": {"key": True}, **{f.name: f.declared for f in visits}}},
        }}  # fmt: skip
        persons = range(pick.randint(10, 60))
        own = [{"person": p} | {f.name: f.value(pick) for f in people} for p in persons]
        events = [{"person": p} | {f.name: f.value(pick) for f in visits}
                  for p in persons for _ in range(pick.choice([0, 1, 2, 5]))]  # fmt: skip
        for i, row in enumerate(events):
            row["visit"] = i
        tables = self.schema["tables"]
        self.rows = {
            "people": frame(own, {"person": {"type": "integer"}} | tables["people"]["columns"]),
            "visits": frame(events, {"person": {"type": "integer"}} | tables["visits"]["columns"]),
        }

    def database(self, **settings):
        return opened(self.rows, self.schema, **(self.settings | settings))

    # ---- questions ------------------------------------------------------------------------

    def asker(self):
        """A function that hands a question to a database, and what the question is."""
        pick = self.pick
        table = pick.choice(list(self.fields))
        fields = self.fields[table]
        if self.kind != "tables":
            return None, self._question(fields, "t")
        joined = table == "visits" and pick.random() < 0.4
        if joined:
            fields = fields + self.fields["people"]
        source = "visits join people on visits.person = people.person" if joined else table
        if joined and pick.random() < 0.5:
            source = source.replace(" join", " left join")
        question = self._question(fields, source)
        return (None if isinstance(question, str) else table), question

    def condition(self, fields):
        pick = self.pick
        atoms = [pick.choice(fields).atom(pick) for _ in range(pick.choice([1, 1, 1, 2]))]
        return pick.choice([" and ", " or "]).join(atoms)

    def _where(self, fields):
        return self.condition(fields) if self.pick.random() < 0.45 else None

    def _question(self, fields, source):
        pick = self.pick
        where = self._where(fields)
        numbers = [f.name for f in fields if f.summed]
        groups = [f.name for f in fields if f.grouped]
        binned = [f for f in fields if f.summed or f.kind == "date"]
        kinds = ["count", "count", "by", "by", "sum", "sum", "sql", "sql", "terms", "mean",
                 "product", "list", "marginals", "strategy", "person"]  # fmt: skip
        kind = pick.choice(kinds)
        x = pick.choice(numbers) if numbers else "1"
        by = pick.choice(groups) if groups else None
        if binned and (by is None or pick.random() < 0.4):
            by = pick.choice(binned).bins()
        if kind == "by" and by is not None:
            more = [g for g in groups if g != by]
            by = (by, pick.choice(more)) if more and pick.random() < 0.4 else by
            return Query((pick.choice(["1", x]),), by=by, where=where)
        if kind == "sum":
            return Query((x,), where=where, by=by if pick.random() < 0.4 else None)
        if kind == "sql":
            return self._sql(x, pick.choice(groups) if groups else None, where, source)
        if kind == "terms":
            return Query(("1", x), where=where, by=by, weights=pick.choice([None, (2, 1)]))
        if kind == "mean" and numbers:
            return Query(sulq.Mean(x), where=where)
        if kind == "product" and numbers:
            return Query((f"{x} * {pick.choice(numbers)}",), where=where)
        if kind == "list":
            conditions = [self.condition(fields) for _ in range(3)]
            return [Query(where=c) for c in dict.fromkeys(conditions)]
        if kind == "marginals" and len(groups) > 1:
            return sulq.Marginals(groups[:3], pick.choice([1, 2]))
        if kind == "strategy" and groups:
            return Query(sulq.Strategy((pick.choice(["ranges", "cdf", "prefixes"]),)), by=groups[0])
        if kind == "person" and self.kind == "unit" and numbers:
            return "select count(*) as c from (select who, count(*) as v from t group by who) as s"
        return Query(where=where)

    def _sql(self, x, group, where, source):
        pick = self.pick
        what = pick.sample(
            ["count(*) as n", f"sum({x}) as s", f"avg({x}) as a", f"count({x}) as k",
             f"var_samp({x}) as v", f"sum({x}) filter (where {where or x + ' > 0'}) as f"],
            pick.choice([1, 1, 2]),
        )  # fmt: skip
        keys = f"{group}, " if group and pick.random() < 0.5 else ""
        text = f"select {keys}{', '.join(what)} from {source}"
        text += f" where {where}" if where else ""
        return text + (f" group by {group}" if keys else "")


def frame(rows, declared):
    """Rows as a frame whose columns have the declared types."""
    made = {}
    for name in declared:
        values = [row[name] for row in rows]
        kind = declared[name].get("type")
        known = {"integer": "Int64", "boolean": "boolean", "number": "float64"}.get(kind, "object")
        made[name] = pd.Series(values, dtype="Int64" if declared[name].get("key") else known)
    return pd.DataFrame(made)


# ---- what was answered ------------------------------------------------------------------------


def numbers_of(found):
    """Every number of an answer with its standard deviation, by its place."""
    if isinstance(found, list):
        return {(i, *k): v for i, each in enumerate(found) for k, v in numbers_of(each).items()}
    if isinstance(found, dict):
        return {(n, *k): v for n, each in found.items() for k, v in numbers_of(each).items()}
    if isinstance(found, sulq.Answer):
        pairs = zip(found.exact, found.stds, strict=True)
        return {(i, j): (float(x), s) for i, (row, stds) in enumerate(pairs)
                for j, (x, s) in enumerate(zip(row, stds, strict=True))}  # fmt: skip
    out = {}
    labels = list(zip(*(found[name] for name in found.by), strict=True)) or [()] * len(found)
    for name in found.columns:
        low, high = f"{name}_low", f"{name}_high"
        if low in found.columns:
            for i, x in enumerate(found[name]):
                ends = found[low][i], found[high][i]
                std = math.inf if None in ends else (float(ends[1]) - float(ends[0])) / 3.92
                out[name, *labels[i]] = math.nan if x is None else float(x), std
    return out


def put(db, table, question, how="ask"):
    """A question asked of a database or one of its tables, or estimated by it."""
    view = db if table is None else db.table(table)
    if how == "estimate":
        return view.estimate(question)
    if isinstance(question, str):
        return view.sql(question)
    if isinstance(question, sulq.Marginals):
        return view.answer(view.question(question))
    return view.ask(question)


def mistakes(world, question, found, truth):
    """The numbers that are not the truth, but for rounding.

    An estimate may be off by a hundred-thousandth of its standard deviation, and by a thousand
    millionth of what the largest of its numbers is; a variance, of the squared ends of its column.
    """
    truth = numbers_of(truth)
    size = max((abs(x) for x, _ in truth.values() if math.isfinite(x)), default=0.0)
    if "var_samp" in str(question):
        named = [f for each in world.fields.values() for f in each if f.name in str(question)]
        ends = [abs(e) for f in named if f.summed for e in f.ends]
        size = max(size, max(ends, default=0.0) ** 2)
    out = []
    for place, (number, std) in numbers_of(found).items():
        exact = truth[place][0]
        if math.isnan(exact):  # a ratio to no rows: without noise that is 0 / 0
            continue
        slack = 1e-9 * size + (1e-5 * std if math.isfinite(std) else 0.0)
        if not abs(number - exact) <= slack:
            out.append((place, number, std, exact))
    return out
