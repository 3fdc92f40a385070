"""Summaries as serialized protocol buffers: numbers, histograms, images, sounds, tensors; and several as one.

A Summary is a list of values, each with a tag; only the few fields that these ops set are written here, in
the order of their numbers, so that the bytes are those that TensorFlow writes.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node
from flowengine.ir.wire import BYTES, bytes_field
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.io.summary_fields import (
    double_field,
    fields,
    is_message,
    tensor_fields,
    value_entry,
)
from flowengine.kernels.io.summary_media import audio_summary, image_summary
from flowengine.kernels.registry import kernel

_DOUBLE_MAX: Final = float(np.finfo(np.float64).max)


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
        value_entry(tag, b"\x15" + struct.pack("<f", number))
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
            double_field(1, low),
            double_field(2, high),
            double_field(3, float(values.size)),
            double_field(4, total),
            double_field(5, squares),
            bytes_field(6, struct.pack(f"<{len(bounds)}d", *bounds)),
            bytes_field(7, struct.pack(f"<{len(buckets)}d", *buckets)),
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
    return value_entry(label, bytes_field(5, histogram_proto(flat)))


@kernel("MergeSummary", fresh=True)
def merge_summary(inputs: tuple[Any, ...]) -> Any:
    """All values of several Summaries in one; InvalidArgumentError where two have the same tag."""
    seen: set[bytes] = set()
    parts: list[bytes] = []
    for each in inputs:
        for data in to_array(each).reshape(-1).tolist():
            for number, kind, payload in fields(data):
                if number != 1 or kind != BYTES:
                    continue
                tags = [bytes(tag) for place, held, tag in fields(payload) if (place, held) == (1, BYTES)]
                tag = tags[0] if tags else b""
                # A value without a tag cannot clash.
                if tag and tag in seen:
                    raise InvalidArgumentError(
                        f"Duplicate tag {tag.decode(errors='replace')} found in summary inputs"
                    )
                seen.add(tag)
                parts.append(bytes_field(1, payload))
    return b"".join(parts)


@kernel("ImageSummary", fresh=True)
def image_summary_(tag: Any, tensor: Array, *, max_images: int, bad_color: TensorAttr) -> Any:
    """A Summary of the first images, as PNG."""
    return image_summary(tag, to_array(tensor), max_images, to_array(bad_color.value()))


@kernel("AudioSummary", fresh=True)
def audio_summary_v1(tag: Any, tensor: Array, *, sample_rate: float, max_outputs: int) -> Any:
    """A Summary of the first sounds, as waves."""
    return audio_summary(tag, to_array(tensor), sample_rate, max_outputs)


@kernel("AudioSummaryV2", fresh=True)
def audio_summary_v2(tag: Any, tensor: Array, sample_rate: Any, *, max_outputs: int) -> Any:
    """A Summary of the first sounds, as waves."""
    rate = to_array(sample_rate)
    if rate.size != 1:
        raise InvalidArgumentError(f"sample_rate must be a scalar, not {shape_text(rate)}")
    return audio_summary(tag, to_array(tensor), float(rate.reshape(-1)[0]), max_outputs)


@kernel("TensorSummary", fresh=True)
def tensor_summary(tensor: Any, *, T: DType, node: Node) -> Any:
    """A Summary of one tensor, under the node's name."""
    name = bytes_field(7, node.name.encode())
    return bytes_field(1, name + bytes_field(8, tensor_fields(to_array(tensor), T)))


@kernel("TensorSummaryV2", fresh=True)
def tensor_summary_v2(tag: Any, tensor: Any, serialized_summary_metadata: Any, *, T: DType) -> Any:
    """A Summary of one tensor, with a tag, and metadata of a plugin: none where they are no message."""
    for name, value in (("tag", tag), ("serialized_summary_metadata", serialized_summary_metadata)):
        if to_array(value).ndim:
            raise InvalidArgumentError(f"{name} must be scalar, not {shape_text(to_array(value))}")
    metadata = bytes(to_array(serialized_summary_metadata).item())
    content = bytes_field(8, tensor_fields(to_array(tensor), T))
    return value_entry(
        bytes(to_array(tag).item()), content + bytes_field(9, metadata if is_message(metadata) else b"")
    )
