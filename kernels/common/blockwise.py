"""Elementwise work of several passes over large arrays, a block at a time and on every core.

A pass over a million floats that comes from memory takes three times as long as one whose data the pass
before has left in cache. Kernels that need more than one ufunc run all of them over one block before the
next, with scratch memory for what lies between. The values are those of whole passes to the last bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.parallel import slices, spread

#: Elements of a block. Shorter ones would fit a nearer cache, but threads would spend their time handing
#: the interpreter on: with 32 thousand elements a million take half as long again.
BLOCK: Final = 1 << 17
#: Elements from which blocks pay.
LARGE: Final = 1 << 17
#: Elements from which `clip` pays: it has no vector loop for a scalar to hide, but a dearer call.
CLIP_MIN: Final = 2048

HOST = "NumPy's ufuncs with `out`, over blocks that stay in a core's cache"

_kept = threading.local()


def is_large(*arrays: Any) -> bool:
    """Whether these are C-contiguous NumPy arrays of one shape and worth blocks."""
    first = arrays[0]
    return (
        type(first) is np.ndarray
        and first.size >= LARGE
        and all(type(a) is np.ndarray and a.shape == first.shape and a.flags.c_contiguous for a in arrays)
    )


def blockwise(work: Callable[..., Any], *arrays: Array) -> None:
    """Call `work` with the same block of each array, flattened; all are C-contiguous and of one size."""
    flat = [a.reshape(-1) for a in arrays]
    if flat[0].size <= BLOCK:
        work(*flat)
        return
    parts = slices(flat[0].size, BLOCK)

    def piece(number: int) -> None:
        part = parts[number]
        work(*[a[part] for a in flat])

    spread(piece, len(parts))


def in_blocks(function: Callable[..., Any], *arrays: Array) -> Any:
    """Apply a function to arrays element by element: to large ones a block at a time.

    arrays   of the type of the result; the blocks' own results lie in cache until they are copied out of it
    """
    if not is_large(*arrays):
        return function(*arrays)
    result = empty(arrays[0].shape, arrays[0].dtype)
    blockwise(lambda out, *parts: np.copyto(out, function(*parts)), result, *arrays)
    return result


def scratch(name: str, size: int, dtype: Any) -> Array:
    """Memory for a block's intermediate values, which each thread keeps by name; its content is arbitrary."""
    buffer: Array | None = getattr(_kept, name, None)
    wanted = size * np.dtype(dtype).itemsize
    if buffer is None or buffer.size < wanted:
        buffer = np.empty(max(wanted, BLOCK * 4), np.uint8)
        setattr(_kept, name, buffer)
    return buffer[:wanted].view(dtype)


#: Elements from which choosing by bit patterns beats NumPy's branches.
BLEND_MIN: Final = 2048
_INTEGER_OF_SIZE: Final[dict[int, np.dtype[Any]]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def blend_by_bits(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, of one type; all broadcast.

    NumPy's `where` branches at each element and costs five times as much on a condition without pattern;
    large arrays of 4 or 8 bytes an element are mixed by their bits instead.
    """
    integer = _INTEGER_OF_SIZE.get(x.dtype.itemsize)
    if (
        integer is None
        or x.dtype.hasobject
        or not x.shape == y.shape == condition.shape
        or not (x.flags.c_contiguous and y.flags.c_contiguous)
    ):
        return np.where(condition, x, y)
    chosen = np.ascontiguousarray(condition).view(np.int8)
    result = empty(x.shape, x.dtype)

    def mix(chosen: Any, x: Any, y: Any, out: Any) -> None:
        mask = scratch("mask", chosen.size, integer)
        np.negative(chosen, mask, casting="unsafe", dtype=integer)
        # y ^ ((x ^ y) & mask): the bits of x where the mask is all ones.
        np.bitwise_xor(x, y, out)
        np.bitwise_and(out, mask, out)
        np.bitwise_xor(out, y, out)

    blockwise(mix, chosen, x.view(integer), y.view(integer), result.view(integer))
    return result
