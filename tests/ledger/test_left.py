"""How much is left, at every place that says it: what the next question like it may have.

With `max_periods = 8` and T = 10 a question by month of price 1 said "2 left", and the next one was
refused with 0.25: someone in 8 months pays 8 times. `sulq budget` and the report said 99 left of a
month where 98 were.
"""

import itertools
import random
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import SilentNoise
from scripted_agent import over
from server.api.test_agents import agent_of
from server.console.page_client import PageClient, plain
from server.pgwire.wired import wired
from soak import times

import sulq
from sulq.dbapi import connect
from sulq.errors import MICRO, BudgetExceeded
from sulq.ledger import Ledger, Request
from sulq.ledger.chain import Spending
from sulq.ledger.group_ledger import GroupLedger
from sulq.mcp.local_databases import LocalDatabases
from sulq.report import budget_of, charges_of, markdown, report
from sulq.server.api.datasets import _budgets
from sulq.spending_limit import SpendingLimit

MONTHS = [f"2026-{m:02}" for m in range(1, 13)]
PEOPLE = 20


def schema(periods):
    return {
        "columns": {
            "id": {"key": True},
            "person": {"type": "integer", "low": 0, "high": 99},
            "month": {"values": MONTHS, "public": True},
            "sick": {"type": "boolean"},
            "age": {"type": "integer", "low": 0, "high": 99},
        },
        "period": {"column": "month"},
        "unit": {"column": "person", "max_rows": 1, "max_periods": periods},
    }


def rows(months):
    number = np.arange(months * PEOPLE)
    return pd.DataFrame(
        {"id": number, "person": number % PEOPLE, "month": [MONTHS[i // PEOPLE] for i in number],
         "sick": number % 3 == 0, "age": number % 90}
    )  # fmt: skip


def by_month(age):
    return sulq.Query(by="month", where=f"age > {age}")


# ---- the figures of the attack --------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:queries=")
def test_what_an_answer_says_is_what_the_next_one_may_have(tmp_path):
    """max_periods = 8, T = 10, by month, price 1: 0.25 left, at every place of the library."""
    path = tmp_path / "t.parquet"
    rows(8).to_parquet(path)
    with sulq.open(path, schema(8), epsilon=1.0, queries=10, name="t") as db:
        db._pipeline.noise = SilentNoise()
        assert db.price(by_month(1)).queries == 1
        answer = db.ask(by_month(1))
        quarter = MICRO // 4
        assert answer.remaining == quarter
        with pytest.raises(BudgetExceeded) as refused:
            db.ask(by_month(2))
        assert (refused.value.price, refused.value.remaining) == (1, Fraction(1, 4))
        assert db.left(db.question(by_month(2))) == db.left() == db.budget.of_all == Fraction(1, 4)
        said = "8 of 10 queries spent, 2 left; 0.25 left for a question about all periods"
        assert str(db.budget) == said
        assert db.ask(by_month(1)).remaining == quarter  # the stored answer
        assert db.history()[-1].remaining == quarter
        sql = "select month, count(*) from t where age > 2 group by month"
        assert db.sql(sql.replace("2", "1")).remaining == quarter
        cursor = connect(db).cursor()
        cursor.execute(f"explain {sql}")
        assert cursor.fetchone()[3] == 0.25
        agent = over(LocalDatabases({"t": db}, SpendingLimit(9, "")))
        assert agent.call("price", dataset="t", sql=sql)["remaining"] == 0.25
        assert agent.call("rehearse", dataset="t", sql=sql)["remaining"] == 0.25
        one = db.count(f"age > 3 and month = '{MONTHS[0]}'")
        assert one.remaining == MICRO  # of the 2 that were left, for a question about one month
        people = "select avg(v) from (select person, count(*) as v from t group by person)"
        assert db.left(db.question(people)) == 1  # each counts once
        found = report(db._ledger)
        assert found["budget"]["each_micro"] == quarter // 2
        assert charges_of(db._ledger)[0]["remaining"] == quarter
        assert "0.125 queries left for a question about all periods" in markdown(found)
        db.verify()
    with sulq.open(path, schema(8), epsilon=1.0, queries=10, name="t") as db:
        assert [charge.remaining for charge in db.history()] == [quarter, MICRO]


@pytest.mark.filterwarnings("ignore:queries=")
def test_the_report_says_of_a_month_what_the_library_says(tmp_path):
    """T = 100, two months in which everybody is, 1 spent in each: 98 left of each, not 99."""
    path = tmp_path / "t.parquet"
    rows(2).to_parquet(path)
    with sulq.open(path, schema(2), epsilon=1.0, queries=100) as db:
        db._pipeline.noise = SilentNoise()
        db.ask(by_month(1))
        for cells in (
            [c["remaining"] for c in db.budget_by_cell()][:2],
            [Fraction(c["remaining_micro"], MICRO) for c in budget_of(db._ledger)["cells"]][:2],
            [Fraction(c["remaining_micro"], MICRO) for c in _budgets(db)["cells"]][:2],
        ):
            assert cells == [98, 98]


# ---- every place agrees, in random lives ----------------------------------------------------

CELLS = 5


def most(spending, total, cells, width):
    """The oracle: over every set of cells that someone may be in, what one more may cost."""
    least = 10**18
    for k in range(1, width + 1):
        for person in itertools.combinations(range(CELLS), k):
            spent = spending.base + sum(spending.extra.get(c, 0) for c in person)
            times_paid = 1 if cells is None else len(set(cells) & set(person))
            if times_paid:
                least = min(least, (total - spent) // times_paid)
            elif spent > total and width > 1:
                least = 0
    return max(least, 0)


@pytest.mark.parametrize("seed", range(times(30, 3000)))
def test_room_is_what_every_person_can_still_pay(seed):
    """Spending.room against a loop over all people that there could be."""
    draw = random.Random(seed)
    width, total = draw.randint(1, 4), 100
    extra = {c: draw.randint(0, 20) for c in range(CELLS) if draw.random() < 0.8}
    base = draw.randint(0, 40)
    top = sum(sorted(extra.values(), reverse=True)[:width])
    spending = Spending(base, top, extra, width)
    for cells in (None, *(draw.sample(range(CELLS), k) for k in range(1, CELLS + 1))):
        assert spending.room(total, cells) == most(spending, total, cells, width), (extra, cells)
    wrong = Spending(base, top, extra, 1)  # release 2: as if each were in one cell
    if width > 1 and len(extra) > 1:
        assert wrong.room(total, range(CELLS)) >= spending.room(total, range(CELLS))


def ledger_with(tmp_path, kind, name="a", queries=3):
    """A ledger of five cells, in a group, or of people who may be in several."""
    columns = {"region": {"values": list("abcd"), "public": True}, "x": {"type": "boolean"}}
    declared = {"columns": columns}
    width = int(kind.removeprefix("people in ")) if kind.startswith("people") else 1
    if width > 1:
        columns |= {"p": {"type": "integer"}, "id": {"key": True}}
        declared |= {"period": {"column": "region"},
                     "unit": {"column": "p", "max_rows": 1, "max_periods": width}}  # fmt: skip
    terms = {
        "promise": {"queries": queries},
        "schema": declared,
        "rows": 9,
        "periods": list("abcd"),
    }
    if width == 1:
        del terms["periods"]
    return Ledger.open(
        tmp_path / f"{name}.ledger", terms=terms, cells=CELLS, total=queries * MICRO, name=name
    )


@pytest.mark.parametrize("kind", ["cells", "people in 2", "people in 3", "group"])
@pytest.mark.parametrize("seed", range(times(2, 60)))
def test_left_is_exactly_what_the_next_may_spend(kind, seed, tmp_path):
    """One micro-query more is refused and names what is left; so much is paid, to the last one."""
    draw = random.Random(f"{kind} {seed}")
    books = [ledger_with(tmp_path, kind)]
    if kind == "group":
        books.append(ledger_with(tmp_path, kind, "b"))
        group = GroupLedger.open(
            tmp_path / "g.ledger", "g", {"promise": {"queries": 3}, "unit": None}, 3 * MICRO
        )
        for book in books:
            book.join(group)
    books[0].allot("ann", MICRO)
    for step in range(times(12, 60)):
        book = draw.choice(books)
        people = kind.startswith("people") and draw.random() < 0.2
        asked = None if people or draw.random() < 0.3 else tuple(
            draw.sample(range(4), draw.randint(1, 3))
        )  # fmt: skip
        who = "ann" if book is books[0] and draw.random() < 0.3 else ""
        own = book.allotment(who).left if who else None
        left = book.left(asked, people=people)
        left = left if own is None else min(left, own)
        request = Request(f'"{kind} {step}"', left + 1, asked, None, who, people=people)
        with pytest.raises(BudgetExceeded) as refused:
            book.charge([request])
        assert int(refused.value.remaining * MICRO) == left
        cells = book.left_by_cell()
        if asked is not None and len(asked) == 1:
            assert cells[asked[0]] == book.left(asked)
        assert cells == [c["remaining_micro"] for c in budget_of(book)["cells"]]
        assert min(cells[:4]) == book.budget()[2]  # for whoever spent most
        price = draw.choice([left, draw.randint(0, left), left // 3])
        if price:
            exact = Request(request.query, price, asked, None, who, people=people)
            (charge,) = book.charge([exact])
            assert charge.remaining == book.left(asked, people=people)
            assert book.find(charge.query)[0] == charge
    for book in books:
        book.verify()
        book.close()


# ---- every door of a server -----------------------------------------------------------------


def test_every_door_of_a_server_says_it(tmp_path):
    """HTTP, client, MCP, EXPLAIN and notices of PostgreSQL's protocol, console, report: 0.25."""
    table = pa.Table.from_pandas(rows(8), preserve_index=False)
    sql = "select month, count(*) as n from people where age > {} group by month"
    with wired(tmp_path / "instance", table=table, schema=schema(8), queries=10) as pg:
        at = "/v1/datasets/people"
        notices = []
        with pg.connect() as connection:
            connection.execute("set sulq.spend = 5")
            connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
            connection.execute(sql.format(1))
            assert any("0.25 queries left" in notice for notice in notices), notices
            lines = [line for (line,) in connection.execute(f"explain {sql.format(2)}")]
            assert any(
                line.endswith("0.25 left for a question about all periods") for line in lines
            )
            assert "Left for a question about the same rows: 0.25 queries" in lines
        again = pg.call("POST", f"{at}/sql", {"sql": sql.format(1)}).json["table"]
        assert again["remaining_micro"] == 250_000
        assert pg.call("POST", f"{at}/price", {"sql": sql.format(2)}).json["left_micro"] == 250_000
        budget = pg.call("GET", f"{at}/budget").json
        assert (budget["remaining_micro"], budget["each_micro"]) == (2_000_000, 250_000)
        assert {c["remaining_micro"] for c in budget["cells"][:8]} == {2_000_000}
        found = pg.call("GET", f"{at}/report", None, "anna").json["budget"]
        assert found["cells"] == budget["cells"]
        db = sulq.connect(pg.url, key=pg.keys["bob"], name="people")
        assert db.budget.of_all == db.left(db.question(by_month(3))) == Fraction(1, 4)
        assert db.history()[0].remaining == 250_000
        priced = agent_of(pg, "bob").call("price", dataset="people", sql=sql.format(2))
        assert priced["remaining"] == 0.25
        page = PageClient(pg, "bob").post(
            "/console/datasets/people/preview", {"kind": "sql", "sql": sql.format(2)}
        )
        assert "You have 0.25 queries left" in plain(page)
        refused = pg.call("POST", f"{at}/sql", {"sql": sql.format(2)})
        assert refused.json["error"]["remaining_micro"] == 250_000
