"""Values as a page shows them, escaped."""

from markupsafe import Markup

from sulq.server.console.pages import when, wrapped


def test_long_names_may_break_and_are_escaped():
    """After underscores, dots, slashes and the like; never inside an escaped character."""
    assert wrapped("a_b/c.d") == "a_<wbr>b/<wbr>c.<wbr>d"
    assert wrapped("x&y") == "x&amp;<wbr>y"
    assert wrapped("<b>'") == "&lt;b&gt;&#39;"
    assert isinstance(wrapped(""), Markup)


def test_times_are_short_and_escaped():
    """With the whole time beside it, for the script."""
    time = "2026-11-16T02:40:10+00:00"
    assert when(time) == f'<time datetime="{time}">2026-11-16 02:40 UTC</time>'
    assert when(None) == ""
    assert "<b" not in when("<b>")
