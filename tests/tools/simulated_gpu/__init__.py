"""A GPU for machines without one: memory and streams of its own, late work, and a check of every access.

    registry = DeviceRegistry(parent=DEVICES)
    registry.register("GPU", simulated_gpus(seed=7), lambda: 1)
    async with fe.Session(graph, devices=registry) as session: ...
    session.devices.matching("/device:GPU:0")[0].check()

`device` has the device, `module` the arrays, `streams` the work that runs late, `pool` the memory, `accesses`
the check. The order in which streams run, among those that events allow, and how late, goes by the seed.
"""

from __future__ import annotations

from tests.tools.simulated_gpu.accesses import Finding
from tests.tools.simulated_gpu.device import SimulatedGpu, simulated_gpus
from tests.tools.simulated_gpu.host_copy import HostCopy

__all__ = ["Finding", "HostCopy", "SimulatedGpu", "simulated_gpus"]
