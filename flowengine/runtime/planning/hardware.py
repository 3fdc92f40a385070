"""The kernels of one device: found for its type, with its array module and values in its memory.

A device's array module comes to a kernel only through here. The memory of a value is decided before
(`passes/cut/host_memory.py`): nodes that only steer are computed in host memory, and constants are copied
when the first plan needs them. Without that decision, the call of a kernel copies values from the wrong
memory. The results of a kernel stay in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

import numpy as np

from flowengine.core.arrays import Value
from flowengine.devices.device import Device, ProvidedDevice, StreamDevice
from flowengine.devices.settings import TunedDevice
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node
from flowengine.ir.names import COPY_OPS, TRANSFER_OPS
from flowengine.ir.traits import Constant
from flowengine.kernels.bound import with_keywords
from flowengine.kernels.common.checks import Check, gathered
from flowengine.kernels.common.segment_sums import in_one_order
from flowengine.kernels.context import KernelContext
from flowengine.kernels.providers import kernels_of
from flowengine.kernels.registry import Holds, Kernel, KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.cut.host_memory import DEVICE_MEMORY, HOST_MEMORY, MEMORY

#: They copy values by themselves, in host memory and between the two.
_BY_THEMSELVES: Final = TRANSFER_OPS | COPY_OPS

#: {device: {constant: its array there, as long as a plan has it}}
_BROUGHT_IN: Final[WeakKeyDictionary[Device, WeakKeyDictionary[TensorAttr, Any]]] = WeakKeyDictionary()


def kernels_on(kernels: KernelRegistry, device: Device, *, debugs: bool = False) -> KernelRegistry:
    """Return the kernels for plans of a device; with `debugs`, each is waited for."""
    # A registry's own kernels are for a CPU and NumPy.
    return kernels if is_host(device) else DeviceKernels(kernels, device, debugs=debugs)


def is_host(device: Device) -> bool:
    """Return whether a device is a CPU that computes with NumPy."""
    return device.type == "CPU" and device.shares_host_memory and device.xp is np


class DeviceKernels(KernelRegistry):
    """The kernels of one device type, bound to one device of it: `device` arguments are ignored."""

    def __init__(self, kernels: KernelRegistry, device: Device, *, debugs: bool = False) -> None:
        super().__init__(parent=kernels)
        self._source = kernels
        self._device = device
        self._debugs = debugs
        self._adapted: dict[int, tuple[Kernel, Kernel]] = {}
        #: Kernels of the device's own provider: before others, and for the nodes that it makes.
        self._own = kernels_of(device)

    def candidates(self, op: str, device: str = "") -> Sequence[Kernel]:
        return super().candidates(op, self._device.type)

    def _look_up(self, op: str, device: str) -> Sequence[Kernel]:
        if op in _BY_THEMSELVES:
            return self._source.candidates(op)
        kernels = self._source.candidates(op, device)
        if self._own is not None:
            whole = [kernel for kernel in self._own.candidates(op, device) if kernel.maker is None]
            kernels = [*whole, *kernels]
        return [self._adapt(kernel) for kernel in kernels]

    def serving(self, node: Node, device: str = "", holds: Holds | None = None) -> Kernel | None:
        if node.attrs.get(MEMORY) == HOST_MEMORY:
            return self._source.serving(node)
        if node.op in _BY_THEMSELVES:
            return super().serving(node, self._device.type, None)
        found = super().serving(node, self._device.type, self._device.holds)
        return found if found is None or self._own is None else self._in_front(self._own, node, found)

    def _in_front(self, own: KernelRegistry, node: Node, behind: Kernel) -> Kernel:
        """Return the kernel of the device's provider, in front of the other one; without it, that one."""
        if behind.is_foreign or behind.is_async:
            return behind
        offers = own.candidates(node.op, self._device.type)
        kernel = next((k for k in offers if k.maker is not None and k.serves(node)), None)
        if kernel is None:
            return behind
        return replace(behind, provider=kernel.provider, maker=partial(self._made, kernel))

    def _made(self, kernel: Kernel, node: Node, behind: Callable[..., Any]) -> Callable[..., Any]:
        """Return the provider's kernel of a node, which takes values from any memory."""
        plain = self.unbound(node)
        assert plain is not None
        assert kernel.maker is not None
        function = kernel.maker(node, plain.over(self._device.xp).bind(node))
        called = replace(plain, takes_xp=False, attr_names=())
        return with_keywords(_moving(called, function, self._device, self._debugs), {"node": node})

    def find(self, node: Node, device: str = "") -> Kernel:
        if node.attrs.get(MEMORY) == HOST_MEMORY:
            return self._source.find(node)
        return super().find(node, self._device.type)

    def placed(self, node: Node, value: Value) -> Value:
        if node.attrs.get(MEMORY) != DEVICE_MEMORY:
            return value
        constant = node.trait(Constant)
        assert constant is not None
        brought = _BROUGHT_IN.setdefault(self._device, WeakKeyDictionary())
        attr = node.attrs[constant.value]
        known = brought.get(attr)
        found = None if known is None else known()
        if found is None:
            found = self._device.copy_in(value)
            brought[attr] = ref(found)
        return found

    @property
    def hardware(self) -> Device:
        return self._device

    def unbound(self, node: Node) -> Kernel | None:
        if node.attrs.get(MEMORY) == HOST_MEMORY:
            return None
        return self._source.serving(node, self._device.type, self._device.holds)

    def providers(self) -> tuple[str, ...]:
        """Return the device's own provider: parts that others claim are kernels for CPUs.

        None if each kernel is waited for, so that it can be named by itself.
        """
        device = self._device
        return (device.provider,) if isinstance(device, ProvidedDevice) and not self._debugs else ()

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
        own = kernel.over(device.xp)
        nowait = None if kernel.nowait is None else _moving(kernel, kernel.nowait, device, self._debugs)
        names = kernel.attr_names
        return replace(
            own,
            function=_moving(kernel, own.function, device, self._debugs),
            nowait=nowait,
            inline=None,
            # A launch always takes as long.
            heavy=False,
            takes_context=True,
            is_async=kernel.is_async or _is_beside(kernel, device),
            attr_names=names if "node" in names else (*names, "node"),
        )


def _is_beside(kernel: Kernel, device: Device) -> bool:
    """Return whether a kernel reads values for which the event loop must not stand still."""
    return kernel.looks and isinstance(device, StreamDevice)


class _DeviceCalls:
    """The parts of a call of one kernel on a device: copies of arguments, launches, checks."""

    def __init__(self, kernel: Kernel, function: Callable[..., Any], device: Device, *, debugs: bool) -> None:
        definition = op_registry().get(kernel.op)
        names = [] if definition is None else [arg.name for arg in definition.inputs]
        self._ways = [device.copy_out if name in kernel.host else device.copy_in for name in names]
        self._first = 1 if kernel.takes_xp else 0
        self._kernel = kernel
        self._device = device
        self._computing = device.computing if isinstance(device, StreamDevice) else nullcontext
        if isinstance(device, TunedDevice) and device.settings.deterministic:
            self._computing = partial(_in_one_order, self._computing)
        self._debugs = debugs
        self.function = function

    def begin(
        self, values: Sequence[Any], node: Node, ctx: KernelContext, keywords: dict[str, Any]
    ) -> list[Any]:
        """Return the arguments, in the memory that the kernel needs; keywords get its other parameters."""
        first, kernel = self._first, self._kernel
        ways = self._ways or [self._device.copy_in] * (len(values) - first)
        moved = [
            tuple(map(way, value)) if isinstance(value, tuple) else way(value)
            for way, value in zip(ways, values[first:], strict=True)
        ]
        if ctx.crossing is not None:
            ctx.crossing.launched(node)
        if kernel.takes_context:
            keywords["ctx"] = ctx
        if "node" in kernel.attr_names:
            keywords["node"] = node
        return [*values[:first], *moved]

    def compute(self, arguments: list[Any], keywords: dict[str, Any]) -> tuple[Any, list[Check]]:
        """Run the kernel and return its result with the checks that it made. On any thread."""
        with self._computing(), gathered() as checks:
            result = self.function(*arguments, **keywords)
        if self._debugs:
            self._device.synchronize()
        return result, checks

    def look_through(self, checks: list[Check], node: Node, ctx: KernelContext) -> None:
        """Have checks read before any value leaves the step."""
        for check in checks:
            if ctx.crossing is not None:
                ctx.crossing.look_at(node, check)
            elif self._device.copy_out(check.wrong):
                raise check.error()


@contextmanager
def _in_one_order(computing: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Compute as `computing` does, with sums in a fixed order."""
    with computing(), in_one_order():
        yield


def _moving(kernel: Kernel, function: Callable[..., Any], device: Device, debugs: bool) -> Callable[..., Any]:
    """Return a kernel's function that takes values from any memory, and passes its checks to the step."""
    calls = _DeviceCalls(kernel, function, device, debugs=debugs)
    function = calls.function

    # Errors name the wrapped function, and its parameters are inspected.
    @functools.wraps(function)
    def call(*values: Any, node: Node, ctx: KernelContext, **keywords: Any) -> Any:
        result, checks = calls.compute(calls.begin(values, node, ctx, keywords), keywords)
        calls.look_through(checks, node, ctx)
        return result

    @functools.wraps(function)
    async def call_and_wait(*values: Any, node: Node, ctx: KernelContext, **keywords: Any) -> Any:
        return await function(*calls.begin(values, node, ctx, keywords), **keywords)

    @functools.wraps(function)
    async def call_beside(*values: Any, node: Node, ctx: KernelContext, **keywords: Any) -> Any:
        if ctx.crossing is None:
            return call(*values, node=node, ctx=ctx, **keywords)
        arguments = calls.begin(values, node, ctx, keywords)
        result, checks = await ctx.crossing.looked(partial(calls.compute, arguments, keywords))
        calls.look_through(checks, node, ctx)
        return result

    if kernel.is_async:
        return call_and_wait
    return call_beside if _is_beside(kernel, device) else call


__all__ = ["DeviceKernels", "is_host", "kernels_on"]
