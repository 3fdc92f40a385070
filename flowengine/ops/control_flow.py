"""Switch, Merge and the frames of loops."""

from __future__ import annotations

from flowengine.ops.registry import define

define("Abort", attrs=['error_msg: string = ""', "exit_without_error: bool = false"])
define("ControlTrigger")
define(
    "Enter",
    inputs=["data: T"],
    outputs=["output: T"],
    attrs=["T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"],
)
define("Exit", inputs=["data: T"], outputs=["output: T"], attrs=["T: type"])
define("LoopCond", inputs=["input: bool"], outputs=["output: bool"])
define(
    "Merge",
    inputs=["inputs: N * T"],
    outputs=["output: T", "value_index: int32"],
    attrs=["T: type", "N: int >= 1"],
)
define("NextIteration", inputs=["data: T"], outputs=["output: T"], attrs=["T: type"])
define("NoOp")
define(
    "RefEnter",
    inputs=["data: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"],
)
define("RefExit", inputs=["data: Ref(T)"], outputs=["output: Ref(T)"], attrs=["T: type"])
define(
    "RefMerge",
    inputs=["inputs: N * Ref(T)"],
    outputs=["output: Ref(T)", "value_index: int32"],
    attrs=["T: type", "N: int >= 1"],
)
define("RefNextIteration", inputs=["data: Ref(T)"], outputs=["output: Ref(T)"], attrs=["T: type"])
define(
    "RefSelect",
    inputs=["index: int32", "inputs: N * Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type", "N: int >= 1"],
)
define(
    "RefSwitch",
    inputs=["data: Ref(T)", "pred: bool"],
    outputs=["output_false: Ref(T)", "output_true: Ref(T)"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
)
define(
    "Switch",
    inputs=["data: T", "pred: bool"],
    outputs=["output_false: T", "output_true: T"],
    attrs=["T: type"],
)
