"""%sulq and %%sulq in Jupyter and IPython: the price first, then the table and a chart.

    %load_ext sulq
    %sulq sulq.toml --spend 5
    %%sulq
    select region, avg(income) from people group by region

A cell shows its price. It is asked within the limit that --spend set; without one, whoever runs
the cell is asked y or n. What was asked before is free and needs neither.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
from contextlib import nullcontext
from typing import Any, NoReturn

from sulq.client import connect
from sulq.database import Database
from sulq.errors import MICRO, QueryNotAllowed, Refused, SulqError, in_queries
from sulq.open_database import open as open_database
from sulq.preview import KeptRehearsals
from sulq.questions.question import Question
from sulq.settings_file import Settings
from sulq.spending_limit import SpendingLimit
from sulq.values.safe_text import visible
from sulq.values.table import Table

HOW = "Set a limit for this notebook: %sulq --spend 5 (queries)."
NONE = "no database yet: %sulq NAME, where NAME is a variable, a sulq.toml or a server's address."


class _Options(argparse.ArgumentParser):
    """Options of the magic; what is wrong with them is a refusal."""

    def error(self, message: str) -> NoReturn:
        raise Refused(f"%sulq: {message}. Nothing was charged.")


def _options() -> _Options:
    found = _Options(prog="%sulq", add_help=False, exit_on_error=False)
    found.add_argument("place", nargs="?")
    found.add_argument("--spend", metavar="QUERIES")
    found.add_argument("--into", metavar="NAME")
    found.add_argument("--no-chart", action="store_true")
    found.add_argument("--price", action="store_true")
    return found


class Magic:
    """The magic of one shell: its database and its limit."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._db: Database | None = None
        self._limit: SpendingLimit | None = None
        self._rehearsals = KeptRehearsals()

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """%sulq or %%sulq: refusals are said in one line, without a traceback."""
        try:
            given = _options().parse_args(shlex.split(line))
            if given.spend is not None:
                self._limit = SpendingLimit(given.spend, HOW)
            if given.place is not None:
                self._db = self._found(given.place)
            if cell is None:
                return self._said()
            return self._asked(cell.strip().rstrip(";"), given)
        except (SulqError, argparse.ArgumentError, ValueError) as error:
            print(visible(f"{type(error).__name__}: {error}"))
            return None

    def _found(self, place: str) -> Database:
        """A variable, what a settings file opens, or a dataset of a server."""
        variable = self._shell.user_ns.get(place)
        if isinstance(variable, Database):
            return variable
        if re.match(r"https?://", place):
            return connect(place)
        if place.endswith(".toml"):
            return open_database(**Settings.load(place).arguments)
        raise Refused(f"{place!r} is no variable with a database. {NONE}")

    def _said(self) -> None:
        db = self._current()
        print(f"{db.name}: {db.rows:,} rows, {db.budget}.")
        if self._limit is not None:
            left = in_queries(int(self._limit.left * MICRO))
            print(f"This notebook may still spend {left}.")

    def _current(self) -> Database:
        if self._db is None:
            raise Refused(NONE)
        return self._db

    def _asked(self, sql: str, given: argparse.Namespace) -> Table | None:
        db = self._current()
        question = db.question(sql)
        to_pay = db.unpaid(question)
        print(visible(self._price(db, sql, question, to_pay)))
        if given.price or not self._may_pay(to_pay):
            return None
        allowed = nullcontext(to_pay) if self._limit is None else self._limit.paying(db, question)
        with allowed as most:
            table: Table = db.answer(question, most=most)
        if given.into is not None:
            self._shell.push({given.into: table})
        if not given.no_chart:
            _draw(table)
        return table

    def _price(self, db: Database, sql: str, question: Question, to_pay: int) -> str:
        if not to_pay:
            return "Free: public, or asked before."
        known = self._rehearsals.widths(db, sql)
        within = ", ".join(
            f"{name} {width}" for name, width in known.items() if not math.isnan(width.usual)
        )
        expected = f"; expected within about {within} (95%)" if within else ""
        left = in_queries(int(db.budget.remaining * MICRO))
        return f"Price {in_queries(to_pay)}{expected}; {left} left."

    def _may_pay(self, to_pay: int) -> bool:
        """Within the limit that was set, or after a yes."""
        if to_pay == 0 or self._limit is not None:
            return True
        try:
            said = input("Pay? [y/N] ")
        except (EOFError, NotImplementedError, RuntimeError):  # nobody is there to say it
            said = ""
        if said.strip().lower() in ("y", "yes"):
            return True
        print(f"Not asked. Nothing was charged. {HOW}")
        return False


def _draw(table: Table) -> None:
    """The chart of a table, if it can be drawn."""
    from IPython.display import display

    try:
        display(table.plot())
    except QueryNotAllowed:
        return


def load_ipython_extension(shell: Any) -> None:
    """%load_ext sulq."""
    shell.register_magic_function(Magic(shell), "line_cell", "sulq")
