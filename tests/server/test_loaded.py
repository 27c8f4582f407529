"""What a server loads it loads before it is ready: loading holds every thread of it up."""

import asyncio
import time

from server.instance import made
from server.processes import served

from sulq.server.api.app import api

D = "/v1/datasets/people"
CALLS = [
    ("GET", D, None), ("GET", f"{D}/budget", None), ("GET", f"{D}/keys", None),
    ("GET", "/v1/openapi.json", None), ("GET", "/v1/nothing", None),
    ("POST", f"{D}/price", {"query": {"where": "age > 3"}}),
    ("POST", f"{D}/ask", {"query": {"where": "age > 3"}}),
    ("POST", f"{D}/ask", {"queries": [{"where": f"age > {i}"} for i in range(40)]}),
    ("POST", f"{D}/ask", {"query": {"where": "nothing > 3"}}),
    ("POST", f"{D}/sql", {"sql": "select region, avg(age) from people group by region"}),
    ("POST", f"{D}/sql", {"sql": "select median(age), corr(age, income) from people"}),
    ("POST", f"{D}/estimate", {"query": {"where": "age > 3"}}),
    ("POST", f"{D}/sizes", {"rows": [{"predicate": "region = 'north'"}]}),
    ("GET", f"{D}/answers?limit=1000", None),
]  # fmt: skip

STATUSES = [200, 200, 200, 200, 404, 200, 200, 200, 422, 200, 200, 200, 200, 200]
HEAVY = {"scipy", "numpy", "pandas", "pyarrow", "polars", "anyio", "sulq"}


def status_of(instance, call):
    """The status of a request; of a late reply on a busy machine, that of asking again, free."""
    deadline = time.monotonic() + 60
    while (status := instance.call(*call).status) == 503 and time.monotonic() < deadline:
        pass
    return status


def loaded(folder, altered):
    """Which of the heavy libraries a server loads for its first questions, once it is ready."""
    instance, file = made(folder / "instance"), folder / "loaded"
    environment = {"SULQ_SERVER_PADDING": "yes", "LOADED": str(file)}
    with served(instance.folder, env=environment, altered=altered) as (_, instance.url):
        instance.until_ready()
        before = len(file.read_text().split())
        assert before > 100
        assert [status_of(instance, call) for call in CALLS] == STATUSES
        return HEAVY & {name.partition(".")[0] for name in file.read_text().split()[before:]}


def test_no_question_loads_what_takes_long(tmp_path):
    """Whoever asks the first of its kind holds nobody else up."""
    assert loaded(tmp_path, "tells what it loads") == set()


def test_control_what_is_not_loaded_at_the_start_is_by_whoever_asks(tmp_path):
    """As it was before."""
    assert "scipy" in loaded(tmp_path, "loads late")


def test_refusals_need_no_threads():
    """A handler that is no coroutine is run in a thread: a flood of refusals makes many."""
    handlers = api().exception_handlers.values()
    assert handlers
    assert all(map(asyncio.iscoroutinefunction, handlers))
