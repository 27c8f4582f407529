"""Templates -> pages with strict headers; numbers as people read them.

Every value is escaped unless the template says otherwise, and no template does. A name that is
missing is an error, not an empty space.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from sulq.drawing.style import for_pages
from sulq.errors import in_queries
from sulq.privacy.chance import one_in
from sulq.values.number_text import half_width, with_error
from sulq.values.safe_text import visible

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Not no-referrer: browsers would then not say where a form came from, which is checked.
    "referrer-policy": "same-origin",
}
KINDS = {
    "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}  # fmt: skip

PLAIN = re.compile(r"[a-z]+[ ,:]")  # a word, not a name that means something as it is written
BREAK = re.compile(r"(?<=[_./\-,=&])")  # where a long name may go on in the next line

# What a page says after something was done: ?done=word. Other words say nothing.
NOTICES = {
    "signed-out": "You are signed out.",
    "everywhere": "You are signed out everywhere.",
    "saved": "Saved.",
    "made": "The dataset is made. Invite whoever may ask it.",
    "frozen": "Frozen. Nothing may be asked until you thaw it.",
    "thawed": "Thawed. It answers again.",
    "appended": "Rows of new periods are in. What was spent stays with the older ones.",
    "refreshed": "Refreshed: it goes on with its rows as now. What was spent stays spent.",
    "closed": "Closed. Its ledger stays: made again from the same rows, it goes on.",
    "invited": "Invited.",
    "uninvited": "The invitation is taken back. What they spent stays spent.",
    "allotted": "Allotted, and written into the ledger.",
    "removed": "Removed. What they spent stays spent.",
    "revoked": "The key is revoked; it works no longer, and its sessions have ended.",
    "shared": "Shared: everybody who may ask this dataset may look at it.",
    "unshared": "No longer shared.",
    "boarded": "It stands on your board.",
    "arranged": "Arranged.",
    "refreshed-board": "Asked again. What was asked before of the same rows was free.",
    "gone": "The board is deleted. Its answers stay.",
    "over": "Your session has ended: after half an hour without a look, after twelve hours, or "
    "with the key or the role that it rested on.",
    "seen": "Seen. Late answers are counted anew.",
}


def rendered(template: str, status: int = 200, **values: Any) -> Response:
    """A template as a page."""
    text = environment().get_template(template).render(**values)
    return with_headers(Response(text, status, media_type="text/html"))


def with_headers(response: Response) -> Response:
    """The headers that everything from here has."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def static(name: str) -> Response:
    """A file beside the pages, which browsers may keep."""
    content = _statics().get(name)
    if content is None:
        return with_headers(Response(status_code=404))
    made = Response(content, media_type=KINDS[name.rsplit(".", 1)[-1]])
    made.headers["cache-control"] = "public, max-age=31536000, immutable"
    return with_headers(made)


@cache
def _statics() -> dict[str, bytes]:
    folder = files("sulq.server.console") / "static"
    kept = (f for f in folder.iterdir() if f.name.rsplit(".", 1)[-1] in KINDS)
    found = {file.name: file.read_bytes() for file in kept}
    return found | {"style.css": found["style.css"] + for_pages().encode()}


@cache
def asset(name: str) -> str:
    """The address of such a file; another one whenever its content is another."""
    return f"/console/static/{name}?v={sha256(_statics()[name]).hexdigest()[:12]}"


def _shown(value: Any) -> Any:
    """What a page shows of a text: nothing in it turns or hides what stands beside it."""
    return visible(value.replace("\r\n", "\n")) if type(value) is str else value


@cache
def environment() -> Environment:
    """Jinja, strict."""
    made = Environment(
        loader=PackageLoader("sulq.server.console"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False, finalize=_shown,
    )  # fmt: skip
    made.filters |= {
        "queries": queries, "number": number, "thousands": thousands, "when": when,
        "wrapped": wrapped, "percent": percent, "rounded": rounded, "bytes": size,
        "seconds": seconds, "give_or_take": with_error, "sentences": sentences, "one_in": one_in,
        "reach": reach,
    }  # fmt: skip
    made.globals |= {"png": find_spec("resvg_py") is not None}  # sulq[plot]
    made.globals |= {"asset": asset, "notices": NOTICES}
    return made


def warm() -> None:
    """Compile every template, so that no principal waits for it."""
    made = environment()
    for name in made.list_templates():
        made.get_template(name)


# ---- as people read them --------------------------------------------------------------------


def thousands(text: str) -> str:
    """What was typed; 200,000 where that is a long whole number."""
    return f"{int(text):,}" if text.isascii() and text.isdecimal() and len(text) < 20 else text


def number(value: Any) -> str:
    """12,345 or 0.0123."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def rounded(value: float) -> str:
    """12,346 or 1.235: four digits, and all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def reach(value: float) -> str:
    """148 or 3.43: how far noise reaches, to the digits that answers have."""
    return half_width(value).removeprefix("+/- ")


def size(count: int) -> str:
    """812 bytes, 4.1 KB or 200 MB."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB"):
        if amount < 999.5:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def seconds(value: float) -> str:
    """0.031 seconds, or 2 seconds."""
    return f"{value:.2g} second{'' if value == 1 else 's'}"


def queries(micro: int) -> str:
    """2.5 queries: to a hundredth of a query, and small amounts to two digits."""
    digits = min(4, max(len(str(abs(micro))) - 2, 0))
    return in_queries(round(micro, -digits))


def sentences(message: str) -> list[str]:
    """A message line by line, each beginning as a sentence does."""
    lines = [line for line in message.splitlines() if line.strip()]
    return [line[0].upper() + line[1:] if PLAIN.match(line) else line for line in lines]


def percent(share: float) -> str:
    """0.731 as 73.1%."""
    return f"{100 * share:.3g}%"


def when(time: str | None) -> Markup:
    """2026-11-16T02:40:10+00:00 as 2026-11-16 02:40 UTC; the script makes it the reader's time."""
    if not time:
        return Markup("")
    time = escape(time)
    return Markup(f'<time datetime="{time}">{time[:10]} {time[11:16]} UTC</time>')


def wrapped(text: Any) -> Markup:
    """A long name that may break after underscores, dots and slashes; escaped."""
    return Markup("<wbr>").join(BREAK.split(visible(str(text))))
