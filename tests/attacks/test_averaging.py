"""One question in many words: each is charged, or gives the stored answer unchanged.

Fresh noise for free is a break, since enough of it averages away. `Watch` compares what was
paid with what was learned; noise has thousands of steps, so a number never seen before is
new. A coincidence could hide a break, never raise an alarm.
"""

import threading

import pyarrow.parquet as pq
import pytest
from attacks.children import in_threads
from attacks.harness import opened, people

import sulq
from sulq import Query, Rows

SAME_PREDICATE = [
    "secret", " secret ", "\n\tsecret", "SECRET", "Secret", '"secret"', "(secret)",
    "((secret))", "secret -- a comment", "/* a comment */ secret", "not not secret",
    "not (not (secret))", "secret = true", "true = secret", "TRUE = SECRET", "secret = (1 = 1)",
    "secret is true", "secret is not false", "secret <> false", "false <> secret",
    "not secret = false", "not (secret is false)", "secret in (true)", "secret and secret",
    "secret or secret", "secret and true", "true and secret", "secret or false",
    "secret and (secret or secret)", "secret and not (not secret and secret)",
    "case when secret then true else false end", "case secret when true then true else false end",
    "case when secret then 1 else 0 end = 1", "1 = case when secret then 1 else 0 end",
    "case when secret then 1.0 else 0.0 end > 0.5", "coalesce(secret, false)",
    "coalesce(secret, true)", "coalesce(null, secret)", "cast(secret as boolean)",
    "secret::boolean", "cast(secret as integer) = 1", "cast(secret as double) = 1.0",
    "cast(cast(secret as integer) as boolean)", "cast(secret as integer) > 0",
    "0 < cast(secret as integer)", "if(secret, true, false)", "secret and id = id",
    "secret and age is null or secret", "secret xor false", "nullif(secret, false)",
    "secret and 1 < 2", "least(secret, 1) = 1", "greatest(secret, 0) = 1", "abs(secret) = 1",
    "secret between true and true", "secret = secret and secret", "try_cast(secret as boolean)",
]  # fmt: skip
SAME_VALUE = [
    "secret", "cast(secret as integer)", "case when secret then 1 else 0 end", "1 * secret",
    "secret * 1", "secret + 0", "0 + secret", "-(-(cast(secret as integer)))", "secret * 1.0",
    "cast(secret as double)", "coalesce(secret, 0)", "least(secret, 1)", "greatest(0, secret)",
    "abs(secret)", "sign(secret)", "floor(secret * 1.0)", "secret * secret", "secret / 1",
    "round(secret)", "sqrt(secret)", "power(secret, 2)", "1 - (1 - secret)",
]  # fmt: skip


class Watch:
    """Asks, and compares what was paid with what was learned."""

    def __init__(self, db):
        self.db = db
        self.known: set[float] = set()
        self.free = self.paid = 0

    def __call__(self, ask):
        before = self.db.budget.spent
        try:
            answer = ask(self.db)
        except sulq.QueryNotAllowed:
            assert self.db.budget.spent == before
            return
        paid = self.db.budget.spent - before
        fresh = numbers(answer) - self.known
        self.known |= fresh
        assert paid > 0 or not fresh, "fresh noise for free"
        assert paid in (0, answer.price.queries), "not the price that was shown"
        self.free, self.paid = self.free + (paid == 0), self.paid + (paid > 0)


def numbers(answer):
    """Every noisy number in an answer."""
    if isinstance(answer, sulq.Table):
        return {x for name in answer.numbers for x in answer[name]}
    return set(answer.values.ravel().tolist())


def questions():
    """Everything that asks for the number of secrets, and a little more."""
    for where in SAME_PREDICATE:
        yield lambda db, w=where: db.count(w)
        yield lambda db, w=where: db.sum("1", w)
    for value in SAME_VALUE:
        yield lambda db, v=value: db.sum(v)
        yield lambda db, v=value: db.ask(Query([v]))
    yield lambda db: db.ask(Query(where="secret"))
    yield lambda db: db.ask(Query(["1"], where="secret", weights=[1]))
    yield lambda db: db.ask(Query(["1"], where="secret", weights=["2/2"]))
    yield lambda db: db.ask(Query.from_json(Query(["1"], where="secret").to_json()))
    yield lambda db: db.ask([Query(where="secret"), Query(where="secret and secret")])[1]
    for part in (None, Rows.where("id >= 0"), Rows.where("0 <= id"), Rows.where("id >= 0.0")):
        yield lambda db, r=part: db.count("secret", rows=r)
    for rate in (1, 1.0, "1", "2/2", 0.5, "1/2", "2/4", 0.50000000001):
        yield lambda db, r=rate: db.count("secret", rows=Rows.sample(1, r))
    for error in (90, 90.0, "90", "180/2", 90.00001, "90.00001"):
        yield lambda db, e=error: db.count("secret", error=e)
    for column in ("secret", "SECRET", '"secret"', "not not secret"):
        yield lambda db, c=column: db.ask(Query(by=c))
        yield lambda db, c=column: db.ask(Query(by=[c]))
        yield lambda db, c=column: db.histogram(c)
        yield lambda db, c=column: db.crosstab([c])
    yield lambda db: db.ask(Query(by=sulq.Blocks(1, 4), where="secret"))
    yield lambda db: db.count("secret", rows=Rows.blocks(1, 4))
    for text in (
        "select count(*) from frame where secret",
        "SELECT COUNT(*) FROM frame WHERE secret",
        "select count(*) as n from frame where not not secret",
        "select count(*), count(*) from frame where secret",
        "select sum(secret) from frame",
        "select region, count(*) from frame where secret group by region",
        "select count(*) from frame where secret group by region",
        "select secret, count(*) from frame group by secret",
    ):
        yield lambda db, t=text: db.sql(t)


def test_the_same_question_in_other_words_never_gets_fresh_noise_for_free():
    """Each way of asking, twice: the second time nothing is new."""
    watch = Watch(opened(people(), queries=1000))
    for _ in range(2):
        for ask in questions():
            watch(ask)
    print(f"averaging: {watch.paid} ways paid, {watch.free} answered from the ledger")
    assert watch.free > watch.paid


def test_most_ways_of_writing_a_predicate_are_recognised():
    """Not needed for privacy, but an analyst should not pay for a space."""
    db = opened(people())
    for where in SAME_PREDICATE[:12]:
        db.count(where)
    assert len(db.history()) == 1


def test_control_a_ledger_that_forgets_answers_is_caught():
    """The same watch on a database that draws again when asked again."""
    db = opened(people(), queries=1000)
    find = db._ledger.find
    db._ledger.find = lambda text: (found := find(text)) and (found[0], None)
    db._ledger.record = lambda answers: [text for _, text in answers]
    watch = Watch(db)
    watch(lambda db: db.count("secret"))
    with pytest.raises(AssertionError, match="fresh noise for free"):
        watch(lambda db: db.count("not not secret"))


def test_request_ids_change_nothing():
    """New ids, used ids and no id: one charge, one answer."""
    db = opened(people())
    ids = [None, "a", "b", "a", "a#0", "b#1", "", "x" * 500, "a"]
    answers = [db.ask(Query(where="secret"), request_id=i) for i in ids]
    answers += db.ask([Query(where="secret")] * 3, request_id="batch")
    assert len({answer.exact for answer in answers}) == 1
    assert db.budget.spent == 1


def test_a_batch_with_repeats_pays_once_and_says_one_thing():
    """The same question fifty times in one list."""
    db = opened(people())
    answers = db.ask([Query(where=w) for w in SAME_PREDICATE[:12]] * 4)
    assert len({answer.exact for answer in answers}) == 1
    assert db.budget.spent == 1


def test_a_batch_answered_from_shared_histograms_is_paid_and_stored_too():
    """Many counts from one histogram: paid once, the same again, never fresher for free."""
    db = opened(people())
    wheres = [f"age > {10 * i} and secret" for i in range(1, 9)]
    seen: dict[float, int] = {}
    for batch in (wheres, wheres, wheres[::-1], wheres[:5], wheres + wheres[:3]):
        before = db.budget.spent
        answers = db.ask([Query(where=w) for w in batch])
        fresh = {a.value for a in answers} - set(seen)
        seen |= dict.fromkeys(fresh, len(seen))
        assert db.budget.spent > before or not fresh
    assert db.budget.spent * 10**6 == sum(charge.price for charge in db.history())


def test_opening_again_and_opening_twice_give_the_stored_answer(tmp_path):
    """Through a closed and reopened file, and through two databases on one ledger."""
    source = tmp_path / "people.parquet"
    pq.write_table(people(), source)
    with opened(source, ledger=None) as db:
        first = db.count("secret").exact
    one, two = opened(source, ledger=None), opened(source, ledger=None)
    found = [db.count(where).exact for db in (one, two) for where in SAME_PREDICATE[:12]]
    found += [db.count("secret and age > 7").exact for db in (one, two, one)]
    assert set(found[:-3]) == {first}
    assert len(set(found[-3:])) == 1
    assert one.budget == two.budget
    assert one.budget.spent == 2


@pytest.mark.parametrize("databases", [1, 2])
def test_threads_at_once_get_one_answer_and_pay_once(tmp_path, databases):
    """Sixteen threads, the same new question at the same moment."""
    source = tmp_path / "people.parquet"
    pq.write_table(people(), source)
    opened_ones = [opened(source, ledger=None) for _ in range(databases)]
    found, start = [], threading.Barrier(16)

    def ask(i):
        start.wait()
        found.append(opened_ones[i % databases].count(SAME_PREDICATE[i % 12]).exact)

    in_threads(ask, 16)
    assert len(found) == 16
    assert len(set(found)) == 1
    assert opened_ones[0].budget.spent == 1
