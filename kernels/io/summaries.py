"""Summaries as serialized protocol buffers: scalars, histograms, and several merged into one.

A Summary is a list of values, each with a tag; only the few fields that these ops set are written here, in
the order of their numbers, so that the bytes are those that TensorFlow writes.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

_DOUBLE_MAX: Final = float(np.finfo(np.float64).max)


def _varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def _bytes_field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _double_field(number: int, value: float) -> bytes:
    """A double of proto3: left out where it is 0 (but not where it is -0)."""
    packed = struct.pack("<d", value)
    return b"" if packed == bytes(8) else _varint(number << 3 | 1) + packed


def _value(tag: bytes, content: bytes) -> bytes:
    """One entry of a Summary: field 1 of the message, with the tag as its field 1."""
    return _bytes_field(1, (_bytes_field(1, tag) if tag else b"") + content)


@kernel("ScalarSummary", fresh=True)
def scalar_summary(tags: Any, values: Array) -> Any:
    """A Summary of one number for each tag; tags and values of one shape."""
    names = to_array(tags)
    numbers = to_array(values)
    if names.shape != numbers.shape and not (names.size == numbers.size == 1):
        raise InvalidArgumentError(
            f"tags and values not the same shape: {shape_text(names)} != {shape_text(numbers)}"
            + (f" (tag '{names.reshape(-1)[0].decode(errors='replace')}')" if names.size == 1 else "")
        )
    parts = [
        _value(tag, b"\x15" + struct.pack("<f", number))
        for tag, number in zip(
            names.reshape(-1).tolist(), numbers.reshape(-1).astype(np.float32).tolist(), strict=True
        )
    ]
    return b"".join(parts)


@functools.cache
def _limits() -> Array:
    """Upper bounds of the buckets: ten per cent apart from 1e-12 to 1e20, mirrored, closed at both ends."""
    positive = []
    bound = 1e-12
    while bound < 1e20:
        positive.append(bound)
        bound *= 1.1
    positive.append(_DOUBLE_MAX)
    return np.array([-b for b in reversed(positive)] + [0.0] + positive)


def histogram_proto(values: Array) -> bytes:
    """The HistogramProto of finite values (float64), runs of empty buckets drawn together."""
    limits = _limits()
    counts = np.bincount(np.searchsorted(limits, values, side="right"), minlength=limits.size)
    bounds, buckets = [], []
    position = 0
    while position < limits.size:
        last = position
        if counts[position] <= 0:
            while last + 1 < limits.size and counts[last + 1] <= 0:
                last += 1
        bounds.append(float(limits[last]))
        buckets.append(float(counts[last]))
        position = last + 1
    low = float(values.min()) if values.size else _DOUBLE_MAX
    high = float(values.max()) if values.size else -_DOUBLE_MAX
    # Sums go one value after another, as TensorFlow adds them.
    total = float(np.add.accumulate(values)[-1]) if values.size else 0.0
    squares = float(np.add.accumulate(values * values)[-1]) if values.size else 0.0
    return b"".join(
        (
            _double_field(1, low),
            _double_field(2, high),
            _double_field(3, float(values.size)),
            _double_field(4, total),
            _double_field(5, squares),
            _bytes_field(6, struct.pack(f"<{len(bounds)}d", *bounds)),
            _bytes_field(7, struct.pack(f"<{len(buckets)}d", *buckets)),
        )
    )


@kernel("HistogramSummary", fresh=True)
def histogram_summary(tag: Any, values: Array) -> Any:
    """A Summary with the histogram of all values; InvalidArgumentError for a NaN or an infinity."""
    name = to_array(tag)
    if name.ndim:
        raise InvalidArgumentError(f"tags must be scalar, not {shape_text(name)}")
    flat = to_array(values).reshape(-1).astype(np.float64)
    label = bytes(name.item())
    finite = np.isfinite(flat)
    if not finite.all():
        bad = flat[~finite][0]
        kind = "Nan" if np.isnan(bad) else "Infinity"
        raise InvalidArgumentError(f"{kind} in summary histogram for: {label.decode(errors='replace')}")
    return _value(label, _bytes_field(5, histogram_proto(flat)))


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise InvalidArgumentError("Could not parse one of the summary inputs")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, payload) of each field; InvalidArgumentError where the bytes are no message."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        kind = key & 7
        if kind == 0:
            start = position
            _, position = _read_varint(data, position)
            yield key >> 3, data[start:position]
            continue
        if kind == 2:
            size, position = _read_varint(data, position)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise InvalidArgumentError("Could not parse one of the summary inputs")
        if position + size > len(data):
            raise InvalidArgumentError("Could not parse one of the summary inputs")
        yield key >> 3, data[position : position + size]
        position += size


@kernel("MergeSummary", fresh=True)
def merge_summary(inputs: tuple[Any, ...]) -> Any:
    """All values of several Summaries in one; InvalidArgumentError where two have the same tag."""
    seen: set[bytes] = set()
    parts: list[bytes] = []
    for each in inputs:
        for data in to_array(each).reshape(-1).tolist():
            for number, payload in _fields(data):
                if number != 1:
                    continue
                tag = next((content for field, content in _fields(payload) if field == 1), b"")
                # A value without a tag cannot clash.
                if tag and tag in seen:
                    raise InvalidArgumentError(
                        f"Duplicate tag {tag.decode(errors='replace')} found in summary inputs"
                    )
                seen.add(tag)
                parts.append(_bytes_field(1, payload))
    return b"".join(parts)
