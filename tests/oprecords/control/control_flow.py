"""Live and dead values: branches, loops and triggers of dataflow."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "dead tokens and frames are no values: tests/runtime, tests/conformance": """
        ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge
        RefNextIteration RefSelect RefSwitch Switch
    """,
}
