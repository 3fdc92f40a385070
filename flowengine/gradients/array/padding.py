"""Gradients of padding."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integers, known, rank
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Pad")
def pad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The part of g that was there before"""
    return [_inside(b, op, grad), None]


@gradient("PadV2")
def pad_with_value(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The part of g that was there before; the value that is padded with is taken for a constant"""
    return [_inside(b, op, grad), None, None]


def _inside(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    x, paddings = op.inputs[:2]
    kind = paddings.dtype.base
    amounts = known(paddings)
    if amounts is not None:
        begin = integers(b, *amounts.reshape(-1, 2)[:, 0].tolist(), dtype=kind)
    else:
        column = b.ops.Pack([rank(b, x), 1])
        begin = b.ops.Reshape(b.ops.Slice(paddings, integers(b, 0, 0), column), integers(b, -1))
    result: Tensor = b.ops.Slice(grad, begin, b.shape(x, kind))
    return result


@gradient("MirrorPad")
def mirror_pad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g with what lies behind the mirrors added, an op of its own"""
    return [b.ops.MirrorPadGrad(grad, op.inputs[1], mode=op.get_attr("mode")), None]


@gradient("MirrorPadGrad")
def mirror_pad_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The padding again"""
    return [b.ops.MirrorPad(grad, op.inputs[1], mode=op.get_attr("mode")), None]
