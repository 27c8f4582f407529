# ruff: noqa: E501
"""Small tables of a hospital, a shop and TPC-H, generated; and joins that analysts write.

Each has a private table of people and private tables of their events, of which nobody has more rows
than count; the others are public lookup tables. A function gives the private tables and the schema.
"""

from __future__ import annotations

import datetime
import random

import pyarrow as pa

MOST = 6


def owners(pick, people):
    return [p for p in range(people) for _ in range(pick.randint(1, MOST))]


def number(low, high):
    return {"type": "number", "low": low, "high": high, "nullable": False}


def whole(low, high, **more):
    return {"type": "integer", "low": low, "high": high, "nullable": False} | more


def day(**more):
    ends = {"low": "1992-01-01", "high": "1998-12-31", "nullable": False}
    return {"type": "date"} | ends | more


def some_day(pick):
    return datetime.date(1992, 1, 1) + datetime.timedelta(days=pick.randrange(2500))


def hospital(seed=1):
    """Stays of patients; wards, diagnoses and drugs are public."""
    pick = random.Random(seed)
    wards = [{"ward_id": i, "floor": i // 3, "kind": pick.choice(["icu", "day", "surgery"]),
              "beds": 4 + i} for i in range(9)]  # fmt: skip
    diagnoses = [{"code": f"{c}{i}", "chapter": c, "chronic": (i % 2 == 0)} for c in "CIJ"
                 for i in range(4)]  # fmt: skip
    drugs = [{"drug": d, "class": k, "price": p} for d, k, p in (
        ("aspirin", "pain", 1.5), ("ibuprofen", "pain", 2.25), ("insulin", "hormone", 20.0),
        ("statin", "heart", 8.75))]  # fmt: skip
    rows = [
        {"stay": i, "patient": p, "ward": pick.choice([*range(9), 20]), "days": pick.randint(0, 30),
         "cost": pick.randrange(0, 4000) / 4, "icd": pick.choice([d["code"] for d in diagnoses]),
         "drug": pick.choice([d["drug"] for d in drugs]), "year": pick.choice([2023, 2024]),
         "died": pick.random() < 0.1, "age": pick.randint(18, 99)}
        for i, p in enumerate(owners(pick, 60))
    ]  # fmt: skip
    patients = [{"id": p, "sex": pick.choice("fm"), "smoker": pick.random() < 0.3,
                 "born": 1930 + pick.randrange(70)} for p in range(65)]  # fmt: skip
    labs = [{"lab": i, "person": p, "test": pick.choice(["crp", "hb"]), "result": pick.randrange(0, 80) / 4}
            for i, p in enumerate(owners(pick, 50))]  # fmt: skip
    columns = {
        "stay": {"type": "integer", "key": True},
        "ward": whole(0, 30), "days": whole(0, 30), "cost": number(0, 1000),
        "icd": {"values": [d["code"] for d in diagnoses]},
        "drug": {"values": [d["drug"] for d in drugs]},
        "year": {"values": [2023, 2024], "public": True},
        "died": {"type": "boolean", "nullable": False}, "age": whole(18, 99),
    }  # fmt: skip
    lookups = {
        "wards": {"on": "ward", "key": "ward_id", "rows": wards},
        "diagnoses": {"on": "icd", "key": "code", "rows": diagnoses},
        "drugs": {"on": "drug", "rows": drugs},
    }
    tables = {
        "patients": {"columns": {
            "sex": {"values": ["f", "m"]}, "smoker": {"type": "boolean", "nullable": False},
            "born": whole(1930, 2000)}},
        "stays": {"column": "patient", "max_rows": MOST, "columns": columns},
        "labs": {"column": "person", "max_rows": MOST, "columns": {
            "lab": {"type": "integer", "key": True}, "test": {"values": ["crp", "hb"]},
            "result": number(0, 20)}},
    }  # fmt: skip
    private = {"patients": patients, "stays": rows, "labs": labs}
    return private, {"unit": {"column": "id"}, "tables": tables, "lookups": lookups}


def shop(seed=2):
    """Order lines of customers; products, stores and the calendar are public."""
    pick = random.Random(seed)
    products = [{"sku": 100 + i, "category": pick.choice(["food", "toys", "books"]),
                 "price": (i + 1) * 0.5, "organic": i % 3 == 0} for i in range(25)]  # fmt: skip
    stores = [{"store": s, "region": r, "size": n} for s, r, n in (
        ("zh1", "east", 3), ("zh2", "east", 5), ("ge1", "west", 2), ("be1", "west", 4))]  # fmt: skip
    calendar = [{"month": m, "quarter": (m + 2) // 3, "season": s} for m, s in enumerate(
        ["winter", "winter", "spring", "spring", "spring", "summer", "summer", "summer", "autumn",
         "autumn", "autumn", "winter"], 1)]  # fmt: skip
    rows = [
        {"line": i, "customer": c, "sku": 100 + pick.randrange(25), "store": pick.choice(stores)["store"],
         "month": pick.randint(1, 12), "quantity": pick.randint(1, 20), "returned": pick.random() < 0.2,
         "paid": pick.randrange(0, 800) / 4}
        for i, c in enumerate(owners(pick, 70))
    ]  # fmt: skip
    customers = [{"id": c, "tier": pick.choice(["gold", "plain"]), "since": 2010 + pick.randrange(15)}
                 for c in range(75)]  # fmt: skip
    columns = {
        "line": {"type": "integer", "key": True},
        "sku": whole(100, 124), "store": {"values": [s["store"] for s in stores], "public": True},
        "month": whole(1, 12, public=True), "quantity": whole(1, 20),
        "returned": {"type": "boolean", "nullable": False}, "paid": number(0, 200),
    }  # fmt: skip
    lookups = {
        "products": {"on": "sku", "rows": products},
        "stores": {"on": "store", "rows": stores},
        "calendar": {"on": "month", "rows": calendar},
    }
    tables = {
        "customers": {
            "columns": {"tier": {"values": ["gold", "plain"]}, "since": whole(2010, 2025)}
        },
        "lines": {"column": "customer", "max_rows": MOST, "columns": columns},
    }
    private = {"customers": customers, "lines": rows}
    return private, {"unit": {"column": "id"}, "tables": tables, "lookups": lookups}


def tpch(seed=3):
    """Customers, their orders, and line items, each beside its order; the rest is public."""
    pick = random.Random(seed)
    regions = ["AFRICA", "AMERICA", "ASIA", "EUROPE"]
    nation = [
        {"n_nationkey": i, "n_name": f"NATION{i}", "r_name": regions[i % 4]} for i in range(12)
    ]
    part = [{"p_partkey": i, "p_type": pick.choice(["PROMO TIN", "SMALL BRASS", "ECONOMY STEEL"]),
             "p_brand": f"Brand#{i % 5}", "p_size": 1 + i % 50, "p_container": pick.choice(["SM BOX", "MED BAG"])}
            for i in range(40)]  # fmt: skip
    supplier = [{"s_suppkey": i, "s_nation": f"NATION{i % 12}"} for i in range(20)]
    rows, placed, customers, line = [], [], [], 0
    for c in range(66):
        segment, home = pick.choice(["BUILDING", "AUTOMOBILE", "MACHINERY"]), pick.randrange(12)
        orders = [(1000 * c + k, some_day(pick), pick.choice(["1-URGENT", "2-HIGH", "5-LOW"]))
                  for k in range(pick.randint(1, 2))]  # fmt: skip
        customers.append({"c_custkey": c, "c_mktsegment": segment, "c_nationkey": home,
                          "c_acctbal": pick.randrange(-4000, 40_000) / 4})  # fmt: skip
        if c >= 60:
            continue  # has not ordered yet
        for key, ordered, priority in orders:
            placed.append({"orderkey": key, "o_custkey": c, "o_totalprice": pick.randrange(0, 2000) / 4,
                           "o_urgent": priority == "1-URGENT"})  # fmt: skip
            for _ in range(pick.randint(1, 3)):
                line += 1
                rows.append({
                    "l_id": line, "l_custkey": c, "o_orderkey": key, "o_orderdate": ordered, "o_orderpriority": priority,
                    "l_partkey": pick.randrange(40), "l_suppkey": pick.randrange(20),
                    "l_quantity": pick.randint(1, 50), "l_extendedprice": pick.randrange(4000, 400_000) / 4,
                    "l_discount": pick.randrange(0, 11) / 100, "l_returnflag": pick.choice("ANR"),
                    "l_linestatus": pick.choice("OF"), "l_shipmode": pick.choice(["AIR", "MAIL", "SHIP"]),
                    "l_shipdate": ordered + datetime.timedelta(days=pick.randint(1, 60)),
                    "l_late": pick.random() < 0.5,
                })  # fmt: skip
    columns = {
        "l_id": {"type": "integer", "key": True}, "o_orderkey": whole(0, 10**6), "o_orderdate": day(),
        "o_orderpriority": {"values": ["1-URGENT", "2-HIGH", "5-LOW"]},
        "l_partkey": whole(0, 39), "l_suppkey": whole(0, 19), "l_quantity": whole(1, 50),
        "l_extendedprice": number(0, 100_000), "l_discount": number(0, 0.1),
        "l_returnflag": {"values": ["A", "N", "R"]}, "l_linestatus": {"values": ["O", "F"]},
        "l_shipmode": {"values": ["AIR", "MAIL", "SHIP"]}, "l_shipdate": day(),
        "l_late": {"type": "boolean", "nullable": False},
    }  # fmt: skip
    lookups = {
        "nation": {"on": "c_nationkey", "key": "n_nationkey", "rows": nation},
        "part": {"on": "l_partkey", "key": "p_partkey", "rows": part},
        "supplier": {"on": "l_suppkey", "key": "s_suppkey", "rows": supplier},
    }
    tables = {
        "customer": {"columns": {
            "c_mktsegment": {"values": ["BUILDING", "AUTOMOBILE", "MACHINERY"]},
            "c_nationkey": whole(0, 11), "c_acctbal": number(-1000, 10_000)}},
        "orders": {"column": "o_custkey", "max_rows": 2, "columns": {
            "orderkey": {"type": "integer", "key": True}, "o_totalprice": number(0, 500),
            "o_urgent": {"type": "boolean", "nullable": False}}},
        "lineitem": {"column": "l_custkey", "max_rows": MOST, "columns": columns},
    }  # fmt: skip
    private = {"customer": customers, "orders": placed, "lineitem": rows}
    return private, {"unit": {"column": "c_custkey"}, "tables": tables, "lookups": lookups}


def arrow(rows):
    return pa.Table.from_pylist(rows)


# --- TPC-H: number, the question (line items stand beside their orders), what a refusal says is nearest, and it --

REVENUE = "l_extendedprice * (1 - l_discount)"
CUSTOMERS = "customer, lineitem where c_custkey = l_custkey"
TPCH = [
    (1, "select l_returnflag, l_linestatus, sum(l_quantity) as q, sum(l_extendedprice) as p, "
        f"sum({REVENUE}) as d, count(*) as n from lineitem where l_shipdate <= date '1998-09-02' "
        "group by l_returnflag, l_linestatus", None, None),
    (3, f"select sum({REVENUE}) as revenue from {CUSTOMERS} and c_mktsegment = 'BUILDING' and "
        "o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'", None, None),
    (4, "select o_orderpriority, count(*) as n from orders where exists (select * from lineitem "
        "where o_orderkey = orderkey) group by o_orderpriority",
        "EXISTS with the person of both set equal",
        "select o_orderpriority, count(*) as n from lineitem where l_late group by o_orderpriority"),
    (5, f"select n_name, sum({REVENUE}) as revenue from customer join lineitem on c_custkey = "
        "l_custkey join nation on c_nationkey = nation.n_nationkey where r_name = 'ASIA' group by "
        "n_name", None, None),
    (6, "select sum(l_extendedprice * l_discount) as revenue from lineitem where l_discount between "
        "0.05 and 0.07 and l_quantity < 24 and l_shipdate >= date '1994-01-01'", None, None),
    (7, f"select extract(year from l_shipdate) as y, sum({REVENUE}) as v from lineitem join customer "
        "on l_custkey = c_custkey join supplier on l_suppkey = supplier.s_suppkey join nation on "
        "c_nationkey = nation.n_nationkey where s_nation = 'NATION1' and n_name = 'NATION2' group by "
        "1", None, None),
    (8, f"select extract(year from o_orderdate) as y, sum({REVENUE}) filter (where s_nation = "
        "'NATION3') as share, count(*) as n from lineitem join supplier on l_suppkey = "
        "supplier.s_suppkey join part on l_partkey = part.p_partkey where p_type = 'ECONOMY STEEL' "
        "group by 1", None, None),
    (9, f"select s_nation, sum({REVENUE}) as profit from lineitem join supplier on l_suppkey = "
        "supplier.s_suppkey group by s_nation", None, None),
    (10, f"select c_custkey, sum({REVENUE}) as revenue from {CUSTOMERS} and l_returnflag = 'R' group "
         "by 1", "SELECT avg(n) FROM (SELECT c_custkey, count(*) AS n FROM ... GROUP BY c_custkey)",
         "select count(*) as n, sum(r) as revenue from (select l_custkey, least(sum(l_extendedprice), "
         "200000) as r from lineitem where l_returnflag = 'R' group by l_custkey)"),
    (12, "select l_shipmode, count(*) filter (where o_orderpriority in ('1-URGENT', '2-HIGH')) as "
         "high, count(*) as n from lineitem where l_late group by l_shipmode", None, None),
    (13, "select c_count, count(*) as n from (select c_custkey, count(orderkey) as c_count from "
         "customer left join orders on c_custkey = o_custkey group by c_custkey) group by c_count",
         None, None),
    (14, f"select sum({REVENUE}) filter (where p_type like 'PROMO%') as promo, count(*) as n from "
         "lineitem join part on l_partkey = part.p_partkey", None, None),
    (17, "select sum(l_extendedprice) as total from lineitem join part on l_partkey = part.p_partkey "
         "where p_brand = 'Brand#3' and p_container = 'MED BAG' and l_quantity < (select avg(l_quantity)"
         " from lineitem)", "ask for it by itself, and write what it is into WHERE",
         "select sum(l_extendedprice) as total from lineitem join part on l_partkey = part.p_partkey "
         "where p_brand = 'Brand#3' and p_container = 'MED BAG' and l_quantity < 5"),
    (18, "select count(*) as n from (select o_orderkey, sum(l_quantity) as q from lineitem group by "
         "o_orderkey) where q > 100", "as max(...) or first(... order by ...) of the person",
         "select count(*) as n from (select l_custkey, least(sum(l_quantity), 300) as q from lineitem "
         "group by l_custkey) where q > 100"),
    (19, f"select sum({REVENUE}) as revenue from lineitem join part on l_partkey = part.p_partkey "
         "where (p_brand = 'Brand#1' and l_quantity between 1 and 11) or (p_brand = 'Brand#2' and "
         "l_shipmode = 'AIR' and p_size <= 10)", None, None),
    (22, "select count(*) as n, sum(c_acctbal) as balance from customer where c_acctbal > 0 and not "
         "exists (select * from orders where o_custkey = c_custkey)", None, None),
]  # fmt: skip
