"""What plain values are: frozen, with a JSON form, their numbers exact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

from sulq.errors import QueryNotAllowed

MAX_DEPTH = 50


class Plain:
    """A value with a JSON form: {"kind": name, field: ...}; its lists become tuples."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            if str(f.type).startswith("tuple"):
                object.__setattr__(self, f.name, freeze(getattr(self, f.name)))

    def to_json(self) -> dict[str, Any]:
        """This value as plain JSON."""
        body = {f.name: to_plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **{k: v for k, v in body.items() if v is not None}}


def freeze(value: Any, depth: int = 0) -> Any:
    """Lists become tuples, all the way down, so that values can be compared and hashed."""
    if isinstance(value, str | bytes):
        return value
    if depth > MAX_DEPTH:
        raise QueryNotAllowed(f"lists nested more than {MAX_DEPTH} deep.")
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, Sequence):
        return value
    return tuple(freeze(v, depth + 1) for v in value)


def as_rows(value: Any) -> Any:
    """A matrix as tuples; one that is so already may be large, and is not copied."""
    if isinstance(value, tuple) and all(type(row) is tuple for row in value):
        return value
    return freeze(value)


def as_texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of SQL texts."""
    frozen = freeze(value)
    if not isinstance(frozen, tuple) or not all(isinstance(v, str) for v in frozen):
        raise QueryNotAllowed(f"{what}: want a list, each a SQL expression as text.")
    return frozen


def to_plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Plain):
        return value.to_json()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [to_plain(v) for v in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


# '1e999999999' would be a number with a billion digits.
EXACT = re.compile(r"\d{1,400}(/\d{1,400}|(\.\d{1,60})?(e[+-]?\d{1,2})?)", re.ASCII)


def positive(value: Any, name: str) -> Fraction:
    """An exact positive number. Text such as '1/3' is how JSON carries it."""
    try:
        if isinstance(value, bool) or (isinstance(value, str) and not EXACT.fullmatch(value)):
            raise ValueError
        exact = Fraction(value) if not hasattr(value, "item") else Fraction(value.item())
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0 or not Fraction(1, 10**30) < exact < 10**30:
        raise QueryNotAllowed(f"{name}={value!r}, want a positive number.")
    return exact
