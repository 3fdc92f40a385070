"""Barriers: tuples that become ready key by key."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they wait, or hold what others wait for: tests/resources, tests/conformance": """
        Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize
        BarrierTakeMany
    """,
}
