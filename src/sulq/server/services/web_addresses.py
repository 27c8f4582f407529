"""Addresses that others wrote: the parts of those that are none are empty, and never an error."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

NONE = urlsplit("")


def parts_of(url: str) -> SplitResult:
    """The parts of an address; none of what is no address, such as one with half a bracket."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is read only when it is looked at
    except ValueError:
        return NONE
    return parts


def is_from(origin: str | None, host: str) -> bool:
    """Does a browser say that the page came from the host that is asked?"""
    return bool(origin and host) and parts_of(origin or "").netloc.lower() == host.lower()
