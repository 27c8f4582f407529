"""A late answer on a page: it counts down and asks again free; and whether time is kept."""

import threading
import time

from server.console.page_client import PageClient, hidden, plain, text
from server.instance import made

from sulq.engines.duckdb import DuckDBEngine

D = "/console/datasets/people"
SQL = {"kind": "sql", "sql": "select count(*) from people where secret"}


def spent(instance):
    return instance.call("GET", "/v1/datasets/people/budget").json["spent_micro"]


def test_a_late_answer_is_asked_for_again_with_the_same_fields(tmp_path, monkeypatch):
    """The page carries everything that is needed to ask again, and it is paid once."""
    stuck, honest = threading.Event(), DuckDBEngine.sums

    def sums(self, queries):
        while stuck.is_set():
            time.sleep(0.002)
        return honest(self, queries)

    monkeypatch.setattr(DuckDBEngine, "sums", sums)
    terms = {"padding": True, "deadline_seconds": 0.2, "most_late": 0}
    with made(tmp_path / "instance").serving(**terms) as instance:
        bob = PageClient(instance, "bob")
        price = bob.post(f"{D}/preview", SQL)
        fields = SQL | {name: hidden(price, name) for name in ("request", "price")}
        stuck.set()
        late = bob.post(f"{D}/pay", fields)
        assert (late.status, "Not ready yet" in plain(late)) == (503, True)
        assert 'data-countdown="1"' in text(late)
        again = {name: hidden(late, name) for name in ("kind", "sql", "request", "price")}
        assert again == fields
        stuck.clear()
        assert bob.post(f"{D}/pay", again).status == 303
        assert spent(instance) == 10**6


def test_every_page_says_so_where_time_is_not_kept_from_telling(tmp_path):
    """Also before anybody has signed in."""
    instance = made(tmp_path / "instance")
    for padding in (True, False):
        with instance.serving(padding=padding, deadline_seconds=0.1) as served:
            bob = PageClient(served, "bob")
            pages = [bob.get("/console/"), bob.get(D), PageClient(served).get("/console/sign-in")]
            said = ["padding is off" in plain(page) for page in pages]
            assert said == [not padding] * 3
