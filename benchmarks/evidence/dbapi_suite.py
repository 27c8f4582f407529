"""dbapi-compliance, the public suite for DB-API drivers, on sulq.dbapi.

python -m benchmarks.evidence.dbapi_suite FOLDER_OF_DBAPI20. Most of its tests make tables and write
rows, which no analyst may. Those are counted and left out; the rest is run as it is.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import unittest
import warnings

import pyarrow as pa

import sulq
import sulq.dbapi

WRITES = re.compile(
    r"executeDDL|_populate|_paraminsert|ddl1|insert|callproc|need(?:ed)? to override|_help_nextset",
    re.IGNORECASE,
)
SCHEMA = {"columns": {"x": {"type": "integer", "low": 0, "high": 9}}}


def main(folder: str) -> int:
    """Run what applies; 1 if any of it fails."""
    sys.path.insert(0, folder)
    suite = importlib.import_module("dbapi20")

    class Suite(suite.DatabaseAPI20Test):  # type: ignore[misc,name-defined]
        driver = sulq.dbapi

        def _connect(self) -> object:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                db = sulq.open(
                    pa.table({"x": [1, 2, 3]}), SCHEMA, epsilon=1.0, queries=9, ledger=":memory:"
                )
            return sulq.dbapi.connect(db)

        def tearDown(self) -> None:
            """There is nothing to drop."""

    names = unittest.TestLoader().getTestCaseNames(Suite)
    writes = [n for n in names if WRITES.search(inspect.getsource(getattr(Suite, n)))]
    run = unittest.TestSuite(Suite(name) for name in names if name not in writes)
    found = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(run)
    wrong = [case.id().split(".")[-1] for case, _ in found.failures + found.errors]
    passed = found.testsRun - len(wrong)
    failing = ", ".join(wrong) or "none"
    print(f"{passed} of {found.testsRun} that write nothing pass. Failing: {failing}.")
    print(f"Left out, since they make or write tables: {len(writes)}.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
