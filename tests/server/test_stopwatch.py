"""A stopwatch on real servers whose rows differ: on the beat it does not tell which is which.

300 pairs of requests to two server processes, in random order. The median difference must be
within 1 ms and Wilcoxon's p above 1e-4; a false alarm needs the contrary twice in a row: 1e-8. The
same code has controls: without a beat it tells the twins apart, and servers with the same rows it
does not, on a beat or without. Only in `make soak`, on a quiet machine.

What is not the rows must be the same for both twins, or it is measured instead. So each of them is
started first for half of the pairs. And while another analyst asks, a question is sent a set time
after the other's: the same for both twins of a pair, and another for each pair. A question sent
when the reply of the other twin is there would come at a moment of the other analyst's slot that
follows from the pairs before. Such pairs are no independent trials, and a tenth of a millisecond in
favour of one server, whatever its rows are, becomes several in the median.
"""

import gc
import itertools
import json
import random
import statistics
import threading
import time
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest
from scipy import stats
from server.instance import made
from server.processes import served
from soak import in_soak

D = "/v1/datasets/people"
PAIRS = 300
SLOT = 1 / 25  # seconds
SHORT = 0.01  # seconds after the other's question, where there is no slot
LIMITS = {"RATE": "1e6", "BURST": "1000000", "MOST_LATE": "0"}
BEAT = LIMITS | {"PADDING": "yes", "DEADLINE_SECONDS": str(SLOT)}
AT_ONCE = LIMITS | {"PADDING": "no"}
NUMBER = itertools.count()
RANDOM = random.Random(7)
NOTES = {
    "id": {"key": True},
    "secret": {"type": "boolean", "nullable": False},
    "note": {"type": "text"},
}


def table(last="short", every="short"):
    """Two thousand rows: the note of the last, and that of all others."""
    rows = 2000
    secrets = [i % 2 == 0 for i in range(rows)]
    notes = [f"{every}{i}" for i in range(rows - 1)] + [last]  # no two alike, to be looked at once
    return pa.table({"id": range(rows), "secret": secrets, "note": notes})


HIT, MISS = "bb" + "ab" * 1000, "ab" * 1001  # 'bb' is in the first letters, or nowhere
ONE_DEAR = (table(), table("ab" * 400_000), "note like '%bb%a{}%'")
ALL_OR_NONE = (table(HIT, HIT), table(MISS, MISS), "note like '%bb%' and id <> {}")
SAME = (table(MISS, MISS), table(MISS, MISS), "note like '%bb%' and id <> {}")
TWINS = {"one row far dearer": ONE_DEAR, "all rows match against none": ALL_OR_NONE}


class Other:
    """Another analyst who asks one server all the time."""

    def __init__(self, server):
        self._server = server
        self._asked = threading.Condition()
        self._at = 0.0  # when the last question was sent,
        self._count = 0  # and how many were
        self._over = False
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over:
            with self._asked:
                self._at, self._count = time.perf_counter(), self._count + 1
                self._asked.notify_all()
            self._server.ask(f"id < {next(NUMBER)} and secret", "anna")

    def wait(self, seconds):
        """Wait until so long after the next question is sent."""
        with self._asked:
            before = self._count
            assert self._asked.wait_for(lambda: self._count > before, 60)
            at = self._at
        time.sleep(max(at + seconds - time.perf_counter(), 0.0))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join()


@contextmanager
def serving(folder, tables, order, settings):
    """A server process for each table, started in this order."""
    environment = {f"SULQ_SERVER_{name}": value for name, value in settings.items()}
    with ExitStack() as stack:
        servers = {}
        for k in order:
            instance = made(folder / f"{k}-{order}", tables[k], NOTES, queries=10**6)
            _, instance.url = stack.enter_context(served(instance.folder, env=environment))
            instance.until_ready()
            servers[k] = instance
        yield servers


def taken(server, body):
    """The seconds until the reply."""
    start = time.perf_counter()
    reply = server.call("POST", f"{D}/ask", body)
    seconds = time.perf_counter() - start
    assert reply.status in (200, 503), reply.body
    return seconds


def question(where):
    """Another each time."""
    return json.dumps({"query": {"where": where.format(next(NUMBER))}}).encode()


def differences(folder, twins, settings, busy):
    """What the second twin takes longer than the first, pair by pair."""
    *tables, where = twins
    found, longest = [], 1.1 * SLOT if settings is BEAT else SHORT
    for order in ((0, 1), (1, 0)):
        with serving(folder, tables, order, settings) as servers, ExitStack() as stack:
            others = {k: stack.enter_context(Other(s)) for k, s in servers.items() if busy}
            for k in (0, 1) * 5:
                taken(servers[k], question(where))
            gc.disable()  # a moment of whoever holds the stopwatch is nobody's time
            try:
                for _ in range(PAIRS // 2):
                    body, after, seconds = question(where), RANDOM.uniform(0, longest), {}
                    for k in RANDOM.sample([0, 1], 2):
                        if busy:
                            others[k].wait(after)
                        seconds[k] = taken(servers[k], body)
                    found.append(seconds[1] - seconds[0])
            finally:
                gc.enable()
    return found


def tells_apart(what, found):
    """Would a stopwatch know which twin it was?"""
    median, p = statistics.median(found), stats.wilcoxon(found).pvalue
    print(f"\n{what}: {len(found)} pairs, median {median * 1000:+.3f} ms, p = {p:.2g}")
    return abs(median) > 0.001 or p <= 1e-4


@pytest.fixture
def told(tmp_path, capsys, request):
    """Are twins told apart, twice in a row?"""

    def twice(measure, *said):
        for k in range(2):
            found = measure(tmp_path / str(k), *said)
            with capsys.disabled():
                apart = tells_apart(request.node.name, found)
            if not apart:
                return False
        return True

    return twice


busy_or_not = pytest.mark.parametrize("busy", [False, True], ids=["alone", "while another asks"])


@in_soak
@busy_or_not
@pytest.mark.parametrize("what", TWINS)
def test_time_does_not_tell_twins_apart(told, what, busy):
    """On the beat the times of twins have one distribution."""
    assert not told(differences, TWINS[what], BEAT, busy)


@in_soak
@busy_or_not
@pytest.mark.parametrize("what", TWINS)
def test_control_without_a_beat_it_does(told, what, busy):
    """The same stopwatch tells the twins apart where replies leave at once."""
    assert told(differences, TWINS[what], AT_ONCE, busy)


@in_soak
@busy_or_not
@pytest.mark.parametrize("settings", [BEAT, AT_ONCE], ids=["on a beat", "without"])
def test_control_the_same_rows_are_not_told_apart(told, settings, busy):
    """The same stopwatch sees nothing where there is nothing to see."""
    assert not told(differences, SAME, settings, busy)


def first_and_repeated(folder, settings):
    """What a repeated question takes longer than a new one, pair by pair.

    Which of two servers was asked before is drawn anew for each pair; the other one was asked
    something else.
    """
    rows, _, where = ONE_DEAR
    found = []
    with serving(folder, (rows, rows), (0, 1), settings) as servers:
        for _ in range(PAIRS):
            body, repeated, seconds = question(where), RANDOM.randrange(2), {}
            for k in RANDOM.sample([0, 1], 2):
                taken(servers[k], body if k == repeated else question(where))
            for k in RANDOM.sample([0, 1], 2):
                seconds[k] = taken(servers[k], body)
            found.append(seconds[repeated] - seconds[1 - repeated])
    return found


@in_soak
@pytest.mark.parametrize("settings", [BEAT, AT_ONCE], ids=["on a beat", "without"])
def test_first_and_repeated_questions_take_as_long_on_the_beat_alone(told, settings):
    """A stored answer leaves on the same beat; without one it is told apart from a new one."""
    assert told(first_and_repeated, settings) is (settings is AT_ONCE)
