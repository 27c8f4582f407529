"""Other libraries, each in an environment of its own under .bench/peers: their pins conflict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

FOLDER, SCRIPTS = Path(".bench/peers"), Path(__file__).with_name("peers")
PATIENCE = float(os.environ.get("SULQ_PATIENCE", "1800"))  # seconds for all of them together


def make_environment(name: str, packages: tuple[str, ...]) -> str:
    """Install it with pip, once; the last words of pip where that fails, else nothing."""
    folder = FOLDER / name
    if (folder / "ready").exists():
        return ""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/pip"), "install", "--quiet", *packages]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    (folder / "ready").touch()
    return ""


def versions(name: str, packages: tuple[str, ...]) -> str:
    """What is installed there of what was asked for."""
    pip = [str(FOLDER / name / "bin/pip"), "list", "--format", "json"]
    wanted = {p.split("[")[0].split("<")[0].split("=")[0].lower() for p in packages}
    said = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    found = {p["name"].lower(): p["version"] for p in json.loads(said)}
    return ", ".join(f"{p} {found[p]}" for p in sorted(wanted) if p in found)


def command(name: str, script: str, *arguments: str) -> list[str]:
    """How a script of benchmarks/peers is run there."""
    return [str(FOLDER / name / "bin/python"), str(SCRIPTS / f"{script}.py"), *arguments]


def run(name: str, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Begin it. What it says goes to a file: a full pipe would make it wait for the others."""
    errors, out = (FOLDER / f"{name}.err").open("w"), (FOLDER / f"{name}-{script}.out").open("w+")
    process = subprocess.Popen(
        command(name, script, *arguments), stdout=out, stderr=errors, text=True
    )
    _heard[process.pid] = out
    return process


_heard: dict[int, IO[str]] = {}


def said(process: subprocess.Popen[str], seconds: float) -> list[Any]:
    """The lines it said in that time."""
    try:
        process.wait(timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    out = _heard[process.pid]
    out.seek(0)
    whole = (line for line in out if line.endswith("\n"))  # it may have been stopped in one
    return [json.loads(line) for line in whole if line.startswith("[")]
