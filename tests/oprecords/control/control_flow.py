"""Primitive control flow, and devices as values."""

from __future__ import annotations

from typing import Final

from tests.oprecords.record import OpRecord, told

# Live and dead values: branches, loops and triggers of dataflow.

#: {why they have no record: ops}


# Questions to the device on which a node runs.

_OF_DEVICES: Final = [
    OpRecord(
        "DeviceIndex",
        [
            told([], [1], {"device_names": ["GPU", "CPU"]}),
            told([], [0], {"device_names": ["CPU"]}),
            told([], [1], {"device_names": ["GPU"]}),
            told([], [0], {"device_names": []}),
        ],
    ),
    OpRecord("IsTensorFloat32Enabled", [told([], [True], {})]),
]


RECORDS: Final = [*_OF_DEVICES]

EXCUSED: Final = {
    "dead tokens and frames are no values: tests/runtime, tests/conformance": """
        ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge
        RefNextIteration RefSelect RefSwitch Switch
    """,
}
