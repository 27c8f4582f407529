"""Ledger -> the page an owner shows a reviewer: what was promised, asked and spent.

Made from the ledger alone. Nothing computed from rows is in it but the noisy answers that
were already given, and those only if asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sulq.audit.promise import AuditPromise
from sulq.errors import SulqError, in_queries
from sulq.expressions.stored_tree import dumps
from sulq.ledger.older_text import question_of
from sulq.ledger.open_periods import schema_of
from sulq.privacy.pricing import tariff_of
from sulq.privacy.promise import Promise
from sulq.questions.check import OLDER_FORM, check
from sulq.questions.describe import parts_of, query_of, readable
from sulq.questions.discovery import Discovery
from sulq.questions.discovery_threshold import ready
from sulq.questions.question import Bundle
from sulq.values.counted_rows import RowCount, StoredRows
from sulq.values.number_text import with_error
from sulq.values.safe_text import markdown_text, one_line
from sulq.values.schema import OTHER, Schema

if TYPE_CHECKING:
    from sulq.database import Database
    from sulq.ledger import Freeze, Head, Ledger

FEW = 100  # cells of one answer written out on the page; all of them are in the JSON
CARRIED = {
    "highest": "every cell carries the highest spending of any",
    "kept": "the rows are the same, so each cell keeps its spending",
}
MAX_CELLS = 200  # lines of the spending table on the page


def charges_of(ledger: Ledger, last: int | None = None) -> list[dict[str, Any]]:
    """Every charge, or the last so many, as plain values with their questions in words."""
    charges = ledger.charges(limit=last, newest=True)[::-1]
    return [asdict(c) | {"question": readable(c.query)} for c in charges]


def budget_of(ledger: Ledger) -> dict[str, Any]:
    """The whole budget, and what each combination of public values has spent and has left."""
    total, spent, remaining = ledger.budget()
    schema, by_cell = schema_of(ledger.terms), ledger.spent_by_cell()
    left = ledger.left_by_cell() if ledger.cells > 1 else []
    names = [c.name for c in schema.cell_columns]
    cells = [
        {
            "cell": dict(zip(names, cell, strict=True)),
            "spent_micro": by_cell[i],
            "remaining_micro": left[i],
        }
        for i, cell in enumerate(schema.cells if ledger.cells > 1 else ())
    ]
    found: dict[str, Any] = {
        "total_micro": total, "spent_micro": spent, "remaining_micro": remaining, "cells": cells,
    }  # fmt: skip
    if (each := ledger.left()) != remaining:
        found["each_micro"] = each
    group = group_of(ledger)
    return found if group is None else found | {"group": group}


def group_of(ledger: Ledger) -> dict[str, Any] | None:
    """The group of datasets it spends one T with, and the most anyone spent in each."""
    now = ledger.standing()
    if now is None:
        return None
    members = [{"name": m.name, "spent_micro": m.top} for m in now.members]
    return {"name": ledger.group, "elsewhere_micro": now.elsewhere, "members": members}


def chain_of(ledger: Ledger) -> dict[str, Any]:
    """Walk the chain: how many entries it has and the hash it ends in. Raises if broken."""
    ledger.verify()
    return _chain(ledger, ledger.head())


def _chain(ledger: Ledger, head: Head) -> dict[str, Any]:
    return {"entries": head.number + 1, "head": head.hash, "verified": ledger.verified}


def stop_of(ledger: Ledger) -> dict[str, Any] | None:
    """What failed and froze it, for the owner: nothing of the rows is in it."""
    return stop_in(ledger.frozen())


def stop_in(found: Freeze | None) -> dict[str, Any] | None:
    """The same of what is known of it."""
    if found is None:
        return None
    return {
        "number": found.number,
        "time": found.time,
        "questions": [readable(text) for text in found.questions],
        "canonical": list(found.questions),
        "engine": found.engine,
        "error": found.error,
    }


def report(ledger: Ledger, *, answers: bool = False, last: int | None = None) -> dict[str, Any]:
    """Everything on the page, as plain values.

    The whole chain is walked first. With `last`, only so many of the charges are read, and of the
    chain only what is newer than the last walk.
    """
    promise, pricing = promise_of(ledger)
    if last is None:
        ledger.verify()  # raises if the chain is broken
    head, (began, *decisions) = ledger.check_growth(), ledger.decisions()
    charges = charges_of(ledger, last)
    found = {
        "name": ledger.name,
        "began": began.body["time"],
        "promise": promise.to_json() | {
            "pricing": pricing,
            "rows": ledger.terms["rows"],
            "variance": promise.variance,
            "std": promise.std,
            "half_width_95": promise.half_width(),
            "words": promise.explain(ledger.terms["rows"] or None).splitlines(),
        },
        "columns": {c.name: c.to_json() for c in Schema.load(ledger.terms["schema"]).columns},
        "charges": charges,
        "budget": budget_of(ledger),
        "events": [
            {"number": e.number, "kind": e.kind, "time": e.body.get("time"),
             "what": decision(e.kind, e.body)}
            for e in decisions
        ],
        "chain": _chain(ledger, head),
    }  # fmt: skip
    if answers:
        found["answers"] = dict(_answers(ledger, charges, promise, pricing))
    return found


def promise_of(ledger: Ledger) -> tuple[Promise | AuditPromise, str]:
    """The promise the ledger began with, and how it prices."""
    recorded = dict(ledger.terms["promise"])
    pricing = recorded.pop("pricing")
    if recorded.get("mode") == "audited":
        return AuditPromise.from_json(recorded), pricing
    return replace(Promise.from_json(recorded), group=ledger.group), pricing


def decision(kind: str, body: dict[str, Any]) -> str:
    """What an entry that is no question says, in words."""
    if kind == "open":
        return f"the ledger begins, with {in_queries(body['total'])} in all"
    if kind == "allot":
        most = body["allotted"]
        left = "as much as there is" if most is None else f"at most {in_queries(most)}"
        return f"{body['analyst']} may spend {left}"
    if kind == "join":
        return f"it joins the group {body['group']!r}, with what it spent, for good"
    if kind == "carry":
        left = in_queries(max(body["remaining"], 0))
        return f"{CARRIED['highest']}, since refreshes before this moved none: {left} left"
    if kind == "freeze":
        asked = " and ".join(readable(question_of(text)) for text in body["questions"])
        return f"a scan failed on {body['engine']} with {body['error']}: {asked}"
    said = body.get("body", body)
    lines = [f"{k}: {v}" for k, v in said.items() if k not in ("time", "terms") and v]
    if kind == "refresh" and "spending" in body:
        lines.append(CARRIED[body["spending"]])
    return "; ".join(lines)


# ---- answers --------------------------------------------------------------------------------

Parts = list[dict[str, Any]]  # a question may have several parts, as a SQL statement has


def _answers(
    ledger: Ledger, charges: list[dict[str, Any]], promise: Any, pricing: str
) -> Iterator[tuple[int, Parts | None]]:
    """The stored noisy answers by charge, in their own units where the question can be read."""
    schema = Schema.load(ledger.terms["schema"])
    stored_rows = RowCount(ledger.terms["rows"], StoredRows())
    stored = ledger.answers_to([charge["number"] for charge in charges])
    for number, query in ((c["number"], c["query"]) for c in charges if c["number"] in stored):
        noisy = json.loads(stored[number])
        if isinstance(noisy, dict):
            yield number, _audited(query, noisy, schema, promise)
        else:
            yield number, _parts(query, noisy, schema, promise, pricing, stored_rows)


def answer_parts(db: Database, text: str) -> Parts | None:
    """The stored answer to one canonical question; None if there is none that can be said."""
    known = db._ledger.find(text)
    if known is None or known[1] is None:
        return None
    stored = json.loads(known[1])
    if isinstance(stored, dict):
        return _audited(text, stored, db.schema, db.promise)
    return _parts(text, stored, db.schema, db.promise, db.pricing, db.stored_rows)


def _audited(text: str, stored: dict[str, Any], schema: Schema, promise: Any) -> Parts:
    """The answer of an audited table: one sum, or a refusal."""
    from sulq.audit.database import told

    return [told(text, stored, schema, promise)]


def _parts(
    text: str, noisy: Any, schema: Schema, promise: Promise, pricing: str, rows: RowCount
) -> Parts | None:  # fmt: skip
    """A stored answer in units; None if it is kept, but this version cannot say it."""
    try:
        pairs = zip(parts_of(text), noisy, strict=True)
        return [_part(stored, sums, schema, promise, pricing, rows) for stored, sums in pairs]
    except (SulqError, ValueError, TypeError):
        return None


def _part(
    stored: dict[str, Any], noisy: list[list[int]], schema: Schema, promise: Promise, pricing: str,
    rows: RowCount,
) -> dict[str, Any]:  # fmt: skip
    """Grid integers as numbers with error bars; ValueError if the question is not the same."""
    query, older = query_of(stored), stored.get("form") == OLDER_FORM
    if query is None:
        raise ValueError(stored)
    checked = check(query, schema, promise.noise, promise.guarantee, older)
    if checked.text != dumps(stored):
        raise ValueError(stored)
    if isinstance(checked.measurement, Discovery):
        checked = ready(checked, promise, pricing, rows)
    tariff = tariff_of(checked, promise, pricing)
    (answer,) = Bundle(((checked, tariff),)).answers([noisy], 0)
    whole = replace(answer, ruled_out=frozenset())  # a name for every number
    mix = checked.mix or (None,) * len(answer.names)
    by = tuple(f"axis {i}" for i in range(max(len(checked.axes), 1)))
    return {
        "cells": [", ".join(row[name] for name in by) for row in whole.table(by)],
        "names": [_release(*pair) for pair in zip(answer.names, mix, strict=True)],
        "values": answer.values.tolist(),
        "half_widths_95": list(tariff.price.half_widths),
    }


def _release(name: str, mixed: tuple[int, ...] | None) -> str:
    """What a released number is; a mean's sum is taken about the middle of its range."""
    if name in ("1", "count"):
        return "count"
    about = mixed is not None and sum(x != 0 for x in mixed) > 1
    return f"sum({name}){' about the middle' if about else ''}"


# ---- the page -------------------------------------------------------------------------------


def markdown(found: dict[str, Any]) -> str:
    """The report as a Markdown page."""
    return "\n\n".join(
        [
            f"# Privacy report: {markdown_text(found['name'])}",
            f"Ledger begun {found['began']}. Everything here comes from the ledger; nothing was "
            "computed from rows, and no row was read to write it.",
            *_promise_page(found["promise"]),
            *_columns_page(found["columns"]),
            *_spending_page(found["budget"]),
            *_charges_page(found["charges"], found.get("answers")),
            *_events_page(found["events"]),
            *_access_page(found.get("access", [])),
            "## The chain",
            f"Verified: {found['chain']['entries']:,} entries, each carrying the hash of the one "
            f"before; all of them on {found['chain']['verified']} (UTC). "
            f"Head: `{found['chain']['head']}`",
        ]
    ) + "\n"  # fmt: skip


def _access_page(access: list[dict[str, Any]]) -> Iterator[str]:
    """Who was let in, as a server's registry has it."""
    if access:
        yield "## Who may ask"
        yield "From the server's registry, which no chain of hashes protects."
        named = [f"{e['what']} [{e['key']}]" if e.get("key") else e["what"] for e in access]
        yield _table(["when", "what"], [[e["time"], w] for e, w in zip(access, named, strict=True)])


def _promise_page(promise: dict[str, Any]) -> Iterator[str]:
    yield "## What is promised"
    yield "\n\n".join(promise["words"])
    facts = {
        "epsilon": f"{promise['epsilon']:g}",
        "delta": f"{promise['delta']:g}",
        "queries (T)": f"{promise['queries']:,}",
        "noise": promise["noise"],
        "guarantee": promise["guarantee"],
        "pricing": promise["pricing"],
        "rows (n, public)": f"{promise['rows']:,}",
        "variance of one query (R)": f"{promise['variance']:.6g}",
        "standard deviation": f"{promise['std']:.6g}",
        "95% half-width": f"{promise['half_width_95']:.6g}",
    }
    yield _table(["", ""], [[name, value] for name, value in facts.items()])


def _columns_page(columns: dict[str, dict[str, Any]]) -> Iterator[str]:
    public = {n: c for n, c in columns.items() if c.get("public") or c.get("key")}
    private = [n for n in columns if n not in public]
    yield "## What is public"
    if not public:
        yield "No column is public."
    else:
        rows = [[n, "key" if c.get("key") else c["type"], _values(c)] for n, c in public.items()]
        yield _table(["column", "type", "values"], rows)
    yield "Private: " + (", ".join(map(_code, private)) or "none") + "."


def _values(column: dict[str, Any]) -> str:
    values = [str(v) for v in column.get("values", ())]
    more = f" and {len(values) - 20} more" if len(values) > 20 else ""
    return ", ".join(values[:20]) + more


def _spending_page(budget: dict[str, Any]) -> Iterator[str]:
    yield "## What is spent"
    total, spent, left = (in_queries(budget[f"{k}_micro"]) for k in ("total", "spent", "remaining"))
    yield f"{spent} of {total} spent; {left} left for the rows that have spent most."
    if "each_micro" in budget:
        yield (
            f"{in_queries(budget['each_micro'])} left for a question about all periods, which "
            "somebody pays for in each of theirs."
        )
    if "group" in budget:
        group = budget["group"]
        name = markdown_text(repr(group["name"]))
        yield (
            f"All of this is counted over the group {name}: datasets about the same "
            "people, which have one T. What is spent on any counts in full for the others."
        )
        rows = [[m["name"], _amount(m["spent_micro"])] for m in group["members"]]
        yield _table(["dataset of the group", "charged"], rows)
    cells = budget["cells"]
    if not cells:
        return
    names = list(cells[0]["cell"])
    rows = [
        [*(OTHER if c["cell"][n] is None else str(c["cell"][n]) for n in names),
         _amount(c["spent_micro"]), _amount(c["remaining_micro"])]
        for c in cells[:MAX_CELLS]
    ]  # fmt: skip
    yield _table([*names, "spent", "left"], rows)
    if len(cells) > MAX_CELLS:
        yield f"{len(cells) - MAX_CELLS:,} more combinations are in the JSON form."


def _charges_page(
    charges: list[dict[str, Any]], answers: dict[int, Parts | None] | None
) -> Iterator[str]:
    yield "## What was asked"
    if not charges:
        yield "Nothing yet."
        return
    head, rows = ["entry", "time (UTC)", "question", "price", "left"], []
    for c in charges:
        asked, amounts = _code(c["question"]), (_amount(c["price"]), _amount(c["remaining"]))
        line = [str(c["number"]), c["time"], asked, *amounts]
        rows.append(line if answers is None else [*line, _answer(answers, c["number"])])
    yield _table(head if answers is None else [*head, "noisy answer (95%)"], rows)
    yield "Prices in queries. A question asked again returns its stored answer, free."
    for c in charges:
        parts = (answers or {}).get(c["number"])
        if parts is not None and _numbers(parts) > 1:
            yield f"### Answer to entry {c['number']}: {_code(c['question'])}"
            for part in parts:
                yield from _part_page(part)


def _numbers(parts: Parts) -> int:
    return sum(len(part["cells"]) * len(part["names"]) for part in parts)


def _answer(answers: dict[int, Parts | None], number: int) -> str:
    """One number in the list itself; more than one stand below it."""
    if number not in answers:
        return "none was given"
    parts = answers[number]
    if parts is None:
        return "kept in the ledger"
    if "refused" in parts[0]:
        return f"refused: {parts[0]['refused']}"
    if _numbers(parts) > 1:
        return f"{_numbers(parts):,} numbers, below"
    return with_error(parts[0]["values"][0][0], parts[0]["half_widths_95"][0])


def _part_page(part: dict[str, Any]) -> Iterator[str]:
    rows = [
        [cell, *(with_error(x, w) for x, w in zip(row, part["half_widths_95"], strict=True))]
        for cell, row in zip(part["cells"], part["values"], strict=True)
    ]
    yield _table(["", *part["names"]], rows[:FEW])
    if len(rows) > FEW:
        yield f"{len(rows) - FEW:,} more cells are in the JSON form."


def _events_page(events: list[dict[str, Any]]) -> Iterator[str]:
    if not events:
        return
    yield "## What else happened"
    rows = [[str(e["number"]), str(e["time"]), e["kind"], e["what"]] for e in events]
    yield _table(["entry", "time (UTC)", "what", "said"], rows)
    if any(e["kind"] == "override" for e in events):
        yield (
            "**A ledger was lost or an older copy restored.** Answers may have been given beyond "
            "the promise; the numbers above count only what this ledger knows."
        )


def _amount(micro: int) -> str:
    return in_queries(micro).split()[0]


def _code(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(39))}`"


def _in_table(text: str) -> str:
    """A cell: code as it is, and of others nothing that Markdown takes for markup."""
    code = len(text) > 1 and text[0] == text[-1] == "`" and text.count("`") == 2
    return one_line(text).replace("|", "\\|") if code else markdown_text(text)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    texts = ([_in_table(c) for c in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in texts)
