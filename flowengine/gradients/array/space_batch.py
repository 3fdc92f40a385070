"""Gradients of blocks of space moved to the batch or the depth: they are moved back."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
