"""SQLAlchemy's suite for dialects, on sulq://.

python -m benchmarks.evidence.sqlalchemy_suite. Nearly all of it makes tables of its own and writes
rows, which no analyst may, or selects expressions without a table. What is refused for that is
counted by the statement; whatever else fails is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

ROOT = Path(__file__).resolve().parents[2]
WRITES = ("CREATE: only SELECT", "DROP: only SELECT", "INSERT: only SELECT", "DELETE: only SELECT",
          "UPDATE: only SELECT", "ALTER: only SELECT")  # fmt: skip
BARE = "FROM is missing"
FILES = {
    "conftest.py": "from sqlalchemy.testing.plugin.pytestplugin import *\n",
    "test_suite.py": "from sqlalchemy.testing.suite import *\n",
    "setup.cfg": "[tool:pytest]\naddopts = -p no:warnings --tb=line --maxfail=100000\n"
    "[sqla_testing]\nrequirement_cls=benchmarks.evidence.sqlalchemy_suite:Requirements\n"
    "profile_file=profiles.txt\n[db]\ndefault=sulq:///sulq.toml?spend=100\n",
    "numbers.toml": '[columns.id]\nkey = true\n[columns.x]\ntype = "integer"\nlow = 0\nhigh = 9\n',
    "sulq.toml": 'source = "numbers.parquet"\nschema = "numbers.toml"\nepsilon = 1.0\n'
    "queries = 1000\n",
}


class Requirements(SuiteRequirements):
    """What the dialect has not: whatever needs it is skipped by the suite itself."""

    for _name in (
        "create_table", "drop_table", "temp_table_reflection", "temporary_tables", "views",
        "schemas", "foreign_keys", "foreign_key_constraint_reflection", "index_reflection",
        "unique_constraint_reflection", "view_reflection", "autoincrement_insert",
        "insert_from_select", "delete_returning", "update_returning", "insert_returning",
        "savepoints", "sequences", "ctes_on_dml", "update_from", "delete_from",
        "tuple_in", "order_by_label_with_expression", "window_functions", "computed_columns",
        "implicitly_named_constraints", "identity_columns",
        "check_constraint_reflection", "inline_check_constraint_reflection", "comment_reflection",
        "unbounded_varchar", "empty_inserts", "standalone_null_binds_whereclause",
    ):  # fmt: skip
        locals()[_name] = property(lambda self: exclusions.closed())


def kind_of(case: ElementTree.Element) -> str:
    """What became of one test."""
    if case.find("skipped") is not None:
        return "skipped"
    wrong = [found for name in ("failure", "error") for found in case.iter(name)]
    if not wrong:
        return "passed"
    said = "".join(f"{found.get('message')} {found.text}" for found in wrong)
    if any(word in said for word in WRITES):
        return "writes"
    return "bare" if BARE in said else "failed"


def main() -> int:
    """Run it in an empty folder and count; 1 if anything else fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in FILES.items():
            (folder / path).write_text(text)
        pq.write_table(pa.table({"id": range(100), "x": [1] * 100}), folder / "numbers.parquet")
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "setup.cfg",
             "test_suite.py", "--junitxml=report.xml"], cwd=folder, stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        cases = list(ElementTree.parse(folder / "report.xml").iter("testcase"))
    kinds: dict[tuple[str, str], str] = {}
    for case in cases:  # a test may fail, and then its end
        key = (case.get("classname", ""), case.get("name", ""))
        found = kind_of(case)
        kinds[key] = found if kinds.get(key) in (None, "passed") else kinds[key]
    counts = Counter(kinds.values())
    failed = sorted(f"{k[0].split('.')[-1]}.{k[1]}" for k, v in kinds.items() if v == "failed")
    print(f"{counts['passed']} pass, {len(failed)} fail of those that apply.")
    print(f"Failing: {', '.join(failed) or 'none'}.")
    print(f"Left out, since they make, write or drop tables: {counts['writes']}.")
    print(f"Left out, since they select expressions without a table: {counts['bare']}.")
    print(f"Skipped by the suite for what the dialect says it has not: {counts['skipped']}.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
