"""The examples, as they are in the repository and as compilers make them here, do what they say."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from pathlib import Path

import numpy as np
import pytest

import sulq
from sulq.programs.driver import run

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
COMPILERS = {"digits": "clang", "distance": "asc", "spread": "rustc"}
LINKED = (".c", ".rs")  # by wasm-ld


def compiled(name, folder):
    """The module made anew by the command in its source; None where there is no compiler."""
    source = next(p for p in EXAMPLES.glob(f"{name}.*") if p.suffix in (".c", ".ts", ".rs"))
    wanted = [COMPILERS[name], *(["wasm-ld"] if source.suffix in LINKED else [])]
    if not all(map(shutil.which, wanted)):
        return None
    text = source.read_text().replace("\\\n", " ")
    line = next(t for t in text.splitlines() if f"{COMPILERS[name]} " in t and " -o " in t)
    words = line.removesuffix("*/").split()
    words = words[words.index(COMPILERS[name]) :]
    out = folder / f"{name}.wasm"
    places = {source.name: str(source), f"{name}.wasm": str(out)}
    made = subprocess.run([places.get(w, w) for w in words], capture_output=True)
    if b"target may not be installed" in made.stderr:  # of a rustc without WebAssembly's core
        return None
    assert made.returncode == 0, made.stderr
    return out


@pytest.fixture(scope="module", params=["as it is", "compiled here"])
def example(request, tmp_path_factory):
    """A way to a module by its name: that of the repository, or a fresh one."""

    def path(name):
        if request.param == "as it is":
            return EXAMPLES / f"{name}.wasm"
        found = compiled(name, tmp_path_factory.mktemp("compiled"))
        return found or EXAMPLES / f"{name}.wasm"

    return path


def luhn(number):
    digits = [int(d) for d in str(abs(number))[::-1]]
    return sum(sum(divmod(d * 2, 10)) if i % 2 else d for i, d in enumerate(digits)) % 10 == 0


def test_c(example):
    """Check digits by a table in memory; a median sorted in memory, anew for each row."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(-(10**15), 10**15, 2000)
    found = run(sulq.Program(example("digits"), "luhn").spec, [numbers])
    assert found.tolist() == [luhn(n) for n in numbers.tolist()]
    five = [rng.random(2000) * 200 - 100 for _ in range(5)]
    middle = run(sulq.Program(example("digits"), "median", low=-100, high=100).spec, five)
    assert middle.tolist() == [statistics.median(row) for row in zip(*five, strict=True)]


def test_assemblyscript(example):
    """Sines of its own library, within a millimetre; a loop that ends by itself or by its fuel."""
    rng = np.random.default_rng(4)
    lat, lon = rng.random((2, 500)) * 180 - 90, rng.random((2, 500)) * 360 - 180
    program = sulq.Program(example("distance"), "distance", low=0, high=20_040)
    found = run(program.spec, [lat[0], lon[0], lat[1], lon[1]])
    a = np.sin(np.radians(lat[1] - lat[0]) / 2) ** 2
    b = np.sin(np.radians(lon[1] - lon[0]) / 2) ** 2
    h = a + np.cos(np.radians(lat[0])) * np.cos(np.radians(lat[1])) * b
    assert np.abs(found - 12_742 * np.arcsin(np.sqrt(h))).max() < 1e-6
    steps = sulq.Program(example("distance"), "collatz", low=0, high=1000)
    assert run(steps.spec, [np.array([27, 1, 97, 6171])]).tolist() == [111, 0, 118, 261]
    short = sulq.Program(example("distance"), "collatz", low=0, high=1000, fuel=1000)
    assert run(short.spec, [np.array([27, 1, 2, 6171])]).tolist() == [0, 0, 1, 0]


def test_rust(example):
    """Rust without its standard library: no memory, no panic, one loop that its argument bounds."""
    rng = np.random.default_rng(5)
    four = [rng.random(500) * 100 for _ in range(4)]
    found = run(sulq.Program(example("spread"), "spread", low=0, high=100).spec, four)
    assert found.tolist() == [max(row) - min(row) for row in zip(*four, strict=True)]
    visits = rng.integers(0, 2**40, 500)
    runs = run(sulq.Program(example("spread"), "longest_run", low=0, high=64).spec, [visits])
    longest = [max(map(len, f"{v:b}".split("0"))) for v in visits.tolist()]
    assert runs.tolist() == longest


def test_text():
    """A module written by hand."""
    program = sulq.Program(EXAMPLES / "risk.wat", "risk")
    ages, bmi, smoker = np.array([20, 60, 100]), np.array([20.0, 31.0, 40.0]), np.array([0, 0, 1])
    found = run(program.spec, [ages, bmi, smoker])
    assert np.allclose(found, ages / 200 + 0.2 * (bmi > 30) + 0.25 * smoker, rtol=1e-12)
