"""Ops that call functions of the graph's library."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import attr_shape, each_unchanged

define("FakeParam", outputs=["output: dtype"], attrs=["dtype: type", "shape: shape"], shape=attr_shape)


def branches(c: ShapeContext) -> Sequence[TensorShape]:
    """What `output_shapes` says; of an empty list nothing is known."""
    shapes: Sequence[TensorShape] = c.attrs["output_shapes"]
    return shapes if len(shapes) == c.num_outputs else [UNKNOWN_SHAPE] * c.num_outputs


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
    shape=branches,
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
    shape=branches,
)
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
    shape=branches,
)


def while_loop(c: ShapeContext) -> Sequence[TensorShape]:
    """What `output_shapes` says; else a variable may leave the loop with another shape."""
    shapes: Sequence[TensorShape] = c.attrs["output_shapes"]
    return shapes if len(shapes) == c.num_outputs else [UNKNOWN_SHAPE] * c.num_outputs


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
    shape=while_loop,
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
    shape=while_loop,
)


def symbolic_gradient(c: ShapeContext) -> Sequence[TensorShape]:
    """A gradient for each of the first inputs, shaped like it."""
    if c.num_inputs < c.num_outputs:
        raise InvalidArgumentError("len(inputs) < len(outputs)")
    return [c.input(i) for i in range(c.num_outputs)]


define(
    "SymbolicGradient",
    inputs=["input: Tin"],
    outputs=["output: Tout"],
    attrs=["Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"],
    shape=symbolic_gradient,
)
define(
    "_ListToArray",
    inputs=["input: Tin"],
    outputs=["output: N * T"],
    attrs=["Tin: list(type) >= 1", "T: type", "N: int >= 1"],
    shape=each_unchanged,
)
define(
    "_ArrayToList",
    inputs=["input: N * T"],
    outputs=["output: out_types"],
    attrs=["T: type", "N: int >= 1", "out_types: list(type) >= 1"],
    shape=each_unchanged,
)
define(
    "For",
    inputs=["start: int32", "limit: int32", "delta: int32", "input: T"],
    outputs=["output: T"],
    attrs=["T: list(type) >= 0", "body: func"],
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
define("_Arg", outputs=["output: T"], attrs=["T: type", "index: int >= 0"], is_stateful=True)
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
define("_Retval", inputs=["input: T"], attrs=["T: type", "index: int >= 0"], is_stateful=True)
define(
    "_While",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: list(type) >= 0", "cond: func", "body: func"],
    is_stateful=True,
)
