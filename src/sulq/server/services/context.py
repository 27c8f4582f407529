"""Everything a server of one folder needs, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from sulq.server.services import passwords
from sulq.server.services.access import Access
from sulq.server.services.admission import AtOnce
from sulq.server.services.allowed_sources import Sources
from sulq.server.services.answers import Answers
from sulq.server.services.audit_log import AuditLog
from sulq.server.services.boards import Boards
from sulq.server.services.dataset_states import DatasetStates
from sulq.server.services.datasets import Datasets
from sulq.server.services.grounds import Grounds
from sulq.server.services.institution import Institution
from sulq.server.services.metrics import Metrics
from sulq.server.services.oidc_settings import OidcSettings
from sulq.server.services.people import People
from sulq.server.services.readiness import Readiness
from sulq.server.services.registry import Registry
from sulq.server.services.registry_move import open_registry
from sulq.server.services.settings import Settings
from sulq.server.services.spending_caps import SpendingCaps
from sulq.server.services.uploads import Uploads
from sulq.server.services.webhooks import Webhooks
from sulq.server.services.work_meter import WorkMeter


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one server."""

    settings: Settings
    registry: Registry
    people: People
    grounds: Grounds
    access: Access
    caps: SpendingCaps
    datasets: Datasets
    sources: Sources
    uploads: Uploads
    metrics: Metrics
    answers: Answers
    states: DatasetStates
    readiness: Readiness
    boards: Boards
    log: AuditLog
    webhooks: Webhooks
    institution: Institution | None  # whose accounts sign in; None: keys only
    checking: AtOnce  # owners who have declarations checked: each one scan at a time
    uploading: AtOnce  # owners who send a file: each one at a time
    meter: WorkMeter  # of all work before a charge

    @classmethod
    def open(cls, settings: Settings) -> Services:
        """Open a server's folder."""
        registry = open_registry(settings.folder, settings.registry)
        passwords.move_out(registry, settings.folder)
        passwords.keep_own(settings.ledger_server, settings.folder)
        datasets = Datasets(registry, settings)
        accounts, meter = OidcSettings.load(settings.folder), WorkMeter(registry, settings)
        grounds = Grounds(registry, accounts)
        access, metrics, sources = Access(registry, grounds), Metrics(), Sources(registry, settings)
        caps, people = SpendingCaps(registry), People(registry, settings.key_days, grounds)
        states = DatasetStates(registry, datasets, settings.folder)
        return cls(
            settings, registry, people, grounds, access, caps, datasets,
            sources, Uploads(sources, settings), metrics,
            Answers(datasets, access, settings, metrics, caps, meter),
            states, Readiness(states), Boards(registry), AuditLog(registry),
            Webhooks(registry, datasets, settings),
            None if accounts is None else Institution(accounts, registry, people, grounds),
            AtOnce(1), AtOnce(1), meter,
        )  # fmt: skip

    def close(self) -> None:
        """Finish what is under way and let go of every file."""
        self.readiness.close()
        self.webhooks.close()
        self.answers.close()
        self.datasets.close()
        self.registry.close()
