"""KernelContext: what a kernel may touch beside its inputs and attributes.

One context exists as long as one step on one device. A kernel gets it as the keyword-only `ctx`.
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

        counted   the name under which it is counted; empty if it is not
        """

    async def to_host(self, node: str, value: Value, counted: str, *, leaves: bool = False) -> Value:
        """A value in host memory, after its copy and the kernels before it; arguments as for `to_device`.

        leaves   whether it is dropped soon, so that it may stay in the memory of the copy

        Raises the errors of kernels until then. If it is cancelled, the copy continues, and its result is
        dropped.
        """

    async def looked(self, function: Callable[[], Any]) -> Any:
        """Run a function that reads values of the device, without blocking the event loop.

        If it is cancelled, the function continues, and its result is dropped.
        """

    def entered(self) -> AbstractContextManager[None]:
        """Around the calls of several kernels on one thread, which awaits nothing meanwhile."""

    def note_launches(self, launches: list[Any]) -> None:
        """Record the later work of the device in a list, unless another list gets it already."""

    def launched(self, node: Node) -> None:
        """Note that the work of a node was launched on the device, where it may fail later."""

    def look_at(self, node: Node, check: Check) -> None:
        """Evaluate a check of a kernel before any value leaves the step."""


class KernelContext:
    """The step as its kernels see it.

    resources        variables, queues and tables that outlive the step
    step_container   TensorArrays and stacks, dropped when the step ends
    rendezvous       where Send leaves a value and Recv finds it; None in a step of one partition
    device           complete name of the device
    hardware         the device itself where its arrays are not NumPy's, else None
    crossing         copies values into that device's memory and out of it; None without such a device
    step_id          unique in this process
    files            the files that `Config.file_access` allows
    sync_checkpoints whether a saved checkpoint must have reached the disk
    python_calls     whether nodes may call functions of the program
    kernels          the registry for graphs that a kernel runs; None for this package's own
    memory           takes requests of memory whose size only the kernel knows; None without a limit
    functions        calls the functions of the graph for resources that outlive the step; None without them
    owner            the name of the step's session, as in `functions`; empty if it is not known
    sequences        keeps the positions of random nodes: the resources, except in calls by a resource
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
