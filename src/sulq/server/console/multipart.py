"""A form with a file in it, read as it arrives: small fields first, then the file, bit by bit.

Browsers send such a form as parts between marks (RFC 7578). What stands before the file is kept
within limits; the file is never held whole.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sulq.errors import LimitReached, QueryNotAllowed

KIND = "multipart/form-data"
MARK = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))')
NAME = re.compile(r'\bname="([^"]*)"')
FILE = re.compile(r'\bfilename="([^"]*)"')
MAX_HEAD = 4_000  # bytes before a part
MAX_FIELD = 10_000  # bytes of a part that is no file
MAX_FIELDS = 20
PASSED_OVER = 500_000_000  # bytes of a file that is refused, at most


@dataclass(slots=True)
class FilePart:
    """The file of a form, and what its sender calls it, which is never a path here."""

    name: str
    _form: _Parts

    async def chunks(self) -> AsyncIterator[bytes]:
        """What it holds, once."""
        async for chunk in self._form.content():
            yield chunk

    async def pass_over(self) -> None:
        """Read what is left of it, so that its sender listens to why it is refused."""
        left = PASSED_OVER
        async for chunk in self._form.body:
            left -= len(chunk)
            if left < 0:
                return


async def begun(kind: str, body: AsyncIterator[bytes]) -> tuple[list[tuple[str, str]], FilePart]:
    """The fields before the file, and the file; or a refusal."""
    mark = MARK.search(kind)
    if kind.split(";")[0].strip().lower() != KIND or mark is None:
        raise QueryNotAllowed(f"content-type: want {KIND}. Nothing was kept.")
    parts = _Parts(b"\r\n--" + (mark[1] or mark[2]).encode("latin-1"), body)
    fields: list[tuple[str, str]] = []
    async for _ in parts.content():
        pass  # before the first mark there is nothing
    while len(fields) <= MAX_FIELDS:
        head = await parts.head()
        name, file = NAME.search(head), FILE.search(head)
        if file is not None:
            return fields, FilePart(re.split(r"[/\\]", file[1])[-1], parts)
        fields.append((name[1] if name else "", await parts.text()))
    raise LimitReached(f"the form has more than {MAX_FIELDS} fields. Nothing was kept.")


@dataclass(slots=True)
class _Parts:
    """The parts of a body, one after the other."""

    mark: bytes
    body: AsyncIterator[bytes]
    waiting: bytes = field(default=b"\r\n")  # so that a mark at the very beginning is one too

    async def content(self) -> AsyncIterator[bytes]:
        """Everything up to the next mark."""
        while (at := self.waiting.find(self.mark)) < 0:
            sure = max(0, len(self.waiting) - len(self.mark) + 1)
            if sure:
                chunk, self.waiting = self.waiting[:sure], self.waiting[sure:]
                yield chunk
            await self._more()
        chunk, self.waiting = self.waiting[:at], self.waiting[at + len(self.mark) :]
        yield chunk

    async def head(self) -> str:
        """The lines before a part; a refusal behind the last one."""
        while (at := self.waiting.find(b"\r\n\r\n")) < 0:
            if self.waiting.startswith(b"--") or len(self.waiting) > MAX_HEAD:
                raise QueryNotAllowed("no file was chosen. Nothing was kept.")
            await self._more()
        head, self.waiting = self.waiting[:at], self.waiting[at + 4 :]
        return head.decode("utf-8", "replace")

    async def text(self) -> str:
        """A small part, whole."""
        found = b""
        async for chunk in self.content():
            found += chunk
            if len(found) > MAX_FIELD:
                raise LimitReached("a field of the form is too long. Nothing was kept.")
        return found.decode("utf-8", "replace")

    async def _more(self) -> None:
        async for chunk in self.body:
            if chunk:
                self.waiting += chunk
                return
        raise QueryNotAllowed("the form ended in the middle. Nothing was kept.")
