"""Attributes that an op and the ops of its gradient have in common."""

from __future__ import annotations

from typing import Any

from flowengine.graphs.tensor import Operation


def same(op: Operation, *names: str) -> dict[str, Any]:
    """Those of an operation's attributes, as keywords for the constructor of another op."""
    return {name: op.get_attr(name) for name in names}
