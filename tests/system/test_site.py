"""The documentation as a site: every page is on it, every link leads somewhere on it."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest
from soak import in_soak

import sulq

ROOT = Path(__file__).resolve().parents[2]


@cache
def make_site():
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "docs/make_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    make_site().stage(folder)
    return folder


def named(nav):
    """Every page of a navigation."""
    for line in nav:
        (value,) = line.values()
        yield from [value] if isinstance(value, str) else named(value)


def test_every_page_is_in_the_navigation(pages):
    """In the order of docs/README.md; and what is named there is written."""
    listed = list(named(make_site().navigation()))
    assert all((pages / name).is_file() for name in listed)
    docs = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    assert docs - set(listed) <= {"README.md", "proofs/README.md"}


def test_links_of_the_site_lead_somewhere(pages):
    """Between pages that have other places there, and to the files they show."""
    seen = 0
    for page in pages.rglob("*.md"):
        for target in re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target) and not target.startswith("#"):
                assert (page.parent / target).exists(), f"{page.relative_to(pages)}: {target}"
                seen += 1
    assert seen > 300


def test_the_api_page_has_every_public_name(pages):
    """From the code itself, each with what its docstring says."""
    text = (pages / make_site().API).read_text(encoding="utf-8")
    for name in sulq.__all__:
        assert f"### `sulq.{name}`" in text
    assert "object at 0x" not in text


def test_foreign_scripts_are_not_left_in(tmp_path):
    """The one that Material names is ours, or gone."""
    page = tmp_path / "page.html"
    (tmp_path / "assets/javascripts").mkdir(parents=True)
    page.write_text(f'<p><script src="{make_site().FOREIGN}"></script></p>')
    make_site().keep_here(tmp_path)
    assert "https://" not in page.read_text()


@in_soak
def test_the_site_is_built_without_a_warning():
    """mkdocs --strict; no page asks another machine for a script, a style, a font or a picture."""
    pytest.importorskip("mkdocs", reason="make docs installs it")
    assert make_site().build() == 0
    foreign = r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?(https?://[^" >]+)'
    for page in make_site().SITE.rglob("*.html"):
        assert re.findall(foreign, page.read_text(encoding="utf-8")) == []
