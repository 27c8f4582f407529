"""Many columns as fields: which of them are shown, and one change for several at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.server.console.forms import Form
from sulq.server.console.schema_form import Typed

SHOWN = 50  # columns on one page
ANY = "any type"
UNDECIDED = "no type yet"
TICKED = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class SchemaView:
    """The columns that were looked for, and the page of them that is shown."""

    find: str
    kind: str
    page: int  # from 1 on
    matching: Sequence[int]

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-len(self.matching) // SHOWN))

    @property
    def first(self) -> int:
        """How many of them stand on pages before."""
        return (self.page - 1) * SHOWN

    @property
    def shown(self) -> Sequence[int]:
        """The columns on this page."""
        return self.matching[self.first : self.first + SHOWN]


def view_of(filled: Typed, form: Form) -> SchemaView:
    """What a form asks to see; everything, if it asks for nothing."""
    find, kind = form.get("find")[:200], form.get("find_type")
    matching = [
        i
        for i, f in enumerate(filled.fields)
        if find.lower() in f.name.lower() and kind in ("", ANY, f.type or UNDECIDED)
    ]
    said = "1" if form.has("show") else form.get("page")
    page = int(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 1
    view = SchemaView(find, kind, 1, matching)
    return replace(view, page=min(max(page, 1), view.pages))


def changed(filled: Typed, form: Form) -> tuple[Typed, int]:
    """The same change to every column that was looked for, and how many there are."""
    change: dict[str, Any] = {
        name: form.get(f"set_{name}") for name in ("type", "low", "high", "values", "longest")
    }
    change = {name: said for name, said in change.items() if said}
    for name in ("public", "full"):
        if form.get(f"set_{name}") in TICKED:
            change[name] = TICKED[form.get(f"set_{name}")]
    if not change:
        raise QueryNotAllowed("nothing to set: choose or type what these columns shall have.")
    matching = set(view_of(filled, form).matching)
    fields = tuple(
        replace(f, **change) if i in matching else f for i, f in enumerate(filled.fields)
    )
    return replace(filled, fields=fields), len(matching)
