"""People and events in several tables, asked over HTTP."""

import warnings

import duckdb
import pytest
from engines import star_statements as star
from server.instance import PROMISE, made

import sulq


def test_the_client_asks_about_people_and_their_events(tmp_path):
    """Prices, n and views are those of the tables; an answer is one question from every door."""
    instance = made(tmp_path / "i")
    place = instance.folder / "data" / "clinic.duckdb"
    with duckdb.connect(str(place)) as connection:
        for name, table in star.tables_of(star.rows_of(2, 40)).items():
            connection.register("given", table)
            connection.execute(f"create table {name} as from given")
            connection.unregister("given")
    with instance.services() as services, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        anna = services.people.owner("anna")
        said = {"schema": star.SCHEMA, "source": str(place)} | PROMISE
        record = services.datasets.create(anna, "clinic", said)
        bob = services.people.analyst(anna.tenant, "bob")
        services.people.invite(record.id, bob)
    with (
        instance.serving() as served,
        sulq.connect(served.url, served.keys["bob"], "clinic") as db,
    ):
        assert db.rows == 40
        visits = db.table("visits")
        first = visits.count("age > 40 and sev > 1")
        text = "select count(*) as n from visits v join people p on v.patient = p.person where "
        assert db.sql(text + "sev > 1 and p.age > 40")["n"] == [pytest.approx(first.value)]
        assert db.budget.spent == first.price.queries == 9
        people = db.per_person({"visits": "count(visit)", "age": "age"})
        assert people.rows == 40
        assert people.mean("visits").price.queries == 1
        text = "select count(*) as n from people where person in (select person from orders)"
        assert db.price(text).queries == 1
        with pytest.raises(sulq.QueryNotAllowed, match="side by side"):
            db.sql("select count(*) from visits v join orders o on v.patient = o.person")
