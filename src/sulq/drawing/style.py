"""The colours of figures, light and dark: a page takes them as a stylesheet, a file has them in it.

A page brings its own --ink, --soft and --card; the rest of the names stand here only.
"""

from __future__ import annotations

import re

COLOURS = {  # name: (light, dark)
    "card": ("#ffffff", "#1a2224"),
    "ink": ("#1c2426", "#e6ebe9"),
    "soft": ("#515c5f", "#a9b5b5"),
    "bar": ("#2f8791", "#4fa6ab"),
    "bar-2": ("#c0702a", "#d9914f"),
    "bar-3": ("#7a62b3", "#a392d6"),
    "bar-4": ("#5b8a35", "#8cba66"),
    "bar-5": ("#b24e7d", "#d985ad"),
    "bar-6": ("#76807f", "#97a3a2"),
    "whisker": ("#16393d", "#e6ebe9"),
    "grid": ("#dde3e0", "#2c383b"),
}
SERIES = 6  # colours before they come again
THE_PAGES = ("card", "ink", "soft")
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", Arial, sans-serif'

RULES = f"""\
.chart text {{ fill: var(--ink); font-size: 13px; font-family: {FONT}; }}
.chart .soft-text {{ fill: var(--soft); }}
.chart .small-text {{ font-size: 11px; }}
.chart .strong-text {{ font-weight: 700; }}
.chart .heading {{ font-size: 15px; font-weight: 700; }}
.chart .hit {{ fill: transparent; }}
.chart g:hover > .hit {{ fill: var(--grid); fill-opacity: .5; }}
.chart .paper {{ fill: var(--card); }}
.chart .bar {{ fill: var(--bar); }}
.chart .bar-2 {{ fill: var(--bar-2); }}
.chart .bar-3 {{ fill: var(--bar-3); }}
.chart .bar-4 {{ fill: var(--bar-4); }}
.chart .bar-5 {{ fill: var(--bar-5); }}
.chart .bar-6 {{ fill: var(--bar-6); }}
.chart .faint {{ fill-opacity: .35; }}
.chart .grid-line {{ stroke: var(--grid); stroke-width: 1; }}
.chart .axis {{ stroke: var(--soft); stroke-width: 1; }}
.chart .outline {{ stroke: var(--soft); stroke-width: 1; fill: none; }}
.chart .whisker {{ stroke: var(--whisker); stroke-width: 1.5; fill: none; }}
.chart .line {{ stroke: var(--bar); stroke-width: 2; fill: none; }}
.chart .line-2 {{ stroke: var(--bar-2); stroke-width: 2; fill: none; }}
.chart .line-3 {{ stroke: var(--bar-3); stroke-width: 2; fill: none; }}
.chart .dashed {{ stroke: var(--bar-2); stroke-dasharray: 5 4; stroke-width: 1.5; fill: none; }}
.chart .area {{ fill: var(--bar); fill-opacity: .16; }}
.chart .dot {{ fill: var(--bar-2); stroke: var(--card); stroke-width: 1.5; }}
.chart .on-dot {{ fill: #111; font-weight: 700; }}
"""


def for_pages() -> str:
    """The rules and their colours, to stand after a page's own stylesheet."""
    own = [name for name in COLOURS if name not in THE_PAGES]
    light, dark = (" ".join(f"--{name}: {COLOURS[name][i]};" for name in own) for i in (0, 1))
    return (
        f"\n/* charts, from sulq.drawing */\n:root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{RULES}"
    )


def for_files(*, dark: bool = True) -> str:
    """The rules without names, for a file by itself; `dark` follows whoever looks at it."""
    return _named(0) + (f"@media (prefers-color-scheme: dark) {{\n{_named(1)}}}\n" * dark)


def _named(which: int) -> str:
    return re.sub(r"var\(--([\w-]+)\)", lambda found: COLOURS[found[1]][which], RULES)


def series(number: int, kind: str = "bar") -> str:
    """The class of the first, second, ... colour."""
    found = number % SERIES
    return f"{kind}-{found + 1}" if found else kind
