"""What the audit tests share: small tables, audited databases in memory, twins, attack trials."""

import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa

import sulq
from sulq.audit import attacks
from sulq.audit.classes import Classes
from sulq.audit.promise import AuditPromise
from sulq.audit.total import total_of
from sulq.engines.reference import ReferenceEngine

REGIONS = ["north", "south", "east", "west"]
SCHEMA = {
    "id": {"key": True, "type": "integer", "low": 0, "high": 10**6},
    "region": {"values": REGIONS, "public": True},
    "a": {"type": "boolean", "nullable": False},
    "b": {"type": "boolean", "nullable": False},
    "c": {"type": "boolean", "nullable": False},
    "city": {"values": ["rome", "oslo", "lima"]},
    "x": {"type": "number", "low": 0, "high": 1, "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 120},
}
PRIORS = {"a": 0.3, "b": (0.3, 0.5), "c": 0.5}


def people(n, seed=1, **columns):
    """A table of n people; `columns` replace drawn ones."""
    rng = np.random.default_rng(seed)
    drawn = {
        "id": np.arange(n),
        "region": rng.choice(REGIONS, n),
        "a": rng.random(n) < 0.3,
        "b": rng.random(n) < 0.4,
        "c": rng.random(n) < 0.5,
        "city": rng.choice(["rome", "oslo", "lima", "bonn"], n),
        "x": rng.random(n),
        "age": rng.integers(0, 121, n),
    }
    return pa.table(drawn | columns)


def audited(source, schema=SCHEMA, **terms):
    """A database in memory under mode="audited"; dither=0 unless asked for."""
    settings = {"epsilon": 1.0, "queries": 20, "ledger": ":memory:", "dither": 0}
    settings |= {"mode": "audited", "independent_rows": True} | terms
    if settings.get("rule") != "duan":
        settings.setdefault("priors", PRIORS)
        settings.setdefault("independent_columns", True)  # as `people` draws them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sulq.open(source, schema, **settings)


def bare(table, schema=SCHEMA, **terms):
    """The auditor of rule="classes" alone, without a ledger: judge(total), admit([total])."""
    settings = {"epsilon": 1.0, "delta": 1e-6, "queries": 20, "priors": PRIORS} | terms
    declared = sulq.Schema.load(schema)
    priors = settings.pop("priors")
    made = AuditPromise(**{"known": Fraction(1, 2)} | settings).bound(declared, priors, None, True)
    engine = ReferenceEngine(table, declared)
    return Classes(made, declared, engine.rows, engine.groups)


def admitted(auditor, wheres):
    """Judge one predicate after the other; those that were answered."""
    kept = []
    for where in wheres:
        asked = total(where)
        if auditor.judge([asked]).ok:
            auditor.admit([asked])
            kept.append(where)
    return kept


def duan(source, schema=SCHEMA, **terms):
    return audited(source, schema, rule="duan", **terms)


def outcome(db, where):
    """The exact count, or 'refused'."""
    try:
        return round(db.count(where).value)
    except sulq.AuditRefused:
        return "refused"


def flipped(table, row, column="a"):
    """The twin: one private bit of one row is the other one."""
    bits = table.column(column).to_pylist()
    bits[row] = not bits[row]
    return table.set_column(table.column_names.index(column), column, [bits])


def total(where, schema=SCHEMA, values=("1",)):
    return total_of(sulq.Query(values, where=where), sulq.Schema.load(schema))[0]


def dealt(rng, rows, kinds):
    """Kinds dealt out evenly in a random order: answers vary as much for every seed.

    Were they drawn apart, the bare test would refuse some tables of 2,000 rows modulo 5 (its
    threshold is 260.8; the smallest squared singular value is 284 to 286 here, 230 to 285 there).
    """
    return rng.permutation(np.arange(rows) % kinds)


def trial(name, rows, seed, **terms):
    """One attack on one row of a fresh table: was the guess right, or who stopped it?"""
    rng = np.random.default_rng(seed)
    modulus = int(name.split()[-1]) if name.startswith("residue") else 2
    secrets = rng.random(rows) < 0.5
    kinds = dealt(rng, rows, modulus + 2)
    table, schema = attacks.crowd(rows, secrets, kinds, rng.random(rows))
    if terms.get("rule") != "duan":
        share = 1 / (modulus + 2)
        terms = {
            "priors": {"secret": 0.5, "kind": dict.fromkeys(range(modulus + 2), share)}
        } | terms
    db = audited(table, schema, **{"epsilon": 3.0, "queries": modulus + 1} | terms)
    who = int(rng.integers(0, rows))
    try:
        return attacks.ATTACKS[name](db, who) == bool(secrets[who])
    except sulq.Refused as refusal:
        return type(refusal).__name__


def asks(wait, path, where):
    """In a process of its own, all starting together: the count, or 'refused'."""
    with audited(path, ledger=None) as db:
        wait()
        return outcome(db, where)


def opened_noisy(source):
    """The same rows under a promise that rests on noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sulq.open(source, SCHEMA, epsilon=1.0, queries=20, ledger=":memory:")
