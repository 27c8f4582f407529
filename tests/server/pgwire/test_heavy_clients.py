"""Clients that take long to install or to run, in `make soak`: JDBC, ODBC, R, pgcli, sqlsmith.

Connecting and browsing costs nothing with each, and a question its price, once.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from soak import in_soak

HERE = Path(__file__).parent / "clients"
JAR = Path("/usr/share/java/postgresql.jar")
TYPED = "\\dt\n\\d people\nselect count(*) from people;\n\\q\n"
SQLSMITH_SECONDS = int(os.environ.get("SULQ_SQLSMITH_SECONDS", "600"))


def program(name, package):
    """Where a program is; `make soak` installs it."""
    found = shutil.which(name) or shutil.which(name, path=".venv/clients/bin")
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
