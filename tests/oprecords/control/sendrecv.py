"""Ops that carry tensors between the parts of a partitioned graph; they have no records."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "dead tokens and frames are no values: tests/runtime, tests/conformance": """
        _HostRecv _HostSend _Narrow _Recv _Send _Widen
    """,
    "it is the step of a device that copies: tests/devices": "_CopyToDevice _CopyToHost",
}
