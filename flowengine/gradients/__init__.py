"""Gradients: a graph is extended by the nodes that compute derivatives.

    dx, dw = flowengine.gradients(loss, [x, w])

This package is what `flowengine.gradients` names, and it may be called: see `differentiate.gradients`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package that can be called as the function of its own name."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        from flowengine.gradients.differentiate import gradients

        return gradients(*args, **named)


sys.modules[__name__].__class__ = _CallablePackage
