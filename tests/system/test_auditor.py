"""The black-box auditor of docs/evidence: quiet where the promise is kept, loud where it is not."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))
from benchmarks.evidence import auditor

DRAWN = np.random.default_rng(5)  # the auditor's own test: no answer of the product is seeded


def laplace(scale):
    return DRAWN.laplace(0, scale, 4000)


@pytest.mark.parametrize(("scale", "alarm"), [(1.0, False), (1 / 3, True)])
def test_the_auditor_hears_too_little_noise(scale, alarm):
    """A sum that a row moves by 1, noise for epsilon 1 and a third of it. False alarm: 1e-6."""
    bound = auditor.audit(1 + laplace(scale), laplace(scale))
    assert (bound > 1.0) == alarm


def test_the_auditor_looks_behind_the_point():
    """Noise that leaves the low digits as they were is no noise."""
    one, other = (np.floor(laplace(1.0) * 4096) / 4096 for _ in range(2))
    assert auditor.audit(one + 2.0**-14, other) > 2.0


def test_the_products_answers_raise_no_alarm(monkeypatch):
    """Fewer runs than in docs/evidence, through the whole product. False alarm: 1e-6."""
    monkeypatch.setattr(auditor, "RUNS", 400)
    monkeypatch.setitem(auditor.SCHEMA["columns"]["x"], "high", 400.0)
    asked = [auditor.answers(secret, 1.0, "laplace") for secret in (True, False)]
    assert auditor.audit(*asked) <= 1.0
