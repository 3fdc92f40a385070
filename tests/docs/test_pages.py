"""Promises of the pages: figures that were measured, a picture of the transcript, short lines of changes."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs import terminal
from tests.docs.transcripts import ROOT
from tests.generate.reference import public

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md"), *DOCS.glob("examples/*.py")])

#: A line of the changelog, or two short ones: one feature.
_CHANGE_CHARACTERS_MAX = 400
#: What belongs to one machine or to an index of packages, and not into a page.
_FOREIGN = re.compile(
    r"(?<![\w.])/(?:home|root|work|Users|mnt|opt)[/\w]*|pypi\.org|files\.pythonhosted|anaconda\.org"
)


def section(title: str, text: str) -> str:
    """A section of a page, from its title to the next of its rank."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section '{title}'"
    return found[1]


def test_the_figures_of_readme_are_those_of_the_page_of_speed() -> None:
    speed = (DOCS / "speed.md").read_text()
    figures = re.findall(
        r"\d[\d.]* (?:us|ms|s|MB)\b", section("Speed and size", (ROOT / "README.md").read_text())
    )
    assert len(figures) >= 14
    for figure in figures:
        value, unit = figure.split()
        column = re.search(rf"(?<![\d.]){re.escape(value)}(?: {unit})?(?![\d.])", speed)
        assert column is not None, f"{figure} is not on the page of speed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_no_machine(page: Path) -> None:
    assert _FOREIGN.findall(page.read_text()) == []


def test_the_changelog_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text().partition("\n## ")[2]
    for entry in re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE):
        assert len(entry) <= _CHANGE_CHARACTERS_MAX, f"too long: {entry}"
        assert not re.search(r"\d ?%", entry), f"a figure belongs on the page of speed: {entry}"


def test_the_picture_shows_the_transcript() -> None:
    picture = terminal.PICTURE.read_text()
    assert terminal.words(picture) == [
        each for each in ("".join(line.split()) for line in terminal.lines()) if each
    ]
    assert "http" not in picture.replace('"http://www.w3.org/2000/svg"', "")
    assert terminal.words(terminal.drawn()) == terminal.words(picture), "run: python -m tests.docs.terminal"
    for element in ElementTree.fromstring(picture).iter():
        assert element.tag.rpartition("}")[2] not in {"image", "script", "foreignObject"}


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    names = [name for name, _ in public()]
    assert {"flowengine.Session", "flowengine.blocking.Session", "flowengine.train.Saver"} <= set(names)
    for name in names:
        assert pages.count(f"::: {name}\n") == 1, f"{name}: run make generate"
