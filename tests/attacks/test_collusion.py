"""Twenty analysts pool what they get: together they get what one would.

Threads and processes on one ledger; then many questions about parts of the public columns,
where nobody's row may be asked about more than T times. No luck is involved.
"""

import threading
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest
from attacks.children import ask_until_refused, at_once
from attacks.harness import opened, people

import sulq
from sulq import Query

T = 40
PROCESSES, ANALYSTS = 4, 20


def pooled(db_of):
    """Twenty threads ask different questions until refused; how many answers there were."""
    answers = []

    def analyst(name):
        db = db_of(name)
        for i in range(T + 1):
            try:
                answers.append(db.count(f"secret and id <> {1000 * name + i}").value)
            except sulq.BudgetExceeded:
                return

    threads = [threading.Thread(target=analyst, args=(name,)) for name in range(ANALYSTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(answers)


def test_twenty_threads_get_t_answers_in_all(tmp_path):
    """One database, twenty analysts: T answers, exactly."""
    db = opened(people(), ledger=tmp_path / "ledger", queries=T)
    found = pooled(lambda name: db)
    print(f"collusion, threads: {found} answers of T = {T}")
    assert found == T
    assert len(db.history()) == T
    assert db.budget.remaining == 0


def test_control_a_budget_for_each_analyst_is_caught():
    """The classic mistake: everybody has T of their own, and twenty times T is learned."""
    table = people()
    found = pooled({name: opened(table, queries=4) for name in range(ANALYSTS)}.get)
    assert found == ANALYSTS * 4 > 4


def test_four_processes_of_five_threads_get_t_answers_in_all(tmp_path):
    """Each process opens the file for itself: T answers, exactly, and T different questions."""
    pq.write_table(people(), tmp_path / "people.parquet")
    source, terms = str(tmp_path / "people.parquet"), {"queries": T}
    groups = np.array_split(range(ANALYSTS), PROCESSES)
    found = at_once(
        ask_until_refused, [(source, terms, [int(a) for a in group]) for group in groups]
    )
    answers = [answer for group in found for answer in group]
    print(f"collusion, processes: {len(answers)} answers of T = {T}")
    assert len(answers) == len(set(answers)) == T
    db = opened(source, ledger=None, queries=T)
    assert (len(db.history()), db.budget.remaining, db.verify()) == (T, 0, 2 * T + 1)


# ---- public cells ---------------------------------------------------------------------------

SCHEMA = {
    "id": {"key": True},
    "region": {"values": ["north", "south", "east"], "public": True},
    "old": {"type": "boolean", "public": True},
    "born": {"type": "integer", "low": 1900, "high": 2000, "public": True},
    "secret": {"type": "boolean", "nullable": False},
}
PARTS = [
    None,
    "region = 'north'",
    "region <> 'north'",
    "region in ('south', 'east')",
    "not region = 'south'",
    "region is null",
    "coalesce(region, 'north') = 'north'",
    "upper(region) = 'EAST'",
    "region like '%th'",
    "old",
    "not old",
    "old is null",
    "old = (region = 'north')",
    "region = 'north' or old",
    "region = 'north' and old and born > 1950",
    "born > 1950",
    "case when old then region = 'east' else region = 'south' end",
    "region = 'north' and region = 'south'",
    "old is not null and length(region) = 4",
    "id < 150 and region = 'east'",
]


def residents(n=300):
    rng = np.random.default_rng(3)
    pick = lambda *values: [values[i] for i in rng.integers(0, len(values), n)]  # noqa: E731
    table = people(n).select(["id", "secret"])
    table = table.append_column("region", [pick("north", "south", "east", "atlantis", None)])
    table = table.append_column("old", [pick(True, False, None)])
    return table.append_column("born", [pick(1910, 1960, 1999, None)])


def who(table, part):
    """The rows a public predicate chooses, from an engine that has nothing to hide."""
    import duckdb

    declared = "CASE WHEN region IN ('north', 'south', 'east') THEN region END"
    connection = duckdb.connect()
    connection.register("t", table)
    rows = f"SELECT id, {declared} AS region, old, born FROM t"
    chosen = connection.execute(f"SELECT id FROM ({rows}) WHERE {part or 'true'}").fetchall()
    return np.isin(np.arange(table.num_rows), [row[0] for row in chosen])


def spent_on_each_row(charge=None):
    """Ask about parts until every one is refused; what was paid for each row's presence."""
    table, rng = residents(), np.random.default_rng(4)
    db = opened(table, SCHEMA, queries=T)
    if charge is not None:
        db._ledger.charge_each = charge(db._ledger.charge_each)
    members = [who(table, part) for part in PARTS]
    spent = [Fraction(0)] * table.num_rows
    refused: set[int] = set()
    for i in range(2000):
        which = int(rng.integers(len(PARTS)))
        if which in refused or not members[which].any():
            continue
        where = " and ".join(filter(None, [PARTS[which] and f"({PARTS[which]})", "secret"]))
        error = 500 + i if i % 3 else None
        try:
            price = db.ask(Query(where=where + f" and id <> {-i}", error=error)).price.queries
        except sulq.BudgetExceeded:
            refused.add(which)
            continue
        spent = [s + price if m else s for s, m in zip(spent, members[which], strict=True)]
    return spent, db


def test_no_row_is_asked_about_more_than_t_times():
    """Prices of the questions a row takes part in add up to T at most, row by row."""
    spent, db = spent_on_each_row()
    print(f"collusion, public cells: rows spent {float(min(spent)):.2f} to {float(max(spent)):.2f}")
    assert max(spent) <= T
    assert max(spent) > T - 1
    assert max(cell["spent"] for cell in db.budget_by_cell()) == db.budget.spent <= T


def test_control_a_ledger_that_forgets_cells_is_caught():
    """Charging only the first of the cells a question concerns overspends the others."""
    from dataclasses import replace

    def forgetful(charge_each):
        return lambda orders: charge_each(
            [[replace(r, cells=r.cells and r.cells[:1]) for r in order] for order in orders]
        )

    assert max(spent_on_each_row(forgetful)[0]) > T


@pytest.mark.parametrize("part", PARTS)
def test_a_question_charges_the_cells_of_all_its_rows(part):
    """Every row that a public predicate chooses lies in a cell that pays."""
    table = residents()
    db = opened(table, SCHEMA)
    where = f"({part}) and secret" if part else "secret"
    db.count(where)
    paying = [cell for cell in db.budget_by_cell() if cell["spent"]]
    paid = {(cell["region"], cell["old"]) for cell in paying}
    known = ("north", "south", "east")
    cells = [
        (region if region in known else None, old)
        for region, old in zip(*(table[c].to_pylist() for c in ("region", "old")), strict=True)
    ]
    assert {cell for cell, member in zip(cells, who(table, part), strict=True) if member} <= paid
