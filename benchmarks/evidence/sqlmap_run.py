"""sqlmap against the routes of a running server: every parameter that takes text, for a while.

python -m benchmarks.evidence.sqlmap_run SQLMAP: the server is made here, on this machine, with
made-up rows; sqlmap (GPL, in an environment of its own) is asked to break it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sulq.server.process import running
from sulq.server.services.context import Services
from sulq.server.services.folder import begin
from sulq.server.services.settings import Settings

SECONDS = 40  # for each target
SCHEMA = {"columns": {"id": {"type": "integer", "key": True},
                      "age": {"type": "integer", "low": 0, "high": 120},
                      "smoker": {"type": "boolean"}}}  # fmt: skip
TARGETS: list[tuple[str, Any]] = [  # path, body; * is where sqlmap writes
    ("/v1/datasets/people*/budget", None),
    ("/v1/datasets/people/answers?after=1*", None),
    ("/v1/datasets/people/price", {"query": {"where": "smoker", "by": "age*"}}),
    ("/v1/datasets/people/ask", {"query": {"where": "age > 40*"}}),
    ("/v1/datasets/people/sql", {"sql": "select count(*) from people where age > 40*"}),
]
FOUND = re.compile(r"(is vulnerable|identified the following injection point|back-end DBMS:)")


def served() -> tuple[Settings, str]:
    """A server's folder with made-up people, and an analyst's key."""
    folder = Path(tempfile.mkdtemp()) / "clinic"
    begin(folder, "anna")
    rows = np.random.default_rng(1)
    table = pa.table({"id": np.arange(1000), "age": rows.integers(0, 90, 1000),
                      "smoker": rows.random(1000) < 0.3})  # fmt: skip
    pq.write_table(table, folder / "data/people.parquet")
    settings = Settings.load(folder, port=0, rate=1e6, burst=10**6, padding=False)
    services = Services.open(settings)
    owner = services.people.owner()
    said = {"source": str(folder / "data/people.parquet"), "schema": SCHEMA, "epsilon": 1.0,
            "delta": 1e-6, "queries": 1_000_000}  # fmt: skip
    record = services.datasets.create(owner, "people", said)
    alice = services.people.add_analyst(owner.tenant, "alice")
    services.people.invite(record.id, alice)
    key = services.people.new_key(alice).text
    services.close()
    return settings, key


def attack(sqlmap: str, url: str, key: str, body: Any) -> tuple[int, str]:
    """What sqlmap found in so many seconds: payloads sent, and its own words if anything."""
    command = [sqlmap, "-u", url, "--batch", "--flush-session", "--level", "2",
               "--technique", "BEUS", "--ignore-code", "*", "--threads", "1", "-v", "3",
               "-H", f"Authorization: Bearer {key}"]  # fmt: skip
    if body is not None:
        command += ["-H", "Content-Type: application/json", "--data", json.dumps(body)]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS).stdout
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
    lines = [line for line in said.splitlines() if FOUND.search(line)]
    return said.count("[PAYLOAD]"), "; ".join(lines)


def main(sqlmap: str) -> int:
    """Try every target; 1 if anything was found."""
    settings, key = served()
    wrong = 0
    with running(settings) as url:
        for path, body in TARGETS:
            tries, found = attack(sqlmap, url + path, key, body)
            wrong += bool(found) or not tries  # that it could not try is no evidence
            where = path if body is None else f"{path} {json.dumps(body)}"
            print(f"{where}: {tries} payloads, {found or 'nothing found'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
