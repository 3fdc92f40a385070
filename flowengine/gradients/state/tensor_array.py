"""Gradients of TensorArrays: what was read goes to an array of gradients, what was written comes from there.

The array of gradients is found by the handle of the array and the source of the call. The flow goes the other
way, so that a place is read when all that was made of it has been written.
"""

from __future__ import annotations

from flowengine.gradients.errors import GradientUnimplementedError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


def _array(b: Backward, handle: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
    """(handle of the array of gradients, the flow once it is there)

    Raises GradientUnimplementedError where the array would have to be another in each iteration.
    """
    if b.region.sees_again(handle):
        raise GradientUnimplementedError(
            f"{b.op.type} '{b.op.name}': its TensorArray is outside of the loop in which this gradient is "
            "computed again and again, such as that of a Jacobian, and has one array of gradients in all "
            "iterations, which would add up; keep what lies between x and y in a list of tensors "
            "(TensorListReserve), or compute the rows by calls of gradients"
        )
    made = b.ops.TensorArrayGradV3(handle, flow, source=b.source)
    with b.control([made.grad_handle]):
        return made.grad_handle, b.ops.Identity(flow)


@gradient("TensorArrayReadV3")
def read(b: Backward, op: Operation, grad: Tensor) -> Results:
    handle, index, flow = op.inputs
    array, ready = _array(b, handle, flow)
    return [None, None, b.ops.TensorArrayWriteV3(array, index, grad, ready)]


@gradient("TensorArrayWriteV3")
def write(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, index, _, _ = op.inputs
    array, ready = _array(b, handle, flow)
    value = b.ops.TensorArrayReadV3(array, index, ready, dtype=op.get_attr("T"))
    return [None, None, value, flow]


@gradient("TensorArrayGatherV3")
def gather(b: Backward, op: Operation, grad: Tensor) -> Results:
    handle, indices, flow = op.inputs
    array, ready = _array(b, handle, flow)
    return [None, None, b.ops.TensorArrayScatterV3(array, indices, grad, ready)]


@gradient("TensorArrayScatterV3")
def scatter(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, indices, value, _ = op.inputs
    array, ready = _array(b, handle, flow)
    shape = value.shape
    values = b.ops.TensorArrayGatherV3(
        array,
        indices,
        ready,
        dtype=op.get_attr("T"),
        element_shape=None if shape.dims is None else shape.dims[1:],
    )
    return [None, None, values, flow]


@gradient("TensorArrayConcatV3", lazy=True)
def concat(b: Backward, op: Operation, grad: Tensor | None, lengths: None) -> Results:
    if grad is None:
        return [None, None]
    handle, flow = op.inputs
    array, ready = _array(b, handle, flow)
    return [None, b.ops.TensorArraySplitV3(array, grad, op.outputs[1], ready)]


@gradient("TensorArraySplitV3")
def split(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, value, _, _ = op.inputs
    array, ready = _array(b, handle, flow)
    shape = value.shape
    joined = b.ops.TensorArrayConcatV3(
        array,
        ready,
        dtype=op.get_attr("T"),
        element_shape_except0=None if shape.dims is None else shape.dims[1:],
    )
    return [None, joined.value, None, flow]
