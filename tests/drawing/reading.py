"""Reads numbers back off a drawing: places of marks, by the numbers written on its axis."""

from __future__ import annotations

import re
from xml.etree import ElementTree

SIZES = {"k": 1e3, "M": 1e6, "B": 1e9}


def elements(svg):
    """Every element of an SVG: its name, its classes, its attributes and its text."""
    root = ElementTree.fromstring(svg)
    return [
        (e.tag.rpartition("}")[2], e.get("class", "").split(), e.attrib, e.text or "")
        for e in root.iter()
    ]


def marks(svg, kind):
    """The attributes of the elements of a class."""
    return [attributes for _, kinds, attributes, _ in elements(svg) if kind in kinds]


def texts(svg):
    """What is written in it, in order."""
    return [text for name, _, _, text in elements(svg) if name == "text"]


def number(text):
    """1.2k -> 1200, 40% -> 0.4; None if it is no number."""
    found = re.fullmatch(r"(-?[\d.]+)([kMG%]?)", text)
    if not found:
        return None
    return float(found[1]) * (0.01 if found[2] == "%" else SIZES.get(found[2], 1.0))


def across(svg):
    """A function from a place along the drawing to the number that lies there."""
    written = [
        (float(a["x"]), number(text))
        for name, kinds, a, text in elements(svg)
        if name == "text" and a.get("text-anchor") == "middle" and number(text) is not None
    ]
    (x1, v1), (x2, v2) = written[0], written[-1]
    return lambda x: v1 + (float(x) - x1) * (v2 - v1) / (x2 - x1)


def bars(svg, kind="bar"):
    """The numbers at the two ends of each bar."""
    value = across(svg)
    found = [a for a in marks(svg, kind) if "key" not in a["class"].split() and "height" in a]
    return [(value(a["x"]), value(float(a["x"]) + float(a["width"]))) for a in found]


def whiskers(svg):
    """The numbers at the two ends of each interval."""
    value = across(svg)
    ends = (re.match(r"M(\S+) \S+?H([\d.e+-]+)", a["d"]) for a in marks(svg, "whisker"))
    return [(value(found[1]), value(found[2])) for found in ends]
