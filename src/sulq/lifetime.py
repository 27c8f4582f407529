"""From opening to closing, in one process.

Connections, handles and locks do not survive a fork, and a closed source cannot be read: a charge
would be made and no answer come. So both are refused first.
"""

from __future__ import annotations

import os

from sulq.errors import Refused


class Lifetime:
    """Whether a database may be asked here; shared by all its views."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._closed = False

    def end(self) -> bool:
        """Close it; False in a forked child, where nothing may be let go: it is the parent's."""
        if self._process != os.getpid():
            return False
        self._closed = True
        return True

    def check(self, name: str) -> None:
        """Raise unless it is open, and opened by this process."""
        if self._process != os.getpid():
            raise Refused(
                f"{name!r} was opened in the process that this one was forked from. Nothing was "
                "charged.\nOpen it in this process with sulq.open(...): the ledger goes on, and "
                "what was spent stays spent."
            )
        if self._closed:
            raise Refused(
                f"{name!r} is closed. Nothing was charged.\nOpen it again with sulq.open(...): the "
                "ledger goes on, and what was asked before is free."
            )
