"""Axes and vectors carried from one layout of images to another (NHWC, NCHW)."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel


def _check(source: bytes, target: bytes) -> None:
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise InvalidArgumentError(
            f"dst_format {target.decode(errors='replace')} must be a permutation of src_format "
            f"{source.decode(errors='replace')}, each axis once"
        )


@kernel("DataFormatDimMap", fresh=True)
def data_format_dim_map(xp: Any, x: Array, *, src_format: bytes, dst_format: bytes) -> Any:
    """Where each axis of the source, possibly counted from the end, lies in the target.

    What is no axis is taken modulo the number of axes; below its negative, as the last axis unless it is a
    multiple of it.
    """
    _check(src_format, dst_format)
    rank = len(src_format)
    places = xp.array([dst_format.index(axis) for axis in src_format], x.dtype)
    wrapped = x % rank
    return places[xp.where((x < -rank) & (wrapped != 0), rank - 1, wrapped)]


@kernel("DataFormatVecPermute", device=None, fresh=True)
def data_format_vec_permute(x: Array, *, src_format: bytes, dst_format: bytes) -> Any:
    """The entries (4,), or pairs (4, 2), of the source's axes in the order of the target's."""
    _check(src_format, dst_format)
    rank = len(src_format)
    if x.ndim not in (1, 2) or x.shape[0] != rank or (x.ndim == 2 and x.shape[1] != 2):
        raise InvalidArgumentError(
            f"a vector of {rank} or a matrix of {rank} x 2 elements is needed, not {shape_text(x)}"
        )
    return x[[src_format.index(axis) for axis in dst_format]]
