"""The Python lines of a page, run by whichever Python reads this: python example_lines.py PAGE.

It needs nothing but the standard library and what the lines import themselves.
"""

from __future__ import annotations

import doctest
import linecache
import re
import sys
from pathlib import Path


def run(page: Path) -> int:
    """Run every block in order; how many there were. A wrong one raises."""
    names: dict[str, object] = {"__name__": "example"}
    blocks = re.findall(r"^```python\n(.*?)^```\s*$", page.read_text("utf-8"), re.M | re.S)
    for number, text in enumerate(blocks):
        where = f"{page.name}, block {number}"
        if text.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            runner = doctest.DebugRunner(optionflags=flags)
            runner.run(test, clear_globs=False)
        else:
            linecache.cache[where] = len(text), None, text.splitlines(True), where  # for @sulq.row
            exec(compile(text, where, "exec"), names)
    return len(blocks)


if __name__ == "__main__":
    print(f"{run(Path(sys.argv[1]))} blocks of Python ran.")
