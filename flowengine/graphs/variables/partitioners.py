"""Partitioners, `fe.partitioners`: into how many parts each axis of a variable is cut.

    w = graph.variable(initial, shape=[10**6, 64], partitioner=fe.partitioners.fixed_size(4))

Each function returns a function (shape, dtype) -> one count for each axis, of which one may be above 1.

>>> graph, partitioners = fe.Graph(), fe.partitioners
>>> zeros = np.zeros([10, 4], np.float32)
>>> for cut in (partitioners.fixed_size(2), partitioners.by_shard_bytes(64), partitioners.min_max(4)):
...     table = graph.variable(zeros, name="table", partitioner=cut)
...     [part.shape.as_list() for part in table.parts]
[[5, 4], [5, 4]]
[[4, 4], [3, 4], [3, 4]]
[[10, 4]]

`shards` and `max_partitions` are numbers of parts, `axis` is the one to cut, `min_slice_bytes` and
`bytes_per_string` count bytes. The partitioner raises InvalidArgumentError for a shape that is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.core.shapes import TensorShape


def fixed_size(shards: int, axis: int = 0) -> Callable[[TensorShape, DType], list[int]]:
    """Return a partitioner that cuts one axis into `shards` parts, or into its rows if there are fewer."""
    if shards < 1:
        raise InvalidArgumentError(f"a variable is cut into at least one part, not {shards}")

    def partition(shape: TensorShape, dtype: DType) -> list[int]:
        dims = _known(shape)
        return [min(shards, size) if each == axis % len(dims) else 1 for each, size in enumerate(dims)]

    return partition


def by_shard_bytes(
    max_shard_bytes: int, axis: int = 0, *, bytes_per_string: int = 16, max_shards: int | None = None
) -> Callable[[TensorShape, DType], list[int]]:
    """Return a partitioner that cuts one axis into parts of at most `max_shard_bytes`.

    bytes_per_string   the size that an element of type string counts as
    max_shards         the largest number of parts, which may then be larger
    """
    if max_shard_bytes < 1 or (max_shards is not None and max_shards < 1):
        raise InvalidArgumentError("max_shard_bytes and max_shards are at least 1")

    def partition(shape: TensorShape, dtype: DType) -> list[int]:
        dims = _known(shape)
        counts = [1] * len(dims)
        if not dims or not all(dims):
            return counts
        row = math.prod(dims) // dims[axis] * (dtype.size or bytes_per_string)
        rows = max(1, max_shard_bytes // max(1, row))
        wanted = -(-dims[axis] // rows)
        counts[axis] = min(wanted, dims[axis], wanted if max_shards is None else max_shards)
        return counts

    return partition


def min_max(
    max_partitions: int, axis: int = 0, *, min_slice_bytes: int = 256 << 10, bytes_per_string: int = 16
) -> Callable[[TensorShape, DType], list[int]]:
    """Return a partitioner into at most `max_partitions` parts of at least `min_slice_bytes` each."""
    if max_partitions < 1 or min_slice_bytes < 1:
        raise InvalidArgumentError("max_partitions and min_slice_bytes are at least 1")

    def partition(shape: TensorShape, dtype: DType) -> list[int]:
        dims = _known(shape)
        counts = [1] * len(dims)
        if dims:
            size = math.prod(dims) * (dtype.size or bytes_per_string)
            wanted = max(1, -(-size // min_slice_bytes))
            counts[axis] = min(wanted, max_partitions, max(1, dims[axis]))
        return counts

    return partition


def _known(shape: TensorShape) -> tuple[int, ...]:
    dims = TensorShape(shape).as_tuple()
    if dims is None:
        raise InvalidArgumentError(f"only a variable of known shape can be cut, not {shape}")
    return dims


__all__ = ["by_shard_bytes", "fixed_size", "min_max"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
