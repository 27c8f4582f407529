"""examples/compose: what it says is what the server, its settings and its routes understand."""

import ipaddress
from pathlib import Path

import yaml

from sulq.server.front import SHORT
from sulq.server.services.folder import begin
from sulq.server.services.settings import PREFIX, Settings

FOLDER = Path(__file__).parents[2] / "examples" / "compose"


def test_the_example_of_two_servers_is_one_that_starts(tmp_path, monkeypatch):
    """Two servers alike; settings that load; a trusted proxy that asks whether each is ready."""
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    one, two = (services["services"][name] for name in ("one", "two"))
    assert one == two
    begin(tmp_path / "sulq", "anna")
    for name, value in one["environment"].items():
        if name.startswith(PREFIX):
            monkeypatch.setenv(name, value)
    settings = Settings.load(tmp_path / "sulq")
    settings.check_listening()
    assert settings.ledger_server == settings.registry
    assert settings.sources == ("/data",)
    (inside,) = services["networks"]["inside"]["ipam"]["config"]
    assert settings.trusted_proxies == (str(ipaddress.ip_network(inside["subnet"])),)
    proxy = (FOLDER / "Caddyfile").read_text()
    assert f"one:{settings.port} two:{settings.port}" in proxy
    assert any(f"health_uri {path}?some=true\n" in proxy for path in SHORT)
    assert {v.split(":")[0] for s in services["services"].values() for v in s["volumes"]} == {
        "./data", "./Caddyfile", *services["volumes"],
    }  # fmt: skip
