"""What one key may spend in all, as its owner said."""

import threading

import pytest
from server.instance import made

from sulq.errors import MICRO, BudgetExceeded, NotFound, Refused


def a_key(instance, who="bob", **said):
    made = instance.call("POST", "/v1/keys", {"analyst": who} | said, "anna")
    assert made.status == 201, made.json
    return made.json["key"], made.json["id"]


def cap(instance, id, queries, who="anna"):
    return instance.call("PUT", f"/v1/keys/{id}/cap", {"queries": queries}, who)


def spending(instance, id):
    listed = instance.call("GET", "/v1/keys", None, "anna").json["keys"]
    (found,) = [k for k in listed if k["id"] == id]
    return found["cap_micro"], found["spent_micro"]


def test_a_key_spends_up_to_its_cap_and_no_further(instance):
    """The next question is refused with what is left; nothing is charged for it."""
    key, id = a_key(instance, cap=2)
    assert instance.ask("secret", key).status == 200
    assert instance.ask("secret and region = 'north'", key).status == 200
    before = instance.call("GET", "/v1/datasets/people/budget", None, "anna").json["spent_micro"]
    refused = instance.ask("not secret", key)
    assert (refused.status, refused.error) == (402, "BudgetExceeded")
    assert "owner lets this key spend" in refused.json["error"]["message"]
    assert refused.json["error"]["charged"] is False
    after = instance.call("GET", "/v1/datasets/people/budget", None, "anna").json["spent_micro"]
    assert after == before
    assert spending(instance, id) == (2 * MICRO, 2 * MICRO)


def test_what_was_paid_before_takes_nothing_of_a_cap(instance):
    """By this key or by anybody: a stored answer is free at every door."""
    key, id = a_key(instance, cap=0)
    assert instance.ask("secret", "bob").status == 200
    assert instance.ask("secret", key).status == 200
    assert spending(instance, id) == (0, 0)
    assert instance.ask("not secret", key).status == 402


def test_a_refused_question_takes_nothing_of_a_cap(instance):
    """What the ledger refuses is put back."""
    key, id = a_key(instance, cap=5)
    assert instance.call("PUT", "/v1/datasets/people/allotments/bob", {"queries": 0}, "anna")
    assert instance.ask("secret", key).error == "BudgetExceeded"
    assert spending(instance, id) == (5 * MICRO, 0)


def test_a_rotated_key_keeps_its_cap_and_what_it_spent(instance):
    """Whoever holds a key cannot shake its cap off."""
    key, _ = a_key(instance, cap=1)
    assert instance.ask("secret", key).status == 200
    new = instance.call("POST", "/v1/keys/rotate", None, key).json
    assert spending(instance, new["id"]) == (MICRO, MICRO)
    assert instance.ask("not secret", new["key"]).status == 402


def test_an_owner_raises_lowers_and_ends_a_cap(instance):
    """What was spent counts on until the cap is taken away."""
    key, id = a_key(instance)
    assert instance.ask("secret", key).status == 200
    assert spending(instance, id) == (None, 0)  # without a cap nothing is counted
    assert cap(instance, id, "0.5").json == {"key": id, "cap_micro": 500_000, "spent_micro": 0}
    assert instance.ask("not secret", key).status == 402
    cap(instance, id, 3)
    assert instance.ask("not secret", key).status == 200
    assert cap(instance, id, 1).json["spent_micro"] == MICRO
    assert cap(instance, id, None).json == {"key": id, "cap_micro": None, "spent_micro": 0}
    for wrong in (-1, "many", 10**12, True):
        assert cap(instance, id, wrong).status in (409, 422)


def test_only_the_owner_of_a_key_sets_its_cap(instance):
    """An analyst cannot raise their own, another owner cannot see it."""
    _, id = a_key(instance, cap=1)
    assert cap(instance, id, 9, "bob").status == 403
    assert cap(instance, id, 9, "carl").status == 404
    assert spending(instance, id) == (MICRO, 0)


def test_a_price_says_what_asking_now_would_charge(instance):
    """Its price, and nothing once it is paid."""
    body = {"query": {"where": "secret"}}
    said = instance.call("POST", "/v1/datasets/people/price", body).json
    assert (said["price_micro"], said["unpaid_micro"]) == (MICRO, MICRO)
    instance.ask("secret")
    said = instance.call("POST", "/v1/datasets/people/price", body).json
    assert (said["price_micro"], said["unpaid_micro"]) == (MICRO, 0)


def test_taking_is_one_step_among_threads(tmp_path):
    """However many take at once, a cap is never overspent."""
    with made(tmp_path / "instance").services() as services:
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        key, taken = services.people.new_key(bob, cap=5).id, []

        def take():
            try:
                services.caps.take(key, MICRO)
                taken.append(1)
            except BudgetExceeded:
                pass

        threads = [threading.Thread(target=take) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(taken), services.caps.of(key).left) == (5, 0)
        services.caps.give_back(key, 2 * MICRO)
        assert services.caps.of(key).left == 2 * MICRO
        with pytest.raises(NotFound):
            services.caps.set(bob.tenant, "0" * 16, 5)
        with pytest.raises(Refused, match="cap="):
            services.caps.set(bob.tenant, key, -1)
