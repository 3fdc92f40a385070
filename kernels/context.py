"""KernelContext: what a kernel may touch beside its inputs and attributes.

One context lives as long as one step on one device. A kernel asks for it with a keyword-only `ctx`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from flowengine.core.files.access import SYSTEM, Files

if TYPE_CHECKING:
    from flowengine.core.accounting import Account
    from flowengine.core.arrays import Value
    from flowengine.core.rendezvous import Rendezvous
    from flowengine.devices.device import Device
    from flowengine.ir.graph import Node
    from flowengine.kernels.common.checks import Check
    from flowengine.kernels.registry import KernelRegistry
    from flowengine.resources.container import ResourceManager, StepContainer
    from flowengine.resources.function_calls import FunctionCaller


class StepTransfers(Protocol):
    """An interface that copies the values of a step into the memory of its device and out of it."""

    def to_device(self, node: str, value: Value, counted: str) -> Value:
        """Launch the copy of a value into the device's memory, for a node.

        counted   what it is counted as; empty where it is not
        """

    async def to_host(self, node: str, value: Value, counted: str, *, leaves: bool = False) -> Value:
        """A value in host memory, once it is there and nothing before it was wrong; the rest as `to_device`.

        leaves   it is dropped soon, so it may stay in the memory that the device has written it to

        Raises what kernels have found wrong so far. Cancelled: the copy goes on, and nobody takes it.
        """

    async def looked(self, function: Callable[[], Any]) -> Any:
        """Run a function that looks at values of the device, while the event loop goes on.

        Cancelled: the function goes on, and nobody takes what it gives.
        """

    def entered(self) -> AbstractContextManager[None]:
        """Around the calls of several kernels on one thread, which awaits nothing meanwhile."""

    def note_launches(self, launches: list[Any]) -> None:
        """Have what the device does from now on put into a list, where it is put into none already."""

    def launched(self, node: Node) -> None:
        """The work of a node is given to the device: it may fail later."""

    def look_at(self, node: Node, check: Check) -> None:
        """Have what a kernel says of values looked at before anything leaves the step."""


class KernelContext:
    """The step as its kernels see it.

    resources        variables, queues and tables that outlive the step
    step_container   TensorArrays and stacks, dropped when the step ends
    rendezvous       where Send leaves a value and Recv finds it; None in a step of one partition
    device           complete name of the device
    hardware         the device itself where its arrays are not NumPy's, else None
    crossing         takes values into that device's memory and out of it; None where there is none
    step_id          unique in this process
    files            the files that `Config.file_access` allows
    sync_checkpoints whether a saved checkpoint must have reached the disk
    python_calls     whether nodes may call functions of the program
    kernels          what computes nodes of a graph that a kernel is given; None for this package's own
    memory           where a kernel asks for what only itself can tell that it will take; None without a bound
    functions        calls the functions of the graph for what outlives the step; None where it has none
    owner            names the session whose step it is, as `functions` does; empty where nobody says
    sequences        where random nodes keep their places: the resources, but in what a resource calls
    """

    __slots__ = (
        "crossing",
        "device",
        "files",
        "functions",
        "hardware",
        "kernels",
        "memory",
        "owner",
        "python_calls",
        "rendezvous",
        "resources",
        "sequences",
        "step_container",
        "step_id",
        "sync_checkpoints",
    )

    def __init__(
        self,
        *,
        resources: ResourceManager,
        step_container: StepContainer,
        rendezvous: Rendezvous | None = None,
        device: str = "/job:localhost/replica:0/task:0/device:CPU:0",
        step_id: int = 0,
        files: Files = SYSTEM,
        sync_checkpoints: bool = True,
        python_calls: bool = True,
        hardware: Device | None = None,
        functions: FunctionCaller | None = None,
        sequences: ResourceManager | None = None,
        kernels: KernelRegistry | None = None,
        owner: str = "",
    ) -> None:
        self.resources = resources
        self.step_container = step_container
        self.rendezvous = rendezvous
        self.device = device
        self.step_id = step_id
        self.files = files
        self.sync_checkpoints = sync_checkpoints
        self.python_calls = python_calls
        self.hardware = hardware
        self.crossing: StepTransfers | None = None
        self.memory: Account | None = None
        self.functions = functions
        self.kernels = kernels
        self.owner = owner if functions is None else functions.owner
        self.sequences = resources if sequences is None else sequences
