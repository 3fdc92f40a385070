"""Taking and putting elements by their places: gathering, scattering, sorting, one-hot vectors and masks.

`params`, `tensor`, `data`, `input`, `x` or `values` is a tensor, a variable, or a value that becomes a
constant. Elements are of any type; `indices`, `partitions`, `targets`, `depth`, `k`, `axis` and `maxlen` are
int32 or int64, and so are results of type `out_idx`, `index_dtype` or `out_type`, unless a function says
otherwise.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(value.tolist())
>>> x = graph.constant([[5, 1, 3], [2, 9, 2]])
>>> show(fe.gather(x, [1, 0], axis=1), fe.gather_nd(x, [[0, 0], [1, 1]]), fe.boolean_mask(x, x > 2))
[[1, 5], [9, 2]]
[5, 9]
[5, 3, 9]
>>> show(fe.sort(x), fe.argsort(x, direction="DESCENDING"), *fe.top_k(x, k=2), *fe.unique(x[1]))
[[1, 3, 5], [2, 2, 9]]
[[0, 2, 1], [1, 0, 2]]
[[5, 3], [9, 2]]
[[0, 2], [1, 0]]
[2, 9]
[0, 1, 0]
>>> show(fe.one_hot(x[1], 3), fe.sequence_mask(x[0], 4), fe.scatter_nd([[1], [1]], x[0, :2], [3]))
[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
[[True, True, True, True], [True, False, False, False], [True, True, True, False]]
[0, 6, 0]
>>> show(fe.tensor_scatter_update(x, [[0]], [[7, 7, 7]]), fe.tensor_scatter_add(x, [[0, 1]], [10]))
[[7, 7, 7], [2, 9, 2]]
[[5, 11, 3], [2, 9, 2]]
>>> show(*fe.unique_with_counts(x[1]), *fe.setdiff1d(x[0], x[1, :2]), fe.invert_permutation(fe.argsort(x[0])))
[2, 9]
[0, 1, 0]
[2, 1]
[5, 1, 3]
[0, 1, 2]
[2, 0, 1]
>>> show(*fe.dynamic_partition(x[0], [0, 1, 0], 2), fe.dynamic_stitch([[0, 2], [1]], [x[0, :2], x[1, :1]]))
[5, 3]
[1]
[5, 2, 1]
>>> show(fe.searchsorted(fe.sort(x), [[2], [2]]), fe.in_top_k(fe.cast(x, "float32"), [0, 0], 1))
[[1], [0]]
[True, False]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core import dtypes
from flowengine.core.dtypes import as_dtype
from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.support import call, one, tensor_of
from flowengine.graphs.tensor import Tensor


def gather(
    params: TensorLike,
    indices: TensorLike,
    axis: TensorLike = 0,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Return the parts at some places along an axis.

    params (d...), indices (i...) -> i... in the place of the axis.

    With `batch_dims` the first axes of both count examples. An index out of range is an error of the step.
    Of a variable's rows no others are read.
    """
    rows = getattr(params, "rows", None)
    if callable(rows) and isinstance(axis, int) and axis == 0 and not batch_dims:
        found: Tensor = rows(indices, name=name)
        return found
    return one("GatherV2", params, indices, axis, batch_dims=batch_dims, name=name or "GatherV2")


def gather_nd(params: TensorLike, indices: TensorLike, name: str | None = None) -> Tensor:
    """The parts at places of several axes: indices (..., k) of the first k axes -> (..., rest of params)."""
    return one("GatherNd", params, indices, name=name)


def scatter_nd(
    indices: TensorLike, updates: TensorLike, shape: TensorLike, name: str | None = None
) -> Tensor:
    """Add updates into zeros of a shape: indices (..., k), updates (..., rest of the shape)."""
    return one("ScatterNd", indices, updates, shape, name=name)


def tensor_scatter_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """Return a copy with updates in some places: indices (..., k), updates (..., rest of the shape)."""
    return one("TensorScatterUpdate", tensor, indices, updates, name=name)


def tensor_scatter_add(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """Return a copy with updates added in some places: indices (..., k), updates (..., rest of the shape)."""
    return one("TensorScatterAdd", tensor, indices, updates, name=name)


def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    on_value: TensorLike = None,
    off_value: TensorLike = None,
    axis: int = -1,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return on_value at the place of each index, off_value elsewhere: (i...) -> (i..., depth) for axis -1.

    Of type `dtype`, else that of the values, else float32. An index out of range gives off_value only.
    """
    graph = graph_of(indices, depth, on_value, off_value)
    given = next((convert(graph, each) for each in (on_value, off_value) if each is not None), None)
    kind = as_dtype(dtype) if dtype is not None else dtypes.float32 if given is None else given.dtype.base
    on = convert(graph, 1 if on_value is None else on_value, kind, name="on_value")
    off = convert(graph, 0 if off_value is None else off_value, kind, name="off_value")
    return one("OneHot", indices, depth, on, off, axis=axis, name=name or "one_hot")


def boolean_mask(tensor: TensorLike, mask: TensorLike, name: str = "boolean_mask", axis: int = 0) -> Tensor:
    """The parts where a mask is true, in row-major order: mask of the axes from `axis` on -> (n, rest)."""
    graph = graph_of(tensor, mask)
    x, flags = convert(graph, tensor), convert(graph, mask)
    count = flags.shape.rank
    if not count:
        raise ConstructionValueError(
            f"a mask has a known number of axes, at least one; its shape is {flags.shape}"
        )
    with graph.name_scope(name):
        shape = graph.ops.Shape(x)
        parts: list[Any] = [shape[:axis], [-1], shape[axis + count :]]
        flat = graph.ops.Reshape(x, graph.ops.ConcatV2(parts, 0)) if count > 1 else x
        places = graph.ops.Squeeze(graph.ops.Where(graph.ops.Reshape(flags, [-1])), squeeze_dims=[1])
        return gather(flat, places, axis)


def sequence_mask(
    lengths: TensorLike, maxlen: TensorLike = None, dtype: Any = dtypes.bool_, name: str | None = None
) -> Tensor:
    """Whether a place is within each sequence: lengths (...) -> (..., maxlen), by default the longest.

    `dtype` is the type of the result.
    """
    counts = tensor_of(lengths, maxlen)
    graph = counts.graph
    with graph.name_scope(name or "SequenceMask"):
        kind = counts.dtype.base
        if maxlen is None:
            every = graph.ops.Range(0, graph.ops.Rank(counts), 1)
            limit = graph.ops.Maximum(graph.ops.Max(counts, every), 0)
        else:
            limit = convert(graph, maxlen, kind)
        zero, step = graph.constant(0, kind), graph.constant(1, kind)
        places = graph.ops.Range(zero, limit, step)
        found: Tensor = graph.ops.Less(places, graph.ops.ExpandDims(counts, -1))
        wanted = as_dtype(dtype)
        if wanted is not dtypes.bool_:
            found = graph.ops.Cast(found, DstT=wanted)
        return found


def unique(x: TensorLike, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (y, idx): the distinct elements of a vector in order, and each element's place in y."""
    y, idx = call("Unique", x, out_idx=as_dtype(out_idx), name=name)
    return y, idx


def unique_with_counts(
    x: TensorLike, out_idx: Any = dtypes.int32, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (y, idx, count): as unique, and how often each occurs."""
    y, idx, count = call("UniqueWithCounts", x, out_idx=as_dtype(out_idx), name=name)
    return y, idx, count


def setdiff1d(
    x: TensorLike, y: TensorLike, index_dtype: Any = dtypes.int32, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (out, idx): the elements of a vector x that are not in y, and their places in x."""
    out, idx = call("ListDiff", x, y, out_idx=as_dtype(index_dtype), name=name)
    return out, idx


def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Return `num_partitions` tensors of the rows of data, by the number that partitions says of each."""
    return list(call("DynamicPartition", data, partitions, num_partitions=num_partitions, name=name))


def dynamic_stitch(
    indices: Sequence[TensorLike], data: Sequence[TensorLike], name: str | None = None
) -> Tensor:
    """Join rows of several tensors by their indices; the last row of equal index wins."""
    return one("DynamicStitch", list(indices), list(data), name=name)


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Return y with y[x[i]] = i, for a permutation x of 0 to n - 1: (n,) int32 or int64."""
    return one("InvertPermutation", x, name=name)


def top_k(
    input: TensorLike, k: TensorLike = 1, sorted: bool = True, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (values, indices): the `k` largest along the last axis, (..., k), and where they are (int32).

    `sorted` puts the largest first.
    """
    values, indices = call("TopKV2", input, k, sorted=sorted, name=name)
    return values, indices


def in_top_k(predictions: TensorLike, targets: TensorLike, k: TensorLike, name: str | None = None) -> Tensor:
    """Whether the target of each row is among its `k` largest.

    predictions (n, classes) float32, targets (n,) -> (n,) bool.
    """
    return one("InTopKV2", predictions, targets, k, name=name)


def sort(values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Return the elements in order along an axis: "ASCENDING" or "DESCENDING"."""
    return _sorted(values, axis, direction, name or "sort")[0]


def argsort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """Return the indices (int32) that sort an axis: "ASCENDING" or "DESCENDING"."""
    return _sorted(values, axis, direction, name or "argsort")[1]


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return the positions at which `values` belong in the rows of `sorted_sequence`.

    (b, n) and (b, k) -> (b, k), before equal ones or after, by `side`: "left" or "right".
    """
    if side not in ("left", "right"):
        raise ConstructionValueError(f"side is 'left' or 'right', not {side!r}")
    op = "LowerBound" if side == "left" else "UpperBound"
    return one(op, sorted_sequence, values, out_type=as_dtype(out_type), name=name or "searchsorted")


def _sorted(values: TensorLike, axis: int, direction: str, name: str) -> tuple[Tensor, Tensor]:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ConstructionValueError(f"direction is 'ASCENDING' or 'DESCENDING', not {direction!r}")
    x = tensor_of(values)
    graph, count = x.graph, x.shape.rank
    if count is None:
        raise ConstructionValueError(f"sorting needs to know how many axes '{x.name}' has: use set_shape")
    if not -count <= axis < count:
        raise ConstructionValueError(f"there is no axis {axis} of shape {x.shape}")
    place = axis % count
    order = [*range(place), count - 1, *range(place + 1, count - 1), place] if place != count - 1 else None
    with graph.name_scope(name):
        last = x if order is None else graph.ops.Transpose(x, order)
        # For integers, ~x reverses the order without an overflow.
        is_rising, is_whole = direction == "ASCENDING", x.dtype.base.is_integer
        keys = (graph.ops.Invert(last) if is_whole else -last) if is_rising else last
        length = graph.ops.Shape(last)[-1]
        found, places = call("TopKV2", keys, length)
        if is_rising:
            found = graph.ops.Invert(found) if is_whole else -found
        if order is not None:
            found, places = graph.ops.Transpose(found, order), graph.ops.Transpose(places, order)
        return found, places


__all__ = [
    "argsort",
    "boolean_mask",
    "dynamic_partition",
    "dynamic_stitch",
    "gather",
    "gather_nd",
    "in_top_k",
    "invert_permutation",
    "one_hot",
    "scatter_nd",
    "searchsorted",
    "sequence_mask",
    "setdiff1d",
    "sort",
    "tensor_scatter_add",
    "tensor_scatter_update",
    "top_k",
    "unique",
    "unique_with_counts",
]
