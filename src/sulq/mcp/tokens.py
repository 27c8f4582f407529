"""Price tokens: `ask` pays for what `price` has shown, to the same agent, a while ago at most.

A token is the moment it expires and a MAC over that, who was told, the dataset, the canonical
question and its price. So it fits no other question and no other price, however the SQL is written,
and nothing need be kept.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable
from hashlib import sha256

from sulq.errors import Refused
from sulq.questions.question import Question

SECONDS = 900  # that a token is good for


class PriceTokens:
    """Makes and checks tokens under one secret."""

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock

    def token(self, who: str, dataset: str, question: Question) -> str:
        """A token for this question at its price."""
        expires = int(self._clock()) + SECONDS
        return f"{expires}.{self._mac(who, dataset, question, expires)}"

    def check(self, token: str, who: str, dataset: str, question: Question) -> None:
        """Refuse a token that is not for this question, or no longer."""
        said, _, mac = token.partition(".")
        expires = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
        right = self._mac(who, dataset, question, expires)
        if not mac.isascii() or not hmac.compare_digest(mac, right) or expires < self._clock():
            raise Refused(
                "price_token: it is not for this question, or has expired. Nothing was charged.\n"
                "Call price with the same dataset and sql, look at the price, and ask with the "
                "token it gives."
            )

    def _mac(self, who: str, dataset: str, question: Question, expires: int) -> str:
        texts = [bundle.text for bundle in question.bundles]
        facts = [fact.checked.text for fact in question.facts]
        said = json.dumps([who, dataset, texts, facts, question.price.micro, expires])
        return hmac.new(self._secret, said.encode(), sha256).hexdigest()[:40]
