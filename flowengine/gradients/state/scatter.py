"""Gradients of rows and slices that are picked from a variable by its handle."""

from __future__ import annotations

from flowengine.gradients.array.gather import row_slices
from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientValueError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("ResourceGather")
def gather(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The rows of g, as slices of the variable."""
    handle, indices = op.inputs
    if op.get_attr("batch_dims"):
        raise GradientValueError(
            f"ResourceGather '{op.name}' has batch_dims={op.get_attr('batch_dims')}: read the variable, and "
            "take a GatherV2 of its value"
        )
    return [row_slices(b, handle, indices, grad), None]


@gradient("ResourceGatherNd")
def gather_nd(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g added up at its places in zeros of the variable's shape."""
    handle, indices = op.inputs
    shape = b.shape(handle, indices.dtype.base)
    return [b.ops.ScatterNd(indices, grad, shape), None]
