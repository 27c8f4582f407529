"""Ledger -> the page an owner shows a reviewer: what was promised, asked and spent.

Made from the ledger alone. Nothing computed from rows is in it but the noisy answers that
were already given, and those only if asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sulq.errors import SulqError, in_queries
from sulq.promise import Promise
from sulq.schema import Schema
from sulq.wording import parts_of, query_of, readable

if TYPE_CHECKING:
    from sulq.audit.promise import AuditPromise
    from sulq.database import Database
    from sulq.ledger import Ledger

FEW = 100  # cells of one answer written out on the page; all of them are in the JSON
MOST_CELLS = 200  # lines of the spending table on the page


def charges_of(ledger: Ledger, last: int | None = None) -> list[dict[str, Any]]:
    """Every charge, or the last so many, as plain values with their questions in words."""
    charges = ledger.history()[-last if last else 0 :]
    return [asdict(c) | {"question": readable(c.query)} for c in charges]


def spending_of(ledger: Ledger) -> list[dict[str, Any]]:
    """What each combination of public values has spent and has left, in micro-queries."""
    schema = Schema.load(ledger.terms["schema"])
    spent = ledger.spent_by_cell()
    names = [c.name for c in schema.cell_columns]
    return [
        {
            "cell": dict(zip(names, cell, strict=True)),
            "spent_micro": spent[i],
            "remaining_micro": ledger.total - spent[i],
        }
        for i, cell in enumerate(schema.cells)
    ]


def budget_of(ledger: Ledger) -> dict[str, Any]:
    """The whole budget, and by public cell where there are any."""
    total, spent, remaining = ledger.budget()
    cells = spending_of(ledger) if ledger.cells > 1 else []
    return {
        "total_micro": total,
        "spent_micro": spent,
        "remaining_micro": remaining,
        "cells": cells,
    }


def chain_of(ledger: Ledger) -> dict[str, Any]:
    """Walk the chain: how many entries it has and the hash it ends in. Raises if broken."""
    entries = ledger.verify()
    head = ""
    for entry in ledger.entries():
        head = entry.hash
    return {"entries": entries, "head": head}


def report(ledger: Ledger, *, answers: bool = False, last: int | None = None) -> dict[str, Any]:
    """Everything on the page, as plain values; `last`: only so many of the charges."""
    promise, pricing = promise_of(ledger)
    entries = list(ledger.entries())
    ledger.verify()  # raises if the chain is broken
    found = {
        "name": ledger.name,
        "began": entries[0].body["time"],
        "promise": promise.to_json() | {
            "pricing": pricing,
            "rows": ledger.terms["rows"],
            "variance": promise.variance,
            "std": promise.std,
            "half_width_95": promise.half_width(),
            "words": promise.explain(ledger.terms["rows"] or None).splitlines(),
        },
        "columns": Schema.load(ledger.terms["schema"]).to_json()["columns"],
        "charges": charges_of(ledger, last),
        "budget": budget_of(ledger),
        "events": [
            {"number": e.number, "kind": e.kind, "time": e.body.get("time"),
             "what": decision(e.kind, e.body)}
            for e in entries
            if e.kind not in ("open", "charge", "answer", "retry")
        ],
        "chain": {"entries": len(entries), "head": entries[-1].hash},
    }  # fmt: skip
    if answers:
        found["answers"] = dict(_answers(ledger, promise, pricing))
    return found


def promise_of(ledger: Ledger) -> tuple[Promise | AuditPromise, str]:
    """The promise the ledger began with, and how it prices."""
    recorded = dict(ledger.terms["promise"])
    pricing = recorded.pop("pricing")
    if recorded.get("mode") == "audited":
        from sulq.audit.promise import AuditPromise

        return AuditPromise.from_json(recorded), pricing
    return Promise.from_json(recorded), pricing


def decision(kind: str, body: dict[str, Any]) -> str:
    """What an entry that is no question says, in words."""
    if kind == "open":
        return f"the ledger begins, with {in_queries(body['total'])} in all"
    if kind == "allot":
        most = body["allotted"]
        left = "as much as there is" if most is None else f"at most {in_queries(most)}"
        return f"{body['analyst']} may spend {left}"
    said = body.get("body", body)
    return "; ".join(f"{k}: {v}" for k, v in said.items() if k not in ("time", "terms") and v)


# ---- answers --------------------------------------------------------------------------------

Parts = list[dict[str, Any]]  # a question may have several parts, as a SQL statement has


def _answers(ledger: Ledger, promise: Any, pricing: str) -> Iterator[tuple[int, Parts | None]]:
    """The stored noisy answers by charge, in their own units where the question can be read."""
    schema, asked = Schema.load(ledger.terms["schema"]), {}
    for entry in ledger.entries():
        if entry.kind == "charge":
            asked[entry.number] = entry.body["query"]
        if entry.kind == "answer":
            number, noisy = entry.body["charge"], json.loads(entry.body["answer"])
            if isinstance(noisy, dict):  # of an audited table: one sum, or a refusal
                from sulq.audit.database import told

                yield number, [told(asked[number], noisy, schema, promise)]
                continue
            try:
                pairs = zip(parts_of(asked[number]), noisy, strict=True)
                yield number, [_part(t, sums, schema, promise, pricing) for t, sums in pairs]
            except (SulqError, ValueError, TypeError):
                yield number, None  # kept, but this version cannot say it in units


def answer_parts(db: Database, text: str) -> Parts | None:
    """The stored answer to one canonical question; None if there is none that can be said."""
    known = db._ledger.find(text)
    if known is None or known[1] is None:
        return None
    try:
        pairs = zip(parts_of(text), json.loads(known[1]), strict=True)
        return [_part(t, sums, db.schema, db.promise, db.pricing) for t, sums in pairs]
    except (SulqError, ValueError, TypeError):
        return None


def _part(
    text: str, noisy: list[list[int]], schema: Schema, promise: Promise, pricing: str
) -> dict[str, Any]:
    """Grid integers as numbers with error bars; ValueError if the question is not the same."""
    from sulq.check import check
    from sulq.price import tariff_of
    from sulq.question import Bundle

    query = query_of(text)
    if query is None:
        raise ValueError(text)
    checked = check(query, schema, promise.noise, promise.guarantee)
    if checked.text != text:
        raise ValueError(text)
    tariff = tariff_of(checked, promise, pricing)
    (answer,) = Bundle(((checked, tariff),)).answers([noisy], 0)
    mix = checked.mix or (None,) * len(answer.names)
    by = tuple(f"axis {i}" for i in range(max(len(checked.axes), 1)))
    return {
        "cells": [", ".join(row[name] for name in by) for row in answer.table(by)],
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
            f"# Privacy report: {found['name']}",
            f"Ledger begun {found['began']}. Everything here comes from the ledger; nothing was "
            "computed from rows, and no row was read to write it.",
            *_promise_page(found["promise"]),
            *_columns_page(found["columns"]),
            *_spending_page(found["budget"]),
            *_charges_page(found["charges"], found.get("answers")),
            *_events_page(found["events"]),
            "## The chain",
            f"Verified: {found['chain']['entries']:,} entries, each carrying the hash of the one "
            f"before. Head: `{found['chain']['head']}`",
        ]
    ) + "\n"  # fmt: skip


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
    cells = budget["cells"]
    if not cells:
        return
    names = list(cells[0]["cell"])
    rows = [
        [*(_cell(c["cell"][n]) for n in names), _amount(c["spent_micro"]),
         _amount(c["remaining_micro"])]
        for c in cells[:MOST_CELLS]
    ]  # fmt: skip
    yield _table([*names, "spent", "left"], rows)
    if len(cells) > MOST_CELLS:
        yield f"{len(cells) - MOST_CELLS:,} more combinations are in the JSON form."


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
    from sulq.answer import with_error

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
    from sulq.answer import with_error

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


def _cell(value: Any) -> str:
    return "other" if value is None else str(value)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell_text(c) for c in line) + " |" for line in lines)


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
