"""What people are told over HTTP who mistype a question: the words of the library."""

from __future__ import annotations

from server.instance import made
from system.test_messages import SCHEMA, TABLE, cases, question

D = "/v1/datasets/people"


def test_http_says_the_same(tmp_path):
    """Each refusal of tests/fixtures/messages.sql, word by word, status 422, nothing charged."""
    schema = {"columns": SCHEMA}
    with made(tmp_path / "instance", TABLE, schema).serving() as instance:
        for text, kind, said in cases():
            if kind != "says":
                continue
            statement = isinstance(question(text), str)
            body = {"sql": text} if statement else {"query": {"where": text}}
            found = instance.call("POST", f"{D}/{'sql' if statement else 'ask'}", body)
            error = found.json["error"]
            assert (found.status, error["message"]) == (422, said)
            assert error["charged"] is False
