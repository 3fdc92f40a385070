"""A browser for the tests that look at files as their readers draw them: `make browsers`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any, Final

import pytest

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium, by Playwright."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed (`make browsers` does it)"
    )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on this machine (Debian: apt-get install chromium)")
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
