"""sulq.Program: a WebAssembly function of a row, as an expression."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.program_node import HASH, spec_of
from sulq.expressions.python_terms import called, column, constant, filled, mark
from sulq.expressions.row_function import RowFunction
from sulq.programs.binary import MAX_BYTES
from sulq.programs.library import FUEL, LIBRARY, Spec, checked, signature, wasmtime

MAX_SENT = 20  # programs with one question
_NAMED = re.compile(rf"\bprogram\s*\(\s*'({HASH.pattern})'", re.IGNORECASE)


class Program(RowFunction):
    """A function of a WebAssembly module that takes numbers of a row and gives one.

    `source` is the path of a .wasm file (or .wat, its text), or its bytes. Results lie between
    `low` and `high`; beyond, they are clamped. A row whose run would take more than `fuel`
    instructions, would trap, or gives no finite number counts 0. `columns` are what it takes,
    unless it is called with others; `name` is what SQL calls it by.

    >>> risk = sulq.Program("risk.wasm", "risk", columns=["age", "bmi"])
    >>> db.mean(risk)
    """

    spec: Spec

    def __new__(
        cls, source: str | Path | bytes, export: str, *, columns: Sequence[str] | None = None,
        low: float = 0, high: float = 1, fuel: int = FUEL, name: str | None = None,
    ) -> Program:  # fmt: skip
        """Read and check the module. Nothing of it runs here."""
        spec = spec_of(LIBRARY.add(_bytes(source)), export, low, high, fuel)
        takes = len(signature(spec.code, export).parameters)
        if columns is not None and (isinstance(columns, str) or len(columns) != takes):
            raise QueryNotAllowed(f"columns: {export} takes {takes}, as a list of names.")
        name = export if name is None else name
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise QueryNotAllowed(
                f"{name[:80]!r} cannot be called in SQL: give it a name of letters, name='risk'."
            )
        said = [constant(part) for part in spec.tree]
        body = called("program", *said, *(mark(i) for i in range(takes)))
        given = [column(c) for c in columns] if columns is not None else None
        alone = filled(body, given) if given is not None else called("program", *said)
        self = str.__new__(cls, alone.text)
        self.spec, self.name = spec, name
        self.parameters = tuple(columns or (f"x{i}" for i in range(1, takes + 1)))
        self.source, self.function = "", None
        self._body, self._defaults = body, {}
        return self

    @property
    def hash(self) -> str:
        """The SHA-256 of the module, by which the ledger knows it."""
        return self.spec.hash

    def __repr__(self) -> str:
        return f"<program {self.signature} of module {self.hash[:12]}>"


def _bytes(source: Any) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if not isinstance(source, str | Path):
        raise QueryNotAllowed("sulq.Program: give the path of a .wasm file, or its bytes.")
    try:
        with Path(source).open("rb") as file:
            found = file.read(MAX_BYTES * 8)
    except OSError as error:
        raise QueryNotAllowed(
            f"program {str(source)!r}: cannot be read ({error.strerror})."
        ) from None
    if Path(source).suffix != ".wat":
        return found
    library = wasmtime()
    try:
        return bytes(library.wat2wasm(found))
    except library.WasmtimeError as error:
        raise QueryNotAllowed(f"program {str(source)!r}: {str(error)[:500]}") from None


def programs_in(path: Path) -> list[Program]:
    """Every exported function of a module that is a function of a row, under its own name."""
    code = _bytes(path)
    found = []
    for name in checked(code).exports:
        with suppress(QueryNotAllowed):
            found.append(Program(code, name))
    if not found:
        raise QueryNotAllowed(f"{path}: it exports no function from numbers to a number.")
    return found


# ---- on the way to a server ---------------------------------------------------------------


def sent_along(texts: Iterable[str]) -> list[str]:
    """The modules that these texts name and that are known here, in base64."""
    names = dict.fromkeys(name.lower() for text in texts for name in _NAMED.findall(text))
    found = (LIBRARY.get(name) for name in names)
    return [base64.b64encode(code).decode() for code in found if code is not None]


def received(modules: Sequence[str]) -> None:
    """Check the modules that came with a question, and know them from now on."""
    if len(modules) > MAX_SENT:
        raise QueryNotAllowed(f"programs: {len(modules)} modules, at most {MAX_SENT} at a time.")
    for text in modules:
        try:
            code = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise QueryNotAllowed("programs: each module is its bytes in base64.") from None
        LIBRARY.add(code)
