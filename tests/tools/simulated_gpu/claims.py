"""Claims of a simulated GPU beside single nodes: chains of elementwise nodes, each as one launch.

Members are the nodes that CUDA C has an expression for (`kernels/cuda/functions.py`) and that refuse nothing.
Their kernels are called one after another within the launch, with arrays as strict as outside, so the bits
are those of the nodes by themselves, and a look at a value is noticed there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import OpError
from flowengine.devices.device import Device
from flowengine.ir.graph import Node
from flowengine.kernels.common.launched_chains import LaunchedStep, launch_claim
from flowengine.kernels.cuda.functions import expression
from flowengine.kernels.provider import Provider, located
from flowengine.testing.strict_array import root_of
from flowengine.testing.strict_arrays import StrictArray, StrictModule
from tests.tools.simulated_gpu.module import GpuModule

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True


class _InnerModule(StrictModule):
    """The array module of kernels within a launch: what they call is computed there and then."""

    __name__ = "simulated_gpu"

    def __init__(self, outside: GpuModule) -> None:
        super().__init__()
        self._outside = outside

    def note_read(self, what: str) -> None:
        """A look within a launch is one of the device's."""
        self._outside.note_read(what)


class _SimulatedChain:
    """A chain of one simulated GPU."""

    def __init__(self, outside: GpuModule, steps: Sequence[LaunchedStep]) -> None:
        self._outside = outside
        self._inner = _InnerModule(outside)
        self._steps = [
            (step.node, step.kernel.over(self._inner).bind(step.node), step.sources) for step in steps
        ]
        #: What findings and traces call it.
        self.__name__ = " -> ".join(step.node.op for step in steps)

    def __call__(self, *values: Any) -> Array:
        """The chain's result for NumPy's arrays behind those of the device."""
        inner = self._inner
        known = [inner.wrapped(value) for value in values]
        for node, function, sources in self._steps:
            taken = [known[i] for i in sources]
            try:
                known.append(function(tuple(taken)) if node.op == "AddN" else function(*taken))
            except OpError as error:
                raise located(error, node) from None
        result: Array = known[-1]._data
        owner = root_of(result)
        # A launch gives memory of its own, also where a kernel hands on what it was given.
        return (
            result.copy() if any(owner is root_of(v) for v in values if isinstance(v, np.ndarray)) else result
        )

    def launch(self, inputs: Sequence[Any]) -> Any:
        """The chain's result for arrays of the device."""
        values = [value._data if isinstance(value, StrictArray) else value for value in inputs]
        return self._outside.run(self, *values)


class SimulatedChains:
    """Keeps `flowengine.kernels.common.launched_chains.ChainLauncher`."""

    def takes(self, node: Node) -> bool:
        """Whether CUDA C has an expression for a node, and it refuses nothing."""
        found = expression(node)
        return found is not None and not found.refusal

    def launching(self, device: Device, steps: Sequence[LaunchedStep]) -> Callable[..., Any]:
        """Return a function that computes the steps as one launch; see `ChainLauncher`."""
        return _SimulatedChain(device.xp, steps).launch


PROVIDER: Final = Provider("simulated_gpu", (launch_claim(SimulatedChains()),))

__all__ = ["PROVIDER", "SimulatedChains"]
