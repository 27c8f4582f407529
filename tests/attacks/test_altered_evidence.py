"""Any byte of what is shown or kept elsewhere is changed: noticed, or of no meaning."""

import json
import random
import shutil

import numpy as np
import pytest
from server.console.page_client import PageClient
from server.instance import made
from soak import times
from vertical.test_publication import BLOCKS, FEW, NAMES, census, people_apart

from sulq import vertical
from sulq.errors import LedgerDamaged, Refused
from sulq.ledger.chain import damaged, link_hash
from sulq.ledger.chain_lines import follow, links_in
from sulq.server.services.audit_log import verify
from sulq.server.services.backup_manifest import checked_manifest
from sulq.server.services.folder import backup, restore
from sulq.vertical.publication_file import read_publication

NOTICED = (LedgerDamaged, Refused)


def altered(data, drawn):
    """The same with one byte changed, put in, taken out, or two that change places."""
    at, new = drawn.randrange(len(data)), bytes([drawn.randrange(256)])
    kind = drawn.choice(["change", "change", "change", "bit", "add", "drop", "swap"])
    if kind == "bit":
        new, kind = bytes([data[at] ^ 1 << drawn.randrange(8)]), "change"
    if kind == "swap":
        return data[:at] + data[at + 1 : at + 2] + data[at : at + 1] + data[at + 2 :]
    end = at if kind == "add" else at + 1
    return data[:at] + (b"" if kind == "drop" else new) + data[end:]


def alterations(data, count):
    drawn = random.Random(1)
    found = 0
    while found < count:
        other = altered(data, drawn)
        if other != data:
            found += 1
            yield other


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """A server on which things were asked and decided."""
    with made(tmp_path_factory.mktemp("altered") / "i").serving() as served:
        for i in range(5):
            served.ask(f"age > {i}")
        served.call("PATCH", "/v1/datasets/people", {"description": "Words: ü, <b>."}, "anna")
        served.call("POST", "/v1/keys", {"label": "laptop"}, "anna")
        PageClient(served, "anna")
        yield served


def test_any_byte_of_an_audit_log_that_is_changed_is_noticed(instance):
    """By whoever has the export alone; a whole one passes."""
    data = PageClient(instance, "anna").get("/console/audit-log.ndjson").body
    verify(data.splitlines(keepends=True))
    for other in alterations(data, times(200, 2000)):
        with pytest.raises(NOTICED):
            verify(other.splitlines(keepends=True))


def older_verify(lines):
    """As release 2 checked an export: what was parsed, beside words that no hash covered."""
    previous = "0" * 64
    for number, line in enumerate(lines):
        entry = json.loads(line)
        body = json.dumps(entry["body"], sort_keys=True, separators=(",", ":"))
        if (entry["number"], entry["previous"]) != (number, previous):
            raise damaged(number, "was changed")
        if entry["hash"] != link_hash(previous, number, entry["kind"], body):
            raise damaged(number, "was changed")
        previous = entry["hash"]


def test_control_the_check_of_release_2_lets_changes_through(instance):
    """Words beside an entry could be anything."""
    data = PageClient(instance, "anna").get("/console/audit-log.ndjson").body
    lines = [json.dumps(json.loads(line) | {"what": "was let in"}) for line in data.splitlines()]
    older = "\n".join(lines).encode()
    missed = 0
    for other in alterations(older, 2_000):
        try:
            older_verify(other.splitlines())
        except (LedgerDamaged, ValueError, KeyError, TypeError):
            continue
        missed += 1
    assert missed > 5


def test_any_byte_of_a_ledgers_export_that_is_changed_is_noticed(instance):
    """The same of `GET /v1/datasets/{name}/ledger`."""
    data = instance.call("GET", "/v1/datasets/people/ledger", None, "anna").body

    def checked(found):
        return follow(links_in(found.splitlines(keepends=True), damaged), damaged)

    assert checked(data)["number"] > 5
    for other in alterations(data, times(200, 2000)):
        with pytest.raises(NOTICED):
            checked(other)


@pytest.fixture(scope="module")
def copied(instance, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copies") / "monday"
    backup(instance.folder, copy)
    return copy


def test_any_byte_of_a_backup_that_is_changed_is_noticed(copied):
    """In each of its files: registry, ledgers, marks, settings, and what it says of itself."""
    checked_manifest(copied)
    files = [path for path in sorted(copied.rglob("*")) if path.is_file()]
    assert len(files) >= 6
    each = times(160, 2000) // len(files) + 1
    for path in files:
        data = path.read_bytes()
        for other in alterations(data, each) if data else [b"x"]:
            path.write_bytes(other)
            with pytest.raises(NOTICED):
                checked_manifest(copied)
        path.write_bytes(data)
    checked_manifest(copied)


def test_nothing_is_restored_of_a_changed_backup(copied, tmp_path):
    """Not a file of it, and the message says which; nor of one with a file more, or one less."""
    ledger = copied / "ledgers" / "1.people.ledger"
    data = ledger.read_bytes()
    for change, what in (
        (lambda: ledger.write_bytes(data[:-1] + b"x"), "'ledgers/1.people.ledger' .* was changed"),
        (ledger.unlink, "'ledgers/1.people.ledger' .* is missing"),
        (lambda: shutil.copy(ledger, copied / "more"), "'more' .* was not in it"),
    ):
        change()
        with pytest.raises(LedgerDamaged, match=what):
            restore(copied, tmp_path / "new", "disk lost")
        assert not (tmp_path / "new").exists()
        ledger.write_bytes(data)
    (copied / "more").unlink()
    older = json.loads((copied / "backup.json").read_text())
    aside = (copied / "backup.json").read_bytes()
    for name in ("files", "digest", "version"):
        del older[name]
    (copied / "backup.json").write_text(json.dumps(older))
    with pytest.raises(Refused, match="older sulq"):
        restore(copied, tmp_path / "new", "disk lost")
    (copied / "backup.json").write_bytes(aside)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    db, _ = census(FEW, epsilon=1e9)
    path = tmp_path_factory.mktemp("released") / "census.parquet"
    vertical.publish(db, NAMES, 2, path, BLOCKS, seed=people_apart(FEW, BLOCKS))
    return path


@pytest.mark.filterwarnings("ignore")
def test_any_byte_of_a_publication_is_noticed_or_of_no_meaning(published, tmp_path):
    """What a changed file says and counts is refused, or what the whole one says and counts."""
    data, path, noticed = published.read_bytes(), tmp_path / "census.parquet", 0
    whole = read_publication(published)
    for other in alterations(data, times(100, 2000)):
        path.write_bytes(other)
        try:
            found = read_publication(path)
        except Refused:
            noticed += 1
            continue
        assert found.facts == whole.facts
        assert np.array_equal(found.counts, whole.counts)
    assert noticed > times(100, 2000) // 2
