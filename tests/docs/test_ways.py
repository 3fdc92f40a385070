"""Ten questions that people come with are answered within two clicks of the home page, by links in text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.transcripts import ROOT

DOCS: Final = ROOT / "docs"
HOME: Final = DOCS / "README.md"
CLICKS_MAX: Final = 2

#: {question: (page and section that answers it, a line of code that the section shows)}
ANSWERS: Final = {
    "install": ("install.md", "pip install"),
    "first model": ("tutorials/run-a-model.md", "flowengine run keras_digits --feed image=nine.png"),
    "batch predict": ("how-to.md#4-predict-in-batches", "make_callable"),
    "train": ("tutorials/train-a-model.md", "fe.blocking.fit("),
    "resume": ("how-to.md#8-resume-training", 'directory="run"'),
    "serve": ("tutorials/starlette.md", "uvicorn"),
    "profile": ("how-to.md#14-profile-a-step", "fe.RunMetadata()"),
    "cluster": ("tutorials/cluster.md", "flowengine cluster up --local"),
    "own op": ("how-to.md#16-write-your-own-op", "@kernels.kernel"),
    "error text": ("errors.md", "You must feed a value for placeholder tensor"),
}
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links(page: Path) -> Iterator[str]:
    """Yield the addresses, relative to docs/, that a page links."""
    for address in _LINK.findall(_BLOCK.sub("", page.read_text())):
        path, mark, section = address.partition("#")
        if path.endswith(".md") or not path:
            target = (page.parent / path).resolve() if path else page
            yield target.relative_to(DOCS).as_posix() + mark + section


def reached() -> dict[str, list[str]]:
    """Return {address: the pages on the shortest way to it from the home page}."""
    ways: dict[str, list[str]] = {"README.md": []}
    ring = [HOME]
    for _ in range(CLICKS_MAX):
        following: list[Path] = []
        for page in ring:
            way = ways[page.relative_to(DOCS).as_posix()]
            for address in links(page):
                name = address.partition("#")[0]
                for each in (address, name):
                    ways.setdefault(each, [*way, each])
                following.append(DOCS / name)
        ring = list(dict.fromkeys(following))
    return ways


def section(address: str) -> str:
    """Return the text of a page, or of the section of it that an address names."""
    name, _, anchor = address.partition("#")
    text = (DOCS / name).read_text()
    if not anchor:
        return text
    plain = _BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)  # no heading in code
    for heading in _HEADING.finditer(plain):
        slug = re.sub(r"[^\w\s-]", "", heading[2]).strip().lower().replace(" ", "-")
        if slug == anchor:
            after = re.compile(rf"^#{{1,{len(heading[1])}}} ", re.MULTILINE).search(plain, heading.end())
            return text[heading.start() : after.start() if after else None]
    raise AssertionError(f"{address}: the page has no such section")


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_is_answered_within_two_clicks(question: str) -> None:
    address, line = ANSWERS[question]
    way = reached().get(address)
    assert way is not None, f"no way of {CLICKS_MAX} clicks from the home page to {address}"
    assert len(way) <= CLICKS_MAX
    assert line in section(address)


def test_a_link_leads_to_a_page() -> None:
    for page in DOCS.rglob("*.md"):
        for address in links(page):
            assert (DOCS / address.partition("#")[0]).exists(), f"{page.name}: {address}"


def test_every_guide_links_the_reference() -> None:
    navigation = (ROOT / ".mkdocs.yml").read_text()
    guides = navigation.partition("  - Guides:\n")[2].partition("  - Reference:\n")[0]
    names = re.findall(r"- (\S+\.md)$", guides, re.MULTILINE)
    assert len(names) > 20
    for name in names:
        assert any(address.startswith("reference/") for address in links(DOCS / name)), name
