"""The reference of the API, for whoever comes by: from the description that the server gives."""

from __future__ import annotations

from functools import cache

from starlette.responses import Response

from sulq.server.api.api_reference import Route, sections
from sulq.server.api.app import ABOUT, api
from sulq.server.console.request_context import PageContext, Pages

pages = Pages()


@cache
def _sections() -> dict[str, list[Route]]:
    return sections(api().openapi())


@pages.get("/reference", open=True)
async def reference(here: PageContext) -> Response:
    """Every route, with an example of its request and its reply."""
    found = _sections()
    return here.page("reference.html", about=ABOUT, sections=found, address=here.address)
