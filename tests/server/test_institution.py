"""Accounts of an institution sign in, at the console and for the API, and nothing else does."""

import asyncio
import base64
import json
import re
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwk
from server.console.page_client import PageClient, plain
from server.instance import call, made
from server.issuer import AUDIENCE, CLIENT, issuing, settings_of

from sulq.errors import KeyRefused, LimitReached, Refused
from sulq.server.services import institution, work_meter
from sulq.server.services.oidc import Issuer
from sulq.server.services.oidc_settings import OidcSettings
from sulq.server.services.work_meter import STRANGERS

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"
NOW = int(time.time())


@pytest.fixture(scope="module")
def issuer():
    with issuing() as found:
        yield found


@pytest.fixture(scope="module")
def instance(issuer, tmp_path_factory):
    """anna's server, whose institution is the issuer."""
    found = made(tmp_path_factory.mktemp("institution") / "instance", queries=1000)
    with (found.folder / "sulq.toml").open("a") as file:
        file.write(settings_of(issuer))
    with found.serving() as served:
        yield served


@pytest.fixture(autouse=True)
def as_usual(issuer):
    before = dict(issuer.person)
    yield
    issuer.person, issuer.wrong, issuer.description = before, {}, {}


class Browser(PageClient):
    """Someone at the institution's page: there, and back."""

    def leave(self, onward="/console/account"):
        found = self.get(f"/console/oidc?next={onward}")
        assert found.status == 303, plain(found)
        self.own = found.headers["set-cookie"].split(";")[0]
        self.said = found.headers["set-cookie"]
        return found.headers["location"]

    def back(self, there, issuer):
        asked = {k: v[0] for k, v in parse_qs(urlsplit(there).query).items()}
        return issuer.authorize(asked)

    def arrive(self, back, cookie="own"):
        parts = urlsplit(back)
        cookie = self.own if cookie == "own" else cookie
        found = call(self.instance.url, "GET", f"{parts.path}?{parts.query}", Cookie=cookie or "")
        kept = re.search(r"(sulq_session=[^;]+)", found.headers.get("set-cookie", ""))
        self.cookie = kept[1] if kept else None
        return found

    def sign_in(self, issuer):
        return self.arrive(self.back(self.leave(), issuer))


def exchanged(instance, token, kind=JWT):
    body = {"grant_type": GRANT, "subject_token": token, "subject_token_type": kind}
    return instance.call("POST", "/v1/token", body, None)


def log_of(instance):
    return instance.call("GET", "/v1/audit-log", None, "anna").json["entries"]


# ---- the console ------------------------------------------------------------------------------


def test_an_account_signs_in_and_is_an_analyst(instance, issuer):
    """There and back: a session that ends with its key, a name by the claim, a line in the log."""
    alice = Browser(instance)
    found = alice.sign_in(issuer)
    assert found.status == 200
    assert 'content="0; url=/console/account"' in found.body.decode()
    assert "httponly" in alice.said.lower()
    assert "samesite=lax" in alice.said.lower()
    assert "alice, analyst" in plain(alice.get("/console/account"))
    (entry,) = [e for e in log_of(instance) if e["kind"] == "sign-in"][-1:]
    assert entry["body"]["about"] == "alice"
    assert entry["body"]["how"] == "the institution's account"


def test_where_one_goes_is_asked_by_pkce_state_and_nonce(instance, issuer):
    """The address has them all, each of its own for every sign-in, and the scope of OpenID."""
    first, second = (
        {k: v[0] for k, v in parse_qs(urlsplit(Browser(instance).leave()).query).items()}
        for _ in range(2)
    )
    assert first["response_type"] == "code"
    assert first["client_id"] == CLIENT
    assert first["code_challenge_method"] == "S256"
    assert "openid" in first["scope"].split()
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 43
        assert first[name] != second[name]


def test_roles_decide_who_one_is(instance, issuer):
    """A head is the owner; an account without a role is nobody, and loses what it had."""
    issuer.person |= {"sub": "head", "preferred_username": "hanna", "groups": ["heads"]}
    owner = Browser(instance)
    owner.sign_in(issuer)
    assert "anna, owner" in plain(owner.get("/console/account"))
    entry = [e for e in log_of(instance) if e["kind"] == "sign-in"][-1]
    assert (entry["body"]["about"], entry["body"]["by"]) == ("anna", "hanna")
    issuer.person |= {"sub": "rita", "preferred_username": "rita", "groups": ["research"]}
    rita = Browser(instance)
    rita.sign_in(issuer)
    assert rita.get("/console/datasets/people").status == 200  # its role is invited there
    issuer.person |= {"groups": ["visitors"]}
    again = Browser(instance)
    found = again.sign_in(issuer)
    assert found.status == 403
    assert "no role here" in plain(found)
    assert again.cookie is None
    assert rita.get("/console/account").headers["location"].startswith("/console/sign-in")
    assert log_of(instance)[-1]["kind"] == "sign-in-refused"


def test_a_role_that_is_gone_takes_its_invitation_along(instance, issuer):
    """What roles open is looked at again at every sign-in."""
    issuer.person |= {"sub": "tom", "preferred_username": "tom", "groups": ["research"]}
    tom = Browser(instance)
    tom.sign_in(issuer)
    assert tom.get("/console/datasets/people").status == 200
    issuer.person |= {"groups": ["analysts"]}
    tom.sign_in(issuer)
    assert tom.get("/console/datasets/people").status == 404


def test_no_name_takes_over_somebody_else(instance, issuer):
    """A claimed name that an analyst has already opens nothing until it is linked."""
    issuer.person |= {"sub": "another", "preferred_username": "bob"}
    found = Browser(instance).sign_in(issuer)
    assert found.status == 401
    assert "sulq analyst link" in plain(found)
    with instance.services() as services:
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        services.institution.link(bob, "another")
        with pytest.raises(Refused, match="somebody already"):
            services.institution.link(bob, "another")
    linked = Browser(instance)
    assert linked.sign_in(issuer).status == 200
    assert "bob, analyst" in plain(linked.get("/console/account"))


def test_whoever_was_removed_stays_out(instance, issuer):
    """An owner's word is above the institution's."""
    issuer.person |= {"sub": "zoe", "preferred_username": "zoe"}
    assert Browser(instance).sign_in(issuer).status == 200
    assert instance.call("DELETE", "/v1/analysts/zoe", None, "anna").status == 200
    found = Browser(instance).sign_in(issuer)
    assert found.status == 401
    assert "removed" in plain(found)


def refused(instance, issuer, why, **arrive):
    browser = Browser(instance)
    back = browser.back(browser.leave(), issuer)
    found = browser.arrive(back, **arrive)
    assert found.status == 401, plain(found)
    assert browser.cookie is None
    assert why in plain(found)


WRONG = {
    "the token has expired": {"exp": NOW - 600, "iat": NOW - 900},
    "the token is not good yet": {"nbf": NOW + 3600},
    "the token is for another audience": {"aud": "somebody-else"},
    "the token is another issuer's": {"iss": "https://elsewhere.example"},
    "the token is not for this sign-in": {"nonce": "another"},
    "the token names nobody": {"sub": None},
    "the token has no times": {"exp": None},
    "the token is of another kind": {"typ": "logout+jwt"},
    "the token is not signed by the issuer": {"kid": "two"},
}


@pytest.mark.parametrize("why", WRONG)
def test_a_wrong_token_signs_nobody_in(instance, issuer, why):
    """Expired, for others, from others, from another sign-in: refused, and it is said why."""
    issuer.wrong = WRONG[why]
    refused(instance, issuer, why)


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "HS256"])
def test_what_nobody_signed_is_nothing(instance, issuer, alg, monkeypatch):
    """alg: none in any spelling, and a key that everybody knows as if it were a secret."""
    unsigned = issuer.unsigned(alg, aud=AUDIENCE)
    if alg == "HS256":
        shared = jwk.OctKey.import_key(json.dumps(issuer.key.as_dict(private=False)).encode())
        unsigned = issuer.token(shared, "HS256", aud=AUDIENCE)
    monkeypatch.setattr(issuer, "token", lambda **said: unsigned)
    refused(instance, issuer, "not signed by the issuer")
    assert exchanged(instance, unsigned).status == 401


def test_control_the_same_token_signed_is_taken(instance, issuer):
    """What is refused above is refused for what it is."""
    assert exchanged(instance, issuer.token(aud=AUDIENCE, jti="control")).status == 201


def test_a_state_is_good_once_and_in_one_browser(instance, issuer):
    """The way back again, from another browser, without a cookie, or made up: refused."""
    alice = Browser(instance)
    back = alice.back(alice.leave(), issuer)
    assert alice.arrive(back).status == 200
    again = alice.arrive(back)
    assert again.status == 401
    assert "does not take its code" in plain(again)  # the institution takes a code once
    refused(instance, issuer, "not begun here", cookie=None)
    refused(instance, issuer, "not begun here", cookie=alice.own)
    made_up = Browser(instance)
    made_up.leave()
    found = made_up.arrive("/console/oidc/back?code=x&state=made-up")
    assert "not begun here" in plain(found)


def test_a_code_is_good_once_and_for_its_own_sign_in(instance, issuer):
    """A code that somebody caught does not fit another sign-in: PKCE and the nonce hold it."""
    victim, thief = Browser(instance), Browser(instance)
    caught = parse_qs(urlsplit(victim.back(victim.leave(), issuer)).query)["code"][0]
    state = parse_qs(urlsplit(thief.leave()).query)["state"][0]
    found = thief.arrive(f"/console/oidc/back?code={caught}&state={state}")
    assert found.status == 401
    assert "does not take its code" in plain(found)
    assert thief.cookie is None


def test_a_sign_in_that_took_too_long_is_over(instance, issuer):
    """A state lasts ten minutes."""
    alice = Browser(instance)
    back = alice.back(alice.leave(), issuer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(institution, "BEGUN", timedelta(seconds=-1))
        late = Browser(instance)
        late_back = late.back(late.leave(), issuer)
    assert alice.arrive(back).status == 200
    assert "took too long" in plain(late.arrive(late_back))


def test_a_flood_closes_sign_in_for_nobody_behind_its_address(instance, issuer):
    """Sign-ins that a program begins, and ways back it makes up, refuse no other person's."""
    alice, flood = Browser(instance), Browser(instance)
    back = alice.back(alice.leave(), issuer)
    for _ in range(int(STRANGERS[1] * 1.5)):
        assert flood.get("/console/oidc").status == 303
        assert flood.arrive("/console/oidc/back?code=x&state=y", cookie=None).status == 401
    assert alice.arrive(back).status == 200
    late = Browser(instance)
    assert late.sign_in(issuer).status == 200


def test_a_share_that_a_flood_used_up_keeps_nobody_from_signing_in(instance, issuer, monkeypatch):
    """Other pages refuse an address without processor time left; these two do not."""

    def used_up(self):
        if self.who == "127.0.0.1":
            raise LimitReached("used up.", 1.0)

    monkeypatch.setattr(work_meter.Account, "check", used_up)
    alice = Browser(instance)
    assert alice.get("/console/sign-in").status == 429  # control
    assert alice.sign_in(issuer).status == 200


def test_nothing_is_stored_for_a_sign_in_on_its_way(instance):
    """Every table but the clock is the same after many; another process takes them back."""
    with instance.services() as one, instance.services() as two:
        tables = [row["name"] for row in one.registry.all(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
            "AND name <> 'clock'"
        )]  # fmt: skip

        def content():
            return {t: list(map(tuple, one.registry.all(f"SELECT * FROM {t}"))) for t in tables}

        before = content()
        begun, cookie = one.institution.begin("/console/account")
        for _ in range(100):
            one.institution.begin("/console/account")
        assert content() == before
        assert two.institution.come_back(begun.state, cookie) == begun
        assert begun.onward == "/console/account"
        longest, _ = one.institution.begin("/console/" + "x" * 5_000)
        assert longest.onward == ""


@pytest.mark.parametrize("change", ["cookie", "state", "both", "payload", "", "é"])
def test_a_cookie_that_the_server_did_not_sign_is_refused(instance, change):
    """Another cookie, another state, or a payload of one's own: never parsed."""
    with instance.services() as services:
        begun, cookie = services.institution.begin("/console/account")
        other, other_cookie = services.institution.begin("/console/account")
        payload = base64.urlsafe_b64encode(b'["x", "2999-01-01", "https://evil.example"]').decode()
        state, cookie = {
            "cookie": (begun.state, other_cookie), "state": (other.state, cookie),
            "both": ("x" * 43, "x"), "payload": (begun.state, payload), "": ("", ""),
            "é": ("é", "é"),
        }[change]  # fmt: skip
        with pytest.raises(KeyRefused, match="not begun here"):
            services.institution.come_back(state, cookie)


def test_what_the_institution_sees_does_not_tell_the_verifier(instance):
    """State, nonce, verifier and cookie differ, each of 256 bits, and no two sign-ins share any."""
    with instance.services() as services:
        found = [services.institution.begin("/console/") for _ in range(3)]
    values = [v for b, cookie in found for v in (b.state, b.nonce, b.verifier, cookie)]
    assert len(set(values)) == 12
    assert min(map(len, values)) >= 43


def test_another_issuers_way_back_is_refused(instance, issuer):
    """What stands in `iss` is the issuer's own address (RFC 9207)."""
    alice = Browser(instance)
    back = alice.back(alice.leave(), issuer) + "&iss=https://elsewhere.example"
    assert "another issuer" in plain(alice.arrive(back))


def test_a_session_ends_with_its_hours(instance, issuer):
    """A sign-in is a key for some hours, and worth nothing after them."""
    alice = Browser(instance)
    alice.sign_in(issuer)
    assert alice.get("/console/account").status == 200
    with instance.services() as services, services.registry.writing() as run:
        run("UPDATE keys SET expires = '2020-01-01' WHERE label LIKE 'signed in by%'")
    assert alice.get("/console/account").status == 303
    alice.sign_in(issuer)  # and what was over is forgotten
    with instance.services() as services:
        rows = services.registry.all(
            "SELECT k.id FROM keys k JOIN people p ON p.id = k.person "
            "WHERE k.expires < '2021' AND p.name = 'alice'"
        )
        assert rows == []


@pytest.mark.parametrize(
    "wrong",
    [{"issuer": "https://elsewhere.example"}, {"jwks_uri": "file:///etc/passwd"},
     {"token_endpoint": "http://elsewhere.example/token"}, {"authorization_endpoint": None}],
)  # fmt: skip
def test_an_issuer_that_is_not_itself_is_not_asked(issuer, wrong):
    """A description of another issuer, or of places without TLS, leads nowhere."""
    issuer.description = wrong
    settings = OidcSettings(issuer.url, CLIENT, owners=("heads",))
    with pytest.raises(LimitReached, match="cannot be reached"):
        asyncio.run(Issuer(settings, lambda: datetime.now(UTC)).sign_in_address("", "", "", ""))


def test_without_an_institution_there_is_no_such_door(tmp_path):
    """A server with keys only has neither the button nor the addresses."""
    with made(tmp_path / "instance").serving() as served:
        stranger = PageClient(served)
        assert "institution" not in plain(stranger.get("/console/sign-in"))
        assert stranger.get("/console/oidc").status == 303  # as what is not there
        assert stranger.get("/console/oidc/back?code=x&state=y").status == 303
        assert exchanged(served, "x.y.z").status == 401


# ---- the API ----------------------------------------------------------------------------------


def test_a_token_is_exchanged_for_a_key(instance, issuer):
    """The key is that person's, for some hours; a token is worth one key."""
    issuer.person |= {"sub": "rex", "preferred_username": "rex", "groups": ["research"]}
    token = issuer.token(aud=[AUDIENCE, "others"], typ="at+jwt")
    found = exchanged(instance, token)
    assert found.status == 201, found.body
    key = found.json["access_token"]
    me = instance.call("GET", "/v1/me", None, key).json
    assert (me["name"], me["role"], me["datasets"]) == ("rex", "analyst", ["people"])
    assert instance.ask("secret", key).status == 200
    again = exchanged(instance, token)
    assert again.status == 401
    assert "exchanged already" in again.json["error"]["message"]
    head, body, signed = token.split(".")
    respelled = base64.urlsafe_b64encode(base64.urlsafe_b64decode(signed + "==")).decode()
    assert exchanged(instance, f"{head}.{body}.{respelled}").status == 401


@pytest.mark.parametrize("why", [w for w in WRONG if "sign-in" not in w])
def test_a_wrong_token_is_worth_no_key(instance, issuer, why):
    """The same for the API: wrong times, audience, issuer, key."""
    found = exchanged(instance, issuer.token(**{"aud": AUDIENCE} | WRONG[why]))
    assert found.status == 401
    assert why in found.json["error"]["message"]


def test_a_token_for_the_console_is_none_for_the_api(instance, issuer):
    """Where an audience is named, a token for signing in is not for it."""
    assert exchanged(instance, issuer.token()).status == 401


def test_a_new_key_of_the_issuer_is_fetched(instance, issuer, monkeypatch):
    """Keys change; an unknown one has them fetched again, but not for every stranger's token."""
    from sulq.server.services import oidc

    monkeypatch.setattr(oidc, "AGAIN_SECONDS", 0.0)
    before, issuer.key = issuer.key, jwk.RSAKey.generate_key(2048, {"kid": "next", "use": "sig"})
    try:
        token = issuer.token(kid="next", aud=AUDIENCE, jti="new key")
        assert exchanged(instance, token).status == 201
    finally:
        issuer.key = before
    monkeypatch.setattr(oidc, "AGAIN_SECONDS", 3600.0)
    issuer.fetched.clear()
    for n in range(5):
        assert exchanged(instance, issuer.token(kid=f"made-up-{n}", aud=AUDIENCE)).status == 401
    assert "/keys" not in issuer.fetched
    monkeypatch.setattr(oidc, "AGAIN_SECONDS", 0.0)  # the module's server knows the first again
    assert exchanged(instance, issuer.token(aud=AUDIENCE, jti="first again")).status == 201


# ---- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ['issuer = "http://login.example.org"', 'issuer = "https://u:p@login.example.org"',
     'unknown = "x"', "owners = []\nanalysts = []", "hours = 0", "hours = 10000", 'client_id = ""',
     'owners = "heads"', 'datasets = ["people"]', 'name_claim = "a b"'],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(tmp_path, line):
    """An issuer without TLS, a setting that is not known, nobody who may sign in."""
    usual = {"issuer": '"https://login.example.org"', "client_id": '"sulq"',
             "analysts": '["a"]'}  # fmt: skip
    said = usual | dict(part.split(" = ") for part in line.splitlines())
    text = "\n".join(f"{name} = {value}" for name, value in said.items())
    (tmp_path / "sulq.toml").write_text(f"[server]\n[oidc]\n{text}\n")
    with pytest.raises(Refused, match=r"\[oidc\]"):
        OidcSettings.load(tmp_path)


def test_the_secret_comes_from_the_environment(tmp_path, monkeypatch):
    """It wins over the file, and is never shown."""
    text = '[server]\n[oidc]\nissuer = "https://a.example"\nclient_id = "x"\nowners = ["o"]\n'
    (tmp_path / "sulq.toml").write_text(text)
    monkeypatch.setenv("SULQ_OIDC_CLIENT_SECRET", "quite secret")
    found = OidcSettings.load(tmp_path)
    assert found.client_secret == "quite secret"
    assert "quite secret" not in repr(found)
