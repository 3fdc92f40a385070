"""Look at the built pages in headless Chromium, at the width of a desk and of a telephone.

    python -m tests.docs.shots [--out FOLDER] [PAGE...]      # what `make docs-shots` runs, over all of site/

Pictures go to FOLDER/WIDTH/PAGE.png (by default .shots/). The exit status is 1 where a page is wider than the
window, a table is cut off, a block of code is not highlighted, a picture or script is missing, or the search
finds nothing; it is 0, with the reason, where there is no Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.docs.transcripts import ROOT

SITE: Final = ROOT / "site"
#: {width in pixels: height of the window}
WINDOWS: Final = {1280: 900, 390: 844}
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
#: Chromium draws no more of a page into one picture.
_HEIGHT_MAX: Final = 16_000

#: What is wrong with the page that is shown: a list of sentences.
_FAULTS: Final = """
() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1)
    faults.push(`the page is ${root.scrollWidth} pixels wide, the window ${root.clientWidth}`);
  const start = (element) => element.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
  for (const table of document.querySelectorAll("article table")) {
    const right = table.getBoundingClientRect().right;
    for (let each = table.parentElement; each !== document.body; each = each.parentElement)
      if (right > each.getBoundingClientRect().right + 1) {
        faults.push(`a table is cut off: ${start(table)}`);
        break;
      }
    for (const cell of table.querySelectorAll("th, td"))
      if (cell.scrollWidth > cell.clientWidth + 1) faults.push(`a cell is cut off: ${start(cell)}`);
  }
  for (const code of document.querySelectorAll("article pre > code")) {
    const block = code.closest("[class*=language-]");
    if (code.closest(".doc-signature")) continue;
    if (!block) { faults.push(`code of no language: ${start(code)}`); continue; }
    if (/language-(sh|text|hexdump)\\b/.test(block.className)) continue;
    const plain = getComputedStyle(code).color;
    if (![...code.querySelectorAll("span")].some((each) => getComputedStyle(each).color !== plain))
      faults.push(`code is not highlighted: ${start(code)}`);
  }
  for (const image of document.images)
    if (!image.complete || !image.naturalWidth) faults.push(`a picture is missing: ${image.src}`);
  return faults;
}
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.shots")
    parser.add_argument("--out", type=Path, default=ROOT / ".shots")
    parser.add_argument("pages", nargs="*", help="such as speed or tutorials/trio; all without any")
    options = parser.parse_args(arguments)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"skipped: none of {', '.join(BROWSERS)} is on this machine (Debian: apt-get install chromium)")
        return 0
    found = (
        path.relative_to(SITE).with_suffix("").as_posix()
        for path in SITE.rglob("*.html")
        if path.stem != "404"
    )
    names = options.pages or sorted(found)
    count = 0
    for fault in shoot(browser, names, options.out):
        count += 1
        print(fault)
    widths = " and ".join(map(str, WINDOWS))
    print(f"{len(names)} pages at {widths} pixels in {options.out}: {count or 'no'} faults")
    return 1 if count else 0


def shoot(browser: str, names: list[str], out: Path) -> Iterator[str]:
    """Take a picture of each page at each width; yields what is wrong."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for width, height in WINDOWS.items():
            page = chromium.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
            problems: list[str] = []
            page.on("pageerror", lambda error, to=problems: to.append(f"a script fails: {error}"))
            page.on("requestfailed", lambda request, to=problems: to.append(f"not found: {request.url}"))
            for name in names:
                page.goto((SITE / f"{name}.html").as_uri())
                problems += page.evaluate(_FAULTS)
                picture = out / str(width) / f"{name}.png"
                picture.parent.mkdir(parents=True, exist_ok=True)
                tall = page.evaluate("document.documentElement.scrollHeight")
                page.screenshot(
                    path=picture,
                    full_page=True,
                    clip={"x": 0, "y": 0, "width": width, "height": min(tall, _HEIGHT_MAX)},
                )
                yield from (f"{name} at {width}: {problem}" for problem in problems)
                problems.clear()
            yield from (f"search at {width}: {problem}" for problem in searched(page))
            page.close()
        chromium.close()


def searched(page: Any) -> Iterator[str]:
    """Yield a fault if the search fails in a page that was opened from a folder."""
    page.goto((SITE / "index.html").as_uri() + "?q=make_callable")
    try:
        page.locator(".md-search-result__item a").first.wait_for(state="attached", timeout=10_000)
    except Exception as error:  # Playwright's own, which is imported in one place
        yield f"finds nothing: {str(error).splitlines()[0]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
