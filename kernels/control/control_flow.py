"""Primitive control flow, and devices as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import DEAD, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel

# Switch, Merge, Enter, Exit, NextIteration, LoopCond and triggers as functions of live values.
#
# The runtime moves values through these itself, since what they decide is where a value goes and not what
# it is; the functions below say what each computes, for the reference interpreter and for the registry's
# answer to "is there a kernel".


@kernel("Switch", "RefSwitch", heavy=False)
def switch(data: Value, pred: Any) -> tuple[Value, Value]:
    """(data, dead) if pred is false, (dead, data) if it is true; pred is a rank-0 bool."""
    return (DEAD, data) if predicate(pred) else (data, DEAD)


def predicate(value: Any) -> bool:
    """The truth of a rank-0 bool; InvalidArgumentError for a tensor of another rank."""
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"The second input must be a scalar, but it has shape {list(value.shape)}")
    return bool(value)


@kernel("Merge", "RefMerge", heavy=False)
def merge(inputs: tuple[Value, ...]) -> tuple[Value, Any]:
    """The first input that is not dead, and its index (int32)."""
    for index, value in enumerate(inputs):
        if value is not DEAD:
            return value, np.int32(index)
    return DEAD, DEAD


@kernel(
    "Enter",
    "RefEnter",
    "Exit",
    "RefExit",
    "NextIteration",
    "RefNextIteration",
    "LoopCond",
    heavy=False,
)
def forward(value: Value) -> Value:
    """The input itself."""
    return value


@kernel("ControlTrigger", heavy=False)
def control_trigger() -> None:
    """Nothing: it is there for its control edges, and runs even when they are dead."""


@kernel("RefSelect", heavy=False)
def ref_select(index: Any, inputs: tuple[Value, ...]) -> Value:
    """The reference at `index` (int32, rank 0) among the inputs."""
    if getattr(index, "ndim", 0):
        raise InvalidArgumentError(f"Index must be a scalar, but it has shape {list(index.shape)}")
    chosen = int(index)
    if not 0 <= chosen < len(inputs):
        raise InvalidArgumentError(f"Index must be in the range [0, {len(inputs)}) but got {chosen}")
    return inputs[chosen]


# Questions to the device on which a node runs.


@kernel("DeviceIndex", heavy=False, host=("index",))
def device_index(xp: Any, *, device_names: tuple[bytes, ...], ctx: KernelContext) -> Any:
    """Which of the types of devices this one is of (int32); as many as there are where it is of none."""
    kind = ctx.device.rpartition("device:")[2].partition(":")[0].encode()
    return np.int32(device_names.index(kind) if kind in device_names else len(device_names))


@kernel("IsTensorFloat32Enabled", heavy=False, host=("enabled",))
def is_tensor_float32_enabled(xp: Any) -> Any:
    """True: nothing forbids a GPU to multiply with fewer bits, which is TensorFlow's default."""
    return np.bool_(True)
