"""CPU devices: NumPy arrays in host memory. A process may have several, which then share its cores."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from flowengine.core.accounting import bytes_of, text_bytes
from flowengine.core.arrays import Value
from flowengine.core.buffers import LINE, AlignedBytes, MemoryLease
from flowengine.core.dtypes import DType
from flowengine.devices.allocation import Ledger


class CpuDevice:
    """Host memory and NumPy. Keeps `flowengine.devices.device.Device`."""

    def __init__(self, name: str, memory_limit: int | None = None) -> None:
        self.name = name
        self.type = "CPU"
        self.incarnation = secrets.randbits(63)
        self.xp: Any = np
        self.ledger = Ledger(memory_limit, f"device_memory_limits, of {name}")
        self.shares_host_memory = True

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        """Every type there is."""
        return True

    def copy_in(self, value: Value) -> Value:
        """The value itself: values are never written into."""
        return value

    def copy_out(self, value: Value) -> Value:
        """The value itself."""
        return value

    def owner_of(self, value: Value) -> tuple[Any, int] | None:
        """The array at the bottom of a chain of views, if it owns its memory."""
        if not isinstance(value, np.ndarray):
            return None
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if isinstance(owner.base, MemoryLease):
            return owner.base, owner.base.nbytes
        if isinstance(owner, AlignedBytes):
            return owner, owner.nbytes - LINE
        if isinstance(owner.base, bytes | bytearray):
            return owner, text_bytes(owner.base)
        return (owner, bytes_of(owner)) if owner.flags.owndata else None

    def synchronize(self) -> None:
        """Nothing is launched ahead on a CPU."""

    def __repr__(self) -> str:
        return f"<CpuDevice {self.name}>"


__all__ = ["CpuDevice"]
