"""Which programs a question runs, and whether its owner lets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sulq.errors import QueryNotAllowed, Refused
from sulq.expressions.node import Node
from sulq.privacy.pricing import Tariff
from sulq.programs.driver import prepare
from sulq.programs.library import LIBRARY, MAX_FUEL, Spec, wasmtime
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense

Parts = tuple[tuple[CheckedQuery, Tariff], ...]
SIGN = '["program",['  # in the canonical text of every question that runs one


def programs_of(query: CheckedQuery) -> tuple[Spec, ...]:
    """The programs of a question, each once."""
    if SIGN not in query.text:
        return ()
    nodes = (part for node in _nodes(query) for part in node.walk())
    return tuple(dict.fromkeys(n.value.spec for n in nodes if n.op == "program"))


def _nodes(query: CheckedQuery) -> Iterator[Node]:
    yield from (n for n in (query.rows, query.where) if n is not None)
    for axis in query.axes:
        yield from axis.points
        yield from () if axis.node is None else (axis.node,)
        yield from (p for p in axis.detail if p is not None) if axis.kind == "leaf" else ()
    if isinstance(query.values, Dense):
        yield from query.values.points
    else:
        yield from (value.node for value in query.values)


def with_time(parts: Parts, micro: int) -> Parts:
    """The same parts; how long the first program's question takes is one number more (3.1.5).

    A row moves it by at most t_max, as it moves a sum by at most 1. A delay with the variance
    t_max^2 R / price hides that for `micro`, and for the square of as many rows as a person has.
    """
    for i, (query, tariff) in enumerate(parts):
        if programs_of(query) and tariff.price.micro:
            more = replace(tariff.price, micro=tariff.price.micro + micro * query.squared_each)
            return (*parts[:i], (query, replace(tariff, price=more)), *parts[i + 1 :])
    return parts


def check_switch(programs: object, program_fuel: object, mode: str) -> None:
    """Refuse settings of programs that mean nothing, and programs without what runs them."""
    whole = isinstance(program_fuel, int) and not isinstance(program_fuel, bool)
    if not whole or not 1 <= program_fuel <= MAX_FUEL:  # type: ignore[operator]
        raise Refused(f"program_fuel={program_fuel!r}, want 1 to {MAX_FUEL:,} instructions.")
    if not isinstance(programs, bool):
        raise Refused(f"programs={programs!r}, want True or False.")
    if programs and mode == "audited":
        raise Refused("programs: no auditor can follow them. Leave them off with mode='audited'.")
    if programs:
        wasmtime()


def know_programs(modules: Iterable[bytes]) -> None:
    """Know these modules by their hashes."""
    for code in modules:
        LIBRARY.add(code)


def check_programs(query: CheckedQuery, most_fuel: int | None) -> None:
    """Refuse programs that are not allowed, and make the others ready to run.

    `most_fuel` is what a row may take; None: no program runs here.
    """
    for spec in programs_of(query):
        if most_fuel is None:
            raise QueryNotAllowed(
                f"{spec.export}: programs are off for this dataset. Nothing was charged.\nIts "
                "owner can switch them on: sulq.open(..., programs=True), or programs = true in "
                "sulq.toml."
            )
        if spec.fuel > most_fuel:
            raise QueryNotAllowed(
                f"{spec.export}: fuel={spec.fuel:,}, but a row may take {most_fuel:,} instructions "
                "here. Nothing was charged.\nGive it less, or ask the owner for a larger "
                "program_fuel."
            )
        prepare(spec)
