"""Parts of tensors: how the ops write them, how they are stored, and how one is put together from others.

A variable that is split over several nodes is stored as slices of one tensor. "4 5 0,2:-" says: of a
tensor of shape [4, 5], rows 0 and 1 and all columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.wire import bytes_field, field, fields, signed

#: One (start, length) a dimension; None is the whole of it.
Slice: TypeAlias = tuple[tuple[int, int] | None, ...]
Shape: TypeAlias = tuple[int, ...]

_MAX_INT64: Final = 2**63 - 1


def parse_shape_and_slice(text: str) -> tuple[Shape, Slice, Shape]:
    """(shape of the whole, the slice, its shape); InvalidArgumentError for what describes none."""
    *sizes, specs = text.rstrip(" ").split(" ")
    if not sizes:
        raise InvalidArgumentError(
            f"Need least two elements in shape_and_slice specification: {text!r}: "
            'dimensions, a space, and the slice, as in "4 5 0,2:-"'
        )
    try:
        shape = tuple(_number(size) for size in sizes)
        part = tuple(
            None if spec == "-" else (_number(spec.split(",")[0]), _number(spec.split(",", 1)[1]))
            for spec in specs.split(":")
        )
    except (ValueError, IndexError):
        raise InvalidArgumentError(
            f"Non numerical dimension or extent in shape_and_slice specification: {text!r}"
        ) from None
    return shape, part, slice_shape(shape, part)


def _number(text: str) -> int:
    value = int(text)
    if not 0 <= value <= _MAX_INT64:
        raise ValueError(text)
    return value


def slice_shape(shape: Shape, part: Slice) -> Shape:
    """The shape of a slice; InvalidArgumentError where it does not fit the shape."""
    if len(part) != len(shape):
        raise InvalidArgumentError(
            f"the slice {describe(part)} has {len(part)} dimensions, the tensor's shape {list(shape)} "
            f"has {len(shape)}"
        )
    for size, extent in zip(shape, part, strict=True):
        if extent is not None and extent[0] + extent[1] > size:
            raise InvalidArgumentError(
                f"the slice {describe(part)} reaches beyond the tensor's shape {list(shape)}"
            )
    return tuple(size if e is None else e[1] for size, e in zip(shape, part, strict=True))


def describe(part: Slice) -> str:
    """The slice as the ops write it: `0,2:-`."""
    return ":".join("-" if extent is None else f"{extent[0]},{extent[1]}" for extent in part)


def bounds(shape: Shape, part: Slice) -> tuple[Shape, Shape]:
    """Return the start and end of a slice in each dimension."""
    starts = tuple(0 if e is None else e[0] for e in part)
    ends = tuple(s if e is None else e[0] + e[1] for s, e in zip(shape, part, strict=True))
    return starts, ends


def to_index(part: Slice) -> tuple[slice, ...]:
    """Return the index that selects a slice from an array of the whole tensor."""
    return tuple(slice(None) if e is None else slice(e[0], e[0] + e[1]) for e in part)


def cover(
    shape: Shape, wanted: Slice, stored: Sequence[Slice]
) -> list[tuple[int, tuple[slice, ...], tuple[slice, ...]]] | None:
    """Which of the stored slices make up the wanted one.

    For each that is needed: its position in `stored`, the index into it, and the index into the result.
    None where something is missing or where two stored ones overlap.
    """
    low, high = bounds(shape, wanted)
    pieces = []
    boxes: list[tuple[Shape, Shape]] = []
    covered = 0
    for position, part in enumerate(stored):
        starts, ends = bounds(shape, part)
        first = tuple(map(max, starts, low))
        last = tuple(map(min, ends, high))
        if any(a >= b for a, b in zip(first, last, strict=True)):
            continue
        boxes.append((first, last))
        covered += int(np.prod([b - a for a, b in zip(first, last, strict=True)], dtype=object))
        inside = tuple(slice(a - s, b - s) for a, b, s in zip(first, last, starts, strict=True))
        result = tuple(slice(a - s, b - s) for a, b, s in zip(first, last, low, strict=True))
        pieces.append((position, inside, result))
    total = int(np.prod([b - a for a, b in zip(low, high, strict=True)], dtype=object))
    return pieces if covered == total and not _any_overlap(boxes) else None


def _any_overlap(boxes: list[tuple[Shape, Shape]]) -> bool:
    if len(boxes) < 2:
        return False
    starts = np.array([box[0] for box in boxes])
    ends = np.array([box[1] for box in boxes])
    for position in range(len(boxes) - 1):
        meets = (starts[position + 1 :] < ends[position]) & (starts[position] < ends[position + 1 :])
        if meets.all(axis=1).any():
            return True
    return False


def slice_key(name: bytes, part: Slice) -> bytes:
    """The key under which a slice is stored: an encoding that sorts as (0, name, rank, extents) does."""
    escaped = re.sub(
        rb"[\x00\xff]", lambda found: found[0] + (b"\xff" if found[0] == b"\x00" else b"\x00"), name
    )
    key = [b"\x00", escaped, b"\x00\x01"]
    rank = len(part).to_bytes((len(part).bit_length() + 7) // 8, "big")
    key.append(bytes([len(rank)]) + rank)
    for extent in part:
        start, length = extent if extent is not None else (0, -1)
        key += (_ordered(start), _ordered(length))
    return b"".join(key)


def _ordered(value: int) -> bytes:
    """A signed integer so that the order of bytes is that of numbers: 7 bits a byte, the length in front."""
    size = (~value if value < 0 else value).bit_length() // 7 + 1
    header = ((1 << size) - 1) << (8 * size - size)
    return ((value & ((1 << 8 * size) - 1)) ^ header).to_bytes(size, "big")


def encode_slice(part: Slice) -> bytes:
    """TensorSliceProto."""
    out = b""
    for extent in part:
        content = b""
        if extent is not None:
            content = (field(1, extent[0]) if extent[0] else b"") + field(2, extent[1])
        out += bytes_field(1, content)
    return out


def decode_slice(data: memoryview) -> Slice:
    """A TensorSliceProto; ValueError for other bytes."""
    part: list[tuple[int, int] | None] = []
    for number, _, content in fields(data):
        if number == 1:
            values = {n: signed(v) for n, _, v in fields(content)}
            if any(value < 0 for value in values.values()):
                raise ValueError("a slice is negative")
            part.append((values.get(1, 0), values[2]) if 2 in values else None)
    return tuple(part)


def encode_shape(shape: Shape) -> bytes:
    """TensorShapeProto."""
    return b"".join(bytes_field(2, field(1, size) if size else b"") for size in shape)


def decode_shape(data: memoryview) -> Shape:
    """A TensorShapeProto of known dimensions; ValueError for others."""
    shape = []
    for number, _, content in fields(data):
        if number == 2:
            size = 0
            for inner, _, value in fields(content):
                if inner == 1:
                    size = signed(value)
            if size < 0:
                raise ValueError("a dimension is negative")
            shape.append(size)
        elif number == 3 and content:
            raise ValueError("the rank is unknown")
    return tuple(shape)
