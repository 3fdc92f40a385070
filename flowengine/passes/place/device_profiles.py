"""Devices for placement: names, speeds, memory, and the links between them.

Descriptions, not devices: a session makes them from the devices of this process, a master from the
announcements of its workers, a test from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName

#: Microseconds to pass a tensor to another device of the same process that shares its memory: a Send and a
#: Recv as items of their own, and a wake-up of another partition's task, measured in a chain that alternates.
SHARED_MEMORY_LATENCY: Final = 25.0
#: The same between host and accelerator: it launches a copy and waits for an event.
BUS_LATENCY: Final = 30.0
BUS_BYTES_A_MICROSECOND: Final = 10_000.0
#: The same to another task over TCP on one machine or in one rack.
NETWORK_LATENCY: Final = 250.0
NETWORK_BYTES_A_MICROSECOND: Final = 1_000.0


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A device's type, and the types that its memory holds, which determine its kernels; see `Offer`."""

    type: str
    lacks: frozenset[DType]
    listed_only: frozenset[DType]

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        """Return whether the memory holds a type, as `Device.holds` does."""
        return dtype not in self.lacks and (listed or dtype not in self.listed_only)

    @property
    def holds_all(self) -> bool:
        return not self.lacks and not self.listed_only


@dataclass(frozen=True, slots=True)
class Offer:
    """One device that placement may use.

    name                 complete: job, replica, task, type and index
    speed                its speed, relative to the device of the cost estimates
    memory_limit_bytes   the limit for variables, constants and one kernel's tensors; None for no limit
    lacks                the types that its memory cannot hold
    listed_only          those that it holds only for kernels which name them among their types
    launch_microseconds  the minimum cost of a node there
    bus_bytes_a_microsecond  between its memory and the host's; None if unknown
    """

    name: DeviceName
    speed: float = 1.0
    memory_limit_bytes: int | None = None
    lacks: frozenset[DType] = frozenset()
    listed_only: frozenset[DType] = frozenset()
    launch_microseconds: float = 0.0
    bus_bytes_a_microsecond: float | None = None

    def __post_init__(self) -> None:
        if None in (self.name.type, self.name.index):
            raise InvalidArgumentError(f"the device '{self.name}' has no complete name")
        if not self.speed > 0:
            raise InvalidArgumentError(
                f"the device '{self.name}' has speed {self.speed}: it must be positive"
            )

    @property
    def type(self) -> str:
        """Return its device type: CPU, GPU, ..."""
        return self.name.type or ""

    @property
    def kind(self) -> DeviceKind:
        """Return the kind of the device, which decides the kernels that exist for it."""
        return DeviceKind(self.name.type or "", self.lacks, self.listed_only)

    @property
    def task(self) -> tuple[str | None, int | None, int | None]:
        """Return the process that it belongs to."""
        return self.name.job, self.name.replica, self.name.task


def cpu_offers(count: int, speeds: Sequence[float] | None = None) -> list[Offer]:
    """Return descriptions of so many CPU devices of this process."""
    prefix = DeviceName("localhost", 0, 0, "CPU")
    return [
        Offer(prefix.merge_with(DeviceName(index=index)), 1.0 if speeds is None else speeds[index])
        for index in range(count)
    ]


class DeviceLinks(Protocol):
    """The time of tensors on their way."""

    def latency(self, source: Offer, target: Offer) -> float:
        """Return the microseconds of a tensor without bytes, from one device to another one."""

    def bandwidth(self, source: Offer, target: Offer) -> float:
        """Return the bytes a microsecond; `inf` if nothing is copied."""


class UsualLinks:
    """The links that names imply: shared memory, a bus, a network."""

    def latency(self, source: Offer, target: Offer) -> float:
        if source.task != target.task:
            return NETWORK_LATENCY
        return SHARED_MEMORY_LATENCY if source.type == target.type == "CPU" else BUS_LATENCY

    def bandwidth(self, source: Offer, target: Offer) -> float:
        if source.task != target.task:
            return NETWORK_BYTES_A_MICROSECOND
        if source.type == target.type == "CPU":
            return float("inf")
        known = [offer.bus_bytes_a_microsecond for offer in (source, target)]
        return min([rate for rate in known if rate is not None], default=BUS_BYTES_A_MICROSECOND)


@dataclass(frozen=True, slots=True)
class EvenLinks:
    """Links of the same latency and bandwidth between any two devices."""

    latency_microseconds: float = SHARED_MEMORY_LATENCY
    bytes_a_microsecond: float = float("inf")

    def latency(self, source: Offer, target: Offer) -> float:
        return self.latency_microseconds

    def bandwidth(self, source: Offer, target: Offer) -> float:
        return self.bytes_a_microsecond
