"""Devices in messages between tasks: a map describes each device, and a master makes an offer of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.names import DeviceName
from flowengine.passes.place.device_profiles import Offer

#: The fields of an `Offer` that describe the speed of a device.
_RATES: Final = ("speed", "launch_microseconds", "bus_bytes_a_microsecond")


def described(offer: Offer) -> dict[str, Any]:
    """Describe a device as a map: name, type, memory limit in bytes or None, and the types that it lacks.

    `lacks` and `listed_only` are names of types, as in `Offer`. The map leaves them out if there are none,
    and leaves out rates that equal the default.
    """
    found = {"name": str(offer.name), "type": offer.type, "memory_limit": offer.memory_limit_bytes}
    usual = Offer(offer.name)
    found |= {name: getattr(offer, name) for name in _RATES if getattr(offer, name) != getattr(usual, name)}
    return found | _names("lacks", offer.lacks) | _names("listed_only", offer.listed_only)


def offer_of(device: Mapping[str, Any]) -> Offer:
    """Build the offer from a map that `described` made. Raises InvalidArgumentError for an invalid name."""
    return Offer(
        DeviceName.parse(str(device["name"])),
        memory_limit_bytes=device.get("memory_limit"),
        lacks=frozenset(map(as_dtype, device.get("lacks", ()))),
        listed_only=frozenset(map(as_dtype, device.get("listed_only", ()))),
        **{name: device[name] for name in _RATES if name in device},
    )


def _names(key: str, types: Collection[DType]) -> dict[str, Any]:
    return {key: sorted(dtype.name for dtype in types)} if types else {}


__all__ = ["described", "offer_of"]
