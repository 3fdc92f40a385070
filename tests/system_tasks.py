"""The system tasks of a run of trio: what nobody's nursery waits for."""

from __future__ import annotations

import trio


def system_tasks(prefix: str = "") -> list[str]:
    """The names of those of this run that begin so."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    return [
        task.name
        for nursery in root.child_nurseries
        for task in nursery.child_tasks
        if task.name.startswith(prefix)
    ]
