"""Look at the built pages in headless Chromium, at the width of a desk and of a telephone, light and dark.

    python -m tests.docs.shots [--out FOLDER] [PAGE...]      # what `make docs-shots` runs, over all of site/

Pictures go to FOLDER/WIDTH-SCHEME/PAGE.png (by default .shots/). The exit status is 1 if a page is wider than
the window, a table is cut off without a scroll bar, a block of code is cut off on a desk or not highlighted,
text has too little contrast, a picture or script is missing, the copy button of a transcript copies a prompt
or output, or the search finds nothing; it is 0, with the reason, if there is no Chromium.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from tests.docs.transcripts import ROOT

SITE: Final = ROOT / "site"
#: {width in pixels: height of the window}
WINDOWS: Final = {1280: 900, 390: 844}
#: The width from which no block of code may need a scroll bar.
DESK: Final = 1280
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
#: Keeps the text of the next copy in `window.copied`.
_CATCH_COPY: Final = """
() => document.addEventListener("copy", () => {
  const field = document.activeElement;
  window.copied = field.value ?? String(document.getSelection());
}, true)
"""
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
#: Chromium draws no more of a page into one picture.
_HEIGHT_MAX: Final = 16_000

#: For a picture, on a machine that does other work at the same time.
_MILLISECONDS_MAX: Final = 120_000
#: The contrast of text that the guidelines for accessible pages ask for.
_CONTRAST_MIN: Final = 4.5
#: Finds what is wrong with the page that is shown: a list of sentences.
_FAULTS: Final = """
({ desk, contrastMin }) => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1)
    faults.push(`the page is ${root.scrollWidth} pixels wide, the window ${root.clientWidth}`);
  const start = (element) => element.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
  for (const table of document.querySelectorAll("article table")) {
    const right = table.getBoundingClientRect().right;
    for (let each = table.parentElement; each !== document.body; each = each.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(each).overflowX)) break;
      if (right > each.getBoundingClientRect().right + 1) {
        faults.push(`a table is cut off: ${start(table)}`);
        break;
      }
    }
    for (const cell of table.querySelectorAll("th, td"))
      if (cell.scrollWidth > cell.clientWidth + 1) faults.push(`a cell is cut off: ${start(cell)}`);
  }
  for (const code of document.querySelectorAll("article pre > code")) {
    if (root.clientWidth >= desk && code.scrollWidth > code.clientWidth + 1)
      faults.push(`code is cut off: ${start(code)}`);
    const block = code.closest("[class*=language-]");
    if (code.closest(".doc-signature")) continue;
    if (!block) { faults.push(`code of no language: ${start(code)}`); continue; }
    if (/language-(sh|text|hexdump)\\b/.test(block.className)) continue;
    const plain = getComputedStyle(code).color;
    if (![...code.querySelectorAll("span")].some((each) => getComputedStyle(each).color !== plain))
      faults.push(`code is not highlighted: ${start(code)}`);
  }
  const light = (color) => {
    const [red, green, blue] = color.match(/[\\d.]+/g).map(Number).map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const article = document.querySelector("article");
  if (article) {
    const colors = [getComputedStyle(article).color, getComputedStyle(document.body).backgroundColor];
    const pair = colors.map(light);
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < contrastMin) faults.push(`the text's contrast is ${contrast.toFixed(1)}`);
  }
  for (const code of document.querySelectorAll(".language-console code")) {
    const lines = code.textContent.split("\\n");
    const isCommand = (line, index) => line.startsWith("$ ") || lines[index - 1]?.endsWith("\\\\");
    const commands = lines.filter(isCommand);
    code.setAttribute("data-md-copying", ""); // as the copy button does
    const copied = code.innerText.trimEnd().split("\\n").filter((line) => line);
    code.removeAttribute("data-md-copying");
    if (copied.join() !== commands.map((line) => line.replace(/^\\$ /, "")).join())
      faults.push(`the copy button copies more or less than commands: ${copied.join(" | ")}`);
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
        if path.stem != "404" and not path.is_relative_to(SITE / "source")
    )
    names = options.pages or sorted(found)
    count = 0
    for fault in shoot(browser, names, options.out):
        count += 1
        print(fault)
    widths = " and ".join(map(str, WINDOWS))
    print(f"{len(names)} pages at {widths} pixels, light and dark, in {options.out}: {count or 'no'} faults")
    return 1 if count else 0


def shoot(browser: str, names: list[str], out: Path) -> Iterator[str]:
    """Take a picture of each page at each width, light and dark; yield each fault."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for (width, height), scheme in itertools.product(WINDOWS.items(), SCHEMES):
            page = chromium.new_page(
                viewport={"width": width, "height": height}, reduced_motion="reduce", color_scheme=scheme
            )
            page.set_default_timeout(_MILLISECONDS_MAX)
            where = f"{width} {scheme}"
            for name in names:
                yield from (
                    f"{name} at {where}: {fault}" for fault in shot(page, name, out / f"{width}-{scheme}")
                )
            yield from (f"search at {where}: {fault}" for fault in searched(page))
            yield from (f"copy button at {where}: {fault}" for fault in copied(page))
            page.close()
        chromium.close()


def shot(page: Any, name: str, folder: Path) -> list[str]:
    """Open a page, take its picture, and return its faults."""
    problems: list[str] = []
    failed = [
        ("pageerror", lambda error: problems.append(f"a script fails: {error}")),
        ("requestfailed", lambda request: problems.append(f"not found: {request.url}")),
    ]
    for event, note in failed:
        page.on(event, note)
    page.goto((SITE / f"{name}.html").as_uri())
    problems += page.evaluate(_FAULTS, {"desk": DESK, "contrastMin": _CONTRAST_MIN})
    picture = folder / f"{name}.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    width = page.viewport_size["width"]
    tall = min(page.evaluate("document.documentElement.scrollHeight"), _HEIGHT_MAX)
    page.screenshot(path=picture, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": tall})
    for event, note in failed:
        page.remove_listener(event, note)
    return problems


def copied(page: Any) -> Iterator[str]:
    """Press the copy button of the first transcript of a page; yield a fault if it copies the wrong text."""
    page.goto((SITE / "tutorials" / "run-a-model.html").as_uri())
    page.evaluate(_CATCH_COPY)
    block = page.locator(".language-console").first
    block.hover()
    block.locator("button.md-clipboard, .md-code__button").first.click()
    text = page.evaluate("window.copied")
    if text != "flowengine run keras_digits":
        yield f"copies {text!r}"


def searched(page: Any) -> Iterator[str]:
    """Yield a fault if the search fails in a page that was opened from a folder."""
    page.goto((SITE / "index.html").as_uri() + "?q=make_callable")
    try:
        page.locator(".md-search-result__item a").first.wait_for(state="attached", timeout=10_000)
    except Exception as error:  # Playwright's own, which is imported in one place
        yield f"finds nothing: {str(error).splitlines()[0]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
