"""Diagrams: every box is drawn within the picture, none covers another, and a wrong line is named."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.diagrams import FOLDER, draw, parse, place

LABELS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)


@given(rows=st.lists(st.lists(LABELS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_no_box_covers_another_or_leaves_the_picture(rows: list[list[str]]) -> None:
    numbers = itertools.count()
    lines = ["row: " + " | ".join(f"b{next(numbers)}={label}" for label in row) for row in rows]
    diagram = parse("\n".join(lines))
    width, height = place(diagram)
    for box in diagram.boxes.values():
        assert box.width / 2 <= box.x <= width - box.width / 2
        assert box.height / 2 <= box.y <= height - box.height / 2
    for one, other in itertools.combinations(diagram.boxes.values(), 2):
        across, down = abs(one.x - other.x), abs(one.y - other.y)
        assert across > (one.width + other.width) / 2 or down > (one.height + other.height) / 2


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.diagram")), ids=lambda path: path.stem)
def test_a_diagram_of_the_docs_is_drawn_whole(path: Path) -> None:
    text = path.read_text()
    diagram = parse(text)
    words = [each.text for each in ElementTree.fromstring(draw(text)).iter() if each.tag.endswith("}text")]
    for box in diagram.boxes.values():
        assert set(box.lines) <= set(words)
    assert {label for *_, label in diagram.edges if label} <= set(words)
    assert {title for title, _ in diagram.groups} <= set(words)


def test_a_line_that_is_no_statement_is_named() -> None:
    with pytest.raises(ValueError, match="line 2 is no row, edge or group of known boxes: edge: a -> b"):
        parse("row: a=A\nedge: a -> b")
