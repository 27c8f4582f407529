"""sulq.Program: a WebAssembly function of a row stands wherever an expression can."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers import opened
from programs.modules import module, wasm

import sulq
from sulq.errors import QueryNotAllowed
from sulq.expressions.program import received, sent_along
from sulq.expressions.stored_tree import dumps, node_of
from sulq.expressions.wording import sql_of
from sulq.programs import library
from sulq.values.schema import Schema

SCHEMA = {"columns": {
    "id": {"key": True},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "income": {"type": "number", "low": 0, "high": 1e5},
    "smoker": {"type": "boolean"},
    "region": {"values": ["north", "south"], "public": True},
    "city": {"values": ["x", "y", "z"]},
    "wide": {"type": "integer"},
    "name": {"type": "text"},
}}  # fmt: skip
N = 200
OLD = module("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 65))")
HALF = module("(param f64) (result f64) (f64.div (local.get 0) (f64.const 2))")
TWO = wasm(
    '(module (func (export "old") (param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 65)))'
    ' (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))'
    ' (func (export "nothing")))'
)


def table():
    return pa.table({
        "id": np.arange(N), "age": np.arange(N) % 120, "wide": np.arange(N),
        "income": pa.array([None if i % 5 == 0 else float(i) for i in range(N)]),
        "smoker": pa.array([None if i % 7 == 0 else i % 2 == 0 for i in range(N)]),
        "region": ["north", "south"] * (N // 2),
        "city": pa.array([["x", "y", "z", "elsewhere", None][i % 5] for i in range(N)]),
        "name": ["a"] * N,
    })  # fmt: skip


@pytest.fixture
def db():
    return opened(table(), SCHEMA, programs=True)


def value(answer):
    return float(answer.exact[0][0])


def first(table):
    return table.to_json()["rows"][0]


def test_it_is_asked_like_an_expression(db):
    """In where, values, SQL and other expressions."""
    old = sulq.Program(OLD, "f", columns=["age"], name="old")
    half = sulq.Program(HALF, "f", columns=["income"], low=0, high=1e5, name="half")
    ages = [i % 120 for i in range(N)]
    incomes = [i / 2 for i in range(N) if i % 5]
    assert value(db.count(old)) == sum(a > 65 for a in ages)
    assert value(db.sum(half)) == pytest.approx(sum(incomes), rel=1e-3)
    assert value(db.count(f"{half} > 20 and not {old}")) == sum(
        i % 5 > 0 and i / 2 > 20 and i % 120 <= 65 for i in range(N)
    )
    found = db.sql("select sum(half(income)) as s from frame where old(age)", define=[half, old])
    assert first(found)["s"] == pytest.approx(
        sum(i / 2 for i in range(N) if i % 5 and i % 120 > 65), rel=1e-2
    )
    by = db.ask(sulq.Query(by=old))
    assert [float(x) for (x,) in by.exact] == [
        sum(a <= 65 for a in ages),
        sum(a > 65 for a in ages),
    ]


def test_it_may_be_called_with_other_columns(db):
    """Called, it takes any expression; a row function of Python may call it too."""
    half = sulq.Program(HALF, "f", columns=["income"], low=0, high=100, name="half")
    assert value(db.sum(half("age"))) == pytest.approx(sum(i % 120 / 2 for i in range(N)), rel=1e-3)
    assert value(db.sum(half("age + 10"))) > value(db.sum(half("age")))

    @sulq.row
    def twice(age):
        return half(age) + half(age)

    assert value(db.sum(twice)) == pytest.approx(sum(i % 120 for i in range(N)), rel=1e-3)


def test_the_same_program_is_the_same_question(db):
    """From bytes, a file, SQL, under any name: one canonical form, free the second time."""
    count = value(db.count(sulq.Program(OLD, "f", columns=["age"])))
    spent = db.budget.spent
    other = sulq.Program(bytearray(OLD), "f", name="other", low=0.0, high=1.0)
    assert value(db.count(other("age"))) == count
    found = db.sql("select count(*) as n from frame where other(age)", define=[other])
    assert first(found)["n"] == count
    assert db.budget.spent == spent


OTHERS = {
    "low": lambda: sulq.Program(OLD, "f", columns=["age"], low=-1),
    "high": lambda: sulq.Program(OLD, "f", columns=["age"], high=2),
    "fuel": lambda: sulq.Program(OLD, "f", columns=["age"], fuel=9_999),
    "argument": lambda: sulq.Program(OLD, "f")("age - 1"),
    "module": lambda: sulq.Program(TWO, "old", columns=["age"]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_range_fuel_argument_or_module_is_another_question(db, name):
    """Whatever could change a value is part of the form."""
    asked = (sulq.Program(OLD, "f", columns=["age"]), OTHERS[name]())
    assert len({db.question(sulq.Query((p,))).bundles[0].text for p in asked}) == 2


def test_its_form_survives_the_ledger(tmp_path):
    """The module is an entry of the chain, written once; opened again, the answer is free."""
    old = sulq.Program(OLD, "f", columns=["age"])
    source = tmp_path / "rows.parquet"
    pa.parquet.write_table(table(), source)
    settings = {"epsilon": 1.0, "queries": 100, "programs": True}
    with sulq.open(source, SCHEMA, **settings) as db:
        before, _ = db.count(old), db.sum("age", where=old)
        kinds = [e.kind for e in db.entries()]
        assert kinds == ["open", "program", "charge", "answer", "charge", "answer"]
        assert [e.kind for e in db.decisions()] == ["open"]
        assert db.verify() == 6
    library.LIBRARY.__init__()  # as in another process
    with sulq.open(source, SCHEMA, **settings) as db:
        assert db.count(str(old)).exact == before.exact
        assert db.budget.spent == 2
        (kept,) = db._ledger.programs(old.hash[:9])
        assert kept.code == OLD
        assert db.estimate(sulq.Query(where=str(old))).stds[0][0] > 0
    with sulq.open(source, SCHEMA, epsilon=1.0, queries=100) as db:  # off again
        assert len(db.history()) == 2
        with pytest.raises(QueryNotAllowed, match="programs are off"):
            db.count(str(old))


def test_a_refused_charge_keeps_no_module():
    """What is not paid for leaves nothing in the ledger."""
    db = opened(table(), SCHEMA, programs=True, queries=1)
    with pytest.raises(sulq.BudgetExceeded):
        db.ask([sulq.Query((sulq.Program(OLD, "f", columns=["age"]),)), sulq.Query(("income",))])
    assert db._ledger.programs() == []


def test_a_ledger_keeps_so_many_modules(monkeypatch):
    """More are refused, uncharged."""
    monkeypatch.setattr("sulq.ledger.kept_beside.MAX_PROGRAMS", 1)
    db = opened(table(), SCHEMA, programs=True)
    db.count(sulq.Program(OLD, "f", columns=["age"]))
    with pytest.raises(QueryNotAllowed, match="keeps 1 programs already, at most 1"):
        db.sum(sulq.Program(HALF, "f", columns=["income"]))
    assert db.budget.spent == 1


def test_a_stored_tree_is_read_back():
    """JSON -> node -> JSON, and the SQL of it is asked again as the same."""
    schema = Schema.load(SCHEMA)
    half = sulq.Program(HALF, "f", low=-1.5, high=2)
    from sulq.expressions.node import tree_of
    from sulq.expressions.parse import parse

    node = parse(half("income / 3"), schema)
    tree = json.loads(dumps(tree_of(node)))
    assert node_of(tree, schema) == node
    assert parse(sql_of(tree), schema) == node
    assert sql_of(tree, short=True) == f"f[{half.hash[:8]}](income / 3)"
    with pytest.raises(ValueError, match="program"):
        node_of(["program", ["0" * 64, "f", 0.0, 1.0, 10], {"column": "income"}], schema)


ARGUMENTS = {
    "a number where whole ones are wanted": (OLD, "income", r"takes a whole number \(i32\).*round"),
    "more than 32 bits": (OLD, "wide", "beyond 32 bits"),
    "text": (OLD, "name", "is text: give a category's column"),
    "text that is computed": (OLD, "lower(city)", "is text"),
    "too many": (OLD, "age, age", r"takes 1 arguments \(i32\), not 2"),
    "public alone": (OLD, "region", "public columns alone"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_do_not_fit_are_refused(db, name):
    """With what is wanted, before anything is charged."""
    code, given, said = ARGUMENTS[name]
    text = str(sulq.Program(code, "f"))[:-1] + f", {given})"
    with pytest.raises(QueryNotAllowed, match=said):
        db.count(f"{text} = true")
    assert db.budget.spent == 0


SETTINGS = {
    "no hash": ("'abc', 'f', 0, 1, 10, age", "begins with the SHA-256"),
    "unknown": (f"'{'0' * 64}', 'f', 0, 1, 10, age", "not known here.*Nothing was charged"),
    "a column": ("age, 'f', 0, 1, 10, age", "are constants"),
    "nothing": ("", "wants a hash, a name"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_calls_that_say_nothing_are_refused(db, name):
    """A call names a known module, a function, a range and fuel."""
    inside, said = SETTINGS[name]
    with pytest.raises(QueryNotAllowed, match=said):
        db.count(f"program({inside})")


@pytest.mark.parametrize(
    ("said", "match"),
    [({"low": 1, "high": 0}, "low is below high"), ({"low": 0.5}, "low and high are whole too"),
     ({"high": math.inf}, "numbers within"), ({"high": 2.0**60}, "numbers within"),
     ({"fuel": 0}, "fuel=0"), ({"fuel": 10**12}, "fuel="), ({"fuel": 1.5}, "fuel=1.5"),
     ({"name": "a b"}, "name of letters"), ({"columns": ["age", "age"]}, "columns: f takes 1"),
     ({"columns": "age"}, "as a list")],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(said, match):
    """Each refusal says what is wrong with a setting."""
    with pytest.raises(QueryNotAllowed, match=match):
        sulq.Program(OLD, "f", **said)


@pytest.mark.parametrize("export", ["a b", "f'", "", "\u00e9", "f" * 300])
def test_a_function_has_a_plain_name(export):
    """What stands in questions, histories and terminals is letters, digits, _, . and $."""
    code = wasm(f'(module (func (export "{export}") (param i32) (result i32) (local.get 0)))')
    with pytest.raises(QueryNotAllowed, match="is no name of a function"):
        sulq.Program(code, export, name="f")


def test_it_is_read_from_a_file(tmp_path):
    """A .wasm file, or its text."""
    (tmp_path / "old.wasm").write_bytes(OLD)
    (tmp_path / "old.wat").write_text(
        '(module (func (export "f") (param i32) (result i32) '
        "(i32.gt_s (local.get 0) (i32.const 65))))"
    )
    by_file = [sulq.Program(tmp_path / name, "f") for name in ("old.wasm", "old.wat")]
    assert {p.hash for p in by_file} == {sulq.Program(OLD, "f").hash}
    with pytest.raises(QueryNotAllowed, match="cannot be read"):
        sulq.Program(tmp_path / "no.wasm", "f")
    (tmp_path / "bad.wat").write_text("(module (func")
    with pytest.raises(QueryNotAllowed, match=r"bad\.wat"):
        sulq.Program(tmp_path / "bad.wat", "f")


def test_modules_travel_with_the_texts_that_name_them():
    """Only those that are named, in base64; what is no module is refused."""
    old, half = sulq.Program(OLD, "f", columns=["age"]), sulq.Program(HALF, "f")
    sent = sent_along([json.dumps({"where": f"{old} and PROGRAM ( '{half.hash}', 'f')"}), str(old)])
    library.LIBRARY.__init__()
    received(sent)
    assert library.LIBRARY.get(old.hash) == OLD
    assert library.LIBRARY.get(half.hash) == HALF
    for bad in (["?"], ["AAAA"], [""] * 21):
        with pytest.raises(QueryNotAllowed, match="program"):
            received(bad)


def test_audited_tables_run_none():
    """An auditor follows expressions, not programs."""
    with pytest.raises(sulq.Refused, match="no auditor can follow"):
        opened(table(), SCHEMA, mode="audited", programs=True, quiet=False)
    with pytest.raises(sulq.Refused, match="program_fuel=0"):
        opened(table(), SCHEMA, programs=True, program_fuel=0)
    with pytest.raises(sulq.Refused, match="want True or False"):
        opened(table(), SCHEMA, programs=1)
