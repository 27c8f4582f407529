"""How often one person may ask, counted by all servers of a registry together."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

from sulq.server.services.admission import Rate, too_many
from sulq.server.services.registry import Registry
from sulq.server.services.registry_server import RegistryServer

CLEANED = 1000  # requests after which buckets that are full again are forgotten

# What is in the bucket now: never more than a burst, and no less if the clock was set back.
NOW = (
    "least(?, rates.tokens + ? * greatest(0, extract(epoch FROM clock_timestamp() - rates.since)))"
)
TAKE = (
    "INSERT INTO rates (who, tokens, since) VALUES (?, ?, clock_timestamp()) ON CONFLICT (who) "
    f"DO UPDATE SET tokens = {NOW} - ?, since = clock_timestamp() WHERE {NOW} >= ? RETURNING 1"
)
LEFT = f"SELECT {NOW} FROM rates WHERE who = ?"
CLEAN = "DELETE FROM rates WHERE since < clock_timestamp() - make_interval(secs => ?)"


class SharedRate:
    """Token buckets in PostgreSQL: `burst` at once, `rate` a second in the long run."""

    def __init__(self, store: RegistryServer, kind: str, rate: float, burst: int) -> None:
        self._store = store
        self._kind = kind
        self._rate = float(rate)
        self._burst = float(burst)
        self._taken = itertools.count(1)

    def take(self, who: Hashable, much: float = 1.0) -> None:
        """One more request, or as much as several; LimitReached if it is too much."""
        much, name = min(much, self._burst), f"{self._kind} {who}"
        rate = (self._burst, self._rate)
        values = (name, self._burst - much, *rate, much, *rate, much)
        if next(self._taken) % CLEANED == 0:
            oldest = max(3600.0, 2 * self._burst / self._rate)
            self._store.alone(lambda run: run(CLEAN, oldest))
        if self._store.alone(lambda run: run(TAKE, *values).fetchall()):
            return
        found = self._store.rows(LEFT, (*rate, name))
        left = float(found[0][0]) if found else 0.0
        raise too_many(self._rate, max(much - left, 0.0) / self._rate)


AnyRate = Rate | SharedRate


def rate_of(registry: Registry, kind: str, rate: float, burst: int) -> AnyRate:
    """Buckets for all servers of the registry; in this process where it is a file."""
    store = registry.store
    if isinstance(store, RegistryServer):
        return SharedRate(store, kind, rate, burst)
    return Rate(rate, burst)
