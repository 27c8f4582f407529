"""What owners and analysts come for, done in a browser: wide and narrow, light and dark.

Every page on the way is looked at: nothing that axe finds, nothing wider than the screen, at most
200 KB.
"""

import re
from random import Random

import pytest
from playwright.sync_api import expect
from server.console.browser import SECONDS
from server.console.test_looks import HEAVIEST, axe_source
from soak import some

LOOKS = some([(1280, "light"), (1280, "dark"), (390, "dark"), (390, "light")], 2)
ASSETS = 52_000  # bytes of stylesheet, script and icon
KINDS = [f"kind {i:02} of something" for i in range(60)]


def rows(seed):
    """A survey as a spreadsheet saves it: numbers, a choice of 60 kinds, a date, yes and no."""
    luck, lines = Random(seed), ["age;income;kind;joined;smoker"]
    for _ in range(3000):
        age = luck.randint(18, 90)
        lines.append(f"{age};{age * 700 + luck.randint(0, 9000)}.5;{luck.choice(KINDS)};"
                     f"20{luck.randint(10, 25)}-0{luck.randint(1, 9)}-1{luck.randint(0, 9)};"
                     f"{luck.choice(['true', 'false'])}")  # fmt: skip
    return "\n".join(lines) + "\n"


class Looking:
    """A page that is looked at wherever one comes to."""

    def __init__(self, browser, url, width, scheme, source):
        self.context = browser.new_context(
            base_url=url, color_scheme=scheme, viewport={"width": width, "height": 844}
        )
        self.context.set_default_timeout(1000 * SECONDS)
        self.page, self.width, self.source = self.context.new_page(), width, source
        self.wrong, self.seen = [], set()

    def look(self, name):
        """Everything about the page that can be seen, under a name of its own."""
        page = self.page
        page.evaluate(self.source)
        run = "(rules) => axe.run(document, rules).then((found) => found.violations)"
        found = page.evaluate(run, {"resultTypes": ["violations"]})
        bad = [(v["id"], [n["html"][:90] for n in v["nodes"][:2]]) for v in found
               if v["impact"] in ("serious", "critical")]  # fmt: skip
        wide = page.evaluate("document.documentElement.scrollWidth")
        weight = len(page.content().encode()) + ASSETS
        self.wrong += [(name, *each) for each in bad]
        self.wrong += [(name, "wide", wide)] if wide > self.width else []
        self.wrong += [(name, "heavy", weight)] if weight > HEAVIEST else []
        self.seen.add(name)


def sign_in(looking, key):
    page = looking.page
    page.goto("/console/sign-in")
    looking.look("sign in")
    page.get_by_label("Your key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/")
    looking.look("datasets")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_jobs_of_an_owner_and_an_analyst(browser, instance, width, scheme):
    """Upload, promise, invite, allot; ask, draw, change, share, put on a board, learn."""
    name, who = f"survey-{width}-{scheme}", f"zoe-{width}-{scheme}"
    source = axe_source()
    owner = Looking(browser, instance.url, width, scheme, source)
    sign_in(owner, instance.keys["anna"])
    uploaded(owner, name)
    promised(owner, name)
    key = invited(owner, name, who)
    analyst = Looking(browser, instance.url, width, scheme, source)
    sign_in(analyst, key)
    asked(analyst, name)
    boarded(analyst)
    learned(analyst, name)
    read(owner, name)
    owner.context.close()
    analyst.context.close()
    assert owner.wrong + analyst.wrong == []
    assert len(owner.seen | analyst.seen) == 18


def uploaded(looking, name):
    """A file from the browser; its columns declared."""
    page = looking.page
    page.get_by_role("link", name="New dataset").click()
    looking.look("rows")
    file = {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": rows(name).encode()}
    page.get_by_label("CSV or Parquet").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="Columns of")).to_be_visible()
    for column, kind in (("age", "integer"), ("income", "number"), ("joined", "date"),
                         ("smoker", "boolean"), ("kind", "text")):  # fmt: skip
        expect(page.get_by_role("combobox", name=f"type of {column}")).to_have_value(kind)
    looking.look("columns")
    for column, (low, high) in {"age": ("0", "120"), "income": ("0", "100000"),
                                "joined": ("2000-01-01", "2030-12-31")}.items():  # fmt: skip
        page.get_by_role("textbox", name=f"low of {column}").fill(low)
        page.get_by_role("textbox", name=f"high of {column}").fill(high)
    page.get_by_role("combobox", name="type of kind").select_option("category")
    page.get_by_role("textbox", name="values of kind").fill(", ".join(KINDS))
    expect(page.get_by_text("This is a schema: 5 columns.")).to_be_visible()
    page.get_by_label("Description").fill("Made-up people of 60 kinds.")
    page.get_by_role("button", name="On to the promise").click()


def promised(looking, name):
    """How much may be learned; then it is there."""
    page = looking.page
    expect(page.get_by_role("heading", name="The promise of")).to_be_visible()
    page.get_by_label("T, queries in all").first.fill("400")
    expect(page.locator("caption")).to_contain_text("with T = 400")
    looking.look("promise")
    page.get_by_role("button", name="Make the dataset").click()
    expect(page.get_by_text("The dataset is made")).to_be_visible()
    looking.look("access, empty")


def invited(looking, name, who):
    """A new analyst, their key, and the most they may spend."""
    page = looking.page
    page.get_by_role("link", name="A new analyst, with a key").click()
    page.get_by_label("Name", exact=True).fill(who)
    page.get_by_label(name).first.check()
    looking.look("analysts")
    page.get_by_role("button", name="Add, with a key").click()
    expect(page.get_by_text("What it opens")).to_be_visible()
    looking.look("key")
    key = page.locator("#key").inner_text()
    page.goto(f"/console/datasets/{name}/people")
    page.get_by_label("At most, in queries").fill("300")
    page.get_by_role("button", name="Allot").click()
    expect(page.get_by_text("300 of 300 queries left")).to_be_visible()
    looking.look("access")
    return key


def asked(looking, name):
    """A question with its price, its chart, and the same question changed in place."""
    page = looking.page
    page.get_by_role("link", name=re.compile(name.replace("-", ".*"))).first.click()
    looking.look("overview")
    page.get_by_role("link", name="Ask", exact=True).click()
    box = page.get_by_label("One SELECT")
    box.fill(f'select kind, count(*) from "{name}" group by kind')
    box.press("Escape")
    pay = page.get_by_role("button", name="Ask and pay")
    expect(pay).to_be_visible()
    looking.look("price")
    pay.click()
    page.wait_for_url("**/asked/*")
    expect(page.get_by_role("img").locator("visible=true").first).to_be_visible()
    looking.look("answer of 60 kinds")
    if looking.width < 700:
        page.get_by_text("Change the question").click()
    box = page.get_by_label("One SELECT")
    box.fill(f'select smoker, avg(income) from "{name}" group by smoker')
    box.press("Escape")
    pay = page.get_by_role("button", name="Ask and pay")
    expect(pay).to_be_visible()
    pay.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("avg(income)")
    looking.look("changed")
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_text("Shared: everybody")).to_be_visible()
    looking.look("shared")


def boarded(looking):
    """The answer on a board."""
    page = looking.page
    page.get_by_text("Add to board").click()
    page.get_by_label("Called").fill("Income")
    page.get_by_role("button", name="Put it there").click()
    page.wait_for_url("**/boards/*")
    expect(page.get_by_role("heading", name="Income")).to_be_visible()
    looking.look("board")


def learned(looking, name):
    """A line through income and age."""
    page = looking.page
    page.goto(f"/console/datasets/{name}/models/new/LinearRegression")
    page.get_by_label("Predict").select_option("income")
    page.get_by_label("age", exact=True).check()
    looking.look("model, to fill in")
    page.get_by_role("button", name="See the price").click()
    page.get_by_role("button", name="Learn and pay").click()
    expect(page.get_by_role("heading", name="What it learned")).to_be_visible()
    looking.look("model")


def read(looking, name):
    """What happened, as the owner sees it."""
    page = looking.page
    page.goto(f"/console/datasets/{name}/timeline")
    expect(page.get_by_text("was invited by anna")).to_be_visible()
    looking.look("timeline")
