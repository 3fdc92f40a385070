"""Huge pages for the process of a task: less to look up between two sleeps.

A task's part of a small step runs for a tenth of a millisecond between two sleeps, over objects that lie on
hundreds of pages of 4 KiB; each time the processor has to find them anew, on a virtual machine through two
tables. Where the C library keeps what it hands out on pages of 2 MiB, a few dozen are all: a null step takes
a tenth less, and no more memory. That can only be said before a process begins, to it and to Python, which
otherwise asks the system for small objects' memory by itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: What the system says of huge pages: "always [madvise] never".
_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: The first GNU C library that can be told.
_GLIBC: Final = (2, 35)


def huge_pages(setting: Path = _HUGE_PAGES) -> dict[str, str]:
    """Variables for the process of a task; none where the system, or the C library, has no such thing.

    setting    the file in which the system says what it does
    """
    try:
        chosen = setting.read_text(encoding="ascii")
    except OSError:
        return {}
    if "[never]" in chosen or _glibc() < _GLIBC:
        return {}
    return {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def _glibc() -> tuple[int, ...]:
    """The version of the GNU C library; (0,) of any other."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return tuple(int(part) for part in version.split(".")) if name == "glibc" else (0,)
    except (AttributeError, ValueError, OSError):
        return (0,)


__all__ = ["huge_pages"]
