"""Steps of the documentation's build: the changelog, search ranks, and the source that the reference links.

MkDocs loads this file; see `.mkdocs.yml`.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

#: {group of the navigation: how search ranks its pages}; a page that stands in no group has the rank 1.
RANKS = {"Start": 4, "Tutorials": 3, "How-to": 4, "Guides": 2, "Reference": 1, "Internals": 0.3}
#: Pages beneath this folder are not found by the search: they record why something was decided.
UNSEARCHED = "decisions/"
#: The page that shows CHANGELOG.md.
CHANGELOG = "changelog.md"
#: A link from the reference to a line of the source: see docstrings.py.
_SOURCE = re.compile(r'href="\.\./source/([\w/]+\.py)\.html#L\d+"')


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Rank the pages of each group for the search."""
    for section in nav.items:
        if isinstance(section, Section):
            for page in pages(section):
                page.rank = RANKS.get(section.title, 1)  # type: ignore[attr-defined]
    return nav


def pages(section: Section) -> list[Page]:
    """Return all pages of a section, those of sections within it included."""
    found: list[Page] = []
    for each in section.children:
        if isinstance(each, Section):
            found += pages(each)
        elif isinstance(each, Page):
            found.append(each)
    return found


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Tell the search plug-in the rank of a page, or to leave it out; fill in the changelog."""
    if page.file.src_uri.startswith(UNSEARCHED):
        page.meta["search"] = {"exclude": True}
    else:
        page.meta["search"] = {"boost": getattr(page, "rank", 1)}
    if page.file.src_uri == CHANGELOG:
        text = (Path(config.docs_dir).parent / "CHANGELOG.md").read_text()
        return text.replace("](docs/", "](")  # the links lead from where this page lies
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Write a page of highlighted source for each file that the reference links."""
    site = Path(config.site_dir)
    linked = {
        name for page in (site / "reference").glob("*.html") for name in _SOURCE.findall(page.read_text())
    }
    style = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True)
    for name in sorted(linked):
        code = highlight((Path(config.docs_dir).parent / name).read_text(), PythonLexer(), style)
        target = site / "source" / f"{name}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        code = code.replace('id="L-', 'id="L').replace('href="#L-', 'href="#L')
        target.write_text(_PAGE.format(name=html.escape(name), code=code))


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ margin: 1rem; }}
pre {{ overflow-x: auto; font-size: 0.85rem; line-height: 1.4; }}
.linenos {{ opacity: 0.5; user-select: none; }}
a {{ color: inherit; text-decoration: none; }}
.k, .kn, .kc, .ow {{ color: light-dark(#8a2be2, #c792ea); }}
.s1, .s2, .sd, .sa, .si {{ color: light-dark(#1c7d4d, #9ece6a); }}
.c1, .sd {{ opacity: 0.75; }}
.nf, .nc, .nd {{ color: light-dark(#2f5fb3, #82aaff); }}
:target {{ background: light-dark(#fff2a8, #55490a); }}
</style>
</head>
<body>
<h1>{name}</h1>
{code}
</body>
</html>
"""
