"""Feeds of many strings: they are checked one by one, in turns with the rest of the host.

    feeds = await converted(prepared.feeds, values)

A million strings take a tenth of a second. Between two pieces, of a millisecond or so, other tasks run, and
cancellation and deadline are checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.arrays import Array, Value
from flowengine.core.dtypes import string
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces, Piecework
from flowengine.runtime.planning.values import FeedSpec, as_bytes

#: Fewer strings than these are converted at once.
LONG: Final = 1 << 14
#: The number of strings that are checked together.
_PIECE: Final = 1 << 11
#: Seconds for which the event loop is blocked.
_SLICE: Final = 0.001


def are_long(specs: Sequence[FeedSpec], values: Sequence[Any]) -> bool:
    """Return whether any of the values is text of very many strings."""
    for spec, value in zip(specs, values, strict=True):
        if spec.dtype is string and type(value) is not bytes and math.prod(_sizes(value)) > LONG:
            return True
    return False


async def converted(specs: Sequence[FeedSpec], values: Sequence[Any]) -> list[Value]:
    """Convert each value by its `FeedSpec.convert`, long ones in pieces between which other tasks run.

    Raises as `convert` does, and InvalidArgumentError for a list that changes its length meanwhile.
    Cancelled, it leaves nothing behind.
    """
    feeds = []
    for spec, value in zip(specs, values, strict=True):
        if spec.dtype is not string or math.prod(_sizes(value)) <= LONG:
            feeds.append(spec.convert(value))
            continue
        job = Piecework(_converting(spec, value))
        try:
            while not job.advance(perf_counter() + _SLICE):
                await trio.lowlevel.checkpoint()
        finally:
            job.give_up()
        feeds.append(job.result())
    return feeds


def _sizes(value: Any) -> tuple[int, ...]:
    """Return the shape that a value seems to have: an array its own, of lists the first in each decides."""
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    sizes: list[int] = []
    while isinstance(value, list | tuple):
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(sizes)


def _converting(spec: FeedSpec, value: Any) -> Pieces[Value]:
    shape = _sizes(value)
    whole = np.empty(shape, object)
    flat = whole.reshape(-1)
    is_array = isinstance(value, np.ndarray)
    if is_array and (value.dtype.kind not in "OSU" or isinstance(value, np.ma.MaskedArray)):
        return spec.convert(value)
    rows = value.reshape(-1) if is_array else value
    is_regular = yield from _filling(flat, rows, flat.shape if is_array else shape, spec)
    # An irregular value, which is refused, is reported as a whole.
    return spec.checked(whole) if is_regular else spec.convert(value)


def _filling(target: Array, rows: Any, shape: tuple[int, ...], spec: FeedSpec) -> Pieces[bool]:
    """Write the strings of nested rows to a vector; False if they have another shape."""
    width = math.prod(shape[1:])
    if width > _PIECE:
        for place, row in enumerate(rows):
            _check_length(rows, shape[0], spec)
            if not isinstance(row, list | tuple) or len(row) != shape[1]:
                return False
            part = target[place * width : (place + 1) * width]
            is_regular = yield from _filling(part, row, shape[1:], spec)
            if not is_regular:
                return False
        return True
    step = max(1, _PIECE // max(width, 1))
    for start in range(0, shape[0], step):
        _check_length(rows, shape[0], spec)
        piece = rows[start : start + step]
        try:
            array = np.asarray(piece) if isinstance(piece, np.ndarray) else np.array(piece, dtype=object)
        except ValueError:
            return False
        if array.shape[1:] != shape[1:]:
            return False
        elements = array.reshape(-1).tolist()
        if not set(map(type, elements)) <= {bytes}:
            elements = [as_bytes(each, spec.name) for each in elements]
        target[start * width : start * width + len(elements)] = elements
        yield
    return True


def _check_length(rows: Any, length: int, spec: FeedSpec) -> None:
    if len(rows) != length:
        raise InvalidArgumentError(f"the list that is fed to '{spec.name}' changed while it was read")


__all__ = ["LONG", "are_long", "converted"]
