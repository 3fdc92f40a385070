"""Sessions with a simulated GPU beside the CPU."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import flowengine as fe
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.kernels.registry import KernelRegistry
from tests.tools.simulated_gpu import SimulatedGpu, simulated_gpus

GPU = "/device:GPU:0"


@asynccontextmanager
async def opened(
    graph: fe.Graph,
    seed: int = 0,
    *,
    capacity_bytes: int | None = None,
    kernels: KernelRegistry | None = None,
    **config: Any,
) -> AsyncIterator[tuple[fe.Session, SimulatedGpu]]:
    """A session and its GPU; at the end nothing was found there, and nobody looked at a value."""
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", simulated_gpus(seed, capacity_bytes), lambda: 1)
    settings = fe.Config(**{"worker_threads": False, **config})
    async with fe.Session(graph, config=settings, devices=devices, kernels=kernels) as session:
        gpu: Any = session.devices.matching(GPU)[0]
        yield session, gpu
        gpu.check()
        assert gpu.xp.reads == []
