"""Takes pictures of the console, from the running product on made-up people.

    python docs/make_screenshots.py [--dark] [--out FOLDER] [page ...]

Wants Debian's chromium. The pictures are docs/pictures/console-PAGE.png and -PAGE-narrow.png.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import struct
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Browser, Page, sync_playwright

from sulq.cli import demo_data
from sulq.server.console.sessions import Sessions
from sulq.server.process import running
from sulq.server.services.context import Services
from sulq.server.services.folder import begin
from sulq.server.services.settings import Settings

PICTURES = Path(__file__).parent / "pictures"
WIDTHS = {"": 1280, "-narrow": 390}
TALLEST = 1700  # pixels of a picture
COLOURS = 256
D = "/console/datasets/people"
QUESTIONS = (
    "select region, count(*), avg(income) from people group by region",
    "select count(*) from people where smoker and disease",
    "select education, count(*) from people where age >= 40 group by education",
    "select avg(age) from people where disease",
)


# ---- an instance with something in it -----------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server with the demo's people, an owner and an analyst; their sign-in links."""
    begin(folder, "anna")
    pq.write_table(demo_data.people(), folder / "data" / "people.parquet")
    pq.write_table(demo_data.people().slice(50_000), folder / "data" / "survey.parquet")
    wide = {f"measurement_{i:03}": pa.array([0.5]) for i in range(200)}
    pq.write_table(pa.table(wide), folder / "data" / "laboratory.parquet")
    settings = Settings.load(folder, port=0)
    services = Services.open(settings)
    try:
        yield from _with(services, settings)
    finally:
        services.close()


def _with(services: Services, settings: Settings) -> Iterator[tuple[str, dict[str, str]]]:
    anna = services.people.owner()
    schema = settings.folder / "people.toml"
    schema.write_text(demo_data.SCHEMA)
    promise = {"epsilon": 1.0, "delta": 1e-6, "queries": 200}
    source = str(settings.folder / "data" / "people.parquet")
    record = services.datasets.create(
        anna, "people", {"source": source, "schema": schema, **promise},
        description="Made-up people of four regions, one row each.",
    )  # fmt: skip
    alice = services.people.add_analyst(anna.tenant, "alice")
    services.people.add_analyst(anna.tenant, "bruno")
    services.people.invite(record.id, alice)
    db = services.datasets.opened(record).db
    db.allot("alice", 100)
    for text in QUESTIONS:
        db.as_analyst("alice").sql(text)
    keys = {p.name: services.people.new_key(p, label="laptop").id for p in (anna, alice)}
    sessions = Sessions(services.registry, services.access)
    with running(settings) as url:
        yield url, {name: sessions.link(key) for name, key in keys.items()}


# ---- pages ----------------------------------------------------------------------------------

Walk = Callable[[Page], None]


def at(path: str) -> Walk:
    """Just look."""
    return lambda page: void(page.goto(path))


def void(_: Any) -> None:
    """Nothing to see."""


def columns(page: Page, file: str = "survey.parquet") -> None:
    """A first draft."""
    page.goto(f"/console/new/columns?source={file}&name=survey")
    page.get_by_role("button", name="On to the promise").wait_for()


def filled(page: Page) -> None:
    """A schema."""
    columns(page)
    page.get_by_role("checkbox", name="key: id").check()
    page.get_by_role("textbox", name="low of age").fill("0")
    page.get_by_role("textbox", name="high of age").fill("120")
    page.get_by_role("combobox", name="type of region").select_option("category")
    page.get_by_role("textbox", name="values of region").fill("north, south, east, west")
    page.get_by_role("checkbox", name="public: region").check()
    page.get_by_role("button", name="Check").click()
    page.get_by_text("This is a schema").wait_for()


def promised(page: Page) -> None:
    """The last step before a dataset is made."""
    filled(page)
    page.get_by_role("button", name="On to the promise").click()
    page.get_by_role("heading", name="The promise of").wait_for()


def audited(page: Page) -> None:
    """The same last step with exact counts or refusals."""
    promised(page)
    page.get_by_role("button", name="Exact counts or refusals").click()
    page.get_by_role("heading", name="The terms").wait_for()


def key(page: Page) -> None:
    """A key, shown once."""
    page.goto("/console/analysts/bruno")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_text("Shown only now").wait_for()


def priced(page: Page) -> None:
    """A price before paying; another question each time, so that it is never free."""
    page.goto(f"{D}/ask")
    age = 30 + page.viewport_size["width"] % 37 if page.viewport_size else 30
    page.get_by_label("One SELECT").fill(
        "select education, count(*), avg(income)\nfrom people\n"
        f"where age >= {age}\ngroup by education"
    )
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name="Ask and pay").wait_for()


def pay(page: Page) -> None:
    """From the price to the answer."""
    page.get_by_role("button", name="Ask and pay").click()
    page.wait_for_url("**/asked/*")


def answered(page: Page) -> None:
    """An answer with its chart."""
    priced(page)
    pay(page)


DEFINED = "def at_risk(age, smoker):\n    return age >= {} and smoker\n"


def defined(page: Page, text: str = DEFINED) -> None:
    """A SELECT with a function of a row beside it, priced."""
    page.goto(f"{D}/ask")
    page.get_by_text("written in Python").click()
    age = 40 + page.viewport_size["width"] % 37 if page.viewport_size else 40
    page.get_by_label("Functions", exact=True).fill(text.format(age))
    page.get_by_label("One SELECT").fill("select count(*) from people where at_risk(age, smoker)")
    page.get_by_role("button", name="See the price").click()
    page.locator("#price, .notice.bad").first.wait_for()


def single(page: Page) -> None:
    """One number."""
    defined(page)
    pay(page)


def menu(page: Page) -> None:
    """The files of an answer."""
    crossed(page)
    page.get_by_text("Download", exact=True).click()


def on_a_board(page: Page) -> None:
    """The form that puts an answer on a board."""
    crossed(page)
    page.get_by_text("Add to board", exact=True).click()


def sending(page: Page) -> None:
    """A file on its way."""
    page.goto("/console/new")
    page.route("**/console/new/upload", lambda _: None)  # it never arrives
    rows = {"name": "visits.csv", "mimeType": "text/csv", "buffer": b"age,city\n" * 400_000}
    page.get_by_label("CSV or Parquet").set_input_files(rows)
    page.get_by_role("button", name="Upload").click()
    page.get_by_role("button", name="Stop").wait_for()


def revoking(page: Page) -> None:
    """Whether a key is to end."""
    page.goto("/console/analysts/alice")
    page.get_by_role("link", name="Revoke").first.click()
    page.get_by_role("heading", name="Revoke this key?").wait_for()


def charged(page: Page) -> None:
    """What another tool asked."""
    page.goto(f"{D}/answers")
    page.get_by_role("link", name="sum(income) by region").click()
    page.get_by_role("heading", name="Answer").wait_for()


def drawn(page: Page) -> None:
    """A histogram on its axis."""
    page.goto(f"{D}/guided?kind=histogram")
    page.get_by_label("Counts by").select_option("age")
    page.get_by_label("Bins").fill("24")
    page.get_by_role("button", name="See the price").click()
    pay(page)


def crossed(page: Page) -> None:
    """A matrix of two columns."""
    page.goto(f"{D}/guided?kind=crosstab")
    page.get_by_label("Counts by").select_option("education")
    page.get_by_label("and by").select_option("region")
    page.get_by_role("button", name="See the price").click()
    pay(page)


def boarded(page: Page) -> None:
    """Two answers on a board; made once, looked at twice."""
    page.goto(f"{D}/boards")
    if not page.get_by_role("link", name="My board").count():
        for walk, title in ((drawn, "Ages"), (crossed, "Education by region")):
            walk(page)
            page.get_by_text("Add to board").click()
            page.get_by_label("Called").fill(title)
            page.get_by_role("button", name="Put it there").click()
            page.wait_for_url("**/boards/*")
        page.goto(f"{D}/boards")
    page.get_by_role("link", name="My board").first.click()
    page.get_by_role("heading", name="This board").wait_for()


def rehearsed(page: Page) -> None:
    """A question tried on made-up rows."""
    page.goto(f"{D}/rehearse")
    page.get_by_label("One SELECT").fill("select sex, count(*) from people group by sex")
    page.get_by_role("button", name="Rehearse").click()
    page.get_by_role("img").first.wait_for()


def learned(page: Page, kind: str, columns: list[str], label: str = "") -> None:
    """A model with its pictures; learned once, looked at twice."""
    page.goto(f"{D}/models")
    title = {"PCA": "Principal components", "KMeans": "k-means", "ID3": "Decision tree"}
    known = page.locator("main a[href*='/models/']:not([href*='/new/'])").filter(
        has_text=title.get(kind, "Linear regression")
    )
    if known.count():
        known.first.click()
    else:
        page.goto(f"{D}/models/new/{kind}")
        if label:
            page.get_by_label("Predict").select_option(label)
        for name in columns:
            page.get_by_label(name, exact=True).check()
        page.get_by_role("button", name="See the price").click()
        page.get_by_role("button", name="Learn and pay").click()
    page.get_by_role("heading", name="What it learned").wait_for()


OWNER: dict[str, Walk] = {
    "home": at("/console/"),
    "plan": at("/console/plan?epsilon=1&queries=200&rows=200000"),
    "new": at("/console/new"),
    "upload": sending,
    "columns": filled,
    "columns-wide": lambda page: columns(page, "laboratory.parquet"),
    "promise": promised,
    "audited": audited,
    "analysts": at("/console/analysts"),
    "analyst": at("/console/analysts/alice"),
    "key": key,
    "revoke": revoking,
    "server": at("/console/server"),
    "owner": at(f"{D}/owner"),
    "people": at(f"{D}/people"),
    "uninvite": at(f"{D}/people/uninvite?analyst=alice"),
    "timeline": at(f"{D}/timeline"),
    "schema": at(f"{D}/schema"),
    "report": at(f"{D}/report"),
    "close": at(f"{D}/owner/close"),
}
ANALYST: dict[str, Walk] = {
    "datasets": at("/console/"),
    "dataset": at(D),
    "ask": at(f"{D}/ask"),
    "price": priced,
    "answer": answered,
    "function": defined,
    "function-refused": lambda page: defined(page, "def at_risk(age):\n    while age:\n"),
    "single": single,
    "histogram": drawn,
    "crosstab": crossed,
    "menu": menu,
    "board-form": on_a_board,
    "board": boarded,
    "boards": at(f"{D}/boards"),
    "guided": at(f"{D}/guided"),
    "rehearse": rehearsed,
    "answers": at(f"{D}/answers"),
    "charge": charged,
    "model-form": at(f"{D}/models/new/KMeans"),
    "pca": lambda page: learned(page, "PCA", ["age", "income"]),
    "kmeans": lambda page: learned(page, "KMeans", ["age", "income"]),
    "tree": lambda page: learned(page, "ID3", ["age", "education", "smoker"], "disease"),
    "regression": lambda page: learned(page, "LinearRegression", ["age", "smoker"], "income"),
    "models": at(f"{D}/models"),
    "account": at("/console/account"),
    "replace": at("/console/account/replace"),
    "missing": at("/console/datasets/nobody"),
    "not-permitted": at(f"{D}/owner"),
}
SIGNED_OUT: dict[str, Walk] = {
    "sign-in": at("/console/sign-in"),
    "enter": at("/console/enter/some-token"),
    "reference": at("/console/reference"),
}


# ---- pictures -------------------------------------------------------------------------------


def take(browser: Browser, url: str, links: dict[str, str], said: argparse.Namespace) -> None:
    """Every page at both widths."""
    for ending, width in WIDTHS.items():
        for who, walks in (("", SIGNED_OUT), ("anna", OWNER), ("alice", ANALYST)):
            context = browser.new_context(
                base_url=url, viewport={"width": width, "height": 800},
                color_scheme="dark" if said.dark else "light", reduced_motion="reduce",
                storage_state=said.state.get(who),
            )  # fmt: skip
            page = context.new_page()
            if who and who not in said.state:
                page.goto(links[who])
                page.get_by_role("button", name="Sign in").click()
                page.wait_for_url("**/console/")
                said.state[who] = context.storage_state()
            if who == "anna":
                seen(page)
            for name, walk in walks.items():
                if said.pages and name not in said.pages:
                    continue
                walk(page)
                shot(page, said.out / f"console-{name}{ending}.png", width)
            context.close()


def seen(page: Page) -> None:
    """Put aside what a busy machine was late with: it is no part of the pages."""
    page.goto("/console/server")
    marking = page.get_by_role("button", name="Mark all as seen")
    if marking.count():
        marking.click()


def shot(page: Page, path: Path, width: int) -> None:
    """One picture, with few colours so that it is small."""
    height = page.evaluate("document.documentElement.scrollHeight")
    size = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST)}
    raw = page.screenshot(full_page=True, clip=size)
    path.write_bytes(_small(page.context.browser, raw))
    print(f"{path.name}: {path.stat().st_size // 1024} KB")


REDUCE = """async ([data, most]) => {
  const picture = await createImageBitmap(await (await fetch(data)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const paper = canvas.getContext("2d");
  paper.drawImage(picture, 0, 0);
  const seen = new Uint32Array(paper.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  const counts = new Map();
  for (const c of seen) counts.set(c, (counts.get(c) || 0) + 1);
  const kept = [...counts].sort((a, b) => b[1] - a[1]).slice(0, most).map((x) => x[0]);
  const parts = (c) => [c & 255, (c >> 8) & 255, (c >> 16) & 255];
  const nearest = new Map();
  const near = (c) => {
    const [r, g, b] = parts(c);
    let best = 0, least = Infinity;
    kept.forEach((k, i) => {
      const [x, y, z] = parts(k), far = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (far < least) { least = far; best = i; }
    });
    return best;
  };
  const out = new Uint8Array(seen.length);
  for (let i = 0; i < seen.length; i++) {
    let found = nearest.get(seen[i]);
    if (found === undefined) nearest.set(seen[i], found = near(seen[i]));
    out[i] = found;
  }
  let text = "";
  for (let i = 0; i < out.length; i += 32768) {
    text += String.fromCharCode(...out.subarray(i, i + 32768));
  }
  return [canvas.width, canvas.height, kept.map(parts), btoa(text)];
}"""


def _small(browser: Browser | None, raw: bytes) -> bytes:
    """The same picture with a palette: the commonest colours, others as the nearest of them."""
    assert browser is not None
    page = browser.new_page()
    data = f"data:image/png;base64,{base64.b64encode(raw).decode()}"
    width, height, palette, text = page.evaluate(REDUCE, [data, COLOURS])
    page.close()
    places = base64.b64decode(text)
    lines = b"".join(b"\0" + places[y * width : (y + 1) * width] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = bytes(x for colour in palette for x in colour)
    chunks = (
        (b"IHDR", head),
        (b"PLTE", colours),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def gallery() -> str:
    """A page with all of them."""
    head = (
        "# The console in pictures\n\n"
        "<!-- Written by docs/make_screenshots.py. Do not edit. -->\n\n"
        "Every page, wide and narrow, on made-up people. [The console](../howto/console.md) says "
        "what each is for.\n"
    )
    parts = [head]
    for title, walks in (
        ("Before signing in", SIGNED_OUT),
        ("For analysts", ANALYST),
        ("For owners", OWNER),
    ):
        parts.append(f"## {title}\n\n| | wide | narrow |\n|---|---|---|")
        for name in walks:
            said = name.replace("-", " ")
            wide, narrow = (f"![{said}](console-{name}{ending}.png)" for ending in WIDTHS)
            parts.append(f"| {said} | {wide} | {narrow} |")
        parts.append("")
    return "\n".join(parts)


def main() -> int:
    """Take them all, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--out", type=Path, default=PICTURES)
    said = parser.parse_args()
    said.state = {}
    said.out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium here: apt-get install chromium", file=sys.stderr)
        return 1
    warnings.simplefilter("ignore")
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "instance") as (url, links),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take(browser, url, links, said)
        browser.close()
    if said.out == PICTURES:
        (PICTURES / "README.md").write_text(gallery(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
