"""An issuer of OpenID Connect for the tests: its description, its keys, codes for tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

CLIENT, SECRET, AUDIENCE = "sulq", "a secret of the client", "sulq-api"


class Issuer:
    """Signs in whoever is `person`; `wrong` changes what its next token says."""

    def __init__(self):
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.person = {"sub": "subject-1", "preferred_username": "alice", "groups": ["analysts"]}
        self.wrong = {}
        self.codes = {}
        self.url = ""
        self.description = {}  # what it says of itself in another way than it should
        self.fetched = []

    # ---- tokens ----

    def claims(self, **said):
        now = int(time.time())
        usual = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300}
        found = usual | self.person | said
        return {name: value for name, value in found.items() if value is not None}

    def token(self, key=None, alg="RS256", kid="one", typ="JWT", **said):
        header = {"alg": alg, "kid": kid, "typ": typ}
        return jwt.encode(header, self.claims(**said), key or self.key, algorithms=[alg])

    def unsigned(self, alg="none", **said):
        """A token that nobody signed."""
        return f"{_text({'alg': alg, 'typ': 'JWT'})}.{_text(self.claims(**said))}."

    # ---- over HTTP ----

    def described(self):
        ends = {"authorization_endpoint": "/authorize", "token_endpoint": "/token",
                "jwks_uri": "/keys"}  # fmt: skip
        said = {name: self.url + path for name, path in ends.items()}
        return {"issuer": self.url} | said | self.description

    def authorize(self, asked):
        """As if the person had typed their password: the way back, with a code."""
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def redeem(self, form, authorization):
        """A token for a code: once, for the client, its address and its PKCE verifier."""
        begun = self.codes.pop(form.get("code"), None)
        pair = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '%20')}".encode()).decode()
        if begun is None or authorization != f"Basic {pair}":
            return 400, {"error": "invalid_grant"}
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        if begun["code_challenge_method"] != "S256" or begun["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        if form.get("redirect_uri") != begun["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        said = {"nonce": begun["nonce"]} | self.wrong
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.token(**said)}


def _text(said):
    return base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()


@contextmanager
def issuing():
    """An issuer at an address of this machine."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            issuer.fetched.append(parts.path)
            if parts.path == "/authorize":
                asked = {k: v[0] for k, v in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("location", issuer.authorize(asked))
                self.end_headers()
            elif parts.path == "/keys":
                self.say(200, {"keys": [issuer.key.as_dict(private=False)]})
            else:
                self.say(200, issuer.described())

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {k: v[0] for k, v in parse_qs(body).items()}
            self.say(*issuer.redeem(form, self.headers.get("authorization")))

        def say(self, status, body):
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *said):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    issuer.url = f"http://localhost:{server.server_port}"  # another site than 127.0.0.1
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()


def settings_of(issuer, **said):
    """[oidc] for a server's sulq.toml."""
    usual = {"issuer": issuer.url, "client_id": CLIENT, "client_secret": SECRET,
             "audience": AUDIENCE, "owner": "anna", "owners": ["heads"],
             "analysts": ["analysts", "research"]}  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in (usual | said).items()]
    return "\n".join(["", "[oidc]", *lines, "[oidc.datasets]", 'research = ["people"]', ""])
