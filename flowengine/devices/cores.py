"""How many cores of the machine this process may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """How many cores the process may run on, as far as the system says."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


__all__ = ["available_cores"]
