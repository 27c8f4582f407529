"""Clients that take long to install or to run, in `make soak`.

JDBC, ODBC, R, pgcli, dbt, Superset, sqlsmith.

Connecting and browsing costs nothing with each, and a question its price, once.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from soak import in_soak

HERE = Path(__file__).parent / "clients"
ENVIRONMENTS = ".venv/clients/bin:.venv/dbt/bin:.venv/superset/bin"  # as `make clients` has them
JAR = Path("/usr/share/java/postgresql.jar")
COLUMNS = ["id", "region", "secret", "age", "income", "city"]
TYPED = "\\dt\n\\d people\nselect count(*) from people;\n\\q\n"
SQLSMITH_SECONDS = int(os.environ.get("SULQ_SQLSMITH_SECONDS", "600"))


def program(name, package):
    """Where a program is; `make soak` installs it."""
    found = shutil.which(name) or shutil.which(name, path=ENVIRONMENTS)
    if found is None:
        pytest.fail(f"{name} is not here: apt-get install {package}, as `make soak` does")
    return found


def run(pg, *words, seconds=120, **environment):
    """What a program prints; it must end well."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=seconds,
        env=pg.environment() | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@in_soak
def test_jdbc(pg):
    """Every look that a tool takes by JDBC's metadata; parameters; rows a few at a time."""
    java, url = (
        program("java", "default-jdk-headless"),
        f"jdbc:postgresql://127.0.0.1:{pg.port}/sulq",
    )
    assert JAR.exists(), "apt-get install libpostgresql-jdbc-java"
    words = (java, "-cp", JAR, HERE / "Ask.java", url, pg.user(), pg.keys["bob"])
    before = pg.spent()
    out = run(pg, *words, "browse")
    assert "tables [people]" in out
    assert "columns [id, region, secret, age, income, city]" in out
    assert out.endswith("browsed\n")
    assert pg.spent() == before
    lines = run(pg, *words).splitlines()
    rows = [line for line in lines if line.startswith("row ")]
    assert len(rows) == 7
    assert len(set(rows)) == 1  # text, then binary
    assert lines.count("fetched north") == 1
    assert lines[-1] == "refused 42000"
    assert pg.spent() == before + 1_000_000


@in_soak
def test_odbc(pg, tmp_path):
    """isql lists tables and columns, and asks."""
    isql, before = program("isql", "unixodbc odbc-postgresql"), pg.spent()
    said = {"Driver": "PostgreSQL Unicode", "Servername": "127.0.0.1", "Port": pg.port,
            "Database": "sulq", "UserName": pg.user(), "Password": pg.keys["bob"],
            "ConnSettings": "set sulq.spend = 3"}  # fmt: skip
    lines = "\n".join(f"{name}={value}" for name, value in said.items())
    (tmp_path / "odbc.ini").write_text(f"[sulq]\n{lines}\n")

    def asked(text):
        done = subprocess.run(
            [isql, "sulq", "-b", "-c", "-d,"], input=text, capture_output=True, text=True,
            timeout=60, env=os.environ | {"ODBCINI": str(tmp_path / "odbc.ini")},
        )  # fmt: skip
        return done.stdout

    assert "sulq,public,people,TABLE," in asked("help\n")
    assert "sulq,public,people,age,-5,int8," in asked("help people\n")
    assert pg.spent() == before
    text = "select region, count(*) as n from people where age > 41 group by region\n"
    assert asked(text) == asked(text)
    assert pg.spent() == before + 1_000_000


@in_soak
def test_r(pg):
    """RPostgreSQL lists what is there, and reads a frame of numbers."""
    r, before = program("Rscript", "r-cran-rpostgresql"), pg.spent()
    out = run(pg, r, HERE / "ask.R", "browse")
    assert out == "tables people \ncolumns id region secret age income city \n"
    assert pg.spent() == before
    assert "rows 3 numeric" in run(pg, r, HERE / "ask.R")


@in_soak
def test_pgcli(pg):
    """It completes names from the catalogues when it starts; a statement is asked."""
    pgcli, before = program("pgcli", "pgcli"), pg.spent()
    url = f"postgresql://{pg.user()}:{pg.keys['bob']}@127.0.0.1:{pg.port}/sulq"
    done = subprocess.run(
        [pgcli, "--less-chatty", url], input=TYPED,
        capture_output=True, text=True, timeout=120, env=os.environ | {"PAGER": "cat"},
    )  # fmt: skip
    assert "people" in done.stdout
    assert "200" in done.stdout
    assert pg.spent() == before


PROFILE = """sulq:
  target: here
  outputs:
    here: {{type: postgres, host: 127.0.0.1, port: {port}, user: {user}, password: {password},
           dbname: sulq, schema: public, threads: 2}}
"""
PROJECT = {
    "dbt_project.yml": "name: sulq\nversion: '1.0'\nprofile: sulq\nmodels: {sulq: "
    "{+materialized: ephemeral}}\n",
    "models/sources.yml": "version: 2\nsources: [{name: public, tables: [{name: people}]}]\n",
    "models/regions.sql": "select region, count(*) as n from {{ source('public', 'people') }} "
    "group by region",
}


@in_soak
def test_dbt(pg, tmp_path):
    """debug, compile and show of an ephemeral model; a model that would be written is refused."""
    dbt, before = program("dbt", "dbt-postgres"), pg.spent()
    (tmp_path / "models").mkdir()
    said = {"port": pg.port, "user": pg.user(), "password": pg.keys["bob"]}
    for name, text in (PROJECT | {"profiles.yml": PROFILE.format(**said)}).items():
        (tmp_path / name).write_text(text)
    places = ("--project-dir", tmp_path, "--profiles-dir", tmp_path)
    known = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "PYTHONPATH": "", "DBT_USE_COLORS": "false"}

    def run_dbt(*words):
        return run(pg, dbt, *words, *places, **known)

    assert "Connection test: [OK connection ok]" in run_dbt("debug")
    assert 'from "sulq"."public"."people"' in run_dbt("compile", "--select", "regions")
    shown = run_dbt("show", "--select", "regions")
    assert "north" in shown
    assert "south" in shown
    assert "200" in run_dbt("show", "--inline", "select count(*) as n from people")
    assert pg.spent() == before
    (tmp_path / "models/regions.sql").write_text(
        "{{ config(materialized='table') }} select region, count(*) as n from people group by 1"
    )
    done = subprocess.run([dbt, "run", *places], env=os.environ | known, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode != 0
    assert "nothing is written here" in done.stdout
    assert pg.spent() == before


@in_soak
def test_superset(pg, tmp_path):
    """Its own layer over SQLAlchemy connects, lists, describes and asks."""
    python = Path(program("superset", "apache-superset")).with_name("python")
    url = f"postgresql+psycopg2://{pg.user()}:{pg.keys['bob']}@127.0.0.1:{pg.port}/sulq"
    known = {"SUPERSET_SECRET_KEY": "of nobody" * 6, "SUPERSET_HOME": str(tmp_path),
             "PYTHONPATH": ""}  # fmt: skip
    text, before = "select region, count(*) as n from people group by region", pg.spent()
    found = json.loads(run(pg, python, HERE / "superset_look.py", url, text, **known))
    assert found["engine"] == "PostgreSQL"
    assert found["alive"]
    assert (found["tables"], found["views"]) == (["people"], [])
    assert [name for name, _ in found["columns"]] == COLUMNS
    assert [type for _, type in found["columns"]][2:5] == ["BOOLEAN", "BIGINT", "DOUBLE_PRECISION"]
    assert sum(float(n) for _, n in found[text]) == 200
    assert pg.spent() == before
    asked = "select region, avg(age) as age from people where secret group by region"
    first = run(pg, python, HERE / "superset_look.py", f"{url}?options=-c%20sulq.spend%3D3", asked,
                **known)  # fmt: skip
    charged = pg.spent() - before
    assert charged > 0
    again = run(pg, python, HERE / "superset_look.py", url, asked, **known)
    assert json.loads(first)[asked] == json.loads(again)[asked]
    assert pg.spent() == before + charged


@in_soak
@pytest.mark.timeout(1800)
def test_sqlsmith(pg):
    """Random statements about what is there: each answered or refused, nothing unpaid."""
    smith, before = program("sqlsmith", "sqlsmith"), pg.spent()
    said = pg.said()
    target = " ".join(f"{n}={said[n]}" for n in ("host", "port", "dbname", "user", "password"))
    process = subprocess.Popen(
        [smith, f"--target={target}", "--verbose"], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        process.wait(timeout=SQLSMITH_SECONDS)
        pytest.fail(f"sqlsmith ended by itself: {process.stderr.read()[-1000:]}")
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
    assert pg.spent() == before
    with pg.connect() as connection:
        assert connection.execute("select 1").fetchone() == (1,)
