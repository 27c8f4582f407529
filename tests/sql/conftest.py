"""What tests of statements share."""

import numpy as np
import pytest

from sulq.sql import statement


@pytest.fixture
def every_number(monkeypatch):
    """Show every number, those too noisy to say as well: under silent noise each one is exact."""
    monkeypatch.setattr(statement, "_vague", lambda by, weak, *ends: np.zeros(len(weak), bool))
