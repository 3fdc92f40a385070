"""Switch, Merge and the frames of loops."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import of_rank, ranked, unchanged


def switch(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 1, 0)
    return [c.input(0), c.input(0)]


define(
    "Switch",
    inputs=["data: T", "pred: bool"],
    outputs=["output_false: T", "output_true: T"],
    attrs=["T: type"],
    shape=switch,
)
define(
    "RefSwitch",
    inputs=["data: Ref(T)", "pred: bool"],
    outputs=["output_false: Ref(T)", "output_true: Ref(T)"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
    shape=switch,
)


def merge_any(c: ShapeContext) -> Sequence[TensorShape]:
    """Any input may come through: what all are instances of, and which it was.

    Inside loops the inference driver solves this itself.
    """
    shape = c.input(0)
    for index in range(1, c.num_inputs):
        shape = shape.relax_with(c.input(index))
    return [shape, SCALAR]


define(
    "Merge",
    inputs=["inputs: N * T"],
    outputs=["output: T", "value_index: int32"],
    attrs=["T: type", "N: int >= 1"],
    shape=merge_any,
)
define(
    "RefMerge",
    inputs=["inputs: N * Ref(T)"],
    outputs=["output: Ref(T)", "value_index: int32"],
    attrs=["T: type", "N: int >= 1"],
    shape=merge_any,
)
define(
    "Enter",
    inputs=["data: T"],
    outputs=["output: T"],
    attrs=["T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"],
    shape=unchanged,
)
define(
    "RefEnter",
    inputs=["data: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"],
    shape=unchanged,
)
define("Exit", inputs=["data: T"], outputs=["output: T"], attrs=["T: type"], shape=unchanged)
define("RefExit", inputs=["data: Ref(T)"], outputs=["output: Ref(T)"], attrs=["T: type"], shape=unchanged)
define("NextIteration", inputs=["data: T"], outputs=["output: T"], attrs=["T: type"], shape=unchanged)
define(
    "RefNextIteration",
    inputs=["data: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type"],
    shape=unchanged,
)
define("LoopCond", inputs=["input: bool"], outputs=["output: bool"], shape=of_rank(0))


def select_reference(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 0)
    shape = c.input(1)
    for index in range(2, c.num_inputs):
        shape = shape.relax_with(c.input(index))
    return [shape]


define(
    "RefSelect",
    inputs=["index: int32", "inputs: N * Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type", "N: int >= 1"],
    shape=select_reference,
)
define("Abort", attrs=['error_msg: string = ""', "exit_without_error: bool = false"])
define("ControlTrigger")
define("NoOp")
