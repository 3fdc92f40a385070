"""TensorArrays as nodes. The handle that flows is the `TensorArray`; the flow is a scalar for order.

On a device with memory of its own elements and flows are there; sizes, places and lengths are in host memory.

Ops of the third version carry (handle, flow); of the second, a handle that is a string vector (container
and name); of the first, a reference to one, which is the object itself here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, is_numpy, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.devices.device import StreamDevice
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.tensor_array import TensorArray

_FLOW: Final = np.float32(0)


def _scalar(value: Any, what: str) -> int:
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"TensorArray {what} must be scalar, but had shape: {list(value.shape)}")
    return int(value)


def _vector(value: Any, what: str) -> list[int]:
    array = to_array(value)
    if array.ndim != 1:
        raise InvalidArgumentError(f"Expected {what} to be a vector, but received shape: {list(array.shape)}")
    integers: list[int] = array.tolist()
    return integers


def _array(handle: Any, ctx: KernelContext) -> TensorArray:
    """The array behind a handle of any version."""
    if type(handle) is TensorArray:
        return handle
    if isinstance(handle, np.ndarray) and handle.shape == (2,) and handle.dtype.hasobject:
        found = ctx.step_container.lookup(handle[1].decode("utf-8", "replace"))
        if isinstance(found, TensorArray):
            return found
    raise InvalidArgumentError(f"the handle of a TensorArray is wanted, not a {type(handle).__name__}")


def _of_device(hardware: Any) -> dict[str, Any]:
    """Return the arguments for elements that are a device's arrays; none if they are NumPy's."""
    if hardware is None or hardware.shares_host_memory:
        return {}
    found = {"xp": hardware.xp}
    return {**found, "computing": hardware.computing} if isinstance(hardware, StreamDevice) else found


def _flow(xp: Any) -> Any:
    return _FLOW if is_numpy(xp) else xp.zeros((), np.float32)


def _create(ctx: KernelContext, node: Node, size: Any) -> TensorArray:
    attrs = node.attrs
    hint = attrs["tensor_array_name"].decode("utf-8", "replace") or node.name
    array = TensorArray(
        attrs["dtype"],
        _scalar(size, "size"),
        element_shape=attrs.get("element_shape", UNKNOWN_SHAPE),
        identical_element_shapes=attrs.get("identical_element_shapes", False),
        dynamic_size=attrs["dynamic_size"],
        clear_after_read=attrs["clear_after_read"],
        account=ctx.memory,
        name=node.name,
        **_of_device(ctx.hardware),
    )
    return ctx.step_container.create(hint, array)


@kernel("TensorArrayV3", heavy=False, host=("size",))
def tensor_array_v3(xp: Any, size: Any, *, ctx: KernelContext, node: Node) -> tuple[TensorArray, Any]:
    """(handle, flow) of a new array of `size` elements (int32, rank 0)."""
    return _create(ctx, node, size), _flow(xp)


@kernel("TensorArrayV2", device="CPU", heavy=False)
def tensor_array_v2(size: Any, *, ctx: KernelContext, node: Node) -> Array:
    """The string handle of a new array of `size` elements."""
    return _create(ctx, node, size).read()


@kernel("TensorArray", device="CPU", heavy=False)
def tensor_array(size: Any, *, ctx: KernelContext, node: Node) -> TensorArray:
    """A new array of `size` elements."""
    return _create(ctx, node, size)


def _gradient(handle: Any, ctx: KernelContext, source: bytes, prepend: tuple[int, ...] = ()) -> TensorArray:
    """The gradient array of this array and source, made by whoever asks first."""
    forward = _array(handle, ctx)
    name = f"{forward.name}@{source.decode('utf-8', 'replace')}"
    return ctx.step_container.lookup_or_create(name, lambda: forward.make_gradient(name, prepend))


@kernel("TensorArrayGradV3", heavy=False)
def tensor_array_grad_v3(
    xp: Any, handle: Any, flow_in: Any, *, ctx: KernelContext, source: bytes
) -> tuple[TensorArray, Any]:
    """(handle, flow) of the gradient array for `source`; the forward array cannot grow any more."""
    return _gradient(handle, ctx, source), _flow(xp)


@kernel("TensorArrayGradWithShape", heavy=False, host=("shape_to_prepend",))
def tensor_array_grad_with_shape(
    xp: Any, handle: Any, flow_in: Any, shape_to_prepend: Any, *, ctx: KernelContext, source: bytes
) -> tuple[TensorArray, Any]:
    """As `TensorArrayGradV3`, of elements with more leading dimensions than the forward ones."""
    prepend = tuple(_vector(shape_to_prepend, "shape_to_prepend"))
    return _gradient(handle, ctx, source, prepend), _flow(xp)


@kernel("TensorArrayGradV2", device="CPU", heavy=False)
def tensor_array_grad_v2(handle: Any, flow_in: Any, *, ctx: KernelContext, source: bytes) -> Array:
    """The string handle of the gradient array for `source`."""
    return _gradient(handle, ctx, source).read()


@kernel("TensorArrayGrad", device="CPU", heavy=False)
def tensor_array_grad(handle: Any, flow_in: Any, *, ctx: KernelContext, source: bytes) -> TensorArray:
    """The gradient array for `source`."""
    return _gradient(handle, ctx, source)


@kernel(
    "TensorArrayWrite", "TensorArrayWriteV2", "TensorArrayWriteV3", device=None, heavy=False, host=("index",)
)
def tensor_array_write(
    handle: Any, index: Any, value: Value, flow_in: Any, *, ctx: KernelContext, T: DType
) -> Any:
    """Set the element at `index` (int32, rank 0); a gradient array adds to what is there."""
    array = _array(handle, ctx)
    if T is not array.dtype:
        array.check_dtype(T, "is trying to write")
    array.write(_scalar(index, "index"), value)
    return flow_in


@kernel(
    "TensorArrayRead", "TensorArrayReadV2", "TensorArrayReadV3", device=None, heavy=False, host=("index",)
)
def tensor_array_read(handle: Any, index: Any, flow_in: Any, *, ctx: KernelContext, dtype: DType) -> Value:
    """The element at `index` (int32, rank 0)."""
    array = _array(handle, ctx)
    if dtype is not array.dtype:
        array.check_dtype(dtype, "requested")
    return array.get(_scalar(index, "index"))


def _gather_cost(handle: Any, *_: Any) -> float:
    """Microseconds to join the elements: some 0.3 ns a byte and 0.3 us an element."""
    if type(handle) is not TensorArray:
        return 0.0
    return handle.bytes_estimate * 0.0003 + handle.size * 0.3


@kernel(
    "TensorArrayGather",
    "TensorArrayGatherV2",
    "TensorArrayGatherV3",
    device=None,
    heavy=_gather_cost,
    host=("indices",),
)
def tensor_array_gather(
    handle: Any, indices: Any, flow_in: Any, *, ctx: KernelContext, dtype: DType, element_shape: TensorShape
) -> Any:
    """The elements at `indices` (int32, (N,)), stacked: (N, ...)."""
    array = _array(handle, ctx)
    array.check_dtype(dtype, "requested")
    return array.gather(_vector(indices, "indices"), element_shape)


@kernel("TensorArrayPack", device=None, heavy=_gather_cost)
def tensor_array_pack(
    handle: Any, flow_in: Any, *, ctx: KernelContext, dtype: DType, element_shape: TensorShape
) -> Any:
    """All elements, stacked: (N, ...)."""
    array = _array(handle, ctx)
    array.check_dtype(dtype, "requested")
    return array.gather(range(array.pack_size), element_shape)


@kernel(
    "TensorArrayScatter",
    "TensorArrayScatterV2",
    "TensorArrayScatterV3",
    device=None,
    heavy=False,
    host=("indices",),
)
def tensor_array_scatter(
    handle: Any, indices: Any, value: Any, flow_in: Any, *, ctx: KernelContext, T: DType
) -> Any:
    """Write row i of `value` (N, ...) to the element at indices[i] (int32, (N,))."""
    array = _array(handle, ctx)
    array.check_dtype(T, "is trying to write")
    positions = _vector(indices, "indices")
    rows = _rows(value)
    if len(positions) != len(rows):
        raise InvalidArgumentError(
            f"Expected len(indices) == values.shape[0], but saw: {len(positions)} vs. {len(rows)}"
        )
    array.scatter(positions, rows)
    return flow_in


@kernel("TensorArrayUnpack", device=None, heavy=False)
def tensor_array_unpack(handle: Any, value: Any, flow_in: Any, *, ctx: KernelContext, T: DType) -> Any:
    """Write row i of `value` (N, ...) to element i; the array has N elements or can grow."""
    array = _array(handle, ctx)
    array.check_dtype(T, "is trying to write")
    rows = _rows(value)
    if len(rows) != array.size and not (array.dynamic_size and len(rows) > array.size):
        raise InvalidArgumentError(
            f"TensorArray {array.name}: Input value must have first dimension equal to the array size "
            f"({len(rows)} vs. {array.size})"
        )
    array.scatter(range(len(rows)), rows)
    return flow_in


def _rows(value: Any) -> Array:
    rows = to_array(value)
    if rows.ndim == 0:
        raise InvalidArgumentError(f"Expected value to be at least a vector, but received shape: {[]}")
    return rows


@kernel(
    "TensorArrayConcat",
    "TensorArrayConcatV2",
    "TensorArrayConcatV3",
    device=None,
    heavy=_gather_cost,
    host=("lengths",),
)
def tensor_array_concat(
    handle: Any, flow_in: Any, *, ctx: KernelContext, dtype: DType, element_shape_except0: TensorShape
) -> tuple[Array, Array]:
    """All elements joined along their first axis, and their lengths (int64)."""
    array = _array(handle, ctx)
    array.check_dtype(dtype, "requested")
    return array.concat(element_shape_except0)


@kernel(
    "TensorArraySplit",
    "TensorArraySplitV2",
    "TensorArraySplitV3",
    device=None,
    heavy=False,
    host=("lengths",),
)
def tensor_array_split(
    handle: Any, value: Any, lengths: Any, flow_in: Any, *, ctx: KernelContext, T: DType
) -> Any:
    """Write to element i the next lengths[i] (int64) rows of `value`."""
    array = _array(handle, ctx)
    array.check_dtype(T, "is trying to write")
    sizes = _vector(lengths, "lengths")
    rows = _rows(value)
    if sum(sizes) != len(rows) or min(sizes, default=0) < 0:
        raise InvalidArgumentError(
            f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sum(sizes)} "
            f"and value's shape is: {list(rows.shape)}"
        )
    pieces = []
    begin = 0
    for size in sizes:
        pieces.append(rows[begin : begin + size])
        begin += size
    array.split(pieces)
    return flow_in


@kernel("TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3", device=None, heavy=False, host=("size",))
def tensor_array_size(handle: Any, flow_in: Any, *, ctx: KernelContext) -> Any:
    """The number of elements (int32, rank 0)."""
    return np.int32(_array(handle, ctx).size)


@kernel("TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3", device=None, heavy=False)
def tensor_array_close(handle: Any, *, ctx: KernelContext) -> None:
    """Drop the elements; nothing happens where the array is gone already."""
    try:
        array = _array(handle, ctx)
    except NotFoundError:
        return
    array.close()
