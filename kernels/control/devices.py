"""Questions to the device on which a node runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel


@kernel("DeviceIndex", heavy=False, host=("index",))
def device_index(xp: Any, *, device_names: tuple[bytes, ...], ctx: KernelContext) -> Any:
    """Which of the types of devices this one is of (int32); as many as there are where it is of none."""
    kind = ctx.device.rpartition("device:")[2].partition(":")[0].encode()
    return np.int32(device_names.index(kind) if kind in device_names else len(device_names))


@kernel("IsTensorFloat32Enabled", heavy=False, host=("enabled",))
def is_tensor_float32_enabled(xp: Any) -> Any:
    """True: nothing forbids a GPU to multiply with fewer bits, which is TensorFlow's default."""
    return np.bool_(True)
