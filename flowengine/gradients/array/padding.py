"""Gradients of padding at the edges, and blocks of space moved to the batch or the depth."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integers, known, rank
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of padding.


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


# Gradients of blocks of space moved to the batch or the depth: they are moved back.


@gradient("SpaceToDepth")
def space_to_depth(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, its depth moved back to space"""
    block, layout = op.get_attr("block_size"), op.get_attr("data_format")
    return [b.ops.DepthToSpace(grad, block_size=block, data_format=layout)]


@gradient("DepthToSpace")
def depth_to_space(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, its space moved back to depth"""
    block, layout = op.get_attr("block_size"), op.get_attr("data_format")
    return [b.ops.SpaceToDepth(grad, block_size=block, data_format=layout)]


@gradient("SpaceToBatch")
def space_to_batch(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, its batch moved back to space, without what was padded"""
    return [b.ops.BatchToSpace(grad, op.inputs[1], block_size=op.get_attr("block_size")), None]


@gradient("BatchToSpace")
def batch_to_space(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, its space moved back to the batch, with zeros for what was cropped"""
    return [b.ops.SpaceToBatch(grad, op.inputs[1], block_size=op.get_attr("block_size")), None]


@gradient("SpaceToBatchND")
def space_to_batch_any(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, its batch moved back to space, without what was padded"""
    _, blocks, paddings = op.inputs
    return [b.ops.BatchToSpaceND(grad, blocks, paddings), None, None]


@gradient("BatchToSpaceND")
def batch_to_space_any(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, its space moved back to the batch, with zeros for what was cropped"""
    _, blocks, crops = op.inputs
    return [b.ops.SpaceToBatchND(grad, blocks, crops), None, None]
