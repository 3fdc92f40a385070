"""Gradients of conversions between types, and of the check for NaN and infinity."""

from __future__ import annotations

from dataclasses import replace

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import part_type
from flowengine.gradients.values import Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Cast", slices=True)
def cast(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g as what x was: absent where either is no number with a fraction."""
    source, target = op.inputs[0].dtype.base, op.outputs[0].dtype.base
    if not all(dtype.is_floating or dtype.is_complex for dtype in (source, target)):
        return [None]
    if isinstance(grad, IndexedSlices):
        return [replace(grad, values=b.ops.Cast(grad.values, DstT=source))]
    return [b.ops.Cast(grad, DstT=source)]


@gradient("Bitcast")
def bitcast(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g as what x was, where the bits are of the same numbers: complex ones and their parts; else absent."""
    source, target = op.inputs[0].dtype.base, op.outputs[0].dtype.base
    kinds = {part_type(each) if each.is_complex else each for each in (source, target)}
    if len(kinds) > 1 or not (source.is_floating or source.is_complex):
        return [None]
    return [b.ops.Bitcast(grad, type=source)]


@gradient("CheckNumerics")
def check_numerics(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, checked too"""
    return [b.ops.CheckNumerics(grad, message=_message(op))]


@gradient("CheckNumericsV2")
def check_numerics_apart(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, checked too"""
    return [b.ops.CheckNumericsV2(grad, message=_message(op))]


def _message(op: Operation) -> bytes:
    message: bytes = op.get_attr("message")
    return b"in the gradient of '" + op.name.encode() + b"': " + message
