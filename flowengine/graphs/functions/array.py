"""Shapes and axes: making tensors, changing their shape, joining and cutting them.

`input`, `tensor`, `value` or `a`, and each of `values` or `args`, is a tensor, a variable, or a value that
becomes a constant. Elements are of any type, which the result has too, unless a function says otherwise or
takes a `dtype` or `out_type`. Shapes, `axis`, `block_size` and other sizes are int32 or int64. `graph` is
needed if no argument is a tensor.

`begin`, `end`, `strides` and `size` have a number for each axis, `shift` for each of `axis`; `num` is the
number of parts if the graph does not know it; `data_format` is "NHWC" or "NCHW". The bits of `begin_mask`,
`end_mask`, `ellipsis_mask`, `new_axis_mask` and `shrink_axis_mask` are places.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(value.tolist())
>>> x = graph.constant([[1, 2, 3], [4, 5, 6]])
>>> show(fe.shape(x), fe.size(x), fe.rank(x), fe.zeros_like(x), fe.ones_like(x, dtype="float32"))
[2, 3]
6
2
[[0, 0, 0], [0, 0, 0]]
[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
>>> show(fe.zeros([2], graph=graph), fe.ones([2], "int32", graph=graph), fe.fill([2], fe.identity(x)[0, 0]))
[0.0, 0.0]
[1, 1]
[1, 1]
>>> show(fe.reshape(x, [3, -1]), fe.transpose(x), fe.expand_dims(x, 0), fe.squeeze(x[:1]), fe.reverse(x, [1]))
[[1, 2], [3, 4], [5, 6]]
[[1, 4], [2, 5], [3, 6]]
[[[1, 2, 3], [4, 5, 6]]]
[1, 2, 3]
[[3, 2, 1], [6, 5, 4]]
>>> show(fe.concat([x, x], axis=1), fe.stack([x, x])[1], *fe.unstack(x), *fe.split(x, [1, 2], axis=1))
[[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]]
[[1, 2, 3], [4, 5, 6]]
[1, 2, 3]
[4, 5, 6]
[[1], [4]]
[[2, 3], [5, 6]]
>>> show(fe.tile(x, [1, 2]), fe.broadcast_to(x[0], [2, 3]), fe.pad(x, [[0, 0], [1, 0]]), fe.roll(x, 1, 1))
[[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]]
[[1, 2, 3], [1, 2, 3]]
[[0, 1, 2, 3], [0, 4, 5, 6]]
[[3, 1, 2], [6, 4, 5]]
>>> show(fe.slice(x, [0, 1], [2, -1]), fe.strided_slice(x, [0, 0], [2, 3], [1, 2]), fe.range(0, x[1, 1], 2))
[[2, 3], [5, 6]]
[[1, 3], [4, 6]]
[0, 2, 4]
>>> show(fe.reverse_sequence(x, [2, 3], seq_axis=1), *fe.meshgrid(x[0], x[1, :2]), fe.stop_gradient(x[0]))
[[2, 1, 3], [6, 5, 4]]
[[1, 2, 3], [1, 2, 3]]
[[4, 4, 4], [5, 5, 5]]
[1, 2, 3]
>>> pixels = fe.reshape(fe.range(4, graph=graph), [1, 2, 2, 1])
>>> show(fe.space_to_depth(pixels, 2), fe.depth_to_space(fe.space_to_depth(pixels, 2), 2))
[[[[0, 1, 2, 3]]]]
[[[[0], [1]], [[2], [3]]]]
>>> show(fe.bitcast(graph.constant(1.0), "uint8"))
[0, 0, 128, 63]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import TensorLike, convert, graph_of, stands_for_tensor
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.support import call, dimension, one, tensor_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def zeros(
    shape: Any, dtype: Any = dtypes.float32, name: str | None = None, *, graph: Graph | None = None
) -> Tensor:
    """Return zeros, false or empty strings of a shape, which may be a tensor. `graph` where it is not."""
    return _filled(shape, 0, as_dtype(dtype), name or "zeros", graph)


def ones(
    shape: Any, dtype: Any = dtypes.float32, name: str | None = None, *, graph: Graph | None = None
) -> Tensor:
    """Return ones, or true, of a shape, which may be a tensor. `graph` where it is not."""
    return _filled(shape, 1, as_dtype(dtype), name or "ones", graph)


def fill(dims: Any, value: TensorLike, name: str | None = None, *, graph: Graph | None = None) -> Tensor:
    """Return a tensor of shape `dims`, (rank,) integers, with one value everywhere."""
    return one("Fill", dims, value, graph=graph, name=name)


def zeros_like(tensor: TensorLike, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return zeros of a tensor's shape, of its type or another."""
    return _like(tensor, 0, dtype, "ZerosLike", name or "zeros_like")


def ones_like(tensor: TensorLike, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return ones of a tensor's shape, of its type or another."""
    return _like(tensor, 1, dtype, "OnesLike", name or "ones_like")


def range(
    start: TensorLike,
    limit: TensorLike = None,
    delta: TensorLike = 1,
    dtype: Any = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Return start, start + delta, ... before limit: (n,). One argument is the limit, from 0."""
    first, last = (0, start) if limit is None else (start, limit)
    owner = graph_of(first, last, delta, graph=graph)
    if dtype is not None:
        first, last, delta = (convert(owner, each, dtype) for each in (first, last, delta))
    return one("Range", first, last, delta, graph=owner, name=name or "range")


def shape(input: TensorLike, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the shape of a tensor as a tensor, (rank,): a constant if the graph knows all of it."""
    x = tensor_of(input)
    known = x.shape.as_tuple()
    if known is not None:
        return (
            x.graph.constant(np.array(known, np.int64), name=name or "Shape")
            if as_dtype(out_type) is dtypes.int64
            else x.graph.constant(np.array(known, np.int32), name=name or "Shape")
        )
    return one("Shape", x, out_type=as_dtype(out_type), name=name)


def size(input: TensorLike, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the number of elements, one integer: a constant if the graph knows it."""
    x = tensor_of(input)
    known = x.shape.num_elements()
    if known is not None:
        return x.graph.constant(known, as_dtype(out_type), name=name or "Size")
    return one("Size", x, out_type=as_dtype(out_type), name=name)


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the number of axes, one int32: a constant if the graph knows it."""
    x = tensor_of(input)
    known = x.shape.rank
    return one("Rank", x, name=name) if known is None else x.graph.constant(known, name=name or "Rank")


def identity(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the same value, by a new node."""
    return one("Identity", input, name=name)


def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the same value, which counts as a constant when derivatives are taken."""
    return one("StopGradient", input, name=name)


def reshape(tensor: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Return the same elements, in row-major order, in another shape; one size may be -1, for the rest."""
    return one("Reshape", tensor, _dims(shape), name=name)


def expand_dims(input: TensorLike, axis: TensorLike, name: str | None = None) -> Tensor:
    """Insert an axis of length 1 before this place; -1 puts it at the end."""
    return one("ExpandDims", input, axis, name=name)


def squeeze(input: TensorLike, axis: Any = None, name: str | None = None) -> Tensor:
    """Remove axes of length 1: those given, or all."""
    dims = [] if axis is None else ([axis] if isinstance(axis, int) else list(axis))
    return one("Squeeze", input, squeeze_dims=dims, name=name)


def transpose(a: TensorLike, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Permute axes: axis i of the result is axis perm[i], or reverse them; `conjugate` elements as well."""
    x = tensor_of(a)
    if perm is None:
        known = x.shape.rank
        if known is not None:
            perm = [*reversed([*_count(known)])]
        else:
            perm = (x.graph.ops.Rank(x) - 1) - x.graph.ops.Range(0, x.graph.ops.Rank(x), 1)
    op = "ConjugateTranspose" if conjugate and x.dtype.is_complex else "Transpose"
    return one(op, x, perm if isinstance(perm, Tensor) else list(perm), name=name)


def concat(
    values: Sequence[TensorLike], axis: TensorLike, name: str = "concat", *, graph: Graph | None = None
) -> Tensor:
    """Return tensors of one type one behind the other along an axis; their other axes are equal."""
    items = list(values)
    if len(items) == 1:
        return one("Identity", items[0], graph=graph, name=name)
    return one("ConcatV2", items, axis, graph=graph, name=name)


def stack(
    values: Sequence[TensorLike], axis: int = 0, name: str = "stack", *, graph: Graph | None = None
) -> Tensor:
    """Return tensors of one type and shape along a new axis: n of (d...) -> (n, d...) for axis 0."""
    return one("Pack", list(values), axis=axis, graph=graph, name=name)


def unstack(value: TensorLike, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """Return the parts along an axis. Raises ValueError if their number is unknown and `num` not given."""
    x = tensor_of(value)
    count = num if num is not None else dimension(x, axis)
    if count is None:
        raise ConstructionValueError(
            f"'{x.name}' is of shape {x.shape}: how long axis {axis} is must be given as num"
        )
    return list(call("Unpack", x, num=count, axis=axis, name=name))


def split(
    value: TensorLike,
    num_or_size_splits: Any,
    axis: TensorLike = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Split along an axis.

    num_or_size_splits   the number of equal parts, or the sizes of the parts
    num                  the number of parts if the sizes are a tensor of unknown length

    Raises ValueError (as InvalidArgumentError) if the number of parts is not known.
    """
    x = tensor_of(value, axis)
    if isinstance(num_or_size_splits, int):
        return list(call("Split", axis, x, num_split=num_or_size_splits, name=name))
    sizes = convert(x.graph, num_or_size_splits)
    count = num if num is not None else dimension(sizes, 0)
    if count is None:
        raise ConstructionValueError("how many parts there are is not known from the sizes: give num")
    return list(call("SplitV", x, sizes, axis, num_split=count, name=name))


def tile(input: TensorLike, multiples: TensorLike, name: str | None = None) -> Tensor:
    """Repeat along each axis as often as `multiples`, (rank,), says."""
    return one("Tile", input, multiples, name=name)


def broadcast_to(input: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Repeat to a shape by the rules of broadcasting."""
    return one("BroadcastTo", input, _dims(shape), name=name)


def pad(
    tensor: TensorLike,
    paddings: TensorLike,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: TensorLike = 0,
) -> Tensor:
    """Pad each axis with elements before and after.

    paddings   (rank, 2): how many before and after
    mode       "CONSTANT" adds `constant_values`, "REFLECT" mirrors without the edge, "SYMMETRIC" with it
    """
    kind = mode.upper()
    if kind == "CONSTANT":
        if isinstance(constant_values, int | float) and constant_values == 0:
            return one("Pad", tensor, paddings, name=name)
        return one("PadV2", tensor, paddings, constant_values, name=name)
    return one("MirrorPad", tensor, paddings, mode=kind, name=name)


def slice(input_: TensorLike, begin: TensorLike, size: TensorLike, name: str | None = None) -> Tensor:
    """Return the part of `input_` from `begin` of `size` along each axis; -1 is the rest of the axis."""
    return one("Slice", input_, begin, size, name=name)


def strided_slice(
    input_: TensorLike,
    begin: TensorLike,
    end: TensorLike,
    strides: TensorLike = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    name: str | None = None,
) -> Tensor:
    """Return every strides-th element of `input_` from begin up to end, as `x[1:, ::2]` does.

    A bit of a mask is about one place of the vectors: begin or end left out, "...", a new axis, one dropped.
    """
    graph = graph_of(input_, begin, end)
    steps = one("OnesLike", convert(graph, begin)) if strides is None else strides
    return one(
        "StridedSlice",
        input_,
        begin,
        end,
        steps,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
        name=name,
    )


def reverse(tensor: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """Return the elements in the opposite order along some axes."""
    return one("ReverseV2", tensor, [axis] if isinstance(axis, int) else axis, name=name)


def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: int,
    batch_axis: int = 0,
    name: str | None = None,
) -> Tensor:
    """Reverse the first seq_lengths[b] elements along `seq_axis` of each example along `batch_axis`."""
    return one("ReverseSequence", input, seq_lengths, seq_dim=seq_axis, batch_dim=batch_axis, name=name)


def roll(input: TensorLike, shift: TensorLike, axis: TensorLike, name: str | None = None) -> Tensor:
    """Shift elements along axes; those that leave at the end come in at the start."""
    return one("Roll", input, shift, axis, name=name)


def space_to_depth(
    input: TensorLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Turn blocks of pixels into channels: (N, H, W, C) -> (N, H / b, W / b, C b b)."""
    return one("SpaceToDepth", input, block_size=block_size, data_format=data_format, name=name)


def depth_to_space(
    input: TensorLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Turn channels into blocks of pixels: (N, H, W, C b b) -> (N, H b, W b, C)."""
    return one("DepthToSpace", input, block_size=block_size, data_format=data_format, name=name)


def bitcast(input: TensorLike, type: Any, name: str | None = None) -> Tensor:
    """Return the same bytes as elements of another type."""
    return one("Bitcast", input, type=as_dtype(type), name=name)


def meshgrid(*args: TensorLike, indexing: str = "xy") -> list[Tensor]:
    """Return the coordinates of a grid from those along each axis: n of (d_i,) -> n of (d_2, d_1, ...).

    `indexing` "ij" leaves the first two axes in order. Raises ValueError (as InvalidArgumentError) for
    another.
    """
    if indexing not in ("xy", "ij"):
        raise ConstructionValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    graph = graph_of(*args)
    lines = [convert(graph, each) for each in args]
    count = len(lines)
    with graph.name_scope("meshgrid"):
        places = [*_count(count)]
        if indexing == "xy" and count > 1:
            places[0], places[1] = 1, 0
        columns = [
            graph.ops.Reshape(line, [1] * place + [-1] + [1] * (count - place - 1))
            for line, place in zip(lines, places, strict=True)
        ]
        ordered = sorted(zip(places, lines, strict=True), key=lambda pair: pair[0])
        dims = graph.ops.Pack([graph.ops.Size(line) for _, line in ordered])
        return [graph.ops.BroadcastTo(column, dims) for column in columns]


def _count(number: int) -> Iterable[int]:
    place = 0
    while place < number:
        yield place
        place += 1


def _dims(shape: Any) -> Any:
    """A shape as an input: -1 in the one place that is not known."""
    if isinstance(shape, TensorShape):
        return [-1 if each is None else each for each in shape]
    return shape


def _filled(shape: Any, number: int, dtype: dtypes.DType, name: str, graph: Graph | None) -> Tensor:
    owner = graph_of(shape, graph=graph)
    value: Any = b"" if dtype is dtypes.string else np.array(number).astype(dtype.as_numpy_dtype)
    if not stands_for_tensor(shape):
        known = TensorShape([shape] if isinstance(shape, int) else shape)
        # Larger ones are made by the step: a constant is part of the graph.
        if known.is_fully_defined and (known.num_elements() or 0) < 1000:
            return owner.constant(value, dtype, shape=known, name=name)
        shape = known
    dims = convert(owner, _dims(shape))
    dims = owner.ops.Reshape(dims, [-1]) if dims.shape.rank == 0 else dims
    with owner.name_scope(name) as scope:
        return one("Fill", dims, owner.constant(value, dtype), name=scope)


def _like(value: TensorLike, number: int, dtype: Any, op: str, name: str) -> Tensor:
    x = tensor_of(value)
    wanted = x.dtype.base if dtype is None else as_dtype(dtype)
    known = x.shape.as_tuple()
    if known is not None and wanted is not dtypes.variant:
        return _filled(TensorShape(known), number, wanted, name, x.graph)
    if wanted is x.dtype.base:
        return one(op, x, name=name)
    return _filled(x.graph.ops.Shape(x), number, wanted, name, x.graph)


__all__ = [
    "bitcast",
    "broadcast_to",
    "concat",
    "depth_to_space",
    "expand_dims",
    "fill",
    "identity",
    "meshgrid",
    "ones",
    "ones_like",
    "pad",
    "range",
    "rank",
    "reshape",
    "reverse",
    "reverse_sequence",
    "roll",
    "shape",
    "size",
    "slice",
    "space_to_depth",
    "split",
    "squeeze",
    "stack",
    "stop_gradient",
    "strided_slice",
    "tile",
    "transpose",
    "unstack",
    "zeros",
    "zeros_like",
]
