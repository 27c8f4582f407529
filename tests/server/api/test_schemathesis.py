"""schemathesis as a stranger runs it, against the description that the server itself gives.

All of its checks but one: whether a question that fits the description may be asked depends on the
columns of the table and the files of the owner, which no description of bodies can say.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from server.instance import made
from soak import in_soak

KEPT = ("revoke", "close", "rotate")  # who loses the key or the dataset sees little of the rest
CONFIG = """
[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = [400, 401, 402, 403, 404, 409, 413, 415, 422, 429]
"""


@in_soak
@pytest.mark.parametrize("who", ["bob", "anna"])
def test_schemathesis_finds_nothing(tmp_path, who):
    """Examples, boundaries and random requests, 3,000 and more for each of two people."""
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    instance = made(tmp_path / "instance", queries=10**6)
    with instance.serving():
        instance.until_ready()
        found = instance.call("GET", "/v1/openapi.json", None, None).json["paths"]
        named = [r["operationId"] for ms in found.values() for r in ms.values()]
        left_out = [n for n in named if n.startswith(KEPT)]
        assert len(left_out) == 3
        command = [
            Path(sys.executable).with_name("schemathesis"), "run",
            f"{instance.url}/v1/openapi.json", "-H", f"Authorization: Bearer {instance.keys[who]}",
            "--phases", "examples,coverage,fuzzing",
            "--max-examples", "120", "--continue-on-failure", "--no-color",
            *(part for name in left_out for part in ("--exclude-operation-id", name)),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    cases = int(re.search(r"(\d+) generated", done.stdout)[1])
    assert done.returncode == 0, done.stdout
    assert cases >= 3000
    print(who, cases, "cases")
