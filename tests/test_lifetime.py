"""A closed database, and one that a fork has taken along, are refused before anything is paid."""

import contextlib
import multiprocessing
import os
import signal
import threading
import warnings

import pytest
from attacks.harness import SCHEMA, opened, people

import sulq
from sulq import Query
from sulq.learn import PCA
from sulq.pipeline import Order

CHILD_SECONDS = 60

ASKED = {
    "count": lambda db: db.count("secret"),
    "batch": lambda db: db.ask([Query(where="secret"), Query(["income"])]),
    "sql": lambda db: db.sql("select count(*) from people"),
    "request id": lambda db: db.ask(Query(where="secret"), request_id="r"),
    "sizes": lambda db: db.sizes(sulq.Rows.where("id < 5")),
    "key counts": lambda db: db.key_counts(),
    "view": lambda db: db.as_analyst("bob").count("secret"),
    "orders": lambda db: raised(db.answer_all([Order(db.question(Query(where="secret")))])[0]),
    "late": lambda db: db.answer_with_noise_alone(Order(db.question(Query(where="secret")))),
}


def raised(found):
    if isinstance(found, Exception):
        raise found
    return found


@pytest.fixture
def path(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(people(), tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def audited(path):
    schema = {n: SCHEMA[n] for n in ("id", "region", "secret")}
    return opened(
        path, schema, ledger=None, mode="audited", independent_rows=True, priors={"secret": 0.5}
    )


@pytest.mark.parametrize("way", ASKED)
def test_a_closed_database_is_refused_before_the_charge(path, way):
    """Questions, free counts, views and batches; the ledger has no charge afterwards."""
    db = opened(path, ledger=None)
    db.close()
    with pytest.raises(sulq.Refused, match=r"'people' is closed. Nothing was charged"):
        ASKED[way](db)
    assert db.history() == []


def test_views_close_with_their_database_and_it_with_them(path):
    """An analyst's view, a projection and a context manager; closing twice is closing once."""
    with opened(path, ledger=None) as db:
        pca = PCA(1).fit(db, ["income", "age"])
        bob, plane = db.as_analyst("bob"), db.project(pca)
        spent = db.budget.spent
    db.close()
    for view in (bob, plane):
        with pytest.raises(sulq.Refused, match="is closed"):
            view.count("city = 'rome'")
        view.close()
    assert db.budget.spent == spent
    with opened(path, ledger=None) as again:
        again.as_analyst("bob").close()
        with pytest.raises(sulq.Refused, match="is closed"):
            again.count("secret")


def test_a_closed_audited_database_is_refused_before_the_charge(path):
    """Its questions count too, so none may be lost."""
    db = audited(path)
    db.close()
    db.close()
    with pytest.raises(sulq.Refused, match="is closed"):
        db.count("secret")
    assert db.history() == []


# ---- forks ----------------------------------------------------------------------------------


def in_child(work):
    """What a forked child sends back; it is killed if it hangs."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.write(write, work().encode())
        os._exit(0)
    os.close(write)
    killer = threading.Timer(CHILD_SECONDS, os.kill, (pid, signal.SIGKILL))
    killer.start()
    with os.fdopen(read) as pipe:
        said = pipe.read()
    killer.cancel()
    os.waitpid(pid, 0)
    return said


def refused(call):
    """The refusal that a call meets, as text."""
    try:
        return f"answered: {call()}"
    except sulq.SulqError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("ledger", [None, ":memory:"], ids=["file", "memory"])
@pytest.mark.parametrize("way", ASKED)
def test_a_forked_child_is_refused_before_the_charge(path, way, ledger):
    """Nothing is charged, nothing hangs, and the parent goes on."""
    db = opened(path, ledger=ledger)
    db.count("age > 30")
    said = in_child(lambda: refused(lambda: ASKED[way](db)))
    assert said.startswith("Refused: ")
    assert "forked from. Nothing was charged.\nOpen it in this process with sulq.open" in said
    assert len(db.history()) == 1
    assert db.count("secret").value is not None


def test_a_child_may_close_and_open_for_itself(path):
    """Closing what is the parent's lets go of nothing; one opened in the child answers."""
    db = opened(path, ledger=None)
    spill = db._pipeline.engine._spill

    def child():
        db.close()
        with opened(path, ledger=None) as own:
            return f"{own.count('secret').price} {own.budget.spent}"

    assert in_child(child) == "1 query 1"
    assert os.path.isdir(spill)
    assert db.budget.spent == 1
    assert db.count("age > 30").value is not None


def test_a_pool_of_forked_workers_is_refused(path):
    """multiprocessing's fork: every worker is told to open the database itself."""
    db = opened(path, ledger=None)
    fork = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        queue = fork.SimpleQueue()
        workers = [
            fork.Process(target=lambda: queue.put(refused(lambda: db.count("secret"))))
            for _ in range(3)
        ]
        for worker in workers:
            worker.start()
    for worker in workers:
        worker.join(CHILD_SECONDS)
        alive = worker.is_alive()
        worker.kill()
        assert not alive
    assert all("Open it in this process" in queue.get() for _ in workers)
    assert db.history() == []


def test_an_audited_database_in_a_child_is_refused(path):
    """The auditor's too."""
    db = audited(path)
    assert "forked from" in in_child(lambda: refused(lambda: db.count("secret")))
    assert db.history() == []
