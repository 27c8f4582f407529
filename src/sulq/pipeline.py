"""The answering path. Every question, from every door, is paid and answered here.

stored answers looked up -> dry run -> charge -> exact sums -> noise -> record -> answers

The order is the promise: what is not the engine's is run over zeros before the charge, the charge
is on disk before a row is read, and the answer is stored before it is given. One question or many
go through together: one transaction for all charges, one scan, one transaction for all answers.
Each gets what it would get alone: its charge or its refusal, its answer or its failure.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sulq.dry_run import DryRuns
from sulq.engines.bounded import Turns
from sulq.engines.failures import NO_COUNT, NO_SUM, Failure, ScanStopped, attempt, is_there
from sulq.engines.select import needs_kernel
from sulq.errors import EngineFailed, Frozen, Refused, SulqError
from sulq.ledger.types import Request, check_id
from sulq.policies import Policy, WithNoise, noise_alone
from sulq.questions.alike import alike
from sulq.questions.facts import check_public
from sulq.questions.question import exact_answer, with_noise_of
from sulq.values.counted_rows import RowCount, StoredRows

__all__ = ["Order", "Pipeline", "Stopped", "Timing", "row_by_row"]

Stopped = ScanStopped  # every way a scan can be stopped from outside


def row_by_row(question: Question) -> bool:
    """Is part of it computed outside of the database, which takes longer?"""
    return any(needs_kernel(checked) for checked in question.checked)


if TYPE_CHECKING:
    from sulq.engines.base import Engine, Matrix
    from sulq.ledger import Charge, Ledger
    from sulq.ledger.guard import Guard
    from sulq.lifetime import Lifetime
    from sulq.privacy.noise import Noise
    from sulq.questions.check import CheckedQuery
    from sulq.questions.facts import Fact
    from sulq.questions.question import Bundle, Question
    from sulq.values.answer import Answer

Given = TypeVar("Given")
Found = dict[str, tuple["Charge", str | None]]  # charges by question, each with its stored answer
MAX_KEPT = 500_000  # cells of public counts,
MAX_KEPT_TEXTS = 1_000  # of so many questions,
MAX_KEPT_LETTERS = 10_000_000  # and letters of them


@dataclass(frozen=True, slots=True)
class Order:
    """A question, who asks it, and the id under which it may be repeated."""

    question: Question
    request_id: str | None = None
    analyst: str = ""
    most: int | None = None  # micro-queries that may be charged for it; None: its price


class Timing(Protocol):
    """When rows are read, for a server whose times must tell nothing of them."""

    def begin(self, known: Sequence[Any]) -> None:
        """The charge is on disk, and rows are read from now on.

        `known` has what each order gets whose outcome no longer depends on rows; None elsewhere.
        """
        ...

    def end(self) -> None:
        """Rows are read: return at a public moment, not before."""
        ...


@dataclass(slots=True)
class _Case:
    """What becomes of one order."""

    order: Order
    counts: list[Answer] = field(default_factory=list)  # what is public of it
    charges: dict[str, Charge] = field(default_factory=dict)
    left: int | None = None  # by its own charges; None: it made none
    error: Exception | None = None

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        return self.order.question.bundles


class Pipeline:
    """The way from questions about one private table to their answers."""

    def __init__(
        self, engine: Engine, ledger: Ledger, noise: Noise, guard: Guard, lifetime: Lifetime, *,
        name: str = "", policy: Policy | None = None,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.ledger = ledger
        self.noise = noise
        self.guard = guard  # says whether the rows are still those the ledger began with
        self.lifetime = lifetime
        self.name = name
        self.policy: Policy = policy or WithNoise()
        self.dry_runs = DryRuns(self.policy)
        self.turns = Turns()
        self.origin = object()  # by which answers know their noise from that of other databases
        self.aside: Engine | None = None  # where a server's free counts wait for no scan
        self.known: dict[str, Matrix] = {}  # public sums, by their canonical text

    @property
    def stored(self) -> RowCount:
        """The number of rows that the engine reads; public."""
        return RowCount(self.engine.rows, StoredRows())

    def answer(
        self, orders: Sequence[Order], *, until: float | None = None, timing: Timing | None = None
    ) -> list[Any]:
        """What each order gets: its answers laid out, or the error that it meets.

        `until` is the moment of time.monotonic() by which rows must be read. `timing` says when
        what was read is stored.
        """
        cases = [_Case(order) for order in orders]
        try:
            self.check_ready()
            self._count_public(cases, until)
            found = self._look_up(cases)
            self._dry_run(cases, found)
            self._charge(cases, found)  # on disk from here on
            stored = self._recorded(cases, found, until, timing)
        except SulqError as error:
            return [error] * len(orders)
        return [case.error or self._laid_out(case, stored) for case in cases]

    def answer_with_noise_alone(self, order: Order) -> Any:
        """What `answer` would give if every sum were 0. Paid, stored nowhere, no row read."""
        case = _Case(order)
        self.check_ready()
        case.counts = self.count(order.question.facts, order.analyst, time.monotonic())
        found = self._look_up([case])
        self._dry_run([case], found)
        self._charge([case], found)
        if case.error is not None:
            raise case.error
        outcome = self._laid_out(case, noise_alone(case.bundles, self.noise))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    # ---- before the charge ------------------------------------------------------------------

    def check_ready(self) -> None:
        """Raise unless it is open here, and its rows are those the ledger began with."""
        self.lifetime.check(self.name)
        self.guard.check()

    def _count_public(self, cases: Sequence[_Case], until: float | None) -> None:
        """Count what is public of each, before anything is paid, should it fail."""
        for case in cases:
            try:
                case.counts = self.count(case.order.question.facts, case.order.analyst, until)
                if case.counts and until is not None and time.monotonic() > until:
                    raise Refused(NO_COUNT)
            except SulqError as error:
                case.error = error

    def _look_up(self, cases: Sequence[_Case]) -> Found:
        """The charges that these questions have, and the answers that are stored."""
        texts = [bundle.text for case in cases for bundle in case.bundles]
        found = self.ledger.find_all(texts) if texts else {}
        frozen = self._frozen(found)
        for case in cases:
            try:
                check_id(case.order.request_id)
                for bundle in case.bundles:
                    known = found.get(bundle.text)
                    if frozen is not None and known is not None and known[1] is None:
                        raise frozen  # it is paid, so the ledger would not be asked
                    self.policy.admit(bundle, known, case.order.request_id)
            except SulqError as error:
                case.error = case.error or error
        return found

    def _frozen(self, found: Found) -> Frozen | None:
        """Why what is paid and not answered is not read, if the ledger is frozen."""
        if any(answer is None for _, answer in found.values()):
            try:
                self.ledger.check_going()
            except Frozen as frozen:
                return frozen
        return None

    def _dry_run(self, cases: Sequence[_Case], found: Found) -> None:
        """Run what is not answered yet over zeros: afterwards nothing but the engine can fail."""
        for case in cases:
            answered = all(found.get(b.text, (None, None))[1] for b in case.bundles)
            if case.error is None and not answered:
                try:
                    self.dry_runs.ready(case.order.question)
                except SulqError as error:
                    case.error = error

    # ---- the charge -------------------------------------------------------------------------

    def _charge(self, cases: Sequence[_Case], found: Found) -> None:
        """Pay for what is not paid yet: each order whole or not at all, in one transaction."""
        paying: list[tuple[_Case, list[Request]]] = []
        for case in cases:
            if case.error is not None or not case.bundles:
                continue
            known = {b.text: found[b.text][0] for b in case.bundles if b.text in found}
            if len(known) < len({b.text for b in case.bundles}):
                paying.append((case, requests_of(case.order)))
            elif case.order.request_id is None:
                case.charges = known
            else:  # an id stands for what it stood for first; most often nothing is written
                requests = requests_of(case.order)
                _settle(case, requests, self._charged_before(requests))
        outcomes = self.ledger.charge_each([requests for _, requests in paying]) if paying else []
        for (case, requests), outcome in zip(paying, outcomes, strict=True):
            _settle(case, requests, outcome)

    def _charged_before(self, requests: list[Request]) -> list[Charge] | SulqError:
        try:
            return self.ledger.charge(requests)
        except SulqError as error:
            return error

    # ---- after the charge -------------------------------------------------------------------

    def _recorded(
        self, cases: Sequence[_Case], found: Found, until: float | None, timing: Timing | None
    ) -> dict[str, str]:
        """Read rows once for all that is paid and not answered; store it. Gives what is stored."""
        stored = {text: answer for text, (_, answer) in found.items() if answer is not None}
        groups, charges = _unanswered(cases, stored)
        known = [case.error or self._known(case, stored) for case in cases] if timing else []
        if not groups:
            with _timed(timing, known):  # stored answers are laid out at the same moment
                return stored
        try:
            self.policy.prepare(self, groups, charges)
            with _timed(timing, known):
                computed = self.policy.computed(self, groups, charges, until)
            kept = self.ledger.record([(charges[t].number, a) for t, a in computed.items()])
        except EngineFailed as error:
            for case in cases:
                if any(bundle.text not in stored for bundle in case.bundles):
                    case.error = case.error or error
            return stored
        return stored | dict(zip(computed, kept, strict=True))  # the first answer recorded wins

    def _known(self, case: _Case, stored: dict[str, str]) -> Any:
        """One order's answers if all of them are stored."""
        whole = all(bundle.text in stored for bundle in case.bundles)
        return self._laid_out(case, stored) if whole else None

    def _laid_out(self, case: _Case, stored: dict[str, str]) -> Any:
        """One order's answers; what goes wrong here is its own."""
        try:
            left = case.left
            if left is None:
                left = self.left(case.order.analyst, case.bundles)
            paid = case.left is not None
            answers = [
                with_noise_of(self.origin, b, self.policy.answers(b, stored[b.text], left, paid))
                for b in case.bundles
            ]
            return case.order.question.lay_out(answers, case.counts)
        except Exception as error:
            return error

    def left(self, analyst: str, bundles: Sequence[Bundle] = (), *, people: bool = False) -> int:
        """The micro-queries that one more question about the same rows may have; (): all rows.

        Of the whole and of the analyst's allotment. `people`: of all people, each once.
        """
        asked = [self.ledger.left(b.cells, people=b.of_people) for b in bundles]
        left = min(asked) if asked else self.ledger.left(people=people)
        own = self.own_left(analyst)
        return left if own is None else min(left, own)

    def own_left(self, analyst: str) -> int | None:
        """The micro-queries left of an analyst's allotment; None: there is none."""
        left = self.ledger.allotment(analyst).left if analyst else None
        return None if left is None else max(left, 0)

    # ---- reading rows -----------------------------------------------------------------------

    def sums(self, checked: Sequence[CheckedQuery], until: float | None = None) -> list[Matrix]:
        """Exact sums, by that moment if there is one."""
        if until is None:
            return self.engine.sums(checked)
        return self.turns.sums(self.engine, checked, until)

    def scanned(
        self, work: Callable[[], Given], questions: Sequence[str], *, paid: bool = True
    ) -> Given:
        """What a scan gives. Whether it fails may depend on rows, so a failure is an answer.

        If the engine is there although the scan failed, the database freezes until its owner
        goes on: one failure can tell one bit, once. What comes from outside (a question cancelled
        or out of time, an engine that is away) freezes nothing.
        """
        found = attempt(work)
        if not isinstance(found, Failure):
            return found
        if found.stopped is None and self.turns.alone(lambda: is_there(self.engine)):
            with suppress(SulqError):  # it is frozen here even if it cannot be written down
                self.ledger.freeze(questions, self.engine.title, found.kind)
            raise self.ledger.frozen_meanwhile(paid=paid)
        if not paid:
            raise Refused(NO_COUNT)
        raise found.stopped or EngineFailed(NO_SUM)

    # ---- what is public ---------------------------------------------------------------------

    def count(
        self, facts: Sequence[Fact], analyst: str = "", until: float | None = None
    ) -> list[Answer]:
        """Public numbers, exactly."""
        if not facts:
            return []
        found = self.counts([fact.checked for fact in facts], until)
        left = self.left(analyst)
        return [exact_answer(f.checked, c, left) for f, c in zip(facts, found, strict=True)]

    def counts(self, counting: Sequence[CheckedQuery], until: float | None = None) -> list[Matrix]:
        """Counts of public sets; each is read once, since the rows stay what they are."""
        self.check_ready()
        known = self.known.copy()  # others may forget while the rows are read
        new = {c.text: c for c in counting if c.text not in known}
        if new:
            found = dict(zip(new, self.public(list(new.values()), until), strict=True))
            known |= found
            kept = (some for some in (known, found, {}) if _is_little(some))
            self.known = next(kept).copy()
        return [known[c.text] for c in counting]

    def public(self, counting: list[CheckedQuery], until: float | None = None) -> list[Matrix]:
        """Exact counts of public sets: nothing private is read, so nothing is charged."""
        self.check_ready()
        check_public(counting, self.engine.schema)
        self.ledger.check_going()  # a failure would be an answer here too
        texts = [c.text for c in counting]
        return self.scanned(lambda: self._counted(counting, until), texts, paid=False)

    def count_aside(self) -> None:
        """From now on, let free counts and looks at the source wait for no scan."""
        self.aside = self.engine.beside()
        self.guard.look_with(self.aside)

    def close(self) -> None:
        """Let go of the source."""
        if self.aside is not None:
            self.aside.close()
        self.engine.close()

    def _counted(self, counting: list[CheckedQuery], until: float | None) -> list[Matrix]:
        """By a deadline in turn with the scans that have one; else aside."""
        if until is None and self.aside is not None:
            return self.aside.sums(counting)
        return self.sums(counting, until)

    # ---- how long it takes ------------------------------------------------------------------

    def scan_seconds(
        self, questions: Sequence[Question], most: float, more_like_it: int = 0
    ) -> float:
        """How long noise and rows for these take now, up to so long; nothing of it is kept.

        On a way of its own, so that nothing that was kept from before makes it quicker. With so
        many more questions like each, where there are such.
        """
        bundles = [bundle for question in questions for bundle in question.bundles]
        checked = [c for question in questions for c in question.checked]
        others = [alike(c, k + 1) for k in range(more_like_it) for c in checked]
        checked += [c for c in others if c is not None]
        engine = self.engine.beside()
        start = time.monotonic()
        for _ in range(1 + more_like_it):
            noise_alone(bundles, self.noise)
        attempt(lambda: Turns().sums(engine, checked, start + most))
        seconds = time.monotonic() - start
        if engine is not self.engine:
            engine.close()
        return seconds


def _is_little(known: dict[str, Matrix]) -> bool:
    """May so much be kept of public counts? They are free, and each estimate looks at them."""
    return (
        len(known) <= MAX_KEPT_TEXTS
        and sum(map(len, known)) <= MAX_KEPT_LETTERS
        and sum(map(len, known.values())) <= MAX_KEPT
    )


@contextmanager
def _timed(timing: Timing | None, known: Sequence[Any]) -> Iterator[None]:
    """Rows are read in here; whatever comes of it is heard of at a public moment."""
    if timing is None:
        yield
        return
    timing.begin(known)
    try:
        yield
    finally:
        timing.end()


def _settle(case: _Case, requests: list[Request], outcome: list[Charge] | SulqError) -> None:
    """Note what the ledger said to one order."""
    if isinstance(outcome, SulqError):
        case.error = outcome
    else:
        case.charges = {c.query: c for c in outcome}
        case.left = left_by(outcome, requests)


def _unanswered(
    cases: Sequence[_Case], stored: dict[str, str]
) -> tuple[list[list[Bundle]], dict[str, Charge]]:
    """What is paid and has no answer, each once, by order; and the charges for it."""
    groups: list[list[Bundle]] = []
    charges: dict[str, Charge] = {}
    for case in cases:
        group = []
        for bundle in case.bundles if case.error is None else ():
            if bundle.text not in stored and bundle.text not in charges:
                charges[bundle.text] = case.charges[bundle.text]
                group.append(bundle)
        groups += [group] if group else []
    return groups, charges


def requests_of(order: Order) -> list[Request]:
    """What the ledger is asked to charge."""
    bundles, id = order.question.bundles, order.request_id
    ids = [id if id is None or len(bundles) == 1 else f"{id}#{i}" for i in range(len(bundles))]
    requests = [
        Request(
            b.text,
            b.price.micro,
            b.cells,
            each,
            order.analyst,
            tuple(spec.code for spec in b.programs),
            b.key_sets,
            b.discoveries,
            b.of_people,
            order.most,
        )
        for b, each in zip(bundles, ids, strict=True)
    ]
    if id is not None and len(bundles) != 1:
        # The id itself stands for the whole list: a free line, so that the same id with
        # another list is refused.
        listed = json.dumps({"batch": [b.text for b in bundles]})
        requests.insert(0, Request(listed, 0, (), id, order.analyst))
    return requests


def left_by(charges: list[Charge], requests: list[Request]) -> int | None:
    """What these requests left, of the whole and of the allotment; None if others paid.

    A repeated id hears again what was left then, so that both replies are the same.
    """
    pairs = zip(charges, requests, strict=True)
    if not charges or any((c.request, c.analyst) != (r.id, r.analyst) for c, r in pairs):
        return None
    return min(c.remaining if c.own is None else min(c.remaining, max(c.own, 0)) for c in charges)
