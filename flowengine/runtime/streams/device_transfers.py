"""The transfers and checks of one partition of a step on a device that has memory of its own.

Values are copied in and out by launched and awaited copies, which never block. The result of a kernel's check
of values (an index out of range, a divisor of zero) is a word in the device's memory: it is copied to the
host beside any value that leaves, and read before that does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

import trio

from flowengine.core.arrays import Value
from flowengine.core.errors import OpError
from flowengine.devices.device import (
    Device,
    EnteredDevice,
    IncomingValue,
    LentCopy,
    StreamDevice,
    TimedDevice,
    is_lost,
)
from flowengine.devices.launch_record import LaunchRecord
from flowengine.ir.graph import Node
from flowengine.kernels.common.checks import Check
from flowengine.runtime.planning.binding import located
from flowengine.runtime.streams.completion import brought_out, called_beside, wait_reached
from flowengine.runtime.streams.device_loss import names_of

#: Called with a name, a target, and the value that goes there.
Count = Callable[[str, str, Value], None]

#: The number of launched nodes that an error of the device names.
_NAMED: Final = 16
#: The number of waiting words after which the arrived ones are read.
_MANY: Final = 32


class _IncomingReading(NamedTuple):
    """The reading of a kernel's check, on its way to the host."""

    node: Node
    check: Check
    copy: IncomingValue


class DeviceTransfers:
    """The copies and checks of one partition: a `kernels.context.StepTransfers`."""

    def __init__(
        self,
        device: Device,
        *,
        uses_threads: bool,
        count: Count | None = None,
        launches: list[LaunchRecord] | None = None,
    ) -> None:
        """`count` is called for each copy that has a name; `launches` records the work of the device."""
        # Also without metadata: launches that another step has requested do not belong to this one.
        self._note = device.note if isinstance(device, TimedDevice) else _not_noted
        self.entered = device.entered if isinstance(device, EnteredDevice) else nullcontext
        self._launches = launches
        self._device = device
        self._uses_threads = uses_threads
        self._count = count
        self._words: list[_IncomingReading] = []
        #: The last nodes launched since the device was seen to have done all awaited work.
        self._launched: deque[Node] = deque(maxlen=_NAMED)

    def to_device(self, node: str, value: Value, counted: str) -> Value:
        if counted and self._count is not None:
            self._count(counted, self._device.name, value)
        self._note(self._launches, node)
        return self._device.copy_in(value)

    async def to_host(self, node: str, value: Value, counted: str, *, leaves: bool = False) -> Value:
        if counted and self._count is not None:
            self._count(counted, f"host memory of {self._device.name}", value)
        (found,) = await self._out([value], [node], whole=False, leaves=leaves)
        return found

    async def results(
        self, values: Sequence[Value], names: Sequence[str], *, stay: bool = False
    ) -> list[Value]:
        """Return the step's results in host memory, once all the device's work is done.

        names   the names of the fetches
        stay    leave them in the device's memory

        Raises the errors of kernels' checks. If cancelled, copies continue, and nobody takes them.
        """
        if not stay:
            return await self._out(values, names, whole=True)
        await self._out((), (), whole=True)
        return list(values)

    async def looked(self, function: Callable[[], Any]) -> Any:
        """Call a function that reads values of the device, and return its result.

        Without worker threads it blocks the event loop. If cancelled, the function continues.
        """
        if not self._uses_threads:
            return function()
        name = self._launched[-1].name if self._launched else ""

        def on_thread() -> Any:
            self._note(self._launches, name)
            return function()

        return await called_beside(self._device, on_thread)

    def note_launches(self, launches: list[LaunchRecord]) -> None:
        if self._launches is None:
            self._launches = launches

    def launched(self, node: Node) -> None:
        self._launched.append(node)
        self._note(self._launches, node.name)

    @property
    def in_flight(self) -> Sequence[Node]:
        """Return the last launched nodes that are not known to be done."""
        return tuple(self._launched)

    def look_at(self, node: Node, check: Check) -> None:
        """Have a check read before any value leaves the step."""
        device = self._device
        self._note(self._launches, node.name)
        copy = device.start_copy_out(check.wrong) if isinstance(device, StreamDevice) else None
        if copy is None:
            if device.copy_out(check.wrong):
                raise check.error()
            return
        self._words.append(_IncomingReading(node, check, copy))
        if len(self._words) >= _MANY:
            self._drop_seen(device)

    def _drop_seen(self, device: Any) -> None:
        """Forget words that have arrived and report no error: a loop may make any number of them."""
        self._words = [
            word for word in self._words if not device.is_done(word.copy.event) or word.copy.value()
        ]

    async def _out(
        self, values: Sequence[Value], names: Sequence[str], *, whole: bool, leaves: bool = False
    ) -> list[Value]:
        device = self._device
        if not isinstance(device, StreamDevice):
            return await brought_out(device, values, uses_threads=self._uses_threads)
        copies = []
        for name, value in zip(names, values, strict=True):
            self._note(self._launches, name)
            copies.append(device.start_copy_out(value))
        words, self._words = self._words, []
        awaited = [copy.event for copy in copies if copy is not None]
        awaited += [word.copy.event for word in words]
        events = device.unfinished() if whole else awaited
        try:
            await wait_reached(device, events, uses_threads=self._uses_threads)
        except OpError as error:
            if is_lost(device):
                raise  # the step's runner reports it
            raise _late(error, self._launched) from None
        if whole:
            self._launched.clear()
        for word in words:
            if word.copy.value():
                raise await self._wrong(word)
        return [
            value if copy is None else _taken(copy, leaves=leaves)
            for value, copy in zip(values, copies, strict=True)
        ]

    async def _wrong(self, word: _IncomingReading) -> Exception:
        """Return the error of a check; its details are read from the device."""
        if self._uses_threads:
            error = await trio.to_thread.run_sync(word.check.error)
        else:
            error = word.check.error()
        return located(error, word.node) if isinstance(error, OpError) else error


def _taken(copy: IncomingValue, *, leaves: bool) -> Value:
    """Return the present value; without a copy if it is dropped soon."""
    return copy.lent() if leaves and isinstance(copy, LentCopy) else copy.value()


def _not_noted(launches: list[LaunchRecord] | None, node: str) -> None:
    """Of a device that cannot tell."""


def _late(error: OpError, launched: Iterable[Node]) -> OpError:
    """Return the error of a device, with the nodes that may have caused it."""
    return type(error)(
        f"{error.message}; the last nodes launched before it was noticed: {names_of(launched)}. "
        "fe.Config(debug_devices=True) waits after each and so names the one"
    )


__all__ = ["DeviceTransfers"]
