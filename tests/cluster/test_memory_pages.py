"""Settings that tell the processes of tasks how to allocate memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowengine.cluster import local, memory_pages
from flowengine.cluster.memory_pages import huge_pages


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which a system says that it gives huge pages to programs that ask for them."""
    monkeypatch.setattr(os, "confstr", lambda _: "glibc 2.36")
    path = tmp_path / "enabled"
    path.write_text("always [madvise] never\n")
    return path


def test_a_system_that_has_them(setting: Path) -> None:
    assert huge_pages(setting) == {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def test_a_system_that_has_none(setting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert huge_pages(setting.parent / "missing") == {}
    for library in ("glibc 2.34", "musl", "", None):
        monkeypatch.setattr(os, "confstr", lambda _, library=library: library)
        assert huge_pages(setting) == {}
    monkeypatch.setattr(os, "confstr", lambda _: "glibc 2.40")
    setting.write_text("always madvise [never]\n")
    assert huge_pages(setting) == {}


def test_what_is_set_already_stays(setting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "huge_pages", lambda: huge_pages(setting))
    monkeypatch.setenv("PYTHONMALLOC", "debug")
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    environment = local._environment()
    assert environment["PYTHONMALLOC"] == "debug"
    assert environment["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"


def test_a_process_begins_with_it() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "print(sum(range(10)))"],
        env={**os.environ, **memory_pages.huge_pages()},
        capture_output=True,
        check=True,
        text=True,
    )
    assert (found.stdout, found.stderr) == ("45\n", "")
