"""KernelContext: what a kernel may touch beside its inputs and attributes.

One context lives as long as one step on one device. A kernel asks for it with a keyword-only `ctx`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.core.files.access import SYSTEM, Files

if TYPE_CHECKING:
    from flowengine.core.accounting import Account
    from flowengine.core.rendezvous import Rendezvous
    from flowengine.devices.device import Device
    from flowengine.resources.calling import FunctionCaller
    from flowengine.resources.container import ResourceManager, StepContainer


class KernelContext:
    """The step as its kernels see it.

    resources        variables, queues and tables that outlive the step
    step_container   TensorArrays and stacks, dropped when the step ends
    rendezvous       where Send leaves a value and Recv finds it; None in a step of one partition
    device           complete name of the device
    hardware         the device itself where its arrays are not NumPy's, else None
    step_id          unique in this process
    files            the files that `Config.file_access` allows
    sync_checkpoints whether a saved checkpoint must have reached the disk
    python_calls     whether nodes may call functions of the program
    memory           where a kernel asks for what only itself can tell that it will take; None without a bound
    functions        calls the functions of the graph for what outlives the step; None where it has none
    sequences        where random nodes keep their places: the resources, but in what a resource calls
    """

    __slots__ = (
        "device",
        "files",
        "functions",
        "hardware",
        "memory",
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
        self.memory: Account | None = None
        self.functions = functions
        self.sequences = resources if sequences is None else sequences
