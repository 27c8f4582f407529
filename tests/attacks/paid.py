"""A fuzz of terms and questions: once a question is charged, nothing but the engine can fail.

    python tests/attacks/paid.py --questions 30000

Each world has a promise from the whole range of epsilon, delta, T, noise, guarantee and discovery
share, a table of 0 to 20,001 rows, and questions of every kind. A question is answered, or it is
refused in words and nothing is charged. A failure prints its world: --world 17 asks there again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.paid_questions import terms, world

import sulq
from sulq.dry_run import CANNOT_RUN
from sulq.server.services.responses import answer_body
from sulq.values.answer import Answer
from sulq.values.table import Table

EACH = 25  # questions of one world
FAULT = CANNOT_RUN.partition("{")[0]  # what a fault of ours is refused with before it is charged


class Tally:
    """Outcomes, and those that must not be."""

    def __init__(self) -> None:
        self.asked = self.answered = self.charged = self.closed = 0
        self.refused: Counter[str] = Counter()
        self.failures: list[str] = []

    def __str__(self) -> str:
        refused = ", ".join(f"{kind} {n:,}" for kind, n in self.refused.most_common())
        return (
            f"{self.asked:,} questions: {self.answered:,} answered ({self.charged:,} charges), "
            f"refused: {refused or 'none'}; {self.closed:,} promises refused when opened; "
            f"{len(self.failures)} failures"
        )


def ask_world(number: int, tally: Tally, each: int = EACH) -> None:
    """Open one table under one promise, and ask it some questions."""
    pick = random.Random(f"paid {number}")
    promise = terms(pick)
    source, schema, question = world(pick)
    try:
        db = _opened(source, schema, promise)
    except sulq.SulqError:
        tally.closed += 1
        return
    except Exception:
        tally.failures.append(f"world {number}: opening {promise}\n{traceback.format_exc()}")
        return
    with db:
        for i in range(each):
            text, call = question(pick)
            tally.asked += 1
            fault = _fault(db, call, tally)
            if fault:
                tally.failures.append(f"world {number}, question {i}: {text}\n{promise}\n{fault}")
            if db.frozen is not None:
                db.resume("go on")


def _opened(source, schema, promise):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(source, schema, ledger=":memory:", name="people", **promise)


def _fault(db, call, tally: Tally) -> str:
    """Ask once; why its outcome may not be, or ''."""
    before = len(db.history())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # numpy's, which is a fault of ours
            outcome = call(db)
            _show(outcome)
    except sulq.Refused as refused:
        tally.refused[type(refused).__name__] += 1
        if str(refused).startswith(FAULT):
            return "".join(traceback.format_exception(refused))
        if isinstance(refused, sulq.Frozen) or len(db.history()) > before:
            return f"{type(refused).__name__} after its charge: {refused}"
        return "" if len(str(refused)) > 20 else f"no words: {refused!r}"
    except Exception:
        return traceback.format_exc()
    tally.answered += 1
    tally.charged += len(db.history()) - before
    return ""


def _show(outcome) -> None:
    """Write it as a server does, and as text."""
    if isinstance(outcome, Mapping):
        for table in outcome.values():
            _show(table)
    elif isinstance(outcome, Answer | Table | list) and _is_answer(outcome):
        json.dumps(answer_body(outcome))
        str(outcome)
    else:
        str(outcome)


def _is_answer(outcome) -> bool:
    return not isinstance(outcome, list) or all(isinstance(x, Answer) for x in outcome)


def run(questions: int, first: int = 0, *, each: int = EACH, most_failures: int = 20,
        loud: bool = False) -> Tally:  # fmt: skip
    """Ask worlds from the first on, until so many questions were asked."""
    tally, number = Tally(), first
    while tally.asked < questions and len(tally.failures) < most_failures:
        told = len(tally.failures)
        ask_world(number, tally, each)
        number += 1
        if loud:
            print(*tally.failures[told:], sep="\n", end="", flush=True)
        if loud and number % 50 == 0:
            print(f"worlds up to {number:,}: {tally}", flush=True)
    return tally


def main() -> int:
    """Run, print what was seen, and fail if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=30_000)
    parser.add_argument("--first", type=int, default=0, help="the first world")
    parser.add_argument("--world", type=int, help="ask this one only")
    parser.add_argument("--failures", type=int, default=20, help="after which it stops")
    chosen = parser.parse_args()
    begun = time.process_time()
    if chosen.world is not None:
        tally = Tally()
        ask_world(chosen.world, tally)
        print(*tally.failures, sep="\n")
    else:
        tally = run(chosen.questions, chosen.first, most_failures=chosen.failures, loud=True)
    print(f"{tally}; {time.process_time() - begun:.0f} s of processor time", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
