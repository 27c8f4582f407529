# ruff: noqa: E501
"""Fifty joins that an analyst of a hospital or a shop would write.

Each is a statement and None, if it is answered; or why it is refused, and the nearest statement that
is answered. joined_tables.py has the tables.
"""

from __future__ import annotations

W = "join wards on stays.ward = wards.ward_id"
D = "join diagnoses d on stays.icd = d.code"
G = "join drugs using (drug)"
HOSPITAL = [
    (f"select count(*) as n from stays {W}", None),
    (f"select kind, count(*) as n from stays {W} group by kind", None),
    (f"select wards.floor, sum(days) as d from stays {W} group by wards.floor", None),
    (f"select count(*) as n from stays {W} where kind = 'icu' and died", None),
    ("select count(*) as n from stays left join wards on stays.ward = wards.ward_id where wards.kind "
     "is null", None),
    ("select sex, sum(l) as longest, count(k) as tested from patients p left join (select patient, max(days)"
     " as l from stays group by patient) s on p.id = s.patient left join (select person, count(*) as k from "
     "labs where test = 'crp' group by person) t on p.id = t.person group by sex", None),
    (f"select chapter, count(*) as n, sum(cost) as c from stays {D} group by chapter", None),
    (f"select count(*) as n from stays {D} where d.chronic and age > 65", None),
    (f"select year, chapter, count(*) as n from stays {D} group by year, chapter", None),
    ("select count(*) as n, sum(born) as b from patients where smoker and id in (select patient from stays"
     " where died) and not exists (select 1 from labs where person = patients.id)", None),
    (f"select class, sum(price * days) as spent from stays {G} group by class", None),
    (f"select class, kind, count(*) as n from stays {G} {W} group by class, kind", None),
    (f"select count(*) as n from stays {D} {W} {G} where chapter = 'C' and floor = 2 and class = "
     "'pain'", None),
    ("select sum(x) as s from (select stays.days as x from stays join wards on stays.ward = "
     "wards.ward_id where kind = 'day')", None),
    (f"with icu as (select * from stays {W} where kind = 'icu') select count(*) as n from icu", None),
    (f"select sum(n) as icu_stays from (select patient, least(count(*), 6) as n from stays {W} where "
     "kind = 'icu' group by patient)", None),
    (f"select count(*) as n from (select patient, bool_or(d.chronic) as ever, max(days) as longest "
     f"from stays {D} group by patient) where ever and longest > 10", None),
    (f"select sum(f) as floors from (select patient, max(floor) as f from stays {W} group by patient)",
     None),
    ("select count(*) as n from stays a join stays b on a.patient = b.patient and a.stay < b.stay",
     "joined to itself", "count(*) AS n FROM stays GROUP BY patient",
     "select count(*) as n from (select patient, least(count(*), 6) as k from stays"
     " group by patient) where k > 1"),
    ("select count(*) as n from stays join patients on stays.patient = patients.id where sex = 'f'",
     None),
    ("select count(*) as n from stays join wards on stays.ward = wards.beds", "is joined on that",
     "ON stays.ward = wards.ward_id",
     f"select count(*) as n from stays {W} where beds = 7"),
    ("select count(*) as n from stays cross join wards", "beside every row",
     "Here: JOIN wards ON stays.ward = wards.ward_id",
     f"select count(*) as n from stays {W}"),
    ("select count(*) as n from stays right join wards on stays.ward = wards.ward_id", "without one",
     "Here: JOIN wards ON stays.ward = wards.ward_id",
     "select count(*) as n from stays left join wards on stays.ward = wards.ward_id where kind = "
     "'day'"),
    (f"select count(*) as n from stays {W} and kind = 'icu'", None),
    ("select sum(n) as s from (select ward, count(*) as n from stays group by ward) as t join wards on "
     "t.ward = wards.ward_id", "grouped by 'patient' alone", "GROUP BY over the table itself",
     f"select kind, count(*) as n from stays {W} group by kind"),
]  # fmt: skip

P = "join products p on lines.sku = p.sku"
S = "join stores using (store)"
C = "join calendar on lines.month = calendar.month"
SHOP = [
    (f"select category, count(*) as n from lines {P} group by category", None),
    (f"select category, sum(quantity * price) as value from lines {P} group by category", None),
    (f"select count(*) as n from lines {P} where organic and returned", None),
    (f"select region, count(*) as n from lines {S} group by region", None),
    (f"select region, sum(paid) as paid from lines {S} group by region", None),
    (f"select quarter, sum(paid) as paid from lines {C} group by quarter", None),
    (f"select season, category, sum(quantity) as q from lines {C} {P} group by season, category", None),
    (f"select count(*) as n from lines {C} {S} {P} where season = 'summer' and region = 'east' and "
     "category = 'toys'", None),
    (f"select sum(quantity * price) as lost from lines {P} where returned", None),
    ("select since, sum(k) as bought from (select c.id, c.since, count(line) as k from customers c left "
     "join lines l on c.id = l.customer group by c.id, c.since) group by since", None),
    (f"select organic, count(*) as n from lines {P} group by organic", None),
    (f"select region, quarter, count(*) as n from lines {S} {C} group by region, quarter", None),
    (f"select sum(paid - quantity * price) as difference from lines {P}", None),
    ("select count(*) as n from lines l left join stores s on l.store = s.store where s.size >= 4 and "
     "l.paid > 100", None),
    (f"select sum(k) as s from (select customer, count(distinct store) as k from lines {S} where region "
     "= 'west' group by customer)", None),
    (f"select count(*) as n from (select customer, least(sum(quantity * price), 300) as v from lines {P}"
     " group by customer) where v > 100", None),
    (f"select count(*) as n from (select customer, any(category = 'toys') as toys, any(category = "
     f"'books') as books from lines {P} group by customer) where toys and books", None),
    (f"select last_region, count(*) as n from (select customer, last(region order by line) as "
     f"last_region from lines {S} group by customer) group by last_region", None),
    ("select count(*) as n from lines a join lines b on a.customer = b.customer where a.sku = 101 and "
     "b.sku = 102", "joined to itself", "SELECT customer, bool_or(...) AS a, bool_or(...) AS b", "select count(*) as n from (select customer, any(sku = 101) as a"
     ", any(sku = 102) as b from lines group by customer) where a and b"),
    ("select tier, sum(paid) as paid from lines join customers on lines.customer = customers.id group by "
     "tier", None),
    ("select count(*) as n from lines, products where lines.sku = products.sku", None),
    ("select count(*) as n from lines join products on lines.sku >= products.sku", "is joined on that",
     "ON lines.sku = products.sku",
     f"select count(*) as n from lines {P} where p.price > 3"),
    ("select count(*) as n from lines full join stores on lines.store = stores.store", "without one",
     "Here: JOIN stores ON lines.store = stores.store",
     f"select count(*) as n from lines {S}"),
    ("select count(*) as n from lines natural join stores", None),
    ("select sum(v) as s from lines join (select sku, avg(paid) as v from lines group by sku) t on "
     "lines.sku = t.sku", "grouped by 'customer' alone", "of the person, or with GROUP BY", "select sum(v) as s from (select customer, "
     "avg(paid) as v from lines group by customer)"),
]  # fmt: skip
