"""Questions to the device on which a node runs."""

from __future__ import annotations

from typing import Final

from tests.oprecords.record import OpRecord, told

RECORDS: Final = [
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
