"""Settings under which a stranger's graph runs in a process of its own; made by `Config.sandbox`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowengine.core.bounds import Sandbox
from flowengine.core.config import Config
from flowengine.core.errors import InvalidArgumentError


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
    # Which files is said by the box, and asked of its process.
    if twice := sorted((fixed.keys() | {"file_access"}) & settings.keys()):
        raise InvalidArgumentError(f"a sandbox decides itself about {', '.join(twice)}")
    return SandboxConfig(**settings, **fixed)


def box_of(config: Config) -> Sandbox | None:
    """The bounds of a process of its own; None where graphs run in this one."""
    return config.box if isinstance(config, SandboxConfig) else None


__all__ = ["SandboxConfig", "box_of", "sandbox_config"]
