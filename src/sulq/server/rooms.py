"""Everything a server of one folder needs, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from sulq.server.access import Access
from sulq.server.asking import Asking
from sulq.server.datasets import Datasets
from sulq.server.metrics import Metrics
from sulq.server.people import People
from sulq.server.registry import Registry
from sulq.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Rooms:
    """The rooms of one server."""

    settings: Settings
    registry: Registry
    people: People
    access: Access
    datasets: Datasets
    metrics: Metrics
    asking: Asking

    @classmethod
    def open(cls, settings: Settings) -> Rooms:
        """Open a server's folder."""
        registry = Registry.open(settings.folder)
        datasets = Datasets(registry, settings)
        access, metrics = Access(registry), Metrics()
        return cls(
            settings, registry, People(registry, settings.key_days), access, datasets, metrics,
            Asking(datasets, access, settings, metrics),
        )  # fmt: skip

    def close(self) -> None:
        """Finish what is under way and let go of every file."""
        self.asking.close()
        self.datasets.close()
        self.registry.close()
