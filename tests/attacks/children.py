"""What the attacks run in other processes. Each child opens the database for itself."""

import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

from attacks.harness import SCHEMA

import sulq

# Children come from a server that never ran a thread, so a fork is safe.
PROCESS = get_context("forkserver")
PROCESS.set_forkserver_preload(["sulq.database", "sulq.engines.duckdb", "sulq.ledger"])


def database(source, **terms):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sulq.open(source, SCHEMA, **{"epsilon": 1.0, "queries": 100} | terms)


def at_once(target, arguments):
    """Run target(*a) in one process for each a, all starting together; give what they return."""
    start, results = PROCESS.Barrier(len(arguments)), PROCESS.Queue()
    children = [
        PROCESS.Process(target=_child, args=(target, start, results, i, a))
        for i, a in enumerate(arguments)
    ]
    for child in children:
        child.start()
    found = dict(results.get(timeout=280) for _ in children)
    for child in children:
        child.join()
    return [found[i] for i in range(len(children))]


def _child(target, start, results, i, arguments):
    try:
        result = target(start.wait, *arguments)
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    results.put((i, result))


def killed(target, *arguments):
    """Run a child that is expected to kill itself; give its exit code."""
    child = PROCESS.Process(target=target, args=arguments)
    child.start()
    child.join(120)
    return child.exitcode


def ask_until_refused(wait, source, terms, analysts):
    """Some analysts, a thread each: every answer they got, as (where, number)."""
    answers = []

    def analyst(name):
        with database(source, **terms) as db:
            i = 0
            while True:
                where = f"secret and id <> {name * 1000 + i}"
                try:
                    answers.append((where, str(db.count(where).exact[0][0])))
                except sulq.BudgetExceeded:
                    return
                i += 1

    threads = [threading.Thread(target=analyst, args=(name,)) for name in analysts]
    wait()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def ask_once(wait, source, terms, where, request_id):
    with database(source, **terms) as db:
        wait()
        answer = db.ask(sulq.Query(where=where), request_id=request_id)
        return str(answer.exact[0][0]), str(answer.price.queries)


def open_as(wait, source, terms):
    """Open the data under some ledger; say whether it went."""
    wait()
    try:
        database(source, **terms).close()
    except sulq.Refused:
        return "refused"
    return "opened"


def die_while_scanning(source, terms, where, request_id):
    """Charged, then killed before a sum comes back."""
    db = database(source, **terms)
    db._pipeline.engine.sums = lambda queries: os.kill(os.getpid(), signal.SIGKILL)
    db.ask(sulq.Query(where=where), request_id=request_id)


def die_after_drawing(source, terms, where, request_id):
    """Killed with the noisy number in hand, before it is stored."""
    db = database(source, **terms)
    db._ledger.record = lambda answers: os.kill(os.getpid(), signal.SIGKILL)
    db.ask(sulq.Query(where=where), request_id=request_id)


def draws(wait, count):
    """Noise of fresh databases, also from two forks of this process after it has drawn."""
    from attacks.harness import opened, people

    def some():
        db = opened(people(10), queries=count)
        where = [sulq.Query(where=f"secret and id <> {-i - 1}") for i in range(count)]
        return [str(answer.exact[0][0]) for answer in db.ask(where)]

    wait()
    found = [some()]
    for _ in range(2):
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                os.write(write, "\n".join(some()).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            found.append(pipe.read().split())
        os.wait()
    return [*found, some()]


def codes_of_children(work, count):
    """How so many forked children ended, each of which did its part of the work."""
    children = []
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                work(i)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    return [os.waitpid(pid, 0)[1] for pid in children]


def in_threads(target, many):
    """Run target(i) in so many threads at once."""
    with ThreadPoolExecutor(many) as pool:
        for done in [pool.submit(target, i) for i in range(many)]:
            done.result()
