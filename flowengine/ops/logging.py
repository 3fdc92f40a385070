"""Printing, assertions and time stamps."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, unchanged

define(
    "Print",
    inputs=["input: T", "data: U"],
    outputs=["output: T"],
    attrs=[
        "T: type",
        "U: list(type) >= 0",
        'message: string = ""',
        "first_n: int = -1",
        "summarize: int = 3",
    ],
    is_stateful=True,
    shape=unchanged,
)
define("Timestamp", outputs=["ts: double"], is_stateful=True, shape=scalars)
define(
    "Assert",
    inputs=["condition: bool", "data: T"],
    attrs=["T: list(type) >= 1", "summarize: int = 3"],
    is_stateful=True,
)
define(
    "PrintV2",
    inputs=["input: string"],
    attrs=['output_stream: string = "stderr"', 'end: string = "\\n"'],
    is_stateful=True,
)
