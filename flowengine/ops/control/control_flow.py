"""Primitive control flow, and devices as values."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import HandsOn, NotDifferentiable, Reads
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import of_rank, ranked, scalars, unchanged

# Live and dead values: branches, loops and triggers of dataflow.


@define("Switch(data: T, pred: bool) -> output_false, output_true: T", "T: type")
@define(
    "RefSwitch(data: Ref(T), pred: bool) -> output_false, output_true: Ref(T)",
    "takes_uninitialized; T: type",
    Reads("data"),
)
def switch(c: ShapeContext) -> Shapes:
    ranked(c, 1, 0)
    return [c.input(0), c.input(0)]


@define("Merge(inputs: N * T) -> output: T, value_index: int32", "T: type; N: int >= 1")
@define(
    "RefMerge(inputs: N * Ref(T)) -> output: Ref(T), value_index: int32",
    "T: type; N: int >= 1",
    Reads("inputs"),
)
def merge_any(c: ShapeContext) -> Shapes:
    """Any input may come through: what all are instances of, and which it was.

    Inside loops the inference driver solves this itself.
    """
    shape = c.input(0)
    for index in range(1, c.num_inputs):
        shape = shape.relax_with(c.input(index))
    return [shape, SCALAR]


define(
    "Enter(data: T) -> output: T",
    "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
    shape=unchanged,
)
define(
    "RefEnter(data: Ref(T)) -> output: Ref(T)",
    "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
    Reads("data"),
    shape=unchanged,
)
define("Exit(data: T) -> output: T", "T: type", shape=unchanged)
define("RefExit(data: Ref(T)) -> output: Ref(T)", "T: type", Reads("data"), shape=unchanged)
define("NextIteration(data: T) -> output: T", "T: type", shape=unchanged)
define("RefNextIteration(data: Ref(T)) -> output: Ref(T)", "T: type", Reads("data"), shape=unchanged)
define(
    "LoopCond(input: bool) -> output: bool", HandsOn("input", "output"), NotDifferentiable(), shape=of_rank(0)
)


@define(
    "RefSelect(index: int32, inputs: N * Ref(T)) -> output: Ref(T)", "T: type; N: int >= 1", Reads("inputs")
)
def select_reference(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    shape = c.input(1)
    for index in range(2, c.num_inputs):
        shape = shape.relax_with(c.input(index))
    return [shape]


define("ControlTrigger()", NotDifferentiable())


# Questions to the device on which a node runs.

define(
    "DeviceIndex() -> index: int32",
    "stateful; device_names: list(string)",
    NotDifferentiable(),
    shape=scalars,
)
define("IsTensorFloat32Enabled() -> enabled: bool", "stateful", NotDifferentiable(), shape=scalars)
