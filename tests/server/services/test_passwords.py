"""A password of PostgreSQL is in one file, for whoever runs the server alone."""

import json
import stat

import pytest
from server.instance import made

from sulq.errors import LedgerDamaged
from sulq.server.services import passwords
from sulq.server.services.folder import backup, restore
from sulq.sources.postgres import without_password

SECRET = "hunter2+in/server"
BARE = "postgresql://reader@db:5432/clinic"
WRITTEN = f"postgresql://reader:{SECRET.replace('/', '%2F')}@db:5432/clinic"


def holds(folder):
    """The files of a folder, rows left out, in which the password stands in some spelling."""
    spellings = (SECRET.encode(), SECRET.replace("/", "%2F").encode(), b"hunter2")
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(text in path.read_bytes() for text in spellings)
    }


@pytest.mark.parametrize(
    ("address", "bare", "password"),
    [
        (WRITTEN, BARE, SECRET),
        (f"{BARE}?ledger=a&password=x%26y", f"{BARE}?ledger=a", "x&y"),
        (BARE, BARE, None),
        ("postgresql://db/clinic?host=%2Ftmp", "postgresql://db/clinic?host=%2Ftmp", None),
        ("postgresql://a:b@h1:1,h2:2/x", "postgresql://a@h1:1,h2:2/x", "b"),
    ],
)
def test_an_address_and_its_password_part_and_meet(tmp_path, address, bare, password):
    """Wherever it stood; libpq reads the same from what is put together again."""
    psycopg = pytest.importorskip("psycopg")
    assert without_password(address) == (bare, password)
    kept = passwords.kept({"source": address, "ledger": "x"}, tmp_path)
    assert kept == {"source": bare, "ledger": "x"}
    again = passwords.found(kept, tmp_path)["source"]
    for one, two in ((address, again),):
        read = [
            psycopg.conninfo.conninfo_to_dict(a.replace("ledger=a&", "").replace("ledger=a", ""))
            for a in (one, two)
        ]
        assert read[0] == read[1]


def test_no_file_but_one_has_a_password_also_in_a_folder_of_before(tmp_path):
    """The registry, its log and its free pages are cleaned when the folder is opened."""
    instance = made(tmp_path / "instance")
    instance.point(source=WRITTEN, ledger=WRITTEN)
    assert "server.db" in holds(instance.folder)  # as it was
    with instance.services() as services:
        record = services.datasets.find(services.people.owner("anna").tenant, "people")
        assert json.loads(record.arguments)["source"] == BARE
        assert passwords.found(json.loads(record.arguments), instance.folder)["ledger"] != BARE
    assert holds(instance.folder) == {"passwords.json"}
    assert stat.S_IMODE((instance.folder / "passwords.json").stat().st_mode) == 0o600


def test_a_backup_says_that_it_has_passwords(tmp_path):
    """It would be of no use without them; a restored folder has them again."""
    instance = made(tmp_path / "instance")
    assert backup(instance.folder, tmp_path / "without")["passwords"] == 0
    instance.point(source=WRITTEN)
    with instance.services():
        pass
    assert backup(instance.folder, tmp_path / "with")["passwords"] == 1
    assert holds(tmp_path / "with") == {"passwords.json"}
    instance.folder.rename(tmp_path / "gone")
    restore(tmp_path / "with", tmp_path / "again", "a test")
    assert passwords.found({"source": BARE}, tmp_path / "again")["source"] != BARE
    assert stat.S_IMODE((tmp_path / "again" / "passwords.json").stat().st_mode) == 0o600


def test_a_damaged_file_is_said_so(tmp_path):
    """Without its words."""
    (tmp_path / "passwords.json").write_text("[" + SECRET)
    with pytest.raises(LedgerDamaged, match=r"passwords\.json") as caught:
        passwords.found({"source": BARE}, tmp_path)
    assert SECRET not in str(caught.value)
