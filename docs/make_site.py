"""The documentation as a site that needs no network: make docs, or python docs/make_site.py.

The pages are those of the repository. Here they are put beside each other under .site/pages, with
links that lead from one to the other, a page of every public name made from its docstring, and
MkDocs with Material turns them into site/: searchable, also when opened from a disk. Nothing is
fetched from elsewhere. A link that leads nowhere is an error.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WORK = ROOT / ".site"
SITE = ROOT / "site"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^```(\w+) [^\n]+$", re.MULTILINE)  # `console exact` and the like
SECTIONS = {"Learn": "Tutorial", "Do": "How to", "Look up": "Reference", "Believe": "Evidence"}
NAMES = {  # pages that have another name there
    ROOT / "README.md": "index.md", DOCS / "README.md": "documentation.md",
    ROOT / "CHANGELOG.md": "changelog.md", ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "benchmarks/RESULTS.md": "benchmarks.md", ROOT / "LICENSE": "LICENSE.txt",
}  # fmt: skip
API = "reference/api.md"
FOREIGN = "https://unpkg.com/iframe-worker/shim"
SHIM = ROOT / ".venv/iframe-worker-1.0.4/node_modules/iframe-worker/shim/index.js"


def staged(path: Path) -> str:
    """Where a file of the repository is on the site."""
    if path in NAMES:
        return NAMES[path]
    if path.is_dir():
        return f"{path.relative_to(DOCS)}/README.md"
    return str(path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT))


def pages() -> dict[Path, str]:
    """Every page, and its place on the site."""
    found = [*NAMES, *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
    return {path: staged(path) for path in found if path.suffix == ".md"}


def text_of(path: Path, linked: set[Path]) -> str:
    """A page with its links changed; `linked` is told what else it leads to."""
    text = FENCE.sub(r"```\1", path.read_text(encoding="utf-8"))
    here = Path(staged(path)).parent

    def led(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", match[2]):
            return match[0]
        found = (path.parent / target).resolve()
        linked.add(found)
        to = os.path.relpath(staged(found), here)
        return f"{match[1]}{to}{f'#{anchor}' if anchor else ''}{match[3]}"

    return LINK.sub(led, text)


def stage(folder: Path) -> None:
    """Write every page, and every file that one of them leads to."""
    linked: set[Path] = set()
    for path, name in pages().items():
        _write(folder / name, text_of(path, linked))
    for path in sorted(linked - set(pages())):
        if path.is_dir():
            _write(folder / staged(path), _listing(path))
        else:
            (folder / staged(path)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / staged(path))
    _write(folder / API, api_page())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _listing(folder: Path) -> str:
    """A page for a folder that has none."""
    lines = [f"- [{_title(p)}]({p.name})" for p in sorted(folder.glob("*.md"))]
    return "\n".join([f"# {folder.name.capitalize()}", "", *lines, ""])


def _title(path: Path) -> str:
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return path.stem if found is None else found[1]


# ---- every public name ------------------------------------------------------------------------


def api_page() -> str:
    """Every public name with its signature and its docstring."""
    import sulq
    from sulq import learn

    lines = ["# API", "", "Every public name, from the code itself. [Python](python.md) explains "
             "them in order, with examples.", "", "## sulq", ""]  # fmt: skip
    for name in sulq.__all__:
        lines += _described(f"sulq.{name}", getattr(sulq, name))
    lines += ["## sulq.learn", ""]
    for name in learn.__all__:
        lines += _described(f"sulq.learn.{name}", getattr(learn, name))
    return "\n".join(lines)


def _described(name: str, value: Any) -> list[str]:
    kind = "class " if inspect.isclass(value) else ""
    out = [f"### `{name}`", "", "```python", f"{kind}{name}{_signature(value)}", "```", ""]
    out += [*_doc(value), ""]
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return out
    for method, found in sorted(vars(value).items()):
        plain = getattr(found, "__func__", found)
        if method.startswith("_") or not (inspect.isfunction(plain) or isinstance(found, property)):
            continue
        shown = "" if isinstance(found, property) else _signature(plain)
        first = (_doc(found) or [""])[0]
        out += [f"- `.{method}{shown}`: {first}" if first else f"- `.{method}{shown}`"]
    return [*out, ""]


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations that are read later
    return re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"\1", text).replace("self, ", "")


def _doc(value: Any) -> list[str]:
    """A docstring as a page shows it: indented parts are code."""
    return (inspect.getdoc(value) or "").splitlines()


# ---- the site ---------------------------------------------------------------------------------


def navigation() -> list[Any]:
    """The pages in the order of docs/README.md, whose sections are the site's."""
    parts = re.split(r"^## (.+)$", (DOCS / "README.md").read_text(encoding="utf-8"), flags=re.M)
    nav: list[Any] = [{"Home": "index.md"}]
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        listed = []
        for name, target in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", text):
            path = (DOCS / target).resolve()
            inner = sorted(path.glob("*.md")) if path.is_dir() else []
            under = [{_title(p): staged(p)} for p in inner]
            listed.append({name: under or staged(path)})
        if title == "Look up":
            listed.insert(1, {"API": API})
        nav.append({SECTIONS.get(title, title): listed})
    about = {"All pages": "documentation.md", "Changelog": "changelog.md",
             "Contributing": "contributing.md", "Measured": "benchmarks.md"}  # fmt: skip
    return [*nav, {"About": [{name: page} for name, page in about.items()]}]


def settings() -> dict[str, Any]:
    """mkdocs.yml."""
    return {
        "site_name": "SuLQ", "docs_dir": str(WORK / "pages"), "site_dir": str(SITE),
        "use_directory_urls": False, "strict": True, "nav": navigation(),
        "theme": {
            "name": "material", "font": False, "icon": {"logo": "material/sigma"},
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default",
                 "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
            "features": ["navigation.tabs", "navigation.top", "navigation.indexes",
                         "content.code.copy", "search.highlight", "toc.follow"],
        },
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "tables", "attr_list", {"toc": {"permalink": True, "slugify": {
                "__name__": "slugify"}}}, "pymdownx.superfences", "pymdownx.highlight",
        ],
        "validation": {"links": {"not_found": "warn", "anchors": "warn"},
                       "nav": {"omitted_files": "ignore"}},
        "extra": {"generator": False},
    }  # fmt: skip


SLUGS = """slugify: !!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"""


def build() -> int:
    """Stage the pages and build the site; what MkDocs says of them is said."""
    import yaml

    shutil.rmtree(WORK, ignore_errors=True)
    stage(WORK / "pages")
    text = yaml.safe_dump(settings(), sort_keys=False)
    text = re.sub(r"slugify:\s*\n\s*__name__: slugify", SLUGS, text)
    _write(WORK / "mkdocs.yml", text)
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean", "--config-file",
               str(WORK / "mkdocs.yml")]  # fmt: skip
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, check=False, env=quiet).returncode
    if not ended:
        keep_here(SITE)
        print(f"written: {SITE.name}/index.html")
    return ended


def keep_here(site: Path) -> None:
    """Take the one script that pages would fetch from elsewhere from a package, or leave it out.

    It is for searching pages that are opened from a disk; over HTTP nothing needs it.
    """
    own = "assets/javascripts/iframe-worker.js"
    if SHIM.is_file():
        shutil.copy(SHIM, site / own)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        here = os.path.relpath(site / own, page.parent)
        script = f'<script src="{here}"></script>' if SHIM.is_file() else ""
        text = re.sub(rf'<script src="?{re.escape(FOREIGN)}"?></script>', script, text)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(build())
