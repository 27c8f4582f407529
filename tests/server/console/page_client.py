"""Pages without a browser: a cookie, a token, forms. Much faster, for what needs no script."""

import html
import re
from urllib.parse import urlencode

from server.instance import call

FORM = "application/x-www-form-urlencoded"


class PageClient:
    """Someone who signed in with their key."""

    def __init__(self, instance, who=None):
        self.instance = instance
        self.cookie = None
        if who is not None:
            found = self.post("/console/sign-in", {"key": instance.keys[who]}, csrf=None)
            assert found.status == 303, found.body
            self.cookie = found.headers["set-cookie"].split(";")[0]

    def _headers(self, more):
        headers = {"Cookie": self.cookie} if self.cookie else {}
        return headers | {k: v for k, v in more.items() if v is not None}

    def get(self, path, **headers):
        return call(self.instance.url, "GET", path, **self._headers(headers))

    def post(self, path, fields=(), csrf="own", **headers):
        """Send a form as a page of the console would; csrf=None leaves the token out."""
        pairs = list(fields.items()) if isinstance(fields, dict) else list(fields)
        if csrf == "own":
            csrf = self.token()
        if csrf is not None:
            pairs.append(("csrf", csrf))
        said = {"Origin": self.instance.url, "Content_Type": FORM} | headers
        body = urlencode(pairs).encode()
        return call(self.instance.url, "POST", path, body, **self._headers(said))

    def token(self):
        return re.search(r'name="csrf" value="([0-9a-f]+)"', text(self.get("/console/")))[1]


def text(reply):
    """The page as text, entities and all."""
    return reply.body.decode()


def plain(reply):
    """What a person reads, without tags."""
    bare = re.sub(r"<(script|style|title)\b.*?</\1>", " ", text(reply), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", bare)).split())


def hidden(reply, name):
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', text(reply))
    return html.unescape(found[1])
