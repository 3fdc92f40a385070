"""Ops that call functions of the graph's library."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Case",
    inputs=["branch_index: int32", "input: Tin"],
    outputs=["output: Tout"],
    attrs=[
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "branches: list(func) >= 1",
        "output_shapes: list(shape) = []",
    ],
    is_stateful=True,
)
define("FakeParam", outputs=["output: dtype"], attrs=["dtype: type", "shape: shape"])
define(
    "For",
    inputs=["start: int32", "limit: int32", "delta: int32", "input: T"],
    outputs=["output: T"],
    attrs=["T: list(type) >= 0", "body: func"],
)
define(
    "If",
    inputs=["cond: Tcond", "input: Tin"],
    outputs=["output: Tout"],
    attrs=[
        "Tcond: type",
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "then_branch: func",
        "else_branch: func",
        "output_shapes: list(shape) = []",
    ],
    is_stateful=True,
)
define(
    "PartitionedCall",
    inputs=["args: Tin"],
    outputs=["output: Tout"],
    attrs=[
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "f: func",
        'config: string = ""',
        'config_proto: string = ""',
        'executor_type: string = ""',
    ],
)
define(
    "RemoteCall",
    inputs=["target: string", "args: Tin"],
    outputs=["output: Tout"],
    attrs=["Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"],
    is_stateful=True,
)
define(
    "StatefulPartitionedCall",
    inputs=["args: Tin"],
    outputs=["output: Tout"],
    attrs=[
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "f: func",
        'config: string = ""',
        'config_proto: string = ""',
        'executor_type: string = ""',
    ],
    is_stateful=True,
)
define(
    "StatelessIf",
    inputs=["cond: Tcond", "input: Tin"],
    outputs=["output: Tout"],
    attrs=[
        "Tcond: type",
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "then_branch: func",
        "else_branch: func",
        "output_shapes: list(shape) = []",
    ],
)
define(
    "StatelessWhile",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "T: list(type) >= 0",
        "cond: func",
        "body: func",
        "output_shapes: list(shape) = []",
        "parallel_iterations: int = 10",
    ],
)
define(
    "SymbolicGradient",
    inputs=["input: Tin"],
    outputs=["output: Tout"],
    attrs=["Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"],
)
define(
    "While",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "T: list(type) >= 0",
        "cond: func",
        "body: func",
        "output_shapes: list(shape) = []",
        "parallel_iterations: int = 10",
    ],
    is_stateful=True,
)
define("_Arg", outputs=["output: T"], attrs=["T: type", "index: int >= 0"], is_stateful=True)
define(
    "_ArrayToList",
    inputs=["input: N * T"],
    outputs=["output: out_types"],
    attrs=["T: type", "N: int >= 1", "out_types: list(type) >= 1"],
)
define("_DeviceArg", outputs=["output: T"], attrs=["T: type", "index: int >= 0"], is_stateful=True)
define("_DeviceRetval", inputs=["input: T"], attrs=["T: type", "index: int >= 0"], is_stateful=True)
define(
    "_If",
    inputs=["cond: Tcond", "input: Tin"],
    outputs=["output: Tout"],
    attrs=[
        "Tcond: type",
        "Tin: list(type) >= 1",
        "Tout: list(type) >= 1",
        "then_branch: func",
        "else_branch: func",
    ],
    is_stateful=True,
)
define(
    "_ListToArray",
    inputs=["input: Tin"],
    outputs=["output: N * T"],
    attrs=["Tin: list(type) >= 1", "T: type", "N: int >= 1"],
)
define("_Retval", inputs=["input: T"], attrs=["T: type", "index: int >= 0"], is_stateful=True)
define(
    "_While",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: list(type) >= 0", "cond: func", "body: func"],
    is_stateful=True,
)
