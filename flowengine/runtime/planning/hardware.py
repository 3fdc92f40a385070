"""The kernels of one device: found for its type, given its array module, with values in its memory.

This is the one way by which a device's array module comes to a kernel. A value carries where it is: a
constant, a feed or what a variable holds is in host memory until a kernel on the device wants it.
Arguments that the kernel declares as `host` (shapes, predicates) are brought the other way. What a kernel
returns stays where the kernel has left it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flowengine.devices.device import Device
from flowengine.ir.graph import Node
from flowengine.ir.names import TRANSFER_OPS
from flowengine.kernels.common.checks import gathered
from flowengine.kernels.registry import Holds, Kernel, KernelRegistry
from flowengine.ops.load import registry as op_registry


def kernels_on(kernels: KernelRegistry, device: Device) -> KernelRegistry:
    """The kernels that a plan for a device is made with."""
    # What a registry gives of itself is for a CPU and NumPy.
    return kernels if is_host(device) else DeviceKernels(kernels, device)


def is_host(device: Device) -> bool:
    """Whether a device is a CPU that computes with NumPy."""
    return device.type == "CPU" and device.shares_host_memory and device.xp is np


class DeviceKernels(KernelRegistry):
    """The kernels of one device type, bound to one device of it: `device` arguments are not asked."""

    def __init__(self, kernels: KernelRegistry, device: Device) -> None:
        super().__init__(parent=kernels)
        self._source = kernels
        self._device = device
        self._adapted: dict[int, tuple[Kernel, Kernel]] = {}

    def candidates(self, op: str, device: str = "") -> Sequence[Kernel]:
        return super().candidates(op, self._device.type)

    def _look_up(self, op: str, device: str) -> Sequence[Kernel]:
        if op in TRANSFER_OPS:
            return self._source.candidates(op)  # they move values by themselves, in host memory
        return [self._adapt(kernel) for kernel in self._source.candidates(op, device)]

    def serving(self, node: Node, device: str = "", holds: Holds | None = None) -> Kernel | None:
        asked = None if node.op in TRANSFER_OPS else self._device.holds
        return super().serving(node, self._device.type, asked)

    def find(self, node: Node, device: str = "") -> Kernel:
        return super().find(node, self._device.type)

    def providers(self) -> tuple[str, ...]:
        """None: what providers compute for the parts that they claim are kernels for CPUs."""
        return ()

    def __iter__(self) -> Iterator[Kernel]:
        return (self._adapt(k) for k in self._source if k.device in (None, self._device.type))

    def _adapt(self, kernel: Kernel) -> Kernel:
        found = self._adapted.get(id(kernel))
        if found is None:
            found = self._adapted[id(kernel)] = (kernel, self._adapted_to_device(kernel))
        return found[1]

    def _adapted_to_device(self, kernel: Kernel) -> Kernel:
        device = self._device
        if kernel.maker is not None or device.shares_host_memory:
            return replace(kernel, xp=device.xp)
        nowait = None if kernel.nowait is None else _moving(kernel, kernel.nowait, device)
        function = _moving(kernel, kernel.function, device)
        return replace(kernel, function=function, nowait=nowait, xp=device.xp, inline=None)


def _moving(kernel: Kernel, function: Callable[..., Any], device: Device) -> Callable[..., Any]:
    """A kernel's function that takes values from anywhere."""
    definition = op_registry().get(kernel.op)
    names = [] if definition is None else [arg.name for arg in definition.inputs]
    ways = [device.copy_out if name in kernel.host else device.copy_in for name in names]
    first = 1 if kernel.takes_xp else 0
    if isinstance(function, np.ufunc):
        # The module's own, not NumPy's by way of `__array_ufunc__`.
        function = getattr(device.xp, function.__name__, function)

    # Errors name what is wrapped, and its parameters are looked at.
    @functools.wraps(function)
    def call(*values: Any, **keywords: Any) -> Any:
        moved = [
            tuple(map(way, value)) if isinstance(value, tuple) else way(value)
            for way, value in zip(
                ways or [device.copy_in] * (len(values) - first), values[first:], strict=True
            )
        ]
        if kernel.is_async:
            return function(*values[:first], *moved, **keywords)
        with gathered() as checks:
            result = function(*values[:first], *moved, **keywords)
        for check in checks:
            if device.copy_out(check.wrong):
                raise check.error()
        return result

    if not kernel.is_async:
        return call

    @functools.wraps(function)
    async def call_and_wait(*values: Any, **keywords: Any) -> Any:
        return await call(*values, **keywords)

    return call_and_wait


__all__ = ["DeviceKernels", "is_host", "kernels_on"]
