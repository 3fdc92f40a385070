"""The version that a server gives as its own."""

from __future__ import annotations

import importlib.metadata
from functools import cache


@cache
def server_version() -> str:
    """Return the version of the installed distribution, "unknown" if none is installed."""
    try:
        return importlib.metadata.version("flowengine-dataflow")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


__all__ = ["server_version"]
