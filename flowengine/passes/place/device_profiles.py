"""Devices as placement knows them: names, speeds, memory, and the links between them.

Descriptions, not devices: a session makes them from what runs in this process, a master from what its
workers announce, a test from thin air.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName

#: Microseconds to hand a tensor to another device of the same process that shares its memory: a Send and
#: a Recv as items of their own, and another partition's task woken: measured in a chain that alternates.
SHARED_MEMORY_LATENCY: Final = 25.0
#: The same between host and accelerator: a copy is launched and an event awaited.
BUS_LATENCY: Final = 30.0
BUS_BYTES_A_MICROSECOND: Final = 10_000.0
#: The same to another task over TCP on one machine or in one rack.
NETWORK_LATENCY: Final = 250.0
NETWORK_BYTES_A_MICROSECOND: Final = 1_000.0


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The kernels that a device has depend on this: its type, and what its memory holds; see `Offer`."""

    type: str
    lacks: frozenset[DType]
    listed_only: frozenset[DType]

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        """As `Device.holds`."""
        return dtype not in self.lacks and (listed or dtype not in self.listed_only)

    @property
    def holds_all(self) -> bool:
        return not self.lacks and not self.listed_only


@dataclass(frozen=True, slots=True)
class Offer:
    """One device that nodes may be put on.

    name                 complete: job, replica, task, type and index
    speed                how fast it computes, compared with the device that cost estimates are for
    memory_limit_bytes   what variables, constants and one kernel's tensors must fit in; None for no limit
    lacks                the types that its memory cannot hold
    listed_only          those that it holds for kernels which name them among their types, and for no other
    launch_microseconds  what a node costs there at least, however little it does
    bus_bytes_a_microsecond  between its memory and the host's; None where that is not known
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
        """Its device type: CPU, GPU, ..."""
        return self.name.type or ""

    @property
    def kind(self) -> DeviceKind:
        """The kind of the device, which decides the kernels that exist for it."""
        return DeviceKind(self.name.type or "", self.lacks, self.listed_only)

    @property
    def task(self) -> tuple[str | None, int | None, int | None]:
        """The process that it belongs to."""
        return self.name.job, self.name.replica, self.name.task


def cpu_offers(count: int, speeds: Sequence[float] | None = None) -> list[Offer]:
    """Descriptions of so many CPU devices of this process."""
    prefix = DeviceName("localhost", 0, 0, "CPU")
    return [
        Offer(prefix.merge_with(DeviceName(index=index)), 1.0 if speeds is None else speeds[index])
        for index in range(count)
    ]


class DeviceLinks(Protocol):
    """The time that a tensor is under way."""

    def latency(self, source: Offer, target: Offer) -> float:
        """Microseconds for a tensor without bytes, from one device to another one."""

    def bandwidth(self, source: Offer, target: Offer) -> float:
        """Bytes a microsecond; `inf` where nothing is copied."""


class UsualLinks:
    """The links that names tell: shared memory, a bus, a network."""

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
    """The same latency and bandwidth between any two devices."""

    latency_microseconds: float = SHARED_MEMORY_LATENCY
    bytes_a_microsecond: float = float("inf")

    def latency(self, source: Offer, target: Offer) -> float:
        return self.latency_microseconds

    def bandwidth(self, source: Offer, target: Offer) -> float:
        return self.bytes_a_microsecond
