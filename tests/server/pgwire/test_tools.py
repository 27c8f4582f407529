"""What tools that are not installed here ask of the catalogues.

Metabase's driver, DBeaver's navigator, Grafana's query builder: statements of the kind that they
send, written down and not recorded from them. Each is answered free, and names what there is.
"""

import re
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "fixtures/tools.sql"
CASES = re.findall(r"^-- (\w+: [\w ]+)\n(.+?);$", PLACE.read_text(), re.MULTILINE | re.DOTALL)
NAMED = ("tables", "columns", "fields", "privileges")  # where the dataset or its columns must be
ROWS_OF_NONE = ("enums", "constraints", "probe", "extension")


@pytest.mark.parametrize(("what", "text"), CASES, ids=[what for what, _ in CASES])
def test_a_tool_is_answered_for_nothing(pg, what, text):
    """Not a micro-query, no allowance, and what there is in the reply."""
    before = pg.spent()
    with pg.connect() as connection:
        found = connection.execute(text.encode())
        rows = found.fetchall()
    assert found.description
    kind = what.partition(": ")[2]
    assert bool(rows) is (kind not in ROWS_OF_NONE)
    if kind in NAMED:
        said = {str(value) for row in rows for value in row}
        assert said & ({"people"} if kind in ("tables", "privileges") else {"income"})
    assert pg.spent() == before
