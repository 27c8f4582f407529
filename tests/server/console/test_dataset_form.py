"""Making a dataset: a file sent from the browser, types guessed, many columns at once."""

import html
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect
from server.console.page_client import PageClient, plain, text
from server.instance import call

import sulq
from sulq.server.api import dependencies
from sulq.server.console.forms import Form
from sulq.server.console.schema_form import Field, Typed, check, declared, packed, said, typed
from sulq.server.console.schema_view import changed, view_of

ROWS = "age,city,born,note\n34,Rome,1990-02-01,x\n51,Oslo,1973-11-30,\n"
MARK = "----some-mark-7"


def sent(anna, name, body, csrf="own", mark=MARK, **headers):
    """A file as a browser sends it in a form."""
    token = anna.token() if csrf == "own" else csrf
    parts = (
        f'--{MARK}\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{token}\r\n'
        f'--{MARK}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: text/csv\r\n\r\n"
    ).encode() + (body if isinstance(body, bytes) else body.encode())
    headers = {"Cookie": anna.cookie or "", "Origin": anna.instance.url} | headers
    headers["Content-Type"] = f"multipart/form-data; boundary={mark}"
    whole = parts + f"\r\n--{MARK}--\r\n".encode()
    return call(anna.instance.url, "POST", "/console/new/upload", whole, **headers)


def test_a_file_goes_into_the_owners_folder(visit, instance):
    """Byte for byte, marks inside it included, under a plain name; then its columns are drafted."""
    anna = visit("anna")
    odd = ROWS.encode() + b"1,\r\n--,2000-01-01,\r\n----some-mark-\r\n" + b"7,a,,\n" * 100_000
    found = sent(anna, "C:\\\\data\\\\My rows (März).CSV", odd)
    assert found.status == 303
    onward = found.headers["location"]
    assert onward == "/console/new/columns?source=anna%2FMy-rows--M-rz.csv"
    assert (instance.folder / "data" / "anna" / "My-rows--M-rz.csv").read_bytes() == odd
    page = anna.get(onward)
    assert page.status == 200
    assert "types are guessed" in plain(page)
    assert 'value="My-rows--M-rz"' in text(page)


def test_types_are_guessed_and_nothing_is_complained_of_yet(visit):
    """integer, text and date, none of the values, and no complaint before something was typed."""
    anna = visit("anna")
    page = anna.get(sent(anna, "guess.csv", ROWS).headers["location"])
    chosen = re.findall(r"<option[^>]*selected>(\w+)", text(page))
    assert chosen == ["integer", "text", "date", "text"]
    for value in ("Rome", "1990", "Oslo", "34"):
        assert value not in plain(page)
    assert "to mend first" not in plain(page)


def test_a_forged_or_foreign_upload_is_refused(visit, instance):
    """Without the token, from elsewhere, by an analyst, or as another kind of form."""
    anna, bob = visit("anna"), visit("bob")
    before = sorted(instance.folder.rglob("data/**/*"))
    tries = [
        sent(anna, "forged.csv", ROWS, csrf=""), sent(anna, "forged.csv", ROWS, csrf=bob.token()),
        sent(anna, "forged.csv", ROWS, Origin="https://evil.example"),
        sent(anna, "forged.csv", ROWS, Sec_Fetch_Site="cross-site"), sent(bob, "forged.csv", ROWS),
    ]  # fmt: skip
    assert {found.status for found in tries} == {403}
    assert sent(anna, "forged.csv", ROWS, mark="another").status == 422
    assert sent(anna, "", ROWS).status == 422
    assert sent(anna, "forged.exe", ROWS).status == 422
    assert sorted(instance.folder.rglob("data/**/*")) == before
    assert (
        sent(PageClient(instance), "forged.csv", ROWS, csrf="x")
        .headers["location"]
        .startswith("/console/sign-in")
    )


def test_a_file_that_is_refused_is_said_on_the_page(visit):
    """The same name again: the page says so, and offers the form anew."""
    anna = visit("anna")
    assert sent(anna, "twice.csv", ROWS).status == 303
    found = sent(anna, "twice.csv", ROWS)
    assert found.status == 409
    assert "is there already" in plain(found)
    assert 'type="file"' in text(found)


# ---- many columns ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(instance):
    names = [f"a_rather_long_name_of_a_measurement_{i:03}" for i in range(998)]
    rows = {"age": [3], "city": ["Rome"]} | {n: [0.5] for n in names}
    pq.write_table(pa.table(rows), instance.folder / "data" / "very-wide.parquet")
    return names


def fields_of(page):
    """What a browser would send of a page: fields, boxes that are ticked, choices."""
    found = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text(page)))
    found |= dict(re.findall(r'<input name="([^"]+)"[^>]* value="([^"]*)"', text(page)))
    for name, options in re.findall(r'<select name="(t\d+)".*?>(.*?)</select>', text(page), re.S):
        chosen = re.search(r"<option[^>]*selected>([^<]*)", options)
        found[name] = chosen[1] if chosen else ""
    for name in re.findall(r'<input type="checkbox" name="([^"]+)"[^>]*checked', text(page)):
        found[name] = "on"
    found["name"] = re.search(r'name="name" type="text" value="([^"]*)"', text(page))[1]
    return {name: html.unescape(value) for name, value in found.items() if name != "csrf"}


def test_a_thousand_columns_are_found_set_and_weigh_little(visit, wide):
    """Pages of 50, a filter, one change for 998 of them, all of them kept up to the promise."""
    anna = visit("anna")
    page = anna.get("/console/new/columns?source=very-wide.parquet")
    assert len(page.body) < 150_000
    assert "1 to 50 below" in plain(page)
    bulk = {"find": "measurement", "set_low": "0", "set_high": "10", "set_full": "yes"}
    page = anna.post("/console/new/columns", fields_of(page) | bulk | {"bulk": "yes"})
    assert "998 of 1,000 columns" in plain(page)
    assert "Set for 998." in plain(page)
    assert len(page.body) < 150_000
    page = anna.post("/console/new/columns", fields_of(page) | {"find": "city", "show": "yes"})
    assert "1 of 1,000 columns" in plain(page)
    only = fields_of(page) | {"t1": "text", "m1": "40", "onward": "yes"}
    page = anna.post("/console/new/columns", only)
    assert "The promise of very- wide" in plain(page)
    kept = said(typed(Form(list(fields_of_hidden(page).items()))))["columns"]
    assert kept["city"] == {"type": "text", "max_length": 40}
    assert kept["age"] == {"type": "integer"}
    assert kept[wide[-1]] == {"type": "number", "low": 0.0, "high": 10.0, "nullable": False}
    assert len(kept) == 1000


def fields_of_hidden(page):
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text(page))
    return {name: html.unescape(value) for name, value in found}


def test_what_is_packed_is_unpacked_as_it_was():
    """Names with commas, quotes, line ends and letters of any kind; every setting."""
    fields = (
        Field('a "b", c', "category", values='x, "y, z"', public=True, stored="text"),
        Field("größe\nin m", "number", "0", "2.5", full=True, bins="1, 2"),
        Field("", key=True), Field("note", "text", longest="40"),
    )  # fmt: skip
    filled = Typed(fields)
    form = Form([("columns", "4"), ("rest", packed(filled))])
    assert typed(form) == filled
    assert typed(Form([("columns", "2"), ("rest", 'x"\n"')])).fields == (Field(""), Field(""))


def test_how_long_a_text_may_be_goes_through_the_form():
    """`max_length` that was declared is shown, sent and declared again."""
    spec = {"columns": {"note": {"type": "text", "max_length": 40}, "b": {"type": "boolean"}}}
    filled = declared(spec)
    assert filled.fields[0].longest == "40"
    assert said(filled) == spec
    assert said(typed(Form([("columns", "2"), ("rest", packed(filled))]))) == spec


def test_a_change_for_several_columns_leaves_the_others():
    """By name and by type, as what is looked for says."""
    filled = Typed((Field("a1", "integer"), Field("a2"), Field("b1", "integer", low="3")))
    form = Form([("find", "A"), ("find_type", "integer"), ("set_low", "0"), ("set_public", "yes")])
    assert view_of(filled, form).matching == [0]
    found, many = changed(filled, form)
    assert many == 1
    expected = (Field("a1", "integer", low="0", public=True), *filled.fields[1:])
    assert found.fields == expected


# ---- in a browser ------------------------------------------------------------------------------


def test_complaints_come_for_what_was_typed(sit, visit):
    """Of a draft with columns to choose only the one that was come to is complained of."""
    anna = visit("anna")
    empty = "one,two,three\n,,\n"
    place = sent(anna, "empty.csv", empty).headers["location"]
    page = sit("anna", path=place)
    found = page.get_by_label("What a check finds")
    expect(found).to_contain_text("as you type")
    page.get_by_role("combobox", name="type of one").select_option("category")
    expect(found).to_contain_text("1 thing to mend first")
    expect(found).to_contain_text("2 more columns want something")
    page.get_by_role("textbox", name="values of one").fill("a, b")
    expect(found).to_contain_text("So far so good.")
    page.get_by_role("button", name="Check").first.click()
    expect(page.get_by_label("What a check finds")).to_contain_text("2 things to mend first")


def test_a_form_loses_nothing_that_it_has_no_fields_for():
    """Several tables, periods, max_periods and lookups come back as they were."""
    from engines import star_statements
    from sql.joined_tables import shop

    lookups = {"of": {"on": "month", "rows": [{"month": "a", "x": 1}, {"month": "b", "x": 2}]}}
    monthly = {
        "columns": {
            "id": {"key": True}, "who": {"type": "integer"},
            "month": {"values": ["a", "b"], "public": True}, "sick": {"type": "boolean"},
        },
        "period": {"column": "month"}, "lookups": lookups,
        "unit": {"column": "who", "max_rows": 2, "max_periods": 1},
    }  # fmt: skip
    for body in (star_statements.SCHEMA, shop()[1], monthly):
        there = sulq.Schema.load(body)
        filled = declared(there.to_json())
        assert filled.fields
        assert not check(filled).wrong
        assert sulq.Schema.load(said(filled)).digest == there.digest
        assert said(replace(filled, more="[1"))  # changed on the way: refused or plain


def test_the_examples_of_several_tables_are_questions_to_them(tmp_path):
    """Each has a price; the columns beside them are those of the tables, not how these are read."""
    from engines import star_statements

    from sulq.server.console.question_form import examples, tables

    rows = star_statements.tables_of(star_statements.rows_of(1))
    db = sulq.open(
        rows, star_statements.SCHEMA, epsilon=1.0, delta=1e-6, queries=100,
        ledger=tmp_path / "ledger",
    )  # fmt: skip
    with db:
        asked = examples("clinic", db.schema)
        assert len(asked) == 6
        assert [db.price(sql).micro for _, sql, _ in asked]
        shown = tables("clinic", db.schema)
    names = {(table, column.name) for table, _, columns in shown for column in columns}
    assert {("people", "age"), ("visits", "patient"), ("visits", "sev"), ("orders", "paid")} < names
    assert not any(name.startswith("sulq_") for _, name in names)


def test_a_schema_over_http_reads_no_file(tmp_path):
    """A lookup table's file would be anybody's on the server; rows are taken."""
    (tmp_path / "other.csv").write_text("region,secret\nnorth,1\n")
    table = {"on": "region", "file": str(tmp_path / "other.csv")}
    body = {"columns": {"region": {"values": ["north"]}}, "lookups": {"t": table}}
    toml = (
        f'[columns.region]\nvalues = ["north"]\n[lookups.t]\non = "region"\nfile = "{tmp_path}"\n'
    )
    for given in (body, toml):
        with pytest.raises(sulq.SchemaError, match="and no file"):
            dependencies.declared(given)
    assert dependencies.declared(
        body | {"lookups": {"t": {"on": "region", "rows": [{"region": "north"}]}}}
    )
