"""Attributes of nodes by which one room tells another: the engine's own, which no op has."""

from __future__ import annotations

from typing import Final

#: {node: the segment that is computed again for its gradient}, as bytes.
SEGMENT: Final = "_recompute"
#: On a node whose control inputs say when it runs although nothing depends on it.
KEEPS_CONTROLS: Final = "_keeps_controls"
#: On a copy to the host that only Sends to other tasks take.
LEAVES_TASK: Final = "_leaves_task"
