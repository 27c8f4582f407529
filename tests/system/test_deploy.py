"""The Dockerfile, the example for systemd, the notes: their steps run, and say what they should.

No image is built here: each RUN is run as a script, with its folders in a temporary one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from sulq.server.gate import OPEN
from sulq.server.services.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = (ROOT / "examples/systemd/sulq.service").read_text()
PIP = """#!/bin/sh
# pip, without a network: what is built and installed is ours, the rest is borrowed.
how=$1; shift
if [ "$how" = wheel ]; then exec {python} -m pip wheel --no-build-isolation "$@"; fi
exec {python} -m pip --python {env} "$how" --no-deps --no-index "$@"
"""


def steps(text):
    """The instructions of a Dockerfile, each as (word, rest), with continued lines joined."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", plain)
    return [tuple(line.split(" ", 1)) for line in joined.splitlines() if line.strip()]


def stages(text):
    """Its stages, each a list of instructions."""
    found = []
    for word, rest in steps(text):
        found += [[]] if word == "FROM" else []
        found[-1].append((word, rest))
    return found


def faults(text):
    """What a careful reader would say of a Dockerfile."""
    found, last = [], dict(stages(text)[-1])
    for word, rest in steps(text):
        if word == "FROM" and not re.match(r"[\w./-]+:[\w.-]*\d", rest):
            found.append("an image without a version")
        if word == "ADD":
            found.append("ADD, where COPY does")
        if word in ("CMD", "ENTRYPOINT") and not rest.startswith("["):
            found.append(f"{word} through a shell, which takes no signal")
        if word == "RUN" and re.search(r"\bpip (install|wheel)\b(?!.*--no-cache-dir)", rest):
            found.append("a cache of pip's in a layer")
        if word in ("ENV", "ARG") and re.search(r"(?i)(password|secret|token|key)\w*=", rest):
            found.append("a secret in a layer")
        if word == "RUN" and re.search(r"\b(curl|wget|sudo|apt-get)\b", rest):
            found.append("something from elsewhere")
    if last.get("USER", "root").split(":")[0] in ("root", "0"):
        found.append("it runs as root")
    return found + [f"no {word}" for word in ("HEALTHCHECK", "EXPOSE", "CMD") if word not in last]


def test_the_dockerfile_has_no_faults():
    """Versions, no root, no cache, no secret, no shell in front; a health check."""
    assert faults(DOCKERFILE) == []
    assert len(stages(DOCKERFILE)) == 2


@pytest.mark.parametrize(
    ("was", "now"),
    [("USER sulq\n", ""), ("python:3.13-slim AS", "python AS"), ("COPY src", "ADD src"),
     (" --no-cache-dir", ""), ('CMD ["sulq", "serve", "/srv/sulq"]', "CMD sulq serve /srv/sulq"),
     ("ENV PYTHON", "ENV POSTGRES_PASSWORD=x PYTHON"), ("EXPOSE 8707\n", "")],
)  # fmt: skip
def test_control_a_fault_is_found(was, now):
    """The reader has teeth."""
    assert was in DOCKERFILE
    assert faults(DOCKERFILE.replace(was, now))


def test_what_is_copied_is_there_and_let_in():
    """COPY names files that are in the repository, and .dockerignore lets exactly them in."""
    (build, _) = stages(DOCKERFILE)
    copied = {name for word, rest in build if word == "COPY" for name in rest.split()[:-1]}
    let_in = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert copied == set(let_in)
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_says_where_the_server_is():
    """Its port and its health check are the server's own."""
    last = dict(stages(DOCKERFILE)[-1])
    assert int(last["EXPOSE"]) == Settings(Path()).port
    assert any(f":{last['EXPOSE']}{path}'" in last["HEALTHCHECK"] for path in OPEN)


def run(script, folder, **environment):
    ended = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=os.environ | environment, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_steps_of_the_image_make_a_server_that_answers(tmp_path):
    """Each RUN as a script, then its CMD on a folder that `sulq init` made, and its HEALTHCHECK."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shims = tmp_path / "shims"
    shims.mkdir()
    pip = PIP.format(python=sys.executable, env=tmp_path / "env/bin/python")
    folder = "#!/bin/sh\nfor last; do :; done; mkdir -p $last\n"
    for name, text in {"pip": pip, "useradd": "#!/bin/sh\n", "install": folder}.items():
        (shims / name).write_text(text)
        (shims / name).chmod(0o755)
    path = f"{shims}:{tmp_path / 'env/bin'}:{os.environ['PATH']}"

    def inside(text):  # folders of the image, in ours
        return re.sub(r"(?<![\w.])/(wheels|srv/sulq|source|data)\b", rf"{tmp_path}/\1", text)

    (tmp_path / "srv").mkdir()
    for stage in stages(DOCKERFILE):
        where = tmp_path
        for word, rest in stage:
            if word == "WORKDIR":
                where = Path(inside(rest))
                where.mkdir()
            elif word == "COPY" and "--from" not in rest:
                *names, to = rest.split()
                run(f"cp -r {' '.join(str(ROOT / n) for n in names)} {to}", where)
            elif word == "RUN":
                run(inside(rest), where, PATH=path, PYTHONPATH="")
    assert not (tmp_path / "wheels").exists()
    own = {"PATH": path, "PYTHONPATH": "", "SULQ_HOME": str(tmp_path / "srv/sulq")}
    served(tmp_path, inside, own)


def served(tmp_path, inside, own):
    last = dict(stages(DOCKERFILE)[-1])
    run(inside("sulq init /srv/sulq --owner anna"), tmp_path, **own)
    command = [inside(word) for word in json.loads(last["CMD"])]
    with subprocess.Popen(
        [*command, "--port", "0"], env=os.environ | own, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            port = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())[1]
            health = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
            check = shlex.join(health).replace(":8707", f":{port}")
            deadline = time.monotonic() + 60
            while subprocess.run(["sh", "-c", check], env=os.environ | own,
                                 capture_output=True).returncode:  # fmt: skip
                assert time.monotonic() < deadline, "it is not healthy after a minute"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/console/sign-in") as page:
                assert b"Sign in" in page.read()
        finally:
            process.terminate()
    assert process.returncode in (0, -signal.SIGTERM)  # told to stop, it does


def test_the_unit_runs_a_command_that_is_there():
    """Its command is one of ours, its stop waits for what is under way, and it may do little."""
    said = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    program, word, folder = said["ExecStart"].split()
    assert (Path(program).name, word) == ("sulq", "serve")
    assert folder == f"/var/lib/{said['StateDirectory']}"
    assert said["User"] == "sulq"
    compose = yaml.safe_load((ROOT / "examples/compose/compose.yaml").read_text())
    assert f"{said['TimeoutStopSec']}s" == compose["services"]["one"]["stop_grace_period"]
    hardened = ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices",
                "ProtectKernelTunables", "RestrictSUIDSGID", "LockPersonality")  # fmt: skip
    assert all(said[name] == "yes" for name in hardened)
    assert said["ProtectSystem"] == "strict"
    assert said["CapabilityBoundingSet"] == ""


def test_images_of_the_example_have_versions_and_the_dockerfile():
    """Nothing of compose.yaml is whatever is newest, and what it builds is the Dockerfile here."""
    services = yaml.safe_load((ROOT / "examples/compose/compose.yaml").read_text())["services"]
    assert all(re.search(r":\d", s["image"]) for s in services.values() if "image" in s)
    (context,) = {s["build"]["context"] for s in services.values() if "build" in s}
    assert (ROOT / "examples/compose" / context / "Dockerfile").resolve() == ROOT / "Dockerfile"


def test_the_notes_name_this_version():
    """What one installs is what is built here, and there is a line for each version before."""
    text = (ROOT / "docs/howto/deploy.md").read_text()
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert f"sulq-{version}-py3-none-any.whl" in text
    older = re.findall(r"^## \[(.+?)\] - \d", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert all(re.search(rf"^\| {re.escape(v)} \|", text, re.M) for v in older)
