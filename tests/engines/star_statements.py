"""A generator of people with two tables of events, and of statements that join them.

Each statement is a pair that means the same: as an analyst writes it, and as plain DuckDB is asked
it, over tables in which only those rows are that count (`visits_cut`), or all of the people who are
there (`visits_in`), and with the ranges spelled out.
"""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa

TYPES = {
    "people": {"person": pa.int64(), "age": pa.int64(), "sex": pa.string(), "smoker": pa.bool_(),
               "home": pa.string(), "score": pa.float64()},
    "visits": {"visit": pa.int64(), "patient": pa.int64(), "sev": pa.int64(), "ward": pa.string(),
               "month": pa.string(), "score": pa.float64()},
    "orders": {"number": pa.int64(), "person": pa.int64(), "paid": pa.float64(),
               "urgent": pa.bool_()},
}  # fmt: skip
MOST = {"visits": 3, "orders": 2}
SCHEMA = {
    "unit": {"column": "person"},
    "tables": {
        "people": {"columns": {
            "age": {"type": "integer", "low": 0, "high": 99, "nullable": False},
            "sex": {"values": ["f", "m"]}, "smoker": {"type": "boolean"},
            "home": {"values": ["n", "s"], "public": True},
            "score": {"type": "number", "low": -4, "high": 4},
        }},
        "visits": {"max_rows": MOST["visits"], "column": "patient", "columns": {
            "visit": {"key": True}, "sev": {"type": "integer", "low": -2, "high": 5},
            "ward": {"values": ["a", "b"]}, "month": {"values": ["jan", "feb"], "public": True},
            "score": {"type": "number", "low": 0, "high": 8, "nullable": False},
        }},
        "orders": {"max_rows": MOST["orders"], "columns": {
            "number": {"key": True},
            "paid": {"type": "number", "low": 0, "high": 50, "nullable": False},
            "urgent": {"type": "boolean"},
        }},
    },
}  # fmt: skip


def person_row(pick, person):
    return {
        "person": person, "age": pick.randint(0, 99), "sex": pick.choice(["f", "m", None]),
        "smoker": pick.choice([True, False, None]), "home": pick.choice("ns"),
        "score": pick.choice([None, pick.randrange(-16, 17) / 4]),
    }  # fmt: skip


def visit_row(pick, key, person):
    return {
        "visit": key, "patient": person, "sev": pick.choice([None, *range(-2, 6)]),
        "ward": pick.choice(["a", "b", None]), "month": pick.choice(["jan", "feb"]),
        "score": pick.randrange(0, 33) / 4,
    }  # fmt: skip


def order_row(pick, key, person):
    return {
        "number": key, "person": person, "paid": pick.randrange(0, 201) / 4,
        "urgent": pick.choice([True, False, None]),
    }  # fmt: skip


def rows_of(seed, people=25):
    """People, some without events, and events, some of nobody who is there."""
    pick = random.Random(seed)
    names = pick.sample(range(1000), people)
    owners = [p for p in names for _ in range(pick.choice([0, 1, 1, 2, 4, 9]))]
    strangers = [None, 2000, 2001]
    visitors = [*owners, *strangers]
    buyers = [*(p for p in names for _ in range(pick.choice([0, 0, 1, 2, 3]))), *strangers]
    keys = pick.sample(range(10_000), len(visitors) + len(buyers))
    return {
        "people": [person_row(pick, p) for p in names],
        "visits": [visit_row(pick, k, p) for k, p in zip(keys, visitors, strict=False)],
        "orders": [order_row(pick, k, p) for k, p in zip(keys[::-1], buyers, strict=False)],
    }


def tables_of(rows):
    return {
        name: pa.table({n: pa.array([r[n] for r in rows[name]], kind) for n, kind in kinds.items()})
        for name, kinds in TYPES.items()
    }


def plain_duckdb(tables):
    """The same tables in plain DuckDB, and the views that the statements' other halves name."""
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(f"all_{name}", table)
    connection.execute("create view people as from all_people")
    for name, key, person in (("visits", "visit", "patient"), ("orders", "number", "person")):
        connection.execute(
            f"create view {name}_in as select * from all_{name} where {person} in (select person "
            "from people)"
        )
        connection.execute(
            f"create view {name}_cut as select * from {name}_in qualify row_number() over "
            f"(partition by {person} order by {key}) <= {MOST[name]}"
        )
    return connection


# --- statements: ours, and in plain DuckDB ------------------------------------------------------

PEOPLE_TESTS = ["p.age > 40", "p.sex = 'f'", "p.smoker", "p.home = 'n'", "p.score is null"]
TESTS = {
    "visits": ["v.sev > 1", "v.ward = 'a'", "v.month = 'jan'", "v.score < 3", "v.sev is null"],
    "orders": ["v.paid > 20", "v.urgent", "not v.urgent"],
}
NUMBERS = {"visits": ["v.sev", "v.score", "v.sev + v.score"], "orders": ["v.paid"]}
PERSON = {"visits": "patient", "orders": "person"}


def about_events(pick):
    """Rows of a table of events, each beside its person."""
    table = pick.choice(list(MOST))
    on = f"v.{PERSON[table]} = p.person"
    join = pick.choice([
        f"{{0}} v join people p on {on}", f"{{0}} as v left join people as p on {on}",
        f"people p inner join {{0}} v on {on}",
    ])  # fmt: skip
    tests = [pick.choice(PEOPLE_TESTS), pick.choice(TESTS[table])]
    where = pick.choice(["", f" where {tests[0]}", f" where {tests[1]} and {tests[0]}",
                         f" where {tests[0]} or {tests[1]}"])  # fmt: skip
    group = pick.choice([None, "p.sex", "p.home", "v.ward" if table == "visits" else "v.urgent"])
    number = pick.choice([*NUMBERS[table], "p.age", "p.age + 1"])
    outputs = [
        "count(*) as n", f"sum({number}) as s",
        f"count_if({pick.choice(TESTS[table])} and {pick.choice(PEOPLE_TESTS)}) as c",
    ]  # fmt: skip
    chosen = ", ".join([*([f"{group} as g"] if group else []), *outputs])
    text = f"select {chosen} from {join}{where}{f' group by {group}' if group else ''}"
    return (text.format(table), text.format(f"{table}_cut")), "g" if group else None


def about_one_table(pick):
    table = pick.choice(["people", *MOST])
    letter = "p" if table == "people" else "v"
    test = pick.choice(PEOPLE_TESTS if table == "people" else TESTS[table])
    number = "p.age" if table == "people" else pick.choice(NUMBERS[table])
    text = f"select count(*) as n, sum({number}) as s from {{0}} {letter} where {test}"
    return (text.format(table), text.format("people" if letter == "p" else f"{table}_cut")), None


def feature(pick, table):
    test = pick.choice(TESTS[table])
    kept = pick.choice(["", f" filter (where {test})"])
    number = pick.choice(NUMBERS[table])
    most = MOST[table]
    choices = [
        (f"count(*){kept}", f"least(count(*){kept}, {most})"),
        (f"least(count(*){kept}, 5)",) * 2,
        (f"least(greatest(sum({number}){kept}, -3), 30)",) * 2,
        (f"avg({number}){kept}",) * 2,
        (f"max({number}){kept}",) * 2,
        (f"min({number}){kept}",) * 2,
    ]
    if table == "visits":
        ordered = "first(v.sev order by v.visit) filter (where v.sev is not null)"
        choices += [("first(v.sev order by v.visit)", ordered), ("count(distinct v.ward)",) * 2]
    return pick.choice(choices)


def grouped(pick, table, with_people):
    """A sub-select by the person: ours and plain, its person, and its numbers."""
    person = f"v.{PERSON[table]}"
    made = [feature(pick, table) for _ in range(pick.randint(1, 2))]
    where = pick.choice(["", "", f" where {pick.choice(TESTS[table])}"])
    having = pick.choice(["", "", " having count(*) > 1"])
    source, keys, more = f"{{0}} v{where}", person, ""
    if with_people:
        source = f"{{0}} v join people p on {person} = p.person{where}"
        keys, more = f"{person}, p.sex", ", p.sex as own_sex"
    texts = []
    for at, name in ((0, table), (1, f"{table}_in")):
        chosen = ", ".join(f"{m[at]} as x{i}" for i, m in enumerate(made))
        texts.append(f"(select {person} as id, {chosen}{more} from {source.format(name)} group by "
                     f"{keys}{having})")  # fmt: skip
    return texts, [f"x{i}" for i in range(len(made))]


def about_people(pick):
    """People beside aggregates of one or both tables of their events."""
    some = pick.sample(list(MOST), pick.randint(1, 2))
    subs = [grouped(pick, table, pick.random() < 0.3) for table in some]
    names = [f"t{i}.{x}" for i, (_, xs) in enumerate(subs) for x in xs]
    first_is_people = pick.random() < 0.7
    texts = []
    kinds = [pick.choice(["join", "left join"]) for _ in subs]
    for at in (0, 1):
        if first_is_people:
            source = "people p" + "".join(
                f" {kind} {sub[at]} t{i} on p.person = t{i}.id"
                for i, (kind, (sub, _)) in enumerate(zip(kinds, subs, strict=True))
            )
        else:
            source = f"{subs[0][0][at]} t0"
            for i, (sub, _) in enumerate(subs[1:], 1):
                source += f" {kinds[i]} {sub[at]} t{i} on t{i}.id = t0.id"
            source += " join people p on p.person = t0.id"
        texts.append(source)
    state = pick.getstate()
    made = []
    for source in texts:
        pick.setstate(state)  # both halves say the same
        number, other = pick.choice(names), pick.choice([*names, "p.age"])
        test = pick.choice([*PEOPLE_TESTS, f"{names[0]} > 1", f"coalesce({names[-1]}, 0) < 2"])
        group = pick.choice([None, "p.sex", "p.home"])
        outputs = [
            "count(*) as n", f"sum({number}) as s", f"count({number}) as k",
            f"sum(coalesce({other}, 0)) as z",
        ]  # fmt: skip
        where = pick.choice(["", f" where {test}"])
        chosen = ", ".join([*([f"{group} as g"] if group else []), *outputs])
        end = f" group by {group}" if group else ""
        made.append(f"select {chosen} from {source}{where}{end}")
    return tuple(made), "g" if group else None


def about_some_people(pick):
    """People who are, or are not, among those of a sub-select."""
    table = pick.choice(list(MOST))
    person, test = f"v.{PERSON[table]}", pick.choice(TESTS[table])
    where = pick.choice(["", f" and {test}"])
    negated = pick.choice(["", "not "])
    more = pick.choice([f" where {test}", "", f" group by {person} having count(*) > 1"])
    term = pick.choice([
        f"{negated}exists (select * from {{0}} v where {person} = p.person{where})",
        f"p.person {negated}in (select {person} from {{0}} v{more})",
    ])  # fmt: skip
    other = pick.choice(["", f" and {pick.choice(PEOPLE_TESTS)}"])
    group = pick.choice([None, "p.sex"])
    chosen = f"{f'{group} as g, ' if group else ''}count(*) as n, sum(p.age) as s"
    end = f" group by {group}" if group else ""
    text = f"select {chosen} from people p where {term}{other}{end}"
    return (text.format(table), text.format(f"{table}_in")), "g" if group else None


def about_all_people(pick):
    """Everybody, also who has no events: LEFT JOIN, grouped by the person."""
    test = pick.choice(["", f" where {pick.choice(PEOPLE_TESTS)}"])
    kept = pick.choice(["", " filter (where v.sev > 1)"])
    texts = [
        f"select count(*) as n, sum(k) as s, sum(m) as m, sum(a) as a from (select p.person, "
        f"{count} as k, max(v.sev){kept} as m, p.age as a from people p left join {table} v on "
        f"p.person = v.patient{test} group by p.person, p.age)"
        for table, count in (
            ("visits", f"count(v.visit){kept}"), ("visits_in", f"least(count(v.visit){kept}, 3)"),
        )
    ]  # fmt: skip
    return tuple(texts), None


FORMS = [about_events, about_people, about_people, about_one_table, about_some_people,
         about_all_people]  # fmt: skip


def statement(pick):
    return pick.choice(FORMS)(pick)


def statements(seed, count):
    pick = random.Random(seed)
    return [statement(pick) for _ in range(count)]
