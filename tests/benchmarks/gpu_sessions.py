"""Sessions on a card, or on a GPU that is simulated, for the measurements of GPUs.

    python -m tests.benchmarks.gpu_launches [--simulated]

With `--simulated` a script runs small on the simulated GPU: what it says there is whether it runs, not how
fast anything is. Each script gives a table (`tests/gpu/tables.py`); `python -m tests.gpu` runs all on a card.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

import flowengine as fe
from flowengine.devices import cuda_device
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from tests.devices.placing import OverGpu
from tests.gpu.tables import ResultTable
from tests.tools.simulated_gpu import simulated_gpus

GPU: Final = "/device:GPU:0"


class GpuPlace:
    """The place where a script measures: a real GPU or a simulated one.

    is_card   a real one; else the simulated GPU, where sizes are divided by what `size` is told
    """

    def __init__(self, *, simulated: bool) -> None:
        """Raises FailedPreconditionError, with the reason, where there is no card and none is simulated."""
        self.is_card = not simulated
        if not simulated:
            cuda_device.cupy_module()

    def size(self, on_card: int, simulated: int) -> int:
        """A size, or a number of repetitions."""
        return on_card if self.is_card else simulated

    def session(self, graph: fe.Graph, **config: Any) -> fe.Session:
        """A session with one GPU, all of whose nodes that can be are there that ask for it."""
        return fe.Session(graph, config=_settings(config), devices=self._devices())

    def session_there(self, graph: fe.Graph) -> fe.Session:
        """The same for a graph that asks for nothing: all that can be is on the GPU."""
        placer = OverGpu()
        session = fe.Session(graph, config=_settings({}), devices=self._devices(), placer=placer)
        placer.session = session
        return session

    def _devices(self) -> DeviceRegistry:
        devices = DeviceRegistry(parent=DEVICES)
        if not self.is_card:
            devices.register("GPU", simulated_gpus(1), lambda: 1)
        return devices

    def device(self, session: fe.Session) -> Any:
        """The session's GPU."""
        return session.devices.matching(GPU)[0]


def _settings(config: dict[str, Any]) -> fe.Config:
    return fe.Config(**{"device_count": {"GPU": 1}, "allow_soft_placement": True, **config})


#: Measures, at a place.
Measurement = Callable[[GpuPlace], Any]


def command(
    name: str, about: str | None, measure: Measurement, arguments: Sequence[str] | None = None
) -> int:
    """Run a script: its table on the standard output; 0 if all that is asked was kept, 2 without a card."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--simulated", action="store_true", help="small, on the simulated GPU")
    given = parser.parse_args(arguments)
    try:
        place = GpuPlace(simulated=given.simulated)
    except fe.errors.FailedPreconditionError as error:
        print(f"{error.message}; --simulated tries the script without one", file=sys.stderr)
        return 2
    table: ResultTable = trio.run(measure, place)
    print(table.markdown())
    return 1 if table.failures and place.is_card else 0


__all__ = ["GPU", "GpuPlace", "Measurement", "command"]
