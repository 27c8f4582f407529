"""Spans for OpenTelemetry: one for each request, if the settings say so and its SDK is set up.

A span lasts from the first byte of a request to the last of its reply, so it tells what the client
sees by its own clock, and nothing of what happens in between. It has method, route, status and
the request's id: no name, no question, no address.
"""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sulq.errors import MissingExtra
from sulq.server.services import logs


class Telemetry:
    """The application with a span around each request."""

    def __init__(self, app: ASGIApp) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise MissingExtra(
                "telemetry needs opentelemetry-api, which is not installed: pip install "
                "'sulq[telemetry]'."
            ) from None
        self._app = app
        self._kind = trace.SpanKind.SERVER
        self._tracer = trace.get_tracer("sulq.server")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on inside its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        with self._tracer.start_as_current_span(method, kind=self._kind) as span:
            span.set_attribute("http.request.method", method)

            async def heard(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, scope, method, message["status"])
                await send(message)

            await self._app(scope, receive, heard)


def _describe(span: Any, scope: Scope, method: str, status: int) -> None:
    """Say which route it was, by its pattern: names in the path stay out."""
    route = getattr(scope.get("route"), "path", None)
    if isinstance(route, str) and route:
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)
    span.set_attribute("sulq.request", logs.about.get().get("request", ""))
