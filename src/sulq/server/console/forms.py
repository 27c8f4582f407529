"""Fields of a form within limits, and proof that the form is ours.

Every form carries its session's token, which no other site can read; and a browser says where a
form came from. Both must fit, so that nobody else's page can act for whoever looks at it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl

from sulq.errors import LimitReached, NotPermitted, PromiseError, QueryNotAllowed
from sulq.server.console.sessions import Session
from sulq.server.services.web_addresses import is_from

TOKEN = "csrf"
MAX_FIELDS = 5000
KIND = "application/x-www-form-urlencoded"
FOREIGN = (
    "this form did not come from a page of this console, or that page is too old. Nothing was "
    "charged or changed.\nGo back, load the page again and send the form from there."
)


class Form:
    """What was filled in: names and texts, as often as they were given."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def get(self, name: str, default: str = "") -> str:
        """The last text of this name, without spaces around it."""
        found = self.all(name)
        return found[-1].strip() if found else default

    def raw(self, name: str, default: str = "") -> str:
        """The same as it was sent, but for the line ends that browsers add."""
        found = self.all(name)
        return found[-1].replace("\r\n", "\n") if found else default

    def all(self, name: str) -> list[str]:
        """Every text of this name, as from boxes that were ticked."""
        return [value for key, value in self._pairs if key == name]

    def has(self, name: str) -> bool:
        """Was it sent at all? A box that is not ticked is not."""
        return any(key == name for key, _ in self._pairs)

    def mapping(self) -> dict[str, str]:
        """The last text of each name, as it was sent."""
        return dict(self._pairs)


def parsed(body: bytes, kind: str) -> Form:
    """The fields of a body, or a refusal."""
    if not body:
        return Form([])
    if kind.split(";")[0].strip().lower() != KIND:
        raise QueryNotAllowed(f"content-type: want {KIND}. Nothing was charged.")
    try:
        return fields(body.decode("ascii"))
    except UnicodeError:
        raise QueryNotAllowed("the form is not UTF-8 text. Nothing was charged.") from None


def fields(text: str) -> Form:
    """The fields of a form's body or of what stands behind the ? of an address."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeError:
        raise QueryNotAllowed("the form is not UTF-8 text. Nothing was charged.") from None
    except ValueError:
        raise LimitReached(
            f"the form has more than {MAX_FIELDS:,} fields. Nothing was charged."
        ) from None
    if any("\0" in part for pair in pairs for part in pair):
        raise QueryNotAllowed("the form has a character that no text has. Nothing was charged.")
    return Form(pairs)


def number_of(name: str, text: str) -> float:
    """The number in a field of a promise."""
    try:
        return float(text)
    except ValueError:
        raise PromiseError(f"{name}={text[:40]!r}: want a number.") from None


def check_origin(headers: Mapping[str, str]) -> None:
    """Refuse a form that a browser says is from elsewhere, or about which it says nothing.

    No page can change what a browser says in Sec-Fetch-Site. Where it says nothing there, as over
    plain HTTP between machines, the origin must be the host that was asked.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise NotPermitted(FOREIGN)
        return
    if not is_from(origin, headers.get("host", "")):
        raise NotPermitted(FOREIGN)


def check_token(form: Form, session: Session) -> None:
    """Refuse a form that does not carry its session's token."""
    said = form.get(TOKEN)
    if not hmac.compare_digest(said.encode(), session.token.encode()):
        raise NotPermitted(FOREIGN)


def safe_path(text: str) -> str:
    """Where to go after signing in: a page of this console, never another site."""
    plain = text.isascii() and text.isprintable() and not set(text) & set("\\ \"'<>")
    return text if plain and text.startswith("/console/") and "//" not in text else "/console/"
