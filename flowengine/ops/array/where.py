"""The coordinates of what is not zero."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define


@define("Where(input: T) -> index: int64", "T: numberorbooltype = bool", NotDifferentiable())
def where(c: ShapeContext) -> Shapes:
    """(true elements, rank): coordinates of each"""
    return [TensorShape([None, c.input(0).rank])]
