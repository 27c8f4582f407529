"""What a connection spends: within what was allowed, after a price, once for each question."""

import psycopg
import pytest
from server.pgwire.wired import SMOKERS, wired


def test_a_select_is_refused_with_its_price_until_it_is_allowed(pg):
    """Nothing is spent without `set sulq.spend` or a cap; the hint says how."""
    before = pg.spent()
    with pg.connect() as connection:
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded) as error:
            connection.execute("select count(*) from people where age > 17")
        said = error.value.diag
        assert "price=1 query" in said.message_primary
        assert "set sulq.spend = 1" in said.message_hint
        assert said.message_detail == "Nothing was charged."
        assert pg.spent() == before
        connection.execute("set sulq.spend = 1.5")
        connection.execute("select count(*) from people where age > 17")
        assert pg.spent() == before + 1_000_000
        assert connection.execute("show sulq.spent").fetchone() == ("1",)
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match=r"0\.5 queries left"):
            connection.execute("select count(*) from people where age > 18")
        connection.execute("select count(*) from people where age > 17")
    assert pg.spent() == before + 1_000_000


def test_the_same_select_is_free_for_every_connection_and_door(pg):
    """A dashboard refreshes for nothing: the stored answer comes back, whoever asks."""
    with pg.connect() as connection:
        connection.execute("set sulq.spend = 5")
        first = connection.execute(SMOKERS).fetchall()
        before = pg.spent()
    with pg.connect() as connection:  # which may spend nothing
        spelled = 'SELECT "region" , COUNT(*) AS n FROM "public"."people" WHERE secret GROUP BY 1'
        assert connection.execute(spelled).fetchall() == first
    body = {"sql": SMOKERS}
    over_http = pg.call("POST", "/v1/datasets/people/sql", body).json["table"]["rows"]
    assert [(row["region"], row["n"]) for row in over_http] == first
    assert pg.spent() == before


def test_what_is_public_is_free_and_exact(pg):
    """count(*) and counts by public columns need no allowance."""
    with pg.connect() as connection:
        assert connection.execute("select count(*) from people").fetchone() == (200.0,)
        counted = connection.execute("select region, count(*) from people group by region")
        assert sum(n for _, n in counted.fetchall()) == 200


def test_an_owners_cap_of_the_key_allows_and_bounds(tmp_path):
    """Without `set`; what is beyond the cap is refused, whatever the connection allows itself."""
    with wired(tmp_path / "instance") as pg:
        key = pg.keys["bob"].split("_")[1]
        pg.call("PUT", f"/v1/keys/{key}/cap", {"queries": 2}, who="anna")
        with pg.connect() as connection:
            for age in (20, 21):
                connection.execute(f"select count(*) from people where age > {age}")
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                connection.execute("select count(*) from people where age > 22")
            connection.execute("set sulq.spend = 50")
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="remaining=0"):
                connection.execute("select count(*) from people where age > 22")
        assert pg.spent() == 2_000_000


def test_a_pool_that_resets_a_connection_gets_no_new_allowance(pg):
    """What the connection was opened with stays, and what was spent of it."""
    with pg.connect(options="-c sulq.spend=1") as connection:
        connection.execute("select count(*) from people where age > 31")
        for reset in ("reset all", "discard all", "reset sulq.spend"):
            connection.execute(reset)
            assert connection.execute("show sulq.spend").fetchone() == ("0",)
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                connection.execute("select count(*) from people where age > 32")


def test_explain_shows_price_error_and_budget_free(pg):
    """Before it is asked, after it was asked, and of what is public."""
    before = pg.spent()
    text = "select avg(income) from people where age > 33"
    with pg.connect() as connection:
        lines = [line for (line,) in connection.execute(f"explain {text}")]
        assert lines[0] == "Price: 1 query"
        assert lines[1].startswith("Expected error of avg(income): ")
        assert lines[2].startswith("Budget: ")
        assert "sulq.spend" in lines[3]
        free = connection.execute("explain select count(*) from people").fetchone()
        assert free == ("Price: 0 queries: public, so the answer is exact",)
        (plan,) = connection.execute(f"explain (format json, costs off) {text}").fetchone()
        assert plan[0]["Plan"]["Price"] == "1 query"
        assert pg.spent() == before
        connection.execute("set sulq.spend = 1")
        connection.execute(text)
        again = connection.execute(f"explain {text}").fetchone()[0]
        assert again.startswith("Price: 0 queries: asked before")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="would ask and pay"):
            connection.execute(f"explain analyze {text} and true")


def test_intervals_are_columns_when_they_are_wanted(pg):
    """_low and _high beside each number, none beside a group."""
    with pg.connect() as connection:
        connection.execute("set sulq.spend = 9")
        text = "select region, avg(age), count(*) as n from people where secret group by region"
        plain = connection.execute(text)
        assert [d.name for d in plain.description] == ["region", "avg", "n"]
        connection.execute("set sulq.intervals = on")
        found = connection.execute(text)
        names = [d.name for d in found.description]
        assert names == ["region", "avg", "avg_low", "avg_high", "n", "n_low", "n_high"]
        for row in found.fetchall():
            assert row[1] is None or row[2] <= row[1] <= row[3]  # NULL: too noisy to say
            assert row[5] <= row[4] <= row[6]


@pytest.mark.parametrize(("text", "state"), [
    ("select * from people", "42000"), ("select age from people", "42000"),
    ("select nope from people", "42000"), ("select count(*) from nowhere", "42P01"),
    ("select count(*) from other.people", "42P01"), ("selec 1", "0A000"),
    ("select (", "42601"), ("insert into people values (1)", "25006"),
    ("select count(*) from people, pg_class", "0A000"), ("drop table people", "25006"),
    ("select count(*) from people where city = 'paris'", "42000"), ("listen x", "0A000"),
    ("set nope = 1", "42704"), ("set sulq.spend = 'much'", "22023"), ("show nope", "42704"),
    ("set client_encoding = latin1", "22023"), ("fetch 1 from nowhere", "34000"),
    ("select pg_sleep(10)", "42883"), ("select * from read_csv('/etc/passwd')", "42883"),
    ("select current_setting('nope')", "42704"), ("copy people to stdout", "0A000"),
    ("copy (select 1) to '/tmp/x'", "0A000"), ("set role postgres", "42601"),
])  # fmt: skip
def test_a_refusal_has_a_state_and_says_that_nothing_was_charged(pg, text, state):
    """The message depends on the statement alone."""
    before = pg.spent()
    with pg.connect() as connection:
        connection.execute("set sulq.spend = 9")
        with pytest.raises(psycopg.Error) as error:
            connection.execute(text)
        assert error.value.sqlstate == state
        assert error.value.diag.message_detail == "Nothing was charged."
    assert pg.spent() == before


def test_a_price_and_a_note_come_as_notices(pg):
    """Once, when it is paid; not when it is asked again or when notices are unwanted."""
    heard = []
    with pg.connect() as connection:
        connection.add_notice_handler(lambda said: heard.append(said.message_primary))
        connection.execute("set sulq.spend = 9")
        text = "select count(*) from people where age > 44"
        connection.execute(text)
        assert [said for said in heard if said.startswith("price 1 query, ")]
        heard.clear()
        connection.execute(text)
        connection.execute("set client_min_messages = warning")
        connection.execute("select count(*) from people where age > 45")
        assert heard == []
