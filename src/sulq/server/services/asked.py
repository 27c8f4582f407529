"""A question that was read and waits for its batch."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from sulq.database import Database
from sulq.pipeline import Order
from sulq.questions.question import Question
from sulq.server.services.access import Principal, Record
from sulq.server.services.slots import Work


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked, of what, under which request id."""

    principal: Principal
    record: Record
    db: Database
    question: Question
    request_id: str | None
    form: str
    work: Work
    most: int | None = None  # micro-queries that may be charged for it

    @property
    def analyst(self) -> str:
        """Who asks, as the ledger knows them."""
        return self.principal.person.in_ledger

    @property
    def order(self) -> Order:
        """As the pipeline takes it."""
        return Order(self.question, self.request_id, self.analyst, self.most)

    @property
    def digest(self) -> str:
        """A hash of the question and how its reply is laid out."""
        texts = "\n".join([*(bundle.text for bundle in self.question.bundles), self.form])
        return sha256(texts.encode()).hexdigest()
