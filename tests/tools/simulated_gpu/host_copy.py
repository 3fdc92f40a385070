"""A value on its way out of a simulated GPU's memory."""

from __future__ import annotations

from flowengine.core.arrays import Array, Value
from flowengine.devices.ordering import StreamEvent
from tests.tools.simulated_gpu.accesses import Access, AccessCheck

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True


class HostCopy:
    """A value on its way to host memory.

    event   when it is there
    """

    __slots__ = ("_check", "_data", "_written", "event")

    def __init__(self, event: StreamEvent, data: Array, written: Access, check: AccessCheck) -> None:
        self.event = event
        self._data = data
        self._written = written
        self._check = check

    def value(self) -> Value:
        """Return the present host value, rank 0 as a scalar; a finding if nobody has awaited the event."""
        self._check.host_reads(self._written)
        return self._data.copy()[()]


__all__ = ["HostCopy"]
