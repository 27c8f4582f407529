"""Whether a charge was made: one attribute, which Python, HTTP and the command line all read."""

import ast
import json
from pathlib import Path

import pytest
import typer

import sulq
from sulq import errors
from sulq.cli.common import messages
from sulq.client.wire import error_of
from sulq.learn import TooFewRows
from sulq.server.services.responses import error_body, status_of

CHARGED = {
    "AuditRefused": True,
    "EngineFailed": True,
    "Late": True,
    "TooFewRows": None,
    "SulqError": None,
    "LedgerDamaged": None,
    "ServerAway": None,
    "MissingExtra": None,
}
EVERY = [*(getattr(errors, name) for name in errors.__all__), TooFewRows]


def made(kind):
    return kind(2, 1) if kind is errors.BudgetExceeded else kind("what was asked.")


def by_cli(error, capsys):
    with pytest.raises(typer.Exit), messages(as_json=True):
        raise error
    return json.loads(capsys.readouterr().out)["error"]["charged"]


@pytest.mark.parametrize("kind", EVERY, ids=lambda k: k.__name__)
def test_whether_a_charge_was_made_is_one_truth_on_every_door(kind, capsys):
    """The exception, `--json`, HTTP's body and the exception a client raises say the same."""
    error = made(kind)
    body = error_body(error)
    again = error_of(status_of(error), json.dumps(body).encode(), None)
    said = [error.charged, by_cli(error, capsys), body["error"]["charged"], again.charged]
    assert said == [CHARGED.get(kind.__name__, False)] * 4


def test_an_auditor_that_counted_a_refusal_before_says_so_through_a_client():
    """A refusal that was counted before is not charged again, over HTTP too."""
    error = errors.AuditRefused("no.", charged=False)
    body = json.dumps(error_body(error)).encode()
    assert error_of(403, body, None).charged is False


def test_the_driver_carries_it_too():
    """DB-API exceptions say whether a charge was made."""
    db = sulq.rehearsal({"columns": {"a": {"type": "boolean"}}}, 10)
    with pytest.raises(sulq.dbapi.ProgrammingError) as caught:
        sulq.dbapi.connect(db).cursor().execute("select a from rehearsal")
    assert caught.value.charged is False


UNKNOWN = [name for name, charged in CHARGED.items() if charged is None]


def raised(kinds):
    """Every text that one of these is made with, and where."""
    for path in Path(sulq.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in kinds:
                parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                yield path.name, node.lineno, "".join(map(str, parts))


def test_no_message_claims_what_the_attribute_does_not_know():
    """An error that says None never says "Nothing was charged": a charge may precede it."""
    every = list(raised(UNKNOWN))
    assert len(every) > 30
    assert [found for found in every if "othing was charged" in found[2]] == []
