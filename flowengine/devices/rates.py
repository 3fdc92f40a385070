"""Estimates for placement before anything has run on a device: how fast it is, and how far away.

    rates = card_rates(memory_kilohertz=2_619_000, bus_bits=5120, capability=9)

Estimates of nodes count the bytes that a core reads and writes, so the speed of a card is that of its memory.
Products are faster there than these estimates; measurements correct them, by op
(`passes/place/calibrate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Bytes a microsecond of one core in estimates: half of the bandwidth of its memory.
_CORE_BYTES: Final = 8_000.0
#: Microseconds of the host for the launch of any kernel.
LAUNCH_MICROSECONDS: Final = 3.0
#: Bytes a microsecond from and to pinned memory, by the generation of cards: PCIe 3, 4 and 5, 16 lanes each.
_BUS_BYTES: Final = {7: 12_000.0, 8: 24_000.0, 9: 48_000.0}


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Rates of one device.

    speed                     its speed relative to a core of an ordinary server
    launch_microseconds       the least time of a node there
    bus_bytes_a_microsecond   between its memory and the host's
    """

    speed: float
    launch_microseconds: float
    bus_bytes_a_microsecond: float


def card_rates(*, memory_kilohertz: int, bus_bits: int, capability: int) -> DeviceRates:
    """Return the rates of a GPU by its properties, or those of a small one if they are unknown.

    capability   the major number of its compute capability
    """
    # Memory is written at both edges of its clock.
    bytes_a_microsecond = 2 * memory_kilohertz * (bus_bits / 8) / 1e3
    generation = min(max(capability, min(_BUS_BYTES)), max(_BUS_BYTES))
    return DeviceRates(
        speed=max(bytes_a_microsecond / _CORE_BYTES, 10.0),
        launch_microseconds=LAUNCH_MICROSECONDS,
        bus_bytes_a_microsecond=_BUS_BYTES[generation],
    )


__all__ = ["LAUNCH_MICROSECONDS", "DeviceRates", "card_rates"]
