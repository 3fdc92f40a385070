"""Stacks, which keep a loop's values for its gradient."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import like_input, scalars, two_strings

define(
    "Stack",
    outputs=["handle: Ref(string)"],
    attrs=["elem_type: type", 'stack_name: string = ""'],
    is_stateful=True,
    shape=two_strings,
)
define(
    "StackV2",
    inputs=["max_size: int32"],
    outputs=["handle: resource"],
    attrs=["elem_type: type", 'stack_name: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define(
    "StackPush",
    inputs=["handle: Ref(string)", "elem: T"],
    outputs=["output: T"],
    attrs=["T: type", "swap_memory: bool = false"],
    shape=like_input(1),
)
define(
    "StackPushV2",
    inputs=["handle: resource", "elem: T"],
    outputs=["output: T"],
    attrs=["T: type", "swap_memory: bool = false"],
    is_stateful=True,
    shape=like_input(1),
)
define("StackClose", inputs=["handle: Ref(string)"])
define("StackCloseV2", inputs=["handle: resource"], is_stateful=True)
define("StackPop", inputs=["handle: Ref(string)"], outputs=["elem: elem_type"], attrs=["elem_type: type"])
define(
    "StackPopV2",
    inputs=["handle: resource"],
    outputs=["elem: elem_type"],
    attrs=["elem_type: type"],
    is_stateful=True,
)
