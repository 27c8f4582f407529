"""What `pip install` gives: the wheel is whole, and works where nothing else of ours is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from soak import in_soak

import sulq

ROOT = Path(__file__).resolve().parents[2]
LINES = Path(__file__).with_name("example_lines.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
QUIET = ("--quiet", "--disable-pip-version-check")


def did(*command, folder=ROOT, **environment):
    """What a command said; all of it if it failed."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    ended = subprocess.run(
        [str(c) for c in command], cwd=folder, env=own, capture_output=True, text=True, timeout=500
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What `make wheel` makes."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", *QUIET)
    did(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (made,) = folder.glob("*.whl")
    return made


def empty_environment(folder):
    """An environment of its own, with nothing in it."""
    did(sys.executable, "-m", "venv", "--without-pip", folder)
    return folder / "bin/python"


def install(python, *what):
    """As `pip install` in that environment."""
    did(sys.executable, "-m", "pip", "--python", python, "install", *QUIET, *what)


def try_it(python, folder):
    """The demo, and the README's Python lines about its people, with a ledger of their own."""
    assert "is whole" in did(python.with_name("sulq"), "demo", "--dir", "demo", folder=folder)
    where = did(python, "-c", "import sulq; print(sulq.__version__, sulq.__file__)", folder=folder)
    version, file = where.split()
    assert version == sulq.__version__
    assert Path(file).is_relative_to(python.parents[1])
    fresh = folder / "fresh"
    fresh.mkdir()
    for name in ("people.parquet", "people.toml"):
        shutil.copy(folder / "demo" / name, fresh)
    ran = did(python, "-W", "ignore", LINES, ROOT / "README.md", folder=fresh)
    assert int(re.search(r"(\d+) blocks of Python ran", ran)[1]) >= 8


def test_the_wheel_holds_every_file_of_the_package(wheel):
    """Templates, the stylesheet, the script, py.typed: what git has of src/sulq is in it."""
    listed = did("git", "ls-files", "--cached", "--others", "--exclude-standard", "src/sulq")
    wanted = {name.removeprefix("src/") for name in listed.splitlines()}
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        metadata = archive.read(f"sulq-{sulq.__version__}.dist-info/METADATA").decode()
    assert {name for name in held if "dist-info/" not in name} == wanted
    assert {"sulq/py.typed", "sulq/server/console/templates/base.html",
            "sulq/server/console/static/style.css"} <= held  # fmt: skip
    assert f"sulq-{sulq.__version__}.dist-info/licenses/LICENSE" in held
    assert f"Requires-Python: {PROJECT['requires-python']}" in metadata


def test_a_wheel_alone_runs_the_demo_and_the_readme(wheel, tmp_path):
    """In an environment of its own; only what it depends on is borrowed from this one."""
    python = empty_environment(tmp_path / "empty")
    (site,) = (tmp_path / "empty").glob("lib/python*/site-packages")
    # A folder named in a .pth is searched; its own .pth files, as of an editable sulq, are not.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install(python, "--no-deps", "--no-index", wheel)
    try_it(python, tmp_path)


@in_soak
@pytest.mark.parametrize("extras", ["", "[server]", "[all]"])
def test_from_the_index_into_an_empty_environment(wheel, tmp_path, extras):
    """`pip install` finds all that is needed: with nothing else, for a server, for everything."""
    python = empty_environment(tmp_path / "empty")
    install(python, f"{wheel}{extras}")
    try_it(python, tmp_path)


def test_the_citation_names_this_version():
    """CITATION.cff has what its format wants, and the version of pyproject.toml."""
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= said.keys()
    assert str(said["version"]) == PROJECT["version"]
    assert said["license"] == PROJECT["license"]


def test_each_version_of_the_changelog_has_a_date_but_the_newest():
    """Newest first; what was released says when."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.findall(r"^## \[(\d+)\.(\d+)\.(\d+)\] - (\S+)$", text, re.MULTILINE)
    assert len(found) == text.count("\n## ")
    versions = [tuple(map(int, line[:3])) for line in found]
    assert versions == sorted(set(versions), reverse=True)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", line[3]) for line in found[1:])
