"""Training around steps: checkpoints that survive crashes, and pipelines that run beside the steps.

Names are resolved when first used: using one part does not import the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from flowengine.train.saver import Saver

#: {public name: module}
_PUBLIC: Final[dict[str, str]] = {
    "Saver": "flowengine.train.saver",
}

__all__ = [
    "Saver",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'flowengine.train' has no attribute '{name}'")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
