"""Kernels of a device whose arrays are not NumPy's: inputs are in its memory when they are called.

A value carries where it is: a constant, a feed or what a variable holds is in host memory until a kernel on
the device wants it. Arguments that the kernel declares as `host` (shapes, predicates) are brought the other
way. What a kernel returns stays where the kernel has left it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from flowengine.devices.device import Device
from flowengine.ir.graph import Node
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.ops.load import registry as op_registry

#: They move values by themselves, in host memory.
_TRANSFERS: Final = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})


class DeviceKernels(KernelRegistry):
    """The kernels of one device type, bound to one device of it: `device` arguments are not asked."""

    def __init__(self, kernels: KernelRegistry, device: Device) -> None:
        super().__init__(parent=kernels)
        self._source = kernels
        self._device = device
        self._adapted: dict[int, tuple[Kernel, Kernel]] = {}

    def candidates(self, op: str, device: str = "") -> Sequence[Kernel]:
        if op in _TRANSFERS:
            return self._source.candidates(op)
        return [self._adapt(kernel) for kernel in self._source.candidates(op, self._device.type)]

    def find(self, node: Node, device: str = "") -> Kernel:
        return super().find(node, self._device.type)

    def __iter__(self) -> Iterator[Kernel]:
        return (self._adapt(k) if k.device == self._device.type else k for k in self._source)

    def _adapt(self, kernel: Kernel) -> Kernel:
        found = self._adapted.get(id(kernel))
        if found is None:
            adapted = replace(
                kernel,
                function=_moving(kernel, kernel.function, self._device),
                nowait=None if kernel.nowait is None else _moving(kernel, kernel.nowait, self._device),
                takes_xp=False,
                inline=None,
            )
            found = self._adapted[id(kernel)] = (kernel, adapted)
        return found[1]


def _moving(kernel: Kernel, function: Callable[..., Any], device: Device) -> Callable[..., Any]:
    """A kernel's function that takes values from anywhere."""
    definition = op_registry().get(kernel.op)
    names = [] if definition is None else [arg.name for arg in definition.inputs]
    ways = tuple(device.copy_out if name in kernel.host else device.copy_in for name in names)
    first = (device.xp,) if kernel.takes_xp else ()

    def call(*values: Any, **keywords: Any) -> Any:
        moved = [
            tuple(map(way, value)) if isinstance(value, tuple) else way(value)
            for way, value in zip(ways or (device.copy_in,) * len(values), values, strict=True)
        ]
        return function(*first, *moved, **keywords)

    if not kernel.is_async:
        return call

    async def call_and_wait(*values: Any, **keywords: Any) -> Any:
        return await call(*values, **keywords)

    return call_and_wait


__all__ = ["DeviceKernels"]
