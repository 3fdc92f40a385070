"""The built pages: nothing comes from another host, docstrings are laid out, search has an index.

They look through `site/`, which `make docs` builds, and are skipped where that was not done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from tests.docs.transcripts import ROOT

SITE: Final = ROOT / "site"

#: {element: the attributes whose address is loaded with the page}
LOADED: Final = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
_FOREIGN: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLES: Final = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


def is_built() -> bool:
    """Whether there is a site, made of the pages as they are now."""
    index = SITE / "search" / "search_index.js"
    pages = (path for path in (ROOT / "docs").rglob("*") if path.suffix in {".css", ".js", ".md", ".svg"})
    sources = [ROOT / ".mkdocs.yml", *pages]
    return index.exists() and index.stat().st_mtime >= max(path.stat().st_mtime for path in sources)


pytestmark = pytest.mark.skipif(not is_built(), reason="site/ is not built, or older than docs/: make docs")


class Addresses(HTMLParser):
    """A parser that collects the addresses that a page loads, and the styles in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.styles: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        values = dict(attrs)
        if tag == "link" and values.get("rel") in {"canonical", "prev", "next", "alternate"}:
            return  # leads somewhere, and loads nothing
        self.loaded += [values[name] or "" for name in LOADED.get(tag, ()) if values.get(name)]
        self.styles.append(values.get("style") or "")

    def handle_endtag(self, tag: str) -> None:
        self._in_style = self._in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.styles.append(data)


def addresses(text: str) -> list[str]:
    """Every address that a page loads by itself."""
    parser = Addresses()
    parser.feed(text)
    return [*parser.loaded, *(one for style in parser.styles for one in in_styles(style))]


def in_styles(text: str) -> Iterator[str]:
    for url, imported in _IN_STYLES.findall(text):
        yield url or imported


def foreign(found: list[str]) -> list[str]:
    return [each for each in found if _FOREIGN.match(each.strip())]


def test_foreign_assets_are_seen() -> None:
    page = """<link rel=stylesheet href="https://a/b.css"><link rel=canonical href="https://a/">
    <a href="https://a">a</a><script src=//a/b.js></script><img src="images/a.png" style="background: url(http://a/c)">
    <style>@import "https://a/d.css"; a { src: url('a.woff') }</style>"""
    assert foreign(addresses(page)) == ["https://a/b.css", "//a/b.js", "http://a/c", "https://a/d.css"]


def test_no_page_loads_anything_from_another_host() -> None:
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        assert foreign(addresses(page.read_text())) == [], page
    for sheet in SITE.rglob("*.css"):
        assert foreign(list(in_styles(sheet.read_text()))) == [], sheet


def test_what_a_page_loads_is_there() -> None:
    for page in SITE.rglob("*.html"):
        for address in addresses(page.read_text()):
            path = address.partition("#")[0].partition("?")[0]
            if path and not path.startswith("data:"):
                assert (page.parent / path).exists() or page.name == "404.html", f"{page}: {address}"


def test_docstrings_are_definitions_and_code() -> None:
    text = (SITE / "reference" / "sessions.html").read_text()
    assert re.search(r"<dt><code>timeout_seconds</code></dt>\s*<dd>", text)
    assert "Steps of one graph in this process" in text
    assert re.search(r'<div class="language-pycon highlight">.*?<span class="gp">&gt;&gt;&gt;', text, re.S)
    text = (SITE / "reference" / "train.html").read_text()
    assert re.search(r'<div class="language-python highlight">.*?<span class="n">', text, re.DOTALL)


def test_search_knows_pages_and_reference() -> None:
    index = (SITE / "search" / "search_index.js").read_text()
    for words in ("make_callable", "run_with_recovery", "Property-test your op"):
        assert words in index


def test_search_ranks_guides_above_internals_and_leaves_decisions_out() -> None:
    text = (SITE / "search" / "search_index.js").read_text()
    pages = json.loads(text[text.index("{") : text.rindex("}") + 1])["docs"]
    ranks = {page["location"]: page.get("boost", 1) for page in pages}
    assert not [location for location in ranks if location.startswith("decisions/")]
    assert (
        ranks["how-to.html"] > ranks["training.html"] > ranks["reference/train.html"] > ranks["design.html"]
    )


def test_the_reference_links_the_line_of_the_source() -> None:
    text = (SITE / "reference" / "layers.html").read_text()
    found = re.findall(r'href="\.\./source/([\w/]+)\.html#L(\d+)"', text.replace(".py.html", ".html"))
    assert len(found) > 20
    for name, line in found:
        source = (ROOT / f"{name}.py").read_text().splitlines()
        assert re.match(r"\s*(async def|def|class|@)", source[int(line) - 1])
        assert f'id="L{line}"' in (SITE / "source" / f"{name}.py.html").read_text()


def test_no_page_of_the_reference_is_large() -> None:
    for page in (SITE / "reference").glob("*.html"):
        assert page.stat().st_size < 400_000, page


def test_the_changelog_is_a_page() -> None:
    assert "not yet released" in (SITE / "changelog.html").read_text()


def test_there_is_no_page_of_an_image_or_an_example() -> None:
    names = {path.relative_to(SITE).as_posix() for path in SITE.rglob("*")}
    assert "images/terminal.svg" in names
    assert "images/terminal.html" not in names
    assert not [name for name in names if name.startswith("examples/")]


def test_pages_are_where_the_navigation_says(root: Path) -> None:
    navigation = re.findall(r"^ *- ([\w/-]+)\.md$", (root / ".mkdocs.yml").read_text(), re.MULTILINE)
    for name in navigation:
        assert (SITE / f"{'index' if name == 'README' else name}.html").exists()
