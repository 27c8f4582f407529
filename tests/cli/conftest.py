"""A server for the tests of whoever calls one."""

from server.conftest import instance, shared

__all__ = ["instance", "shared"]
