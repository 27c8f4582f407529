"""Writes tests/fixtures/part1.zip; run with `src` and `tests` of commit 4485a66 first on its path.

What it holds must open in every later version: two ledgers beside their rows, a server's folder,
and in asked.json what was answered then.
"""

import json
import random
import sys
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from audit.harness import audited, people
from ledger.older_calls import (
    ASKED,
    FIRST,
    JUDGED,
    LEARNED,
    SCHEMA,
    TERMS,
    VERDICTS,
    plain,
    verdict,
)  # fmt: skip
from server.house import made

import sulq

warnings.simplefilter("ignore")


def rows(count, seed):
    luck = random.Random(seed)
    lines = ["id,region,smoker,city,born,note,age,income,height"]
    for i in range(count):
        year, month = luck.randrange(1931, 2010), luck.randrange(1, 13)
        lines.append(
            f"{i},{luck.choice(['north', 'south'])},{luck.choice(['true', 'false', ''])},"
            f"{luck.choice(['rome', 'oslo', chr(34) + chr(108) + chr(39) + 'aquila' + chr(34)])},"
            f"{year}-{month:02}-11,{luck.choice('abc')},{luck.randrange(0, 99)},"
            f"{luck.randrange(1000)},{luck.randrange(250) / 100}"
        )
    return "\n".join(lines) + "\n"


def noisy(folder):
    path = folder / "people.csv"
    path.write_text(rows(60, 1), encoding="utf-8")
    with sulq.open(path, SCHEMA, ledger=folder / "people.ledger", **TERMS) as db:
        for call in FIRST.values():
            call(db)
    path.write_text(rows(64, 2), encoding="utf-8")
    from sulq.opening import refresh

    with refresh(path, SCHEMA, reason="new rows", ledger=folder / "people.ledger") as db:
        answers = {}
        db._ledger.allot("bob", 1_500_000_000)
        db._ledger.allot("eve", 20_000_000)
        for i, (name, call) in enumerate({**ASKED, **LEARNED}.items()):
            db._analyst = ("", "bob", "dan")[i % 3]
            answers[name] = plain(call(db))
        db._analyst = "eve"
        assert plain(ASKED["id"](db)) is not None  # the id of another analyst: a retry entry
        db._analyst = ""
        kept = db._engine.sums

        def fails(*args):
            raise ValueError("rows")

        db._engine.sums = fails
        with suppress(sulq.EngineFailed):
            db.count("smoker and age > 91")
        db._engine.sums = kept
        if db._ledger.frozen() is not None:
            db.resume("looked at")
        db._analyst = "dan"
        answers["after the stop"] = plain(db.count("smoker and age > 91"))
        return answers | {"told": told(db)}


def judged(folder):
    pq.write_table(people(4000).drop(["x"]), folder / "audited.parquet", compression="zstd")
    with audited(
        folder / "audited.parquet", JUDGED, ledger=folder / "audited.ledger", dither=0.5
    ) as db:
        found = {where: verdict(db, where) for where in VERDICTS}
        return {"verdicts": found, "told": told(db)}


def told(db):
    """What the owner reads of it."""
    from sulq.report import report

    found = report(db._ledger, answers=True)
    found["answers"] = {str(k): v for k, v in found["answers"].items()}
    kept = ("charges", "events", "budget", "chain", "answers")
    return json.loads(json.dumps({k: found[k] for k in kept}))


def served(folder):
    house = made(folder / "clinic")
    answers = {}
    with house.serving() as open_:
        bodies = [
            {"query": {"where": "age > 40"}},
            {"query": {"values": ["income"], "where": "secret"}},
            {"queries": [{"where": "age > 1"}, {"where": "age > 2 and secret"}]},
        ]
        for i, body in enumerate(bodies):
            reply = open_.call("POST", "/v1/datasets/people/ask", body, Idempotency_Key=f"no-{i}")
            assert reply.status == 200, reply.body
            answers[json.dumps(body)] = reply.json
        text = "select region, count(*) from people where secret group by region"
        reply = open_.call("POST", "/v1/datasets/people/sql", {"sql": text})
        assert reply.status == 200, reply.body
        answers[text] = reply.json
        allotted = open_.call("PUT", "/v1/datasets/people/allotments/bob", {"queries": 50}, "anna")
        print("allot", allotted.status, allotted.body[:200])
        history = open_.call("GET", "/v1/datasets/people/answers").json
        timeline = open_.call("GET", "/v1/datasets/people/timeline", who="anna").json
    return {"keys": house.keys, "answers": answers, "history": history, "timeline": timeline}


def main(folder, out):
    said = {"noisy": noisy(folder), "audited": judged(folder), "served": served(folder)}
    (folder / "asked.json").write_text(json.dumps(said), encoding="utf-8")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
