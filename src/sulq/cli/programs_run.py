"""sulq program: the WebAssembly that paid questions ran, as the ledger keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Said, grid, ledger_of, note
from sulq.errors import NotFound, Refused
from sulq.settings_file import Settings

if TYPE_CHECKING:
    from sulq.ledger.kept_beside import KeptProgram

Hash = Annotated[str, typer.Argument(help="Its SHA-256, or how that begins.")]
OutWasm = Annotated[
    Path | None,
    typer.Option("--out", help="Write the module to this file: .wasm, or .wat as text."),
]
AsText = Annotated[bool, typer.Option("--text", help="Also every instruction of it.")]


def program_list(settings: Settings) -> Said:
    """The programs that paid questions ran, oldest first.

    Example: sulq program list
    """
    with ledger_of(settings) as ledger:
        found = [_described(kept) for kept in ledger.programs()]
    rows = [
        (p["hash"][:12], p["time"], f"{p['bytes']:,}", "; ".join(p["functions"])) for p in found
    ]
    table = grid(("hash", "first asked", "bytes", "functions"), rows)
    return Said({"programs": found}, table if found else "No question ran a program yet.")


def program_show(
    settings: Settings, hash: Hash, text: AsText = False, out: OutWasm = None
) -> Said:  # fmt: skip
    """A program that questions ran: what it takes, what was asked with it, what it does.

    Example: sulq program show 1f3a --text
    """
    from sulq.programs.binary import read_module
    from sulq.programs.disassembly import text_of
    from sulq.report import charges_of

    with ledger_of(settings) as ledger:
        found = ledger.programs(hash.lower()) if hash else []
        if len(found) > 1:
            raise Refused(f"{hash}: {len(found)} programs begin so. Give more of the hash.")
        if not found:
            raise NotFound(f"no program whose hash begins with {hash[:64]!r} ran here.")
        (kept,) = found
        named = {c.number for c in ledger.history() if kept.hash in c.query}
        charges = [c for c in charges_of(ledger, None) if c["number"] in named]
    body = _described(kept) | {"charges": charges}
    written = text_of(read_module(kept.code))
    if out is not None:
        out.write_bytes(written.encode() if out.suffix == ".wat" else kept.code)
        note(f"Written: {out}")
    asked = [f"  {c['number']}  {c['time']}  {c['question']}" for c in charges]
    lines = [
        f"{kept.hash}\n{len(kept.code):,} bytes, first asked {kept.time}, entry {kept.number}",
        "\n".join(f"  {line}" for line in body["functions"]),
        "\n".join(["Asked:", *asked]),
    ]
    if text:
        body["text"] = written
        lines.append(written.rstrip("\n"))
    return Said(body, *lines)


def _described(kept: KeptProgram) -> dict[str, Any]:
    """A program as JSON: what it takes is read off its bytes; nothing of it runs."""
    from sulq.programs.binary import read_module
    from sulq.programs.opcodes import NAMES

    module = read_module(kept.code)
    functions = []
    for name, index in sorted(module.exports.items()):
        kind = module.type_of(index)
        takes, gives = (", ".join(NAMES[k] for k in some) for some in kind)
        functions.append(f"{name}({takes}) -> {gives or 'nothing'}")
    size = sum(len(f.body) for f in module.functions)
    return {
        "hash": kept.hash, "entry": kept.number, "time": kept.time, "bytes": len(kept.code),
        "instructions": size, "functions": functions,
    }  # fmt: skip
