"""Settings: what a caller gives, over `FLOWENGINE_*` variables, over defaults.

| field | variable | default |
|---|---|---|
| file_access | FLOWENGINE_FILE_ACCESS | "all" |
| memory_limit_bytes | FLOWENGINE_MEMORY_LIMIT_BYTES | none |
| worker_threads | FLOWENGINE_WORKER_THREADS | true |
| fold_constants | FLOWENGINE_FOLD_CONSTANTS | true |
| merge_common_subexpressions | FLOWENGINE_MERGE_COMMON_SUBEXPRESSIONS | true |
| compile_hot_plans | FLOWENGINE_COMPILE_HOT_PLANS | true |
| kernel_provider | FLOWENGINE_KERNEL_PROVIDER | "auto" |
| sync_checkpoints | FLOWENGINE_SYNC_CHECKPOINTS | true |
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError

#: What the ops of a graph may do with files: anything, read only, or nothing.
FILE_ACCESS: Final = ("all", "read", "none")

#: Who computes: the fastest that is there, NumPy alone, or oneDNN without fail.
KERNEL_PROVIDERS: Final = ("auto", "numpy", "onednn")


@dataclass(frozen=True, slots=True)
class Config:
    """How a session runs its graph. A field left at None takes the environment's value or the default.

    file_access                   "all", "read" or "none": what the graph's own ops may do with files
    memory_limit_bytes            bound on the bytes of all tensors alive in one step; None for no bound
    worker_threads                run heavy kernels on worker threads; False keeps everything inline, which
                                  a simulation on a mock clock needs
    fold_constants                compute what depends on constants only once, when a plan is made
    merge_common_subexpressions   run equal nodes once
    compile_hot_plans             turn what runs often into generated Python; False interprets every step
    kernel_provider               "auto": oneDNN before NumPy where it is there; "numpy": NumPy alone;
                                  "onednn": fail where it is not there
    sync_checkpoints              a checkpoint counts once it has reached the disk; False leaves that to the
                                  operating system, which is faster and safe against all but its own crash

    Raises InvalidArgumentError for a value that a field cannot have, naming field or variable.
    """

    file_access: str | None = None
    memory_limit_bytes: int | None = None
    worker_threads: bool | None = None
    fold_constants: bool | None = None
    merge_common_subexpressions: bool | None = None
    compile_hot_plans: bool | None = None
    kernel_provider: str | None = None
    sync_checkpoints: bool | None = None

    def resolved(self) -> Settings:
        """Every field filled in."""
        access = self.file_access if self.file_access is not None else _text("FILE_ACCESS", "all")
        if access not in FILE_ACCESS:
            raise InvalidArgumentError(
                f"file_access is {access!r}: it must be one of {', '.join(FILE_ACCESS)}"
            )
        limit = self.memory_limit_bytes
        if limit is None:
            limit = _integer("MEMORY_LIMIT_BYTES")
        if limit is not None and limit <= 0:
            raise InvalidArgumentError(f"memory_limit_bytes is {limit}: it must be positive")
        provider = self.kernel_provider or _text("KERNEL_PROVIDER", "auto").strip().lower() or "auto"
        if provider not in KERNEL_PROVIDERS:
            raise InvalidArgumentError(
                f"kernel_provider is {provider!r}: it must be one of {', '.join(KERNEL_PROVIDERS)}"
            )
        return Settings(
            file_access=access,
            memory_limit_bytes=limit,
            worker_threads=_flag(self.worker_threads, "WORKER_THREADS"),
            fold_constants=_flag(self.fold_constants, "FOLD_CONSTANTS"),
            merge_common_subexpressions=_flag(
                self.merge_common_subexpressions, "MERGE_COMMON_SUBEXPRESSIONS"
            ),
            compile_hot_plans=_flag(self.compile_hot_plans, "COMPILE_HOT_PLANS"),
            kernel_provider=provider,
            sync_checkpoints=_flag(self.sync_checkpoints, "SYNC_CHECKPOINTS"),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """A `Config` with nothing left open: what the rooms below the session see."""

    file_access: str
    memory_limit_bytes: int | None
    worker_threads: bool
    fold_constants: bool
    merge_common_subexpressions: bool
    compile_hot_plans: bool
    kernel_provider: str = "auto"
    sync_checkpoints: bool = True


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How one step runs. `timeout_seconds`: DeadlineExceededError when it has not ended by then."""

    timeout_seconds: float | None = None


@dataclass(slots=True)
class RunMetadata:
    """Filled in by `Session.run(..., run_metadata=...)` when the step has ended.

    wall_seconds   from the start of the step to its end
    items          nodes of the plan, executed or found dead (loop bodies counted once)
    heavy_items    kernels that ran on a worker thread
    async_items    kernels that had to wait in a trio task
    peak_bytes     most bytes of tensors alive at once, counted only under a memory limit
    """

    wall_seconds: float = 0.0
    items: int = 0
    heavy_items: int = 0
    async_items: int = 0
    peak_bytes: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


def _variable(name: str) -> str:
    return f"FLOWENGINE_{name}"


def _text(name: str, default: str) -> str:
    return os.environ.get(_variable(name), default)


def _integer(name: str) -> int | None:
    text = os.environ.get(_variable(name))
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(f"{_variable(name)} is {text!r}: it must be a whole number") from None


def _flag(given: bool | None, name: str) -> bool:
    if given is not None:
        return given
    text = os.environ.get(_variable(name), "").strip().lower()
    if text in ("", "1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise InvalidArgumentError(f"{_variable(name)} is {text!r}: write 1 or 0")
