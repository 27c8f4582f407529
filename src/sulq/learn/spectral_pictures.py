"""Groups along few directions, drawn and in words. Nothing is asked for it."""

from __future__ import annotations

from typing import Any

from sulq.drawing.bars import Bar, bars
from sulq.drawing.heat import heat
from sulq.drawing.svg import SHEET, Figure

MAX_GROUPS, MAX_COLUMNS = 12, 40  # of what a page shows


def groups(model: Any, width: float = SHEET) -> list[Figure]:
    """The share of rows in each group, and where each is in every column."""
    few = set(map(int, model.small_clusters_))
    shares = [
        Bar(f"group {i}", float(x), float(x), float(x), note="too few rows" * (i in few),
            faint=i in few)
        for i, x in enumerate(model.cluster_fractions_)
    ]  # fmt: skip
    title = "Share of rows in each group"
    drawn = bars("shares", title, shares, share=True, width=width, caption=f"{title}.")
    placed = (model.cluster_centers_ - model.low_) / model.width_
    names = [f"group {i}" for i in range(len(placed))][:MAX_GROUPS]
    columns = list(model.columns_)[:MAX_COLUMNS]
    some = len(names) < len(placed) or len(columns) < len(model.columns_)
    title = "Where each group is"
    said = f"{title}: 0 is a column's low end, 1 its high end." + (
        " The rest is in the JSON model." * some
    )
    values = [[float(x) for x in row[:MAX_COLUMNS]] for row in placed[:MAX_GROUPS]]
    return [drawn, heat("groups", title, columns, names, values, width=width, caption=said)]


def groups_text(model: Any) -> str:
    """Each group's share and centre."""
    k = model.n_components_
    lines = [f"Groups along {k} direction{'s' * (k != 1)}: share of rows, and centre"]
    for i, (share, centre) in enumerate(
        zip(model.cluster_fractions_, model.cluster_centers_, strict=True)
    ):
        few = ", too few rows to move it" if i in model.small_clusters_ else ""
        where = ", ".join(
            f"{c} {x:,.4g}" for c, x in zip(model.columns_[:8], centre[:8], strict=False)
        )
        lines.append(f"  {i}: {share:.1%}{few}; {where}")
    return "\n".join(lines)
