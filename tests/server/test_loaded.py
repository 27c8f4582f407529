"""What a server loads it loads before it is ready: loading holds every thread of it up."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from server.instance import made

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

CHILD = """
import json, sys
from pathlib import Path
from server.instance import Instance

instance = Instance(Path(sys.argv[1]), keys={"bob": sys.argv[2]})
calls, found = json.loads(sys.argv[3]), []

class Spy:
    def find_spec(self, name, path=None, target=None):
        found.append(name.partition(".")[0])

with instance.serving(padding=True):
    instance.until_ready()
    sys.meta_path.insert(0, Spy())
    statuses = [instance.call(method, path, body).status for method, path, body in calls]
    sys.meta_path.pop(0)
print(json.dumps([statuses, sorted(set(found))]))
"""


def loaded(instance, calls):
    """The statuses of these calls, and what was loaded for them."""
    said = [str(instance.folder), instance.keys["bob"], json.dumps(calls)]
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, *said], capture_output=True, text=True, timeout=120,
        cwd=Path(__file__).parents[1], check=True,
    )  # fmt: skip
    return json.loads(ended.stdout.splitlines()[-1])


def test_no_question_loads_what_takes_long(tmp_path):
    """Whoever asks the first of its kind holds nobody else up."""
    statuses, found = loaded(made(tmp_path / "instance"), CALLS)
    assert statuses == [200, 200, 200, 200, 404, 200, 200, 200, 422, 200, 200, 200, 200, 200]
    assert not {"scipy", "numpy", "pandas", "pyarrow", "polars", "anyio", "sulq"} & set(found)


def test_refusals_need_no_threads():
    """A handler that is no coroutine is run in a thread, of which a flood of refusals makes many."""
    handlers = api().exception_handlers.values()
    assert handlers
    assert all(map(asyncio.iscoroutinefunction, handlers))
