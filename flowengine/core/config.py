"""Settings: what a caller gives, over `FLOWENGINE_*` variables, over defaults.

| field | variable | default |
|---|---|---|
| file_access | FLOWENGINE_FILE_ACCESS | "all" |
| memory_limit_bytes | FLOWENGINE_MEMORY_LIMIT_BYTES | none |
| session_memory_bytes | FLOWENGINE_SESSION_MEMORY_BYTES | none |
| python_calls | FLOWENGINE_PYTHON_CALLS | true |
| max_steps | FLOWENGINE_MAX_STEPS | none |
| max_waiting_steps | FLOWENGINE_MAX_WAITING_STEPS | none |
| worker_threads | FLOWENGINE_WORKER_THREADS | true |
| fold_constants | FLOWENGINE_FOLD_CONSTANTS | true |
| merge_common_subexpressions | FLOWENGINE_MERGE_COMMON_SUBEXPRESSIONS | true |
| compile_hot_plans | FLOWENGINE_COMPILE_HOT_PLANS | true |
| fuse_elementwise | FLOWENGINE_FUSE_ELEMENTWISE | true |
| fuse_contractions | FLOWENGINE_FUSE_CONTRACTIONS | true |
| fold_batch_norms | FLOWENGINE_FOLD_BATCH_NORMS | true |
| open_calls | FLOWENGINE_OPEN_CALLS | true |
| kernel_provider | FLOWENGINE_KERNEL_PROVIDER | "auto" |
| sync_checkpoints | FLOWENGINE_SYNC_CHECKPOINTS | true |
| device_count | FLOWENGINE_DEVICE_COUNT | one CPU |
| device_memory_limits | FLOWENGINE_DEVICE_MEMORY_LIMITS | none |
| count_allocations | FLOWENGINE_COUNT_ALLOCATIONS | false |
| debug_devices | FLOWENGINE_DEBUG_DEVICES | false |
| tensor_float_32 | FLOWENGINE_TENSOR_FLOAT_32 | false |
| deterministic | FLOWENGINE_DETERMINISTIC | false |
| schedule_receives | FLOWENGINE_SCHEDULE_RECEIVES | true |
| compress_transfers | FLOWENGINE_COMPRESS_TRANSFERS | none |
| place | FLOWENGINE_PLACE | none |
| allow_soft_placement | FLOWENGINE_ALLOW_SOFT_PLACEMENT | true with one device, else false |
| log_device_placement | FLOWENGINE_LOG_DEVICE_PLACEMENT | false |
| measure_costs | FLOWENGINE_MEASURE_COSTS | true |
| silence_seconds | FLOWENGINE_SILENCE_SECONDS | 30 |
| abort_on_restart | FLOWENGINE_ABORT_ON_RESTART | false |
| checked | FLOWENGINE_CHECKED | false |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from flowengine.core import device_config
from flowengine.core.bounds import LEVELS, Sandbox, roots, texts
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.access import FileAccess, FileRoots, Files, files_of
from flowengine.core.setting_values import (
    KERNEL_PROVIDERS,
    bound,
    check_choice,
    check_file_access,
    check_given,
    flag,
    open_flag,
    setting_name,
    silence,
    text_of,
)


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a session. A field left at None takes the environment's value or the default.

    file_access                   "all", "read" or "none": what the graph's own ops may do with files; or
                                  `FileAccess(read=..., write=..., write_bytes=...)`: beneath which folders
    memory_limit_bytes            bound on the bytes of all tensors alive in one step; None for no bound
    session_memory_bytes          bound on the bytes of all steps, variables, queues, tables and plans of a
                                  session together; None for no bound
    python_calls                  whether nodes made by `graph.call` may call functions of the program
    max_steps                     so many steps of a session run at a time, the others wait; None for no bound
    max_waiting_steps             so many steps wait, and the next is refused; None for no bound
    worker_threads                run heavy kernels on worker threads; False keeps everything inline, which
                                  a simulation on a mock clock needs
    fold_constants                compute what depends on constants only once, when a plan is made
    merge_common_subexpressions   run equal nodes once
    compile_hot_plans             turn what runs often into generated Python; False interprets every step
    fuse_elementwise              in hot plans, go over large tensors once for a chain of elementwise nodes
    fuse_contractions             in hot plans, let what follows a product or convolution work in its memory
    fold_batch_norms              multiply constant filters by the batch normalisation behind them; False
                                  keeps the bits of the nodes one by one
    open_calls                    put functions, conditionals and loops in the place of their calls when a
                                  plan is made, so that they are compiled with what is around them
    kernel_provider               "auto": oneDNN before NumPy where it is there; "numpy": NumPy alone;
                                  "onednn": fail where it is not there
    sync_checkpoints              a checkpoint counts once it has reached the disk; False leaves that to the
                                  operating system, which is faster and safe against all but its own crash
    device_count                  {device type: how many}, such as {"CPU": 4}; a type that is not named has
                                  as many as there are, and of CPUs there is one
    device_memory_limits          {device type or name: bytes}, such as {"CPU:1": 1 << 30}: bound on what is
                                  alive in the memory of a device, variables included
    count_allocations             count what is alive on each device although there is no limit
    debug_devices                 wait after each kernel of a device with streams, so that a late error
                                  names its node
    tensor_float_32               let GPUs round the factors of float32 products and convolutions to 10 bits,
                                  which is several times as fast
    deterministic                 let GPUs add in an order that is the same each time, so that a step gives
                                  the same bits; the CPU does so always
    schedule_receives             receive a tensor from another device late, when it is soon to be used
    compress_transfers            send float32 between devices at half the size, losing precision: True for
                                  every tensor, or the name scopes of the nodes whose tensors may lose it
    place                         {pattern of node names: device}, before what the graph asks for; the last
                                  pattern that fits counts. A device may be partial ("GPU", "CPU:1",
                                  "/job:worker/task:17"), and "@name" is the device of that node
    allow_soft_placement          put a node whose device there is not, or cannot take it, on one that can;
                                  False: an error. Left open it is True for a session of one device
    log_device_placement          log the device of every node to `flowengine.placement`
    measure_costs                 with several devices: measure what nodes take in the first steps and place
                                  them again by it
    silence_seconds               a peer, task or master, that gives no sign of life for so long is lost: what
                                  waits for it ends with an error. Connecting takes at most as long, or 10 s
    abort_on_restart              at a target: once a task that steps have used has restarted, or the
                                  connection to the master was lost, its steps end with AbortedError;
                                  False: they go on, without what was held there
    checked                       compare the shapes that kernels of users give with what the shape functions
                                  of their ops say for the inputs

    Raises InvalidArgumentError at once for a value that a field cannot have, naming the field and what it may
    be; for a variable of the environment, naming that, when a session is opened.

    >>> config = fe.Config(file_access="read", max_steps=4, memory_limit_bytes=1 << 30)
    >>> session = fe.blocking.Session(fe.Graph(), config=config)
    >>> session.close()
    >>> fe.Config(max_steps="many")
    Traceback (most recent call last):
    flowengine.core.errors.InvalidArgumentError: max_steps is 'many': it must be a positive whole number
    """

    file_access: str | FileAccess | None = None
    memory_limit_bytes: int | None = None
    session_memory_bytes: int | None = None
    python_calls: bool | None = None
    max_steps: int | None = None
    max_waiting_steps: int | None = None
    worker_threads: bool | None = None
    fold_constants: bool | None = None
    merge_common_subexpressions: bool | None = None
    compile_hot_plans: bool | None = None
    fuse_elementwise: bool | None = None
    fuse_contractions: bool | None = None
    fold_batch_norms: bool | None = None
    open_calls: bool | None = None
    kernel_provider: str | None = None
    sync_checkpoints: bool | None = None
    device_count: Mapping[str, int] | None = None
    device_memory_limits: Mapping[str, int] | None = None
    count_allocations: bool | None = None
    debug_devices: bool | None = None
    tensor_float_32: bool | None = None
    deterministic: bool | None = None
    schedule_receives: bool | None = None
    compress_transfers: bool | Sequence[str] | None = None
    place: Mapping[str, str] | None = None
    allow_soft_placement: bool | None = None
    log_device_placement: bool | None = None
    measure_costs: bool | None = None
    silence_seconds: float | None = None
    abort_on_restart: bool | None = None
    checked: bool | None = None

    @classmethod
    def sandbox(
        cls,
        *,
        memory_bytes: int,
        seconds: float,
        read: str | Path | Sequence[str | Path] = (),
        write: str | Path | Sequence[str | Path] = (),
        write_bytes: int = 0,
        require: Sequence[str] = LEVELS,
        exec_memory: bool = True,
        cores: int = 1,
        init: str | Sequence[str] = (),
        imports: str | Sequence[str] = (),
        trusted_graph: bool = False,
        spare: bool = True,
        max_steps: int = 1,
        **settings: Any,
    ) -> Config:
        """Settings under which a stranger's graph runs in a process that has locked itself in.

        memory_bytes    all that the graph's values may take
        seconds         what a step may take, by the clock and of each of `cores` processors
        read, write     files and folders for the graph's ops; what may be written may be read
        write_bytes     how much a process may write in all
        require         levels without which no session is opened: "limits", "landlock", "seccomp"
        exec_memory     False: memory is never executable, and NumPy alone computes
        init            nodes that are run first in every new process, such as initializers
        imports         modules with ops and kernels of the program
        trusted_graph   take a `Graph` of this process, not only `GraphBytes`
        spare           keep a process ready for the next one that is needed, here or by the next session of
                        equal settings
        settings        fields of `Config` for the process

        Raises InvalidArgumentError naming what cannot be, such as a folder that is not there.

        >>> config = fe.Config.sandbox(memory_bytes=1 << 30, seconds=5.0)
        """
        box = Sandbox(
            memory_bytes=memory_bytes,
            seconds=seconds,
            read=roots(read, "read"),
            write=roots(write, "write"),
            write_bytes=write_bytes,
            require=tuple(require),
            exec_memory=exec_memory,
            cores=cores,
            init=texts(init, "init"),
            imports=texts(imports, "imports"),
            trusted_graph=trusted_graph,
            spare=spare,
        )
        return sandbox_config(box, settings, max_steps)

    def __post_init__(self) -> None:
        check_given({each.name: getattr(self, each.name) for each in fields(Config)})

    def __repr__(self) -> str:
        """Show the fields that differ from the defaults."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"Config({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"

    def resolved(self) -> Settings:
        """Every field filled in.

        >>> fe.Config(max_steps=4).resolved().max_steps, fe.Config().resolved().file_access.access
        (4, 'all')
        """
        access = self.file_access if self.file_access is not None else text_of("FILE_ACCESS", "all")
        check_file_access(setting_name(self.file_access, "FILE_ACCESS"), access)
        most_steps = bound(self.max_steps, "MAX_STEPS")
        most_waiting = bound(self.max_waiting_steps, "MAX_WAITING_STEPS", least=0)
        if most_waiting is not None and most_steps is None:
            raise InvalidArgumentError("max_waiting_steps needs max_steps: else no step waits to begin")
        provider = self.kernel_provider or text_of("KERNEL_PROVIDER", "auto").strip().lower() or "auto"
        check_choice(setting_name(self.kernel_provider, "KERNEL_PROVIDER"), provider, KERNEL_PROVIDERS)
        return Settings(
            file_access=FileRoots(access) if isinstance(access, FileAccess) else files_of(access),
            memory_limit_bytes=bound(self.memory_limit_bytes, "MEMORY_LIMIT_BYTES"),
            session_memory_bytes=bound(self.session_memory_bytes, "SESSION_MEMORY_BYTES"),
            python_calls=flag(self.python_calls, "PYTHON_CALLS"),
            max_steps=most_steps,
            max_waiting_steps=most_waiting,
            worker_threads=flag(self.worker_threads, "WORKER_THREADS"),
            fold_constants=flag(self.fold_constants, "FOLD_CONSTANTS"),
            merge_common_subexpressions=flag(self.merge_common_subexpressions, "MERGE_COMMON_SUBEXPRESSIONS"),
            compile_hot_plans=flag(self.compile_hot_plans, "COMPILE_HOT_PLANS"),
            fuse_elementwise=flag(self.fuse_elementwise, "FUSE_ELEMENTWISE"),
            fuse_contractions=flag(self.fuse_contractions, "FUSE_CONTRACTIONS"),
            fold_batch_norms=flag(self.fold_batch_norms, "FOLD_BATCH_NORMS", default=True),
            open_calls=flag(self.open_calls, "OPEN_CALLS"),
            kernel_provider=provider,
            sync_checkpoints=flag(self.sync_checkpoints, "SYNC_CHECKPOINTS"),
            device_count=device_config.numbers(
                self.device_count,
                text_of("DEVICE_COUNT", ""),
                setting_name(self.device_count, "DEVICE_COUNT"),
            ),
            device_memory_limits=device_config.numbers(
                self.device_memory_limits,
                text_of("DEVICE_MEMORY_LIMITS", ""),
                setting_name(self.device_memory_limits, "DEVICE_MEMORY_LIMITS"),
            ),
            count_allocations=flag(self.count_allocations, "COUNT_ALLOCATIONS", default=False),
            debug_devices=flag(self.debug_devices, "DEBUG_DEVICES", default=False),
            tensor_float_32=flag(self.tensor_float_32, "TENSOR_FLOAT_32", default=False),
            deterministic=flag(self.deterministic, "DETERMINISTIC", default=False),
            schedule_receives=flag(self.schedule_receives, "SCHEDULE_RECEIVES"),
            compress_transfers=device_config.scopes(
                self.compress_transfers, text_of("COMPRESS_TRANSFERS", ""), "compress_transfers"
            ),
            place=device_config.rules(self.place, text_of("PLACE", ""), setting_name(self.place, "PLACE")),
            allow_soft_placement=open_flag(self.allow_soft_placement, "ALLOW_SOFT_PLACEMENT"),
            log_device_placement=flag(self.log_device_placement, "LOG_DEVICE_PLACEMENT", default=False),
            measure_costs=flag(self.measure_costs, "MEASURE_COSTS"),
            silence_seconds=silence(self.silence_seconds),
            abort_on_restart=flag(self.abort_on_restart, "ABORT_ON_RESTART", default=False),
            checked=flag(self.checked, "CHECKED", default=False),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """A `Config` with nothing left open: what the rooms below the session see."""

    file_access: Files
    memory_limit_bytes: int | None
    worker_threads: bool
    fold_constants: bool
    merge_common_subexpressions: bool
    compile_hot_plans: bool
    session_memory_bytes: int | None = None
    python_calls: bool = True
    max_steps: int | None = None
    max_waiting_steps: int | None = None
    fuse_elementwise: bool = True
    fuse_contractions: bool = True
    fold_batch_norms: bool = True
    open_calls: bool = True
    kernel_provider: str = "auto"
    sync_checkpoints: bool = True
    device_count: Mapping[str, int] = field(default_factory=dict)
    device_memory_limits: Mapping[str, int] = field(default_factory=dict)
    count_allocations: bool = False
    debug_devices: bool = False
    tensor_float_32: bool = False
    deterministic: bool = False
    schedule_receives: bool = True
    #: Name scopes; "" is everything.
    compress_transfers: tuple[str, ...] = ()
    #: (pattern, device) in order.
    place: tuple[tuple[str, str], ...] = ()
    #: None: as the number of devices says.
    allow_soft_placement: bool | None = None
    log_device_placement: bool = False
    measure_costs: bool = True
    silence_seconds: float = 30.0
    abort_on_restart: bool = False
    checked: bool = False

    @property
    def places(self) -> bool:
        """Whether nodes are placed although there is one device: something asks about it."""
        return bool(self.place) or self.allow_soft_placement is False or self.log_device_placement

    @property
    def of_devices(self) -> device_config.DeviceSettings:
        """The settings that devices receive."""
        return device_config.DeviceSettings(self.tensor_float_32, self.deterministic)

    @property
    def compiles_plans(self) -> bool:
        """Whether hot plans become generated Python, inside of which nothing is counted."""
        return self.compile_hot_plans and not self.counts_allocations

    @property
    def counts_allocations(self) -> bool:
        """Whether anything asks what tensors hold."""
        bounds = (self.memory_limit_bytes, self.session_memory_bytes)
        return self.count_allocations or bounds != (None, None) or bool(self.device_memory_limits)


@dataclass(frozen=True, slots=True, repr=False)
class SandboxConfig(Config):
    """A `Config` with the bounds of a box."""

    box: Sandbox | None = None


def sandbox_config(box: Sandbox, settings: Mapping[str, Any], max_steps: int) -> SandboxConfig:
    """Settings for the process in a box; InvalidArgumentError for one that the box decides."""
    fixed: dict[str, Any] = {
        "python_calls": False,
        "memory_limit_bytes": box.memory_bytes,
        "session_memory_bytes": box.memory_bytes,
        "max_steps": max_steps,
        "box": box,
    }
    if not box.exec_memory:
        fixed["kernel_provider"] = "numpy"
    # The box says which files its process may open, and the process enforces that.
    if twice := sorted((fixed.keys() | {"file_access"}) & settings.keys()):
        raise InvalidArgumentError(f"Config.sandbox sets {', '.join(twice)} itself: leave it out")
    return SandboxConfig(**settings, **fixed)


def box_of(config: Config) -> Sandbox | None:
    """The bounds of a process of its own; None where graphs run in this one."""
    return config.box if isinstance(config, SandboxConfig) else None
