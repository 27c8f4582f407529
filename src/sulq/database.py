"""Database.ask: the whole corridor on one page.

text -> checked query -> price -> charge -> exact sum -> noise -> answer
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from sulq.answer import Answer, Table
from sulq.check import CheckedQuery, check
from sulq.errors import MICRO, EngineFailed, QueryNotAllowed, Refused, in_queries
from sulq.expressions import SHORT, parse, shorten
from sulq.keys import KeyCounts, check_size, different, in_rows, missing_key
from sulq.noise import Law, Noise
from sulq.partition import need_key
from sulq.price import Price, Tariff, tariff_of
from sulq.promise import Promise
from sulq.query import Bins, Mean, Query, Rows
from sulq.question import Bundle, Question
from sulq.tree import literal
from sulq.values import gridded

if TYPE_CHECKING:
    from sulq.engines.base import Engine
    from sulq.ledger import Allotment, Charge, Entry, Ledger, Request
    from sulq.opening import Guard
    from sulq.projecting import Projection
    from sulq.sharing import Shared
    from sulq.sql import Statement

DEFAULT_BINS = 20
MOST_NUMBERS = 300_000  # in the answer to one question
MUCH_NOISE = 64  # numbers, and
MANY_ROWS = 100_000  # rows, from which on noise is drawn while the rows are read


@dataclass(frozen=True, slots=True)
class Budget:
    """T, what is spent of it and what is left, in queries, for the rows that spent most."""

    total: Fraction
    spent: Fraction
    remaining: Fraction

    def __str__(self) -> str:
        total, spent, left = (
            in_queries(int(x * MICRO)) for x in (self.total, self.spent, self.remaining)
        )
        return f"{spent.split()[0]} of {total} spent, {left.split()[0]} left"


class Database:
    """A private table that answers questions, each paid for before a row is read."""

    def __init__(
        self,
        engine: Engine,
        promise: Promise,
        ledger: Ledger,
        noise: Noise,
        guard: Guard,
        *,
        pricing: str = "geometry",
        name: str = "",
    ) -> None:
        self._engine = engine
        self._ledger = ledger
        self._noise = noise
        self._guard = guard  # says whether the rows are still those the ledger began with
        self.promise = promise
        self.pricing = pricing
        self.schema = engine.schema  # what a question may use, and
        self._stored = engine.schema  # what the rows have
        self._view: Projection | None = None  # how the one is written in terms of the other
        self.name = name
        self._analyst = ""  # whose questions these are, where the ledger tells people apart

    # --- the corridor -------------------------------------------------------------------

    @overload
    def ask(self, query: Query, *, request_id: str | None = None) -> Answer: ...
    @overload
    def ask(
        self,
        query: Sequence[Query],
        *,
        request_id: str | None = None,
        share: bool = True,
        together: bool = False,
    ) -> list[Answer]: ...
    def ask(
        self,
        query: Query | Sequence[Query],
        *,
        request_id: str | None = None,
        share: bool = True,
        together: bool = False,
    ) -> Answer | list[Answer]:
        """Ask one query, or a list of them as one batch: one charge, one scan.

        A question asked before returns its stored answer, free. A repeated `request_id` never
        pays twice or gets a second answer. A batch of counts over the same few-valued columns
        is answered from shared histograms where that costs less for the same mean error;
        share=False asks each by itself; together=True makes the list one question of the ledger,
        as the parts of a SQL statement are.
        """
        if isinstance(query, str):
            raise QueryNotAllowed(f"{shorten(repr(query))}: want a sulq.Query or a list of them.")
        question = self.question(query, share=share, together=together)
        found: Answer | list[Answer] = self.answer(question, request_id=request_id)
        return found

    def question(
        self, query: Query | Sequence[Query] | str, *, share: bool = True, together: bool = False
    ) -> Question:
        """Check and price a query, a list of them or a SELECT. Nothing is spent, no row read."""
        if isinstance(query, Query):
            return Question((self._priced([query]),), lambda found: found[0][0])
        if isinstance(query, str):
            statement = self._statement(query)
            bundle = self._priced(list(statement.queries))
            return Question((bundle,), lambda found: statement.table(found[0]))
        if not isinstance(query, Iterable):
            raise QueryNotAllowed(f"{shorten(repr(query))}: want a sulq.Query or a list of them.")
        queries = list(query)
        if together and queries:
            return Question((self._priced(queries),), lambda found: found[0])
        shared = self._shared(queries) if share else None
        if shared is not None:
            plan, bundle = shared
            return Question((bundle,), lambda found: plan.answers(found[0]))
        alone = tuple(self._priced([q]) for q in queries)
        return Question(alone, lambda found: [answers[0] for answers in found])

    def answer(self, question: Question, *, request_id: str | None = None) -> Any:
        """Pay for a question and answer it: an Answer, a list of them, or a Table for SQL."""
        return question.lay_out(self._ask(list(question.bundles), request_id))

    def _shared(self, queries: list[Query]) -> tuple[Shared, Bundle] | None:
        """A plan for the whole batch that costs less than asking each by itself."""
        if self.promise.noise != "gaussian" or self.pricing != "geometry":
            return None
        from sulq.sharing import share

        checked = [self._check(q) for q in queries]
        plan = share(checked, self._stored, self._check)
        if plan is None:
            return None
        # Plain counts over everybody all have one price.
        alone = len({c.text for c in checked}) * self._tariff(checked[0]).price.micro
        bundle = self._priced(list(plan.queries))
        return (plan, bundle) if bundle.price.micro < alone else None

    def sql(self, text: str, *, request_id: str | None = None) -> Table:
        """Answer one SELECT: every declared group, each number with a low and high beside it."""
        table: Table = self.answer(self.question(text), request_id=request_id)
        return table

    def _statement(self, text: str) -> Statement:
        from sulq.sql import compile_statement

        return compile_statement(text, self.schema, self.name, self.promise.noise)

    def _ask(self, asked: list[Bundle], request_id: str | None) -> list[list[Answer]]:
        """Each bundle is one question of the ledger: one price, one charge, one stored answer."""
        charges, stored, left = self._charge(asked, request_id)  # durable from here on
        first = {b.text: b for b in reversed(asked)}  # equal questions are one
        missing = {text: b for text, b in first.items() if stored[text] is None}
        if missing:
            sums, noise = self._sums_and_noise(list(missing.values()))
            exact = iter(sums)
            noisy = {
                text: json.dumps([add_noise(c, t, next(exact), noise) for c, t in b.parts])
                for text, b in missing.items()
            }
            kept = self._ledger.record([(charges[text].number, a) for text, a in noisy.items()])
            stored |= dict(zip(noisy, kept, strict=True))  # the first answer recorded wins
        remaining = self._left() if left is None else left
        return [b.answers(json.loads(stored[b.text] or ""), remaining) for b in asked]

    def _sums_and_noise(
        self, bundles: list[Bundle]
    ) -> tuple[list[list[list[int]]], dict[Law, Iterator[int]]]:
        """Exact sums, and the noise for them; much noise is drawn while the rows are read."""
        checked = [c for b in bundles for c, _ in b.parts]
        few = sum(c.shape[0] for c in checked) < MUCH_NOISE
        if few and self._engine.rows < MANY_ROWS:
            return self._sums(checked), self._drawn(bundles)
        with ThreadPoolExecutor(max_workers=1) as aside:
            noise = aside.submit(self._drawn, bundles)
            return self._sums(checked), noise.result()

    def _priced(self, queries: list[Query]) -> Bundle:
        queries = [self._written(q) for q in queries]
        checked = [self._checked(q) for q in queries]
        numbers = sum(c.shape[0] * len(c.releases) for c in checked)
        if numbers > MOST_NUMBERS:
            raise QueryNotAllowed(
                f"the answer would need {numbers:,} noisy numbers, at most {MOST_NUMBERS:,}. Ask "
                "for fewer groups or fewer medians."
            )
        return Bundle(tuple((c, self._tariff(c)) for c in checked), tuple(queries))

    def _sums(self, checked: list[CheckedQuery]) -> list[list[list[int]]]:
        """Exact sums. Whatever goes wrong here is charged, and its own words may quote rows."""
        stands = "The charge stands; asking the same question again does not pay again."
        try:
            return self._engine.sums(checked)
        except EngineFailed:
            raise
        except Refused as refusal:  # speaks of the query only, but would say nothing was charged
            raise EngineFailed(f"{refusal} {stands}") from None
        except Exception:
            raise EngineFailed(f"the engine gave no sum. {stands}") from None

    def _written(self, query: Query) -> Query:
        """The query in terms of the stored columns."""
        return query if self._view is None else self._view.written_out(query)

    def _check(self, query: Query) -> CheckedQuery:
        return self._checked(self._written(query))

    def _checked(self, query: Query) -> CheckedQuery:
        try:
            hash(query)
        except TypeError:
            raise QueryNotAllowed(
                f"{shorten(repr(query))}: names and numbers are wanted where a list or set stands."
            ) from None
        terms = (query, self._stored, self.promise.noise, self.promise.guarantee)
        # Looking is free, so only small questions are kept, whatever an analyst looks at.
        return _small(*terms) if is_small(query) else check(*terms)

    def _tariff(self, checked: CheckedQuery) -> Tariff:
        return tariff_of(checked, self.promise, self.pricing)

    def _charge(
        self, asked: list[Bundle], request_id: str | None
    ) -> tuple[dict[str, Charge], dict[str, str | None], int | None]:
        """Pay for what is not paid yet; give the charges, the answers already stored and, if
        this request made all the charges, what they left.
        """
        self._guard.check()
        requests = self._requests(asked, request_id)
        found = {b.text: self._ledger.find(b.text) for b in asked}
        stored = {text: known[1] if known else None for text, known in found.items()}
        if request_id is None and all(found.values()):
            return {text: known[0] for text, known in found.items() if known}, stored, None
        new = not any(found.values())
        charges = self._ledger.charge(requests, new=new)
        return {c.query: c for c in charges}, stored, left_by(charges, requests)

    def _requests(self, asked: list[Bundle], request_id: str | None) -> list[Request]:
        """What the ledger is asked to charge."""
        from sulq.ledger import Request

        requests = [
            Request(
                b.text, b.price.micro, b.cells, _numbered(request_id, i, len(asked)), self._analyst
            )
            for i, b in enumerate(asked)
        ]
        if request_id is not None and len(asked) != 1:
            # The id itself stands for the whole list: a free line, so that the same id with
            # another list is refused.
            listed = json.dumps({"batch": [b.text for b in asked]})
            requests.insert(0, Request(listed, 0, (), request_id, self._analyst))
        return requests

    def _left(self) -> int:
        """What may still be spent, in micro-queries: of the whole and of the allotment."""
        left = self._ledger.budget()[2]
        allotted = self._ledger.allotment(self._analyst).left if self._analyst else None
        return left if allotted is None else min(left, max(allotted, 0))

    def _drawn(self, bundles: list[Bundle]) -> dict[Law, Iterator[int]]:
        """All the noise a batch needs, each law's in one go."""
        needed: Counter[Law] = Counter()
        for query, tariff in (part for b in bundles for part in b.parts):
            for law in tariff.laws:
                needed[law] += query.shape[0]
        return {law: iter(self._noise.draw(law, count)) for law, count in needed.items()}

    # --- common questions ---------------------------------------------------------------

    def count(
        self, where: str | None = None, *, rows: Rows | None = None, error: Any = None
    ) -> Answer:
        """How many rows satisfy the predicate."""
        return self.ask(Query(("1",), where=where, rows=rows, error=error))

    def sum(
        self, expression: str, where: str | None = None, *, rows: Rows | None = None,
        error: Any = None,
    ) -> Answer:  # fmt: skip
        """The sum of an expression, in its own units; missing values are skipped."""
        return self.ask(Query((_one(expression),), where=where, rows=rows, error=error))

    def mean(
        self, expression: str, where: str | None = None, *, rows: Rows | None = None,
        error: Any = None,
    ) -> Answer:  # fmt: skip
        """The mean of an expression over the rows where it is known."""
        query, public = self.mean_query(expression, where, rows, error)
        return self._public_mean(query) if public else self._private_mean(query, expression)

    def mean_query(
        self, expression: str, where: str | None, rows: Rows | None, error: Any
    ) -> tuple[Query, bool]:
        """A mean over public rows is a sum over a known n; otherwise n is asked for too."""
        node = parse(_one(expression), self.schema)
        plain = Query((expression,), where=where, rows=rows)
        checked = self._check(plain)
        if checked.axes:
            raise QueryNotAllowed(
                "rows=Rows.blocks(...): a mean is one number. Ask db.sum over the blocks, or a "
                "mean over Rows.sample(...) or Rows.where(...)."
            )
        if checked.where is None and not node.nullable and node.low != node.high:
            if error is None:
                return plain, True
            if not checked.everyone:
                raise QueryNotAllowed(
                    "error: for a mean over some of the rows, ask db.sum(..., error=) and divide."
                )
            total = Query((expression,), error=error)
            assert total.error is not None
            return replace(total, error=total.error * max(self._engine.rows, 1)), True
        if error is not None:
            raise QueryNotAllowed(
                "error: how exact a mean over private rows will be depends on how many there are, "
                "which is itself private. Leave error out, or ask db.sum and db.count with error=."
            )
        return Query(Mean(expression), where=where, rows=rows), False

    def _public_count(self, checked: CheckedQuery) -> int:
        """How many rows S has. S is public, so this is no answer that anyone pays for."""
        if checked.everyone:
            return self._engine.rows
        one = (gridded(literal(1)),)
        counting = replace(checked, axes=(), values=one, mix=None, where=None)
        return self._sums([counting])[0][0][0]

    def rows_of(self, query: Query) -> int:
        """How many rows a query is about, by public columns alone. Public like n, so free."""
        return self._public_count(self._check(query))

    def _public_mean(self, query: Query) -> Answer:
        answer = self.ask(query)  # paid before a row is read, and before S is counted
        n = self.rows_of(query)
        if n == 0:
            raise EngineFailed(
                "rows=: no row is in this public set, so it has no mean. The charge stands."
            )
        return _scaled(answer, Fraction(1, n))

    def _private_mean(self, query: Query, expression: str) -> Answer:
        """mid + (sum about mid) / count, with the noise of both carried over."""
        answer = self.ask(query)
        node = parse(expression, self.schema)
        low, high = Fraction(node.low), Fraction(node.high)
        count, total = answer.exact[0]
        count_std, total_std = answer.stds[0]
        base = low if self.promise.noise in ("binomial", "stitched") else (low + high) / 2
        n = max(count, Fraction(1))
        ratio = total / n
        value = min(max(base + ratio, low), high)
        std = math.hypot(total_std, float(ratio) * count_std) / float(n)
        small = float(count) < 4 * count_std
        return Answer(
            ((value,),), ((std,),), ("all",), (f"mean({expression})",), answer.price,
            answer.remaining, answer.spread, "too few rows for the noise" if small else "",
        )  # fmt: skip

    def histogram(
        self, column: str, bins: int | Sequence[Any] | None = None, where: str | None = None, *,
        rows: Rows | None = None, error: Any = None,
    ) -> Table:  # fmt: skip
        """Counts by a column's declared values, or by bins of its declared range."""
        if not isinstance(column, str):
            raise QueryNotAllowed(f"column={column!r}: want a column's name.")
        by = self.histogram_axis(column, bins)
        answer = self.ask(Query(("1",), by=by, where=where, rows=rows, error=error))
        return answer.table((column,), ("count",))

    def crosstab(
        self, columns: Sequence[str], where: str | None = None, *, rows: Rows | None = None,
        error: Any = None,
    ) -> Table:  # fmt: skip
        """Counts by every combination of several columns' values."""
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            raise QueryNotAllowed(f"columns={columns!r}: want a list such as ['sex', 'region'].")
        by = tuple(self.histogram_axis(c, None) for c in columns)
        answer = self.ask(Query(("1",), by=by, where=where, rows=rows, error=error))
        return answer.table(tuple(columns), ("count",))

    def histogram_axis(self, column: str, bins: int | Sequence[Any] | None) -> str | Bins:
        """The partition a histogram of this column uses."""
        declared = self.schema.get(column)
        if bins is None:
            few = declared is not None and declared.type == "integer" and declared.bounded
            wide = few and declared.high - declared.low >= 2 * DEFAULT_BINS  # type: ignore[union-attr]
            number = declared is not None and declared.type in ("number", "date")
            if declared is None or declared.bins is not None or not (wide or number):
                return column
            bins = DEFAULT_BINS
        if isinstance(bins, int) and not isinstance(bins, bool):
            return Bins(column, self._equal_bins(column, bins))
        if isinstance(bins, str | bool) or not isinstance(bins, Sequence):
            raise QueryNotAllowed(f"bins={bins!r}: want a number of bins or a list of edges.")
        return Bins(column, tuple(bins))

    def _equal_bins(self, column: str, count: int) -> tuple[Any, ...]:
        declared = self.schema.get(column)
        if declared is None or not declared.bounded:
            raise QueryNotAllowed(
                f"bins of {column!r}: its range is not declared. Give edges: bins=[0, 10, 20]."
            )
        if not 1 <= count <= 10_000:
            raise QueryNotAllowed(f"bins={count}, want 1 to 10,000.")
        low, high = declared.low, declared.high
        if declared.type == "date":
            days = [low.toordinal() + (high - low).days * i // count for i in range(count + 1)]
            return tuple(type(low).fromordinal(d) for d in dict.fromkeys(days))
        if declared.type == "integer":  # whole edges, so that every bin has whole values
            edges = [low + (high + 1 - low) * i // count for i in range(count)]
            return tuple(dict.fromkeys([*edges, high]))
        return (*(low + (high - low) * i / count for i in range(count)), high)

    # --- looking without paying ---------------------------------------------------------

    def price(self, query: Query | Sequence[Query] | str) -> Price:
        """What a question would cost. Nothing is spent, no row is read."""
        return self.question(query).price

    @property
    def budget(self) -> Budget:
        """T, spent and remaining, in queries; an analyst's allotment and their own spending."""
        total, spent, left = self._ledger.budget()
        if self._analyst:
            own = self._ledger.allotment(self._analyst)
            if own.allotted is not None:
                total, spent, left = own.allotted, own.spent, min(left, max(own.left or 0, 0))
        return Budget(*(Fraction(x, MICRO) for x in (total, spent, left)))

    def budget_by_cell(self) -> list[dict[str, Any]]:
        """The budget of each combination of public values, in queries."""
        total, _, _ = self._ledger.budget()
        spent, everyone = self._ledger.spent_by_cell(), self._ledger.base()
        out = []
        for i, cell in enumerate(self._stored.cells):
            names = {c.name: v for c, v in zip(self._stored.cell_columns, cell, strict=True)}
            used = spent.get(i, everyone)
            out.append(
                names | {"spent": Fraction(used, MICRO), "remaining": Fraction(total - used, MICRO)}
            )
        return out

    def project(self, model: Any, *, clip: float | None = None) -> Database:
        """The same database with a model's components pc1, pc2, ... in place of its columns.

        `clip` keeps each within so many standard deviations, as the model knows them, so that
        less noise is needed than for the widest a component could be.
        """
        from sulq.projecting import projection

        if self._view is not None:
            raise QueryNotAllowed("project: this is a projection already; project the table.")
        view = copy.copy(self)
        view._view = projection(model, self.schema, clip)
        view.schema = view._view.schema
        return view

    def as_analyst(self, name: str) -> Database:
        """The same database, asked by one analyst: charged by that name, within its allotment."""
        if not isinstance(name, str) or not name:
            raise Refused(f"name={name!r}: want the analyst's name.")
        view = copy.copy(self)
        view._analyst = name
        return view

    def allot(self, analyst: str, queries: Any) -> None:
        """Let an analyst spend at most so many queries in all; None: no limit of their own.

        A cap, not a reservation, since T is one for everybody. Logged in the ledger.
        """
        self._ledger.allot(analyst, None if queries is None else _micro(queries))

    def allotments(self) -> dict[str, Allotment]:
        """What every analyst has spent and may spend, in micro-queries."""
        return self._ledger.allotments()

    def history(self) -> list[Charge]:
        """Every charge ever made, oldest first."""
        return self._ledger.history()

    def decisions(self) -> list[Entry]:
        """What the owner decided, oldest first: refreshes, overrides, allotments, restores."""
        return self._ledger.decisions()

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Every entry of the ledger's chain from this one on: charges, answers, decisions."""
        return self._ledger.entries(first)

    @property
    def columns(self) -> list[str]:
        """The declared columns."""
        return self.schema.names

    @property
    def rows(self) -> int:
        """n, which is public."""
        return self._engine.rows

    def sizes(self, *rows: Rows) -> list[tuple[int, ...]]:
        """How many rows each public set has, or each of its blocks. Public like n, so free."""
        counting = [self._check(Query(("1",), rows=r)) for r in rows]
        check_size(sum(c.shape[0] for c in counting))
        return [in_rows(matrix) for matrix in self._public(counting)]

    def key_counts(self) -> KeyCounts:
        """Whether every row has a key of its own. Public, so free."""
        need_key(self.schema, "counting keys")
        everyone = self._check(Query(("1",)))
        nobody = self._check(Query(("1",), rows=Rows.where(missing_key(self.schema))))
        found = self._public([everyone, nobody, different(everyone, self.schema)])
        rows, missing, keys = (matrix[0][0] for matrix in found)
        return KeyCounts(rows, missing, rows - missing - keys)

    def _public(self, counting: list[CheckedQuery]) -> list[list[list[int]]]:
        """Exact counts of public sets: nothing private is read, so nothing is charged."""
        self._guard.check()
        try:
            return self._engine.sums(counting) if counting else []
        except Exception:
            raise Refused("the engine gave no count. Nothing was charged; ask again.") from None

    def verify(self) -> int:
        """Walk the ledger's chain and give the number of entries; raises if it is broken."""
        return self._ledger.verify()

    def close(self) -> None:
        """Let go of the source and the ledger."""
        self._engine.close()
        self._ledger.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sulq.Database {self.name!r}: {self.rows:,} rows, {self.budget}>"


def is_small(query: Any) -> bool:
    """Is it a short list of sums without cells? These come by the hundred, and alike."""
    plain = isinstance(query, Query) and query.by is None and query.rows is None
    if not plain or not isinstance(query.values, tuple):
        return False
    return len(query.where or "") + sum(len(v) for v in query.values) <= SHORT


_small = lru_cache(maxsize=2048)(check)


def add_noise(
    query: CheckedQuery, tariff: Tariff, exact: list[list[int]], noise: dict[Law, Iterator[int]]
) -> list[list[int]]:
    """Integers plus integers, once, on the grid the price was set for."""
    if query.mix is not None:
        exact = [[dot(m, row) for m in query.mix] for row in exact]
    return [
        [
            x * m + next(noise[law])
            for x, m, law in zip(row, tariff.multiples, tariff.laws, strict=True)
        ]
        for row in exact
    ]


def dot(a: Sequence[int], b: Sequence[int]) -> int:
    """The inner product, in whole numbers."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def left_by(charges: list[Charge], requests: list[Request]) -> int | None:
    """What these requests left, of the whole and of the allotment; None if others paid.

    A repeated id hears again what was left then, so that both replies are the same.
    """
    pairs = zip(charges, requests, strict=True)
    if not charges or any((c.request, c.analyst) != (r.id, r.analyst) for c, r in pairs):
        return None
    return min(c.remaining if c.own is None else min(c.remaining, max(c.own, 0)) for c in charges)


def _micro(queries: Any) -> int:
    """Queries as whole micro-queries, rounded down."""
    try:
        if isinstance(queries, bool):
            raise ValueError
        exact = Fraction(queries) * MICRO
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise Refused(f"queries={queries!r}, want a number of queries, 0 or more.") from None
    return math.floor(exact)


def _numbered(request_id: str | None, i: int, count: int) -> str | None:
    return request_id if request_id is None or count == 1 else f"{request_id}#{i}"


def _one(expression: Any) -> str:
    if not isinstance(expression, str):
        raise QueryNotAllowed(f"{expression!r}: want a SQL expression as text, such as 'income'.")
    return expression


def _scaled(answer: Answer, factor: Fraction) -> Answer:
    return replace(
        answer,
        exact=tuple(tuple(x * factor for x in row) for row in answer.exact),
        stds=tuple(tuple(s * float(factor) for s in row) for row in answer.stds),
    )
