"""Questions that people ask most, each a few lines over `ask`: the other half of a Database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from sulq.column_profile import Profile, profile, profile_price
from sulq.column_summary import Select, only_number, stacked
from sulq.errors import MICRO, BudgetExceeded, QueryNotAllowed
from sulq.expressions.parse import parse
from sulq.queryable import Asked
from sulq.questions.facts import public_cells
from sulq.questions.means import mean_query, private_mean
from sulq.questions.partitions import histogram_axis
from sulq.questions.running_rows import summed
from sulq.sql.groupings import with_subtotals
from sulq.sql.quantiles import Distribution
from sulq.values.answer import Answer
from sulq.values.marginals import Marginals
from sulq.values.price import Price
from sulq.values.query import Bins, Discover, Query, Rows, Running
from sulq.values.table import Table
from sulq.values.uncertain import Uncertain

if TYPE_CHECKING:
    from sulq.planner import Planner
    from sulq.questions.running_answer import RunningTotals


class CommonQuestions(Asked):
    """Short methods that make a query and ask it."""

    _planner: Planner

    def count(
        self, where: str | None = None, *, rows: Rows | None = None, error: Any = None,
        combine: bool = False,
    ) -> Answer:  # fmt: skip
        """How many rows satisfy the predicate."""
        return self.ask(Query(("1",), where=where, rows=rows, error=error), combine=combine)

    def sum(
        self, expression: str, where: str | None = None, *, rows: Rows | None = None,
        error: Any = None, combine: bool = False,
    ) -> Answer:  # fmt: skip
        """The sum of an expression, in its own units; missing values are skipped."""
        query = Query((_one(expression),), where=where, rows=rows, error=error)
        return self.ask(query, combine=combine)

    @overload
    def mean(
        self, expression: str, where: str | None = None, *, by: None = None,
        rows: Rows | None = None, error: Any = None, combine: bool = False,
    ) -> Answer: ...  # fmt: skip
    @overload
    def mean(
        self, expression: str, where: str | None = None, *, by: str | Sequence[str]
    ) -> Table: ...
    def mean(
        self, expression: str, where: str | None = None, *, by: str | Sequence[str] | None = None,
        rows: Rows | None = None, error: Any = None, combine: bool = False,
    ) -> Answer | Table:  # fmt: skip
        """The mean of an expression over the rows where it is known; with `by`, in every group."""
        if by is not None:
            if rows is not None or error is not None or combine:
                raise QueryNotAllowed("by=: not with rows=, error= or combine=. Ask one group.")
            return self._by_groups("mean", f"avg({self._select.expression(expression)})", where, by)
        query, public = self.mean_query(expression, where, rows, error)
        if not public:
            answer = self.ask(query, combine=combine)
            return private_mean(answer, parse(expression, self.schema), self.promise.noise)
        n = self.rows_of(query)
        if n == 0:
            raise QueryNotAllowed(
                "rows=: no row is in this public set, so it has no mean. Nothing was charged."
            )
        answer = self.ask(query, combine=combine)
        exact = tuple(tuple(x / n for x in row) for row in answer.exact)
        return replace(answer, exact=exact, stds=tuple((s / n,) for (s,) in answer.stds))

    def mean_query(
        self, expression: str, where: str | None, rows: Rows | None, error: Any
    ) -> tuple[Query, bool]:
        """A mean over public rows is a sum over a known n; otherwise n is asked for too."""
        plain = Query((_one(expression),), where=where, rows=rows, error=error)
        counted = self._planner.check(Query(("1",), where=where, rows=rows))
        return mean_query(plain, parse(expression, self.schema), counted, self.rows)

    def median(
        self, expression: str, where: str | None = None, *, by: str | Sequence[str] | None = None
    ) -> Uncertain | Table:
        """The median of a number, or with `by` a table of it in every group."""
        return self._aggregate(
            "median", f"median({self._select.expression(expression)})", where, by
        )

    def std(
        self, expression: str, where: str | None = None, *, by: str | Sequence[str] | None = None
    ) -> Uncertain | Table:
        """The standard deviation of a number among the rows, or with `by` in every group."""
        return self._aggregate("std", f"stddev({self._select.expression(expression)})", where, by)

    def corr(
        self, x: str, y: str, where: str | None = None, *, by: str | Sequence[str] | None = None
    ) -> Uncertain | Table:
        """The correlation of two numbers, or with `by` in every group."""
        said = ", ".join(map(self._select.expression, (x, y)))
        return self._aggregate("corr", f"corr({said})", where, by)

    def describe(self) -> Table:
        """Mean, standard deviation and quartiles of every number whose ends are declared.

        One question for each column; all of them or none if there is not enough left.
        `describe_price` says their price; `profile` looks at every kind of column.
        """
        asked = {name: self.question(text) for name, text in self._select.summaries().items()}
        price, left = sum(map(self.unpaid, asked.values())), self.budget.remaining * MICRO
        if price > left:  # a first column alone would be of no use
            raise BudgetExceeded(price, int(left), self.name)
        return stacked({name: self.answer(question) for name, question in asked.items()})

    def describe_price(self) -> Price:
        """The price of `describe`. Nothing is spent, no row is read."""
        return sum((self.question(t).price for t in self._select.summaries().values()), Price(0))

    def _aggregate(
        self, name: str, said: str, where: str | None, by: str | Sequence[str] | None
    ) -> Uncertain | Table:
        if by is not None:
            return self._by_groups(name, said, where, by)
        table: Table = self.answer(self.question(self._select.text({name: said}, where)))
        return only_number(table)

    def _by_groups(self, name: str, said: str, where: str | None, by: str | Sequence[str]) -> Table:
        table: Table = self.answer(self.question(self._select.text({name: said}, where, by)))
        return table

    @property
    def _select(self) -> Select:
        return Select(self.schema, self._planner.table)

    def histogram(
        self, column: str, bins: int | Sequence[Any] | None = None, where: str | None = None, *,
        rows: Rows | None = None, error: Any = None, combine: bool = False,
        subtotals: Sequence[int | Sequence[Any]] = (),
    ) -> Table:  # fmt: skip
        """Counts by a column's declared values, or by bins of its declared range.

        `subtotals` are wider bins, each a number of bins or a list of edges, asked with them.
        """
        axes = [self.histogram_axis(column, cut) for cut in (bins, *subtotals)]
        queries = [Query(("1",), by=by, where=where, rows=rows, error=error) for by in axes]
        if not subtotals:
            return self.ask(queries[0], combine=combine).table((column,), ("count",))
        answers: Any = self.ask(queries, combine=combine)  # type: ignore[call-overload]
        return with_subtotals(answers, column)

    def crosstab(
        self, columns: Sequence[str], where: str | None = None, *, rows: Rows | None = None,
        error: Any = None, combine: bool = False,
    ) -> Table:  # fmt: skip
        """Counts by every combination of several columns' values."""
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            raise QueryNotAllowed(f"columns={columns!r}: want a list such as ['sex', 'region'].")
        by = tuple(self.histogram_axis(c, None) for c in columns)
        query = Query(("1",), by=by, where=where, rows=rows, error=error)
        return self.ask(query, combine=combine).table(tuple(columns), ("count",))

    def ecdf(self, column: str, where: str | None = None, *, rows: Rows | None = None) -> Table:
        """The share of rows up to each value of a number: its distribution function."""
        counted = self._planner.check(Query(where=where, rows=rows))
        combined, known = self.promise.noise == "gaussian", public_cells(counted)
        curve = Distribution(_one(column), self.schema, combined, known, "ecdf")
        answers = self.ask(curve.queries((), where, rows), together=True)
        return curve.table(answers, column)

    def histogram_axis(self, column: str, bins: int | Sequence[Any] | None) -> str | Bins:
        """The partition a histogram of this column uses."""
        return histogram_axis(column, bins, self.schema)

    def marginals(
        self, columns: Sequence[str], width: int, *, budget: Any = None, weights: Any = (),
        where: str | None = None, rows: Rows | None = None, consistent: bool = False,
    ) -> dict[tuple[str, ...], Table]:  # fmt: skip
        """Counts by every combination of `width` of the columns; the tables agree.

        Asked together their price is lower at the same mean error; or they spend `budget`
        queries as well as they can. db.price(sulq.Marginals(...)) says the price.
        """
        asked = Marginals(
            columns, width, where=where, rows=rows, budget=budget, weights=weights,
            consistent=consistent,
        )  # fmt: skip
        tables: dict[tuple[str, ...], Table] = self.answer(self.question(asked))
        return tables

    def running(
        self, expression: str = "count(*)", where: str | None = None, *, over: str | None = None,
        start: Any = None, horizon: int | None = None, error: Any = None,
    ) -> RunningTotals:  # fmt: skip
        """Totals so far of count(*) or sum(...) at every period that has rows.

        Every period pays once, when it is first asked about or when it opens: for the totals of
        all periods up to the horizon, which are then read off as they come, free. `start` is the
        first period, `horizon` how many there are, all that are declared unless said. `error` is
        the 95% half-width of the last total.
        """
        asked = Running(summed(expression), over, start, horizon)
        found: Any = self.ask(Query(asked, where=where, error=error))
        totals: RunningTotals = found
        return totals

    def running_price(
        self, expression: str = "count(*)", where: str | None = None, *, over: str | None = None,
        start: Any = None, horizon: int | None = None, error: Any = None,
    ) -> Price:  # fmt: skip
        """The price of `running` for every period open now; those that open later pay less."""
        asked = Running(summed(expression), over, start, horizon)
        return self.question(Query(asked, where=where, error=error)).price

    def discover(
        self, column: str, at_least: int | None = None, *, where: str | None = None,
        rows: Rows | None = None,
    ) -> Table:  # fmt: skip
        """The values of a text that enough rows have, with noisy counts, the most frequent first.

        For a column whose values nobody listed. How many rows are enough follows from the noise;
        with `at_least`, so many, and the noise that this needs is paid for:
        db.price(sulq.Query(sulq.Discover(column, at_least))) says so first. The database must have
        been opened with discoveries=....
        """
        asked = Discover(column, at_least)
        return self.ask(Query(asked, where=where, rows=rows)).table()

    def profile(self, *, budget: Any = None) -> Profile:
        """Missing values, ranges, quartiles and shares of every column, in one question.

        For a table that nobody described: numbers and dates need no declared ends. It spends
        `budget` queries, by default one for each column; `profile_price` says so first.
        """
        return profile(self, budget=budget)

    def profile_price(self, *, budget: Any = None) -> Price:
        """The price of `profile`. Nothing is spent, no row is read."""
        return profile_price(self, budget=budget)


def _one(expression: Any) -> str:
    if not isinstance(expression, str):
        raise QueryNotAllowed(f"{expression!r}: want a SQL expression as text, such as 'income'.")
    return expression
