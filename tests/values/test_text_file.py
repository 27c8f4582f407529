"""The text of a file, or the caller's own refusal."""

from pathlib import Path

import pytest

from sulq.errors import Refused
from sulq.values.text_file import read_text

UNREADABLE = {
    "nowhere.toml": (None, "No such file"),
    "bytes.toml": (b"\xff", "not UTF-8 text"),
    "nul\0.toml": (None, "not UTF-8 text"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_refused_in_the_callers_words(name, tmp_path):
    """Why is in it, and nothing of what stands in the file."""
    held, why = UNREADABLE[name]
    if held is not None:
        (tmp_path / name).write_bytes(held)
    with pytest.raises(Refused, match=f"config cannot be read.*{why}"):
        read_text(Path(tmp_path / name), lambda why: Refused(f"config cannot be read ({why})."))


def test_a_file_is_read_as_utf_8(tmp_path):
    """Whatever the machine's own encoding is."""
    (tmp_path / "one.toml").write_bytes("Zoë".encode())
    assert read_text(tmp_path / "one.toml", Refused) == "Zoë"
