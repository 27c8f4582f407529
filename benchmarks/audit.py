"""Part 5: the auditor. A question at a million rows, a workload answered in full, attacks stopped.

the 50th question under rule="duan" against plain DuckDB, and against singular values anew
60 counts over conjunctions of 4 private Booleans in 4 regions, a million rows, m = 100
six attacks, 100 trials each on 2,000 to 20,000 rows, under both rules
refusals on 100 pairs of twins
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sulq
from benchmarks.data import FOLDER
from benchmarks.measure import Line, in_turn, seconds
from sulq.audit.attacks import ATTACKS, crowd

ROWS = 1_000_000
BITS = 51  # Boolean columns: 49 asked before, the 50th, and one to warm up with
TRIALS = 100
REGIONS = ["north", "south", "east", "west"]
AUDITED: dict[str, Any] = {"mode": "audited", "independent_rows": True}


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=".bench") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield from fiftieth(Path(name))
        yield workload()
        yield attacks()
        yield twins()


def opened(rows: Any, schema: dict[str, Any], **terms: Any) -> Any:
    return sulq.open(rows, schema, **{"ledger": ":memory:", "epsilon": 1.0} | AUDITED | terms)


# --- speed --------------------------------------------------------------------------------------


def bits() -> Path:
    """A million rows of fair coins."""
    path = FOLDER / f"bits-{ROWS}.parquet"
    if not path.exists():
        rng = np.random.default_rng(9)
        pq.write_table(pa.table({f"b{i}": rng.random(ROWS) < 0.5 for i in range(BITS)}), path)
    return path


def fiftieth(folder: Path) -> Iterator[Line]:
    """The 50th audited question: 50 products and its sum in one scan, decided, paid, stored."""
    path = bits()
    schema = {f"b{i}": {"type": "boolean", "nullable": False} for i in range(BITS)}
    plain = duckdb.connect()
    turn = itertools.count()

    def before() -> Any:
        """49 questions answered, in a folder of its own: the same rows have one ledger in each."""
        home = folder / str(next(turn))
        home.mkdir()
        db = sulq.open(
            path, schema, epsilon=1.0, queries=50, rule="duan", ledger=home / "audit.ledger",
            **AUDITED,
        )  # fmt: skip
        for i in range(49):
            db.count(f"b{i}")
        return db

    ready = [before() for _ in range(4)]  # one to warm up with, three to measure

    def ours() -> None:
        ready.pop().count("b49")

    def duck() -> None:
        products = ", ".join(f"count_if(b49 and b{i})" for i in range(50))
        plain.execute(f"select {products}, count_if(b49) from '{path}'").fetchall()

    def anew() -> None:
        table = pq.read_table(path, columns=[f"b{i}" for i in range(50)])
        x = np.array([c.to_numpy(zero_copy_only=False) for c in table.columns], dtype=float)
        x -= x.mean(axis=1, keepdims=True)
        assert np.linalg.svd(x, compute_uv=False)[-1] > 0

    a, b = in_turn(ours, duck, rounds=3)
    what = "50th audited question, 1,000,000 rows, rule='duan'"
    yield Line(what, a, b, "DuckDB, the same 51 products in one statement", 3.0)
    yield Line(what, a, seconds(anew), "singular values from scratch (numpy svd)", 1 / 20)


# --- what is answered ----------------------------------------------------------------------------


def workload() -> Line:
    """60 counts over conjunctions of 4 private Booleans and 4 regions: how many are refused."""
    rng = np.random.default_rng(11)
    priors = {"a": (0.3, 0.5), "b": 0.3, "c": (0.3, 0.4), "d": 0.5}
    likely = {"a": 0.4, "b": 0.3, "c": 0.35, "d": 0.5}
    columns = {name: rng.random(ROWS) < p for name, p in likely.items()}
    region = np.array(REGIONS)[rng.integers(0, 4, ROWS)]
    schema = {name: {"type": "boolean", "nullable": False} for name in likely} | {
        "region": {"values": REGIONS, "public": True}
    }
    db = opened(
        pa.table(columns | {"region": region}), schema, queries=100, priors=priors, dither=0
    )
    wrong = 0
    asked = [
        (names, where)
        for k in (1, 2, 3, 4)
        for names in itertools.combinations("abcd", k)
        for where in REGIONS
    ]
    assert len(asked) == 60
    for names, where in asked:
        exact = np.logical_and.reduce([columns[n] for n in names]) & (region == where)
        try:
            answer = db.count(f"{' and '.join(names)} and region = '{where}'")
            wrong += answer.value != exact.sum()
        except sulq.AuditRefused:
            wrong += 1
    return Line(
        "conjunctions of 4 private Booleans in 4 regions, refused or wrong", wrong, 60,
        "60 counts, 1,000,000 rows, m = 100, rule='classes'", 0.0, unit="counts",
    )  # fmt: skip


# --- what is not --------------------------------------------------------------------------------


def trial(name: str, seed: int, **terms: Any) -> bool | None:
    """One attack on one row of a fresh table: was the guess right? None: refused."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(2_000, 20_001))
    modulus = int(name.split()[-1]) if name.startswith("residue") else 2
    secrets = rng.random(rows) < 0.5
    kinds = rng.permutation(np.arange(rows) % (modulus + 2))  # as varied for every seed
    table, schema = crowd(rows, secrets, kinds, rng.random(rows))
    if "rule" not in terms:
        share = dict.fromkeys(range(modulus + 2), 1 / (modulus + 2))
        terms["priors"] = {"secret": 0.5, "kind": share}
    db = opened(table, schema, epsilon=3.0, queries=modulus + 1, **terms)
    who = int(rng.integers(0, rows))
    try:
        return ATTACKS[name](db, who) == bool(secrets[who])
    except sulq.Refused:
        return None


def attacks() -> Line:
    """Secrets told to six attacks under the default rule, against the bare one."""
    told, control, lucky = 0, 0, []
    for name in ATTACKS:
        found = [trial(name, seed) for seed in range(TRIALS)]
        bare = [trial(name, seed, rule="duan", dither=0) for seed in range(TRIALS)]
        control += sum(right is True for right in bare)
        if name == "a refusal":  # never answered, so the guess is always the same one
            lucky = [right is True for right in found]
        else:
            told += sum(right is not None for right in found)
    note = f"by a refusal alone {sum(lucky)} of {len(lucky)} guessed right, half by luck"
    return Line(
        "secrets told to attacks, 100 trials each on 2,000 to 20,000 rows", told, control,
        f"rule='duan', dither=0 in {len(ATTACKS) * TRIALS} trials", 0.0, note, unit="told",
    )  # fmt: skip


def twins() -> Line:
    """Pairs of tables that differ in one bit, asked alike: how many are refused differently."""
    rng = np.random.default_rng(5)
    sample, _ = coins(2_000, np.random.default_rng(6))
    differ = 0
    for i in range(TRIALS):
        n = int(rng.integers(2_000, 20_001))
        table, schema = coins(n, np.random.default_rng(1000 + i))
        who = int(rng.integers(0, n))
        bit = table.column("secret").to_pylist()
        bit[who] = not bit[who]
        other = table.set_column(1, "secret", [bit])
        wheres = [
            "secret", "kind = 1", f"id < {who}", f"secret and id <> {who}", f"id = {who} or secret",
            f"id < 40 or (id = {who} and secret)", f"secret xor (id = {who})",
            f"secret and id < {int(rng.integers(1, n))}",
        ]  # fmt: skip
        kinds = dict.fromkeys(range(4), 0.25)
        for terms in (
            {"priors": {"secret": 0.5, "kind": kinds}},
            {"rule": "duan", "simulate": sample, "epsilon": 4.0},
        ):
            seen = [said(opened(t, schema, queries=8, **terms), wheres) for t in (table, other)]
            differ += seen[0] != seen[1]
    return Line(
        "twins refused differently, under 'classes' and under simulate=", differ, 2 * TRIALS,
        "pairs", 0.0, unit="pairs",
    )  # fmt: skip


def coins(rows: int, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    return crowd(rows, rng.random(rows) < 0.5, np.arange(rows) % 4, rng.random(rows))


def said(db: Any, wheres: list[str]) -> list[str]:
    """What an analyst sees of each question but the number itself."""
    out = []
    for where in wheres:
        try:
            db.count(where)
            out.append("answered")
        except sulq.SulqError as error:
            out.append(str(error))
    return out
