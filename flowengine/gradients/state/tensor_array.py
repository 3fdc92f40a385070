"""Gradients of TensorArrays: what was read goes to an array of gradients, what was written comes from there.

The array of gradients is found by the handle of the array and the source of the call. The flow goes the other
way, so that a place is read when all that was made of it has been written. There are three versions of these
ops, which differ in what a handle is: a reference to a string, a string, a resource. The gradient of an op is
made of ops of its own version.
"""

from __future__ import annotations

from typing import Any

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientUnimplementedError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


class _GradientArray:
    """The array of gradients, as the gradient of one op uses it.

    Raises GradientUnimplementedError where the array would have to be another in each iteration.
    """

    def __init__(self, b: Backward, op: Operation, handle: Tensor, flow: Tensor) -> None:
        if b.region.sees_again(handle):
            raise GradientUnimplementedError(
                f"{op.type} '{op.name}': this gradient is computed again and again in a loop, such as that "
                "of a Jacobian, and its TensorArray is outside of it, with one array of gradients for all "
                "iterations, which would add up; keep what lies between x and y in a list of tensors "
                "(TensorListReserve), or compute the rows by calls of gradients"
            )
        self._b = b
        self._version = op.type[-2:] if op.type.endswith(("V2", "V3")) else ""
        made = self._op("Grad")(handle, flow, source=b.source)
        self._handle: Tensor = made.grad_handle if self._version == "V3" else made
        with b.control([self._handle]):
            self._flow: Tensor = b.ops.Identity(flow)

    def _op(self, name: str) -> Any:
        return getattr(self._b.ops, f"TensorArray{name}{self._version}")

    def call(self, name: str, *inputs: Tensor, **attrs: Any) -> Any:
        """Build an op of this version on the array of gradients, to run after that array exists."""
        return self._op(name)(self._handle, *inputs, self._flow, **attrs)


@gradient("TensorArrayRead", "TensorArrayReadV2", "TensorArrayReadV3")
def read(b: Backward, op: Operation, grad: Tensor) -> Results:
    handle, index, flow = op.inputs
    return [None, None, _GradientArray(b, op, handle, flow).call("Write", index, grad)]


@gradient("TensorArrayWrite", "TensorArrayWriteV2", "TensorArrayWriteV3")
def write(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, index, _, _ = op.inputs
    value = _GradientArray(b, op, handle, flow).call("Read", index, dtype=op.get_attr("T"))
    return [None, None, value, flow]


@gradient("TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3")
def gather(b: Backward, op: Operation, grad: Tensor) -> Results:
    handle, indices, flow = op.inputs
    return [None, None, _GradientArray(b, op, handle, flow).call("Scatter", indices, grad)]


@gradient("TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3")
def scatter(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, indices, value, _ = op.inputs
    shape = value.shape
    values = _GradientArray(b, op, handle, flow).call(
        "Gather",
        indices,
        dtype=op.get_attr("T"),
        element_shape=None if shape.dims is None else shape.dims[1:],
    )
    return [None, None, values, flow]


@gradient("TensorArrayPack")
def pack(b: Backward, op: Operation, grad: Tensor) -> Results:
    handle, flow = op.inputs
    return [None, _GradientArray(b, op, handle, flow).call("Unpack", grad)]


@gradient("TensorArrayUnpack")
def unpack(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, value, _ = op.inputs
    shape = value.shape
    values = _GradientArray(b, op, handle, flow).call(
        "Pack", dtype=op.get_attr("T"), element_shape=None if shape.dims is None else shape.dims[1:]
    )
    return [None, values, flow]


@gradient("TensorArrayConcat", "TensorArrayConcatV2", "TensorArrayConcatV3", lazy=True)
def concat(b: Backward, op: Operation, grad: Tensor | None, lengths: None) -> Results:
    if grad is None:
        return [None, None]
    handle, flow = op.inputs
    return [None, _GradientArray(b, op, handle, flow).call("Split", grad, op.outputs[1])]


@gradient("TensorArraySplit", "TensorArraySplitV2", "TensorArraySplitV3")
def split(b: Backward, op: Operation, flow: Tensor) -> Results:
    handle, value, _, _ = op.inputs
    shape = value.shape
    joined = _GradientArray(b, op, handle, flow).call(
        "Concat",
        dtype=op.get_attr("T"),
        element_shape_except0=None if shape.dims is None else shape.dims[1:],
    )
    return [None, joined.value, None, flow]
