"""One organisation's process: it opens its own table and answers questions, a line of JSON each.

    python owner_process.py FOLDER     a folder with rows.parquet, where its ledger will be too

Every line it was ever sent is kept in FOLDER/heard, and the files it has open are told on request.
"""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from pathlib import Path

import sulq


def answer_of(db, call, args):
    if call == "about":
        return {"rows": db.rows, "name": db.name, "schema": db.schema.to_json(),
                "promise": db.promise.to_json()}  # fmt: skip
    if call == "budget":
        return {"remaining": str(db.budget.remaining)}
    if call == "price":
        price = db.price(sulq.Query.from_json(args[0]))
        return {"micro": price.micro, "half_widths": list(price.half_widths)}
    if call == "ask":
        answers = db.ask([sulq.Query.from_json(q) for q in args], share=False)
        return [{"values": a.values.tolist(), "stds": [list(a.stds[0])], "micro": a.price.micro,
                 "remaining": a.remaining} for a in answers]  # fmt: skip
    if call == "sizes":
        return db.sizes(*(sulq.Rows(**read_rows(r)) for r in args))
    if call == "key_counts":
        found = db.key_counts()
        return [found.rows, found.missing, found.repeated]
    assert call == "files"
    folder = f"/proc/{os.getpid()}/fd"
    return sorted({os.path.realpath(f"{folder}/{n}") for n in os.listdir(folder)})


def read_rows(body):
    body = {k: v for k, v in body.items() if k != "kind"}
    return body | ({"rate": Fraction(body["rate"])} if "rate" in body else {})


def main():
    folder = Path(sys.argv[1])
    facts = json.loads((folder / "facts.json").read_text())
    db = sulq.open(folder / "rows.parquet", facts["schema"], name=folder.name, **facts["promise"])
    heard = (folder / "heard").open("w", buffering=1)
    for line in sys.stdin:
        heard.write(line)
        call, args = json.loads(line)
        try:
            said = {"said": answer_of(db, call, args)}
        except sulq.SulqError as error:
            said = {"refused": str(error), "kind": type(error).__name__}
        print(json.dumps(said), flush=True)
    db.close()


if __name__ == "__main__":
    main()
