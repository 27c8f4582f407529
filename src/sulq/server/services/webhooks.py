"""An owner's webhook: told when a budget runs low, a dataset freezes, stops or is late.

Owners name an address; whoever runs the server says which hosts may be named (`webhook_hosts`) and
has the secret (`webhook_secret`) from which each owner's own is made. No question waits for a
message, and no owner for the receiver of another: each owner has a place, each message a deadline.
It is sent a few times, further and further apart; then it is given up and the alarms say so.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import httpx

from sulq.errors import MICRO, NotFound, Refused, SulqError, in_queries
from sulq.server.services import logs, outbox
from sulq.server.services.audit_log import record
from sulq.server.services.datasets import Dataset, Datasets
from sulq.server.services.high_water import LEAP
from sulq.server.services.oidc_settings import is_safe
from sulq.server.services.registry import Registry, alarm, now
from sulq.server.services.settings import Settings
from sulq.server.services.web_addresses import parts_of

SIGNATURE, DELIVERY = "x-sulq-signature", "x-sulq-delivery"
WAITS = (10, 60, 300, 1800, 7200)  # seconds before each further try
LATEST = LEAP + timedelta(seconds=WAITS[-1])  # a message due later was put off by a wrong clock
SEND_SECONDS = 5.0
LOOK_SECONDS = 2.0  # how often messages are looked for,
WATCH_SECONDS = 60.0  # and budgets and keys
AT_ONCE = 20  # messages of one owner
PLACES = 64  # owners whose messages are sent at the same time
LOW = 10  # a budget is low when less than one part in so many is left
SOON = timedelta(days=7)  # before which an owner hears that a key expires
LONG = timedelta(days=14)  # how long a key must last to be worth it
MAX_URL = 500


def signature(secret: str, seconds: int, body: bytes) -> str:
    """What a message carries, so that whoever takes it knows whose it is, and when it was sent."""
    made = hmac.new(secret.encode(), f"{seconds}.".encode() + body, sha256).hexdigest()
    return f"t={seconds},v1={made}"


@contextmanager
def _ended_after(seconds: float, client: httpx.Client) -> Iterator[None]:
    """Close the client at a deadline: its own timeout begins anew with every byte."""
    over = threading.Timer(seconds, client.close)
    over.daemon = True
    over.start()
    try:
        yield
    finally:
        over.cancel()


class Webhooks:
    """The webhooks of all owners of a server."""

    def __init__(self, registry: Registry, datasets: Datasets, settings: Settings) -> None:
        self._registry = registry
        self._datasets = datasets
        self._hosts = frozenset(host.lower() for host in settings.webhook_hosts)
        self._secret = settings.webhook_secret
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._places = ThreadPoolExecutor(PLACES, thread_name_prefix="sulq-webhooks")
        self._sending: dict[int, Future[int]] = {}  # by owner

    # ---- what owners decide -----------------------------------------------------------------

    def set(self, tenant: int, url: str) -> str:
        """Send this owner's messages there from now on; the secret that signs them."""
        self._check(url)
        salt = secrets.token_hex(16)
        with self._registry.writing() as run:
            run("DELETE FROM webhooks WHERE house = ?", tenant)
            run("INSERT INTO webhooks (house, url, salt, created) VALUES (?, ?, ?, ?)",
                tenant, url, salt, now())  # fmt: skip
            record(run, tenant, "webhook", about=url)
        return self._signing(tenant, salt)

    def shown(self, tenant: int) -> dict[str, Any]:
        """Where messages go, and how many wait."""
        row = self._registry.one("SELECT url, created FROM webhooks WHERE house = ?", tenant)
        if row is None:
            raise NotFound("no webhook is set.")
        waiting = self._registry.one("SELECT count(*) FROM outbox WHERE house = ?", tenant)[0]
        return {"url": row["url"], "created": row["created"], "waiting": waiting}

    def remove(self, tenant: int) -> None:
        """Send nothing any more."""
        url = self.shown(tenant)["url"]
        with self._registry.writing() as run:
            run("DELETE FROM webhooks WHERE house = ?", tenant)
            run("DELETE FROM outbox WHERE house = ?", tenant)
            record(run, tenant, "webhook-removed", about=url)

    def test(self, tenant: int) -> None:
        """Send a message that says nothing, to see that it arrives."""
        self.shown(tenant)
        with self._registry.writing() as run:
            outbox.enqueue(run, tenant, outbox.TEST, "A message to see that messages arrive.")
            record(run, tenant, "webhook-test")

    def _check(self, url: str) -> None:
        if self._secret is None or not self._hosts:
            raise Refused(
                "webhooks are off here. Whoever runs the server switches them on with "
                "webhook_hosts and webhook_secret."
            )
        host = (parts_of(url).hostname or "").lower() if is_safe(url) else ""
        if len(url) > MAX_URL or host not in self._hosts:
            raise Refused(
                "url: want an address that begins with https:// at one of the hosts that whoever "
                f"runs the server allows: {', '.join(sorted(self._hosts))}."
            )

    def _signing(self, tenant: int, salt: str) -> str:
        assert self._secret is not None
        made = hmac.new(self._secret.encode(), f"webhook:{tenant}:{salt}".encode(), sha256)
        return f"whsec_{made.hexdigest()}"

    # ---- sending ------------------------------------------------------------------------------

    def start(self) -> None:
        """Send until stopped, if webhooks are on."""
        if self._secret is not None and self._hosts:
            self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Send no more; what waits is sent after the next start."""
        self._stopped.set()
        self._places.shutdown(wait=False, cancel_futures=True)
        if self._thread is not None:
            self._thread.join(timeout=SEND_SECONDS + 1)
        wait(self._sending.values(), timeout=2 * SEND_SECONDS)

    def _run(self) -> None:
        watched = -WATCH_SECONDS
        while not self._stopped.is_set():
            try:
                if time.monotonic() - watched >= WATCH_SECONDS:
                    watched = time.monotonic()
                    self.watch()
                self.begin()
            except Exception as error:  # the registry may be away; it is tried again
                logs.event("webhooks", logging.WARNING, why=type(error).__name__)
            self._stopped.wait(LOOK_SECONDS)

    def send(self) -> int:
        """Try the messages that are due now; how many arrived."""
        return sum(sending.result() for sending in self.begin())

    def begin(self) -> list[Future[int]]:
        """Begin to send what is due, each owner's in a place of its own, one after the other.

        So a receiver that takes long keeps nobody's messages but its owner's.
        """
        clock = self._registry.clock
        due = self._registry.all(
            "SELECT DISTINCT o.house FROM outbox o JOIN webhooks w ON w.house = o.house "
            "WHERE o.due <= ? OR o.due > ?", clock.now(), clock.now(LATEST),
        )  # fmt: skip
        begun = []
        for row in due:
            before = self._sending.get(row["house"])
            if (before is None or before.done()) and not self._stopped.is_set():
                sending = self._places.submit(self._send_of, row["house"])
                self._sending[row["house"]] = sending
                begun.append(sending)
        return begun

    def _send_of(self, tenant: int) -> int:
        """Try one owner's messages, oldest first, until one does not arrive."""
        clock = self._registry.clock
        rows = self._registry.all(
            "SELECT o.id, o.house, o.body, o.tries, w.url, w.salt FROM outbox o JOIN webhooks w "
            "ON w.house = o.house WHERE o.house = ? AND (o.due <= ? OR o.due > ?) "
            "ORDER BY o.due LIMIT ?", tenant, clock.now(), clock.now(LATEST), AT_ONCE,
        )  # fmt: skip
        sent = 0
        for row in rows:
            if self._stopped.is_set():
                break
            if not self._claim(row):
                continue
            if not self._try(row):
                break
            sent += 1
        return sent

    def _claim(self, row: Any) -> bool:
        """Is this try ours, among all servers?"""
        wait = WAITS[min(row["tries"], len(WAITS) - 1)]
        due = self._registry.clock.now(timedelta(seconds=wait))
        with self._registry.writing() as run:
            mine = run("UPDATE outbox SET tries = tries + 1, due = ? WHERE id = ? AND tries = ?",
                       due, row["id"], row["tries"]).rowcount  # fmt: skip
        return bool(mine == 1)

    def _try(self, row: Any) -> bool:
        arrived = self._arrives(row)
        last = row["tries"] >= len(WAITS)
        if arrived or last:
            with self._registry.writing() as run:
                run("DELETE FROM outbox WHERE id = ?", row["id"])
                if not arrived:
                    said = "A message could not be sent to your webhook, and was given up."
                    alarm(run, row["house"], None, "webhook", said)
        return arrived

    def _arrives(self, row: Any) -> bool:
        with suppress(httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, Refused):
            self._check(row["url"])  # the host may no longer be allowed
            body, seconds = row["body"].encode(), int(time.time())
            headers = {
                SIGNATURE: signature(self._signing(row["house"], row["salt"]), seconds, body),
                DELIVERY: row["id"], "content-type": "application/json",
            }  # fmt: skip
            with (
                httpx.Client(timeout=SEND_SECONDS) as client,
                _ended_after(SEND_SECONDS, client),
                client.stream("POST", row["url"], content=body, headers=headers) as reply,
            ):
                return 200 <= reply.status_code < 300  # what it says is not read
        return False

    # ---- what has no moment of its own --------------------------------------------------------

    def watch(self) -> None:
        """Look whether a budget runs low or a key expires soon; each is said once."""
        for row in self._registry.all("SELECT house FROM webhooks"):
            self._watch_keys(row["house"])
            for dataset in self._datasets.of_tenant(row["house"]):
                with suppress(SulqError):
                    if self._datasets.is_open(dataset):
                        self._watch_budget(self._datasets.opened(dataset))

    def _watch_budget(self, dataset: Dataset) -> None:
        budget, record = dataset.db.budget, dataset.record
        if budget.remaining * LOW < budget.total:
            left, total = int(budget.remaining * MICRO), int(budget.total * MICRO)
            said = f"{in_queries(left)} of {in_queries(total)} are left of {record.name!r}."
            self._once(record.tenant, f"budget {record.id} {total}", outbox.BUDGET_LOW, said,
                       dataset=record.name, remaining_micro=left, total_micro=total)  # fmt: skip

    def _watch_keys(self, tenant: int) -> None:
        clock = self._registry.clock
        if clock.doubt is not None:
            return  # owners have an alarm of that
        rows = self._registry.all(
            "SELECT k.id, k.label, k.created, k.expires, p.name FROM keys k JOIN people p "
            "ON p.id = k.person WHERE p.house = ? AND k.revoked IS NULL AND k.ended IS NULL "
            "AND p.removed IS NULL "
            "AND k.expires > ? AND k.expires < ?", tenant, clock.now(), clock.now(SOON),
        )  # fmt: skip
        for row in rows:
            created, expires = map(datetime.fromisoformat, (row["created"], row["expires"]))
            if expires - created >= LONG:
                label = f" ({row['label']})" if row["label"] else ""
                said = f"The key {row['id']}{label} of {row['name']} expires on {row['expires']}."
                self._once(tenant, f"key {row['id']}", outbox.KEY_EXPIRING, said, key=row["id"],
                           person=row["name"], expires=row["expires"])  # fmt: skip

    def _once(self, tenant: int, what: str, kind: str, message: str, **more: Any) -> None:
        with self._registry.writing() as run:
            new = run("INSERT INTO told (house, what) VALUES (?, ?) ON CONFLICT DO NOTHING",
                      tenant, what).rowcount  # fmt: skip
            if new:
                outbox.enqueue(run, tenant, kind, message, **more)
