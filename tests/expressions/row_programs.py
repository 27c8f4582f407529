"""Random Python functions of a row, and the table they are tried on."""

from __future__ import annotations

import datetime
import random

import pyarrow as pa

DAY, AT = datetime.date, datetime.datetime
SECOND = datetime.timedelta(seconds=1)
ROWS = 48
SURE = {"nullable": False}
SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 120} | SURE,
    "steps": {"type": "integer", "low": -1000, "high": 1000} | SURE,
    "bmi": {"type": "number", "low": 0, "high": 64} | SURE,
    "change": {"type": "number", "low": -8, "high": 8},
    "smoker": {"type": "boolean"} | SURE,
    "region": {"values": ["north", "south", "east"]},
    "born": {"type": "date", "low": DAY(1920, 1, 1), "high": DAY(2025, 12, 31)} | SURE,
    "seen": {"type": "timestamp", "low": AT(2019, 12, 31), "high": AT(2021, 1, 1)} | SURE,
    "gone": {"type": "timestamp", "low": AT(2019, 12, 31), "high": AT(2021, 1, 1)} | SURE,
    "word": {"type": "text"},
    "row": {"type": "integer", "low": 0, "high": ROWS - 1, "public": True} | SURE,
}
KINDS = {
    "age": pa.int64(), "steps": pa.int32(), "bmi": pa.float64(), "change": pa.float64(),
    "smoker": pa.bool_(), "region": pa.string(), "born": pa.date32(),
    "seen": pa.timestamp("us"), "gone": pa.timestamp("us"), "word": pa.string(), "row": pa.int64(),
}  # fmt: skip
WORDS = ["", "a", "Abba", "bab", "ABC", "日本", "it's", "b a", "ab-1-20", "-b-", "12\n3"]
MOMENTS = [AT(2020, 1, 1), AT(2020, 2, 29, 23, 59, 59), AT(2020, 7, 4, 12, 30), AT(2019, 12, 31)]


def rows(seed: int = 1) -> list[dict]:
    """Rows with what their columns can hold, ends included."""
    pick = random.Random(seed)
    return [
        {
            "age": pick.choice([0, 120, 17, 18, 65, pick.randint(0, 120)]),
            "steps": pick.choice([-1000, 1000, 0, -1, pick.randint(-1000, 1000)]),
            "bmi": pick.choice([0.0, 64.0, 30.0, 0.1, pick.randint(0, 640) / 10]),
            "change": pick.choice([None, -8.0, 0.5, -0.5, pick.uniform(-8, 8)]),
            "smoker": pick.random() < 0.5,
            "region": pick.choice([None, "north", "south", "east"]),
            "born": pick.choice([DAY(1920, 1, 1), DAY(2000, 2, 29), DAY(2025, 12, 31)]),
            "seen": pick.choice(MOMENTS),
            "gone": pick.choice([*MOMENTS, AT(2020, 3, 1) + pick.randint(0, 10**7) * SECOND]),
            "word": pick.choice([None, *WORDS]),
            "row": i,
        }
        for i in range(ROWS)
    ]


def table(seed: int = 1) -> pa.Table:
    """The same as Arrow."""
    made = rows(seed)
    return pa.table({n: pa.array([r[n] for r in made], kind) for n, kind in KINDS.items()})


class Program:
    """The text of one function, made of the choices of a random."""

    def __init__(self, pick: random.Random, name: str) -> None:
        self.pick, self.name = pick, name
        self.whole = ["age", "steps"]  # names that hold whole numbers
        self.real = ["bmi", "age"]
        self.loops = 0

    def text(self) -> str:
        """A function that gives a whole number from 0 to 1,000 on every row."""
        lines = self.block(1, self.pick.randint(1, 4))
        last = f"return max(0, min(1000, {self.integer(2)}))"
        arguments = ", ".join(n for n in SCHEMA if n != "row")
        return "\n".join([f"def {self.name}({arguments}):", *lines, f"    {last}"])

    def block(self, depth: int, count: int) -> list[str]:
        found: list[str] = []
        for _ in range(count):
            found += self.statement(depth)
        return found

    def statement(self, depth: int) -> list[str]:
        pad = "    " * depth
        kind = self.pick.choice(["let", "let", "real", "grow", "if", "if", "leave", "for", "swap"])
        if kind == "let" or depth > 3:
            name = self.pick.choice([*self.whole, f"k{len(self.whole)}"])
            line = f"{pad}{name} = {self.small(2)}"
            if depth == 1 and name not in self.whole:
                self.whole.append(name)
            return [line]
        if kind == "real":
            return [f"{pad}bmi = {self.fraction(2)}"]
        if kind == "grow":
            name, sign = self.pick.choice(["age", "steps"]), self.pick.choice("+-")
            return [f"{pad}{name} {sign}= {self.small(1)}"]
        if kind == "leave":
            return [f"{pad}if {self.boolean(2)}:", f"{pad}    return {self.pick.randint(0, 1000)}"]
        if kind == "swap":
            return [f"{pad}age, steps = {self.small(1)}, {self.small(1)}"]
        if kind == "for" and self.loops < 2:
            self.loops += 1
            over = self.pick.choice(["range(3)", "(1, 5, 7)", "range(4, 0, -2)"])
            inner = [f"{pad}    if {self.boolean(1)}:", f"{pad}        steps += i * {self.leaf()}"]
            return [f"{pad}for i in {over}:", *inner, f"{pad}    age = abs(age - i) % 100"]
        lines = [f"{pad}if {self.boolean(2)}:", *self.block(depth + 1, 1)]
        if self.pick.random() < 0.4:
            lines += [f"{pad}elif {self.boolean(1)}:", *self.block(depth + 1, 1)]
        if self.pick.random() < 0.6:
            lines += [f"{pad}else:", *self.block(depth + 1, 1)]
        return lines

    def leaf(self) -> str:
        return self.pick.choice([*self.whole, str(self.pick.randint(-20, 200))])

    def small(self, d: int) -> str:
        """A whole number that stays within some thousands."""
        return f"({self.integer(d)}) % {self.pick.choice([7, 100, 1000, -13])}"

    def integer(self, d: int) -> str:
        if d <= 0:
            return self.leaf()
        a, b = self.integer(d - 1), self.integer(d - 1)
        return self.pick.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a}) * {self.pick.randint(-3, 9)}", f"-({a})",
            f"({a}) // {self.pick.choice([2, 7, -3])}", f"({a}) // (abs({b}) + 1)",
            f"abs({a})", f"min({a}, {b})", f"max({a}, {b}, 3)", f"int({self.fraction(d - 1)})",
            f"round({self.fraction(d - 1)})", f"math.floor({self.fraction(d - 1)})",
            f"math.ceil({self.fraction(d - 1)})", f"({a} if {self.boolean(d - 1)} else {b})",
            f"sum((1 if {self.boolean(d - 1)} else 0, {a}))", f"(({a}) % 50) ** 2",
            "{'north': 3, 'south': 5}.get(region, 1)", "born.year", "born.month", "born.weekday()",
            "(born - datetime.date(1990, 1, 1)).days", "(len(word) if word is not None else 9)",
            f"sum(i * ({a}) for i in range(3))", "int(smoker)", "WEIGHTS[1]",
            "(gone - seen).days", "int((gone - seen).total_seconds()) % 9973", "seen.hour",
            "(gone.date() - born).days % 700", "gone.minute + seen.second",
            "(len(word[1:3]) if word is not None else 4)", "sum(WEIGHTS[1:])",
            "(born - born.replace(month=1, day=1)).days", "born.replace(day=1).month",
        ])  # fmt: skip

    def fraction(self, d: int) -> str:
        if d <= 0:
            return self.pick.choice(["bmi", "0.5", "2.5", "bmi * 2", "age / 4"])
        a, b = self.fraction(d - 1), self.fraction(d - 1)
        return self.pick.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a}) / {self.pick.choice([2, 3, -7])}",
            f"min({a}, {b})", f"abs({a})", f"({a} if {self.boolean(d - 1)} else {b})",
            f"math.sqrt(abs({a}))", f"({self.small(d - 1)}) / 8", f"float({self.small(d - 1)})",
            "(change if change is not None else 0.25)",
        ])  # fmt: skip

    def boolean(self, d: int) -> str:
        a, b = self.small(max(d - 1, 0)), self.leaf()
        plain = [
            f"{a} {self.pick.choice(['<', '<=', '>', '>=', '==', '!='])} {b}", "smoker",
            f"0 <= {self.leaf()} < {self.leaf()}", "change is None", "word is not None",
            f"{self.fraction(max(d - 1, 0))} > {self.pick.choice([0.5, 3, 20])}",
            "(region is not None and region == 'north')", f"{self.leaf()} in (1, 2, 17, 65, 120)",
            "(word is not None and word.startswith('a'))", "(word is not None and 'b' in word)",
            "(word is not None and word.endswith('b'))", "(word is not None and '%' in word)",
            "(word is not None and word[:2] == 'ab')", "(word is not None and word[2:] != '')",
            "(word is not None and word.split('-')[0] == 'ab')", "seen < gone", "gone.hour >= 12",
            "(word is not None and re.search('b.?[0-9-]', word) is not None)",
            "(word is not None and bool(re.fullmatch('[ab-]*', word)))",
            "(not re.match('[A-Z]', word) if word is not None else False)",
            "seen >= datetime.datetime(2020, 2, 29, 23, 59, 59)",
            "gone.replace(minute=0, second=0) > seen",
            "(word is not None and word.lower() == 'abc')", "born >= datetime.date(2000, 2, 29)",
            "(region in ('north', 'east') if region is not None else False)",
        ]  # fmt: skip
        if d <= 0 or self.pick.random() < 0.5:
            return self.pick.choice(plain)
        p, q = self.boolean(d - 1), self.boolean(d - 1)
        return self.pick.choice([f"({p} and {q})", f"({p} or {q})", f"not ({p})"])
