"""Huge pages for the process of a task, so that the processor looks up fewer pages.

A task's part of a small step runs for a tenth of a millisecond between two sleeps, over objects on hundreds
of pages of 4 KiB. Each time the processor has to find them anew, on a virtual machine through two tables. If
the C library allocates on pages of 2 MiB, a few dozen pages are enough: a null step takes a tenth less, and
no more memory. This has to be set before a process begins, for the C library and for Python, which otherwise
asks the system for the memory of small objects by itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: The file in which the system states its setting for huge pages: "always [madvise] never".
_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: The first GNU C library that has this setting.
_GLIBC: Final = (2, 35)


def huge_pages(setting: Path = _HUGE_PAGES) -> dict[str, str]:
    """Return variables for the process of a task; none if the system or the C library lacks huge pages.

    setting    the file with the system's setting
    """
    try:
        chosen = setting.read_text(encoding="ascii")
    except OSError:
        return {}
    if "[never]" in chosen or _glibc() < _GLIBC:
        return {}
    return {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def _glibc() -> tuple[int, ...]:
    """Return the version of the GNU C library; (0,) for any other."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return tuple(int(part) for part in version.split(".")) if name == "glibc" else (0,)
    except (AttributeError, ValueError, OSError):
        return (0,)


__all__ = ["huge_pages"]
