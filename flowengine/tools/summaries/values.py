"""Values of summaries as TensorBoard's plugins read them: each is a tensor with the name of its plugin.

    value_of("loss", "scalars", SCALAR, np.float32(0.5))   # one entry of a Summary, serialized

The forms are those of TensorFlow 2's `tf.summary`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.wire import bytes_field, field
from flowengine.kernels.image.coding import encode_png
from flowengine.kernels.io.summary_fields import tensor_fields, value_entry
from flowengine.kernels.signal.audio import encode_wav

#: Classes of data, by which TensorBoard thins out a series.
SCALAR, TENSOR, BLOB_SEQUENCE = 1, 2, 3
#: In the content of the audio plugin's metadata: the encoding is WAV.
WAV: Final = field(2, 11)
_INT64_MAX: Final = 2**63 - 1


def value_of(
    tag: str, plugin: str, data_class: int, tensor: Array, *, content: bytes = b"", description: str = ""
) -> bytes:
    """An entry of a Summary: a tensor, and in the metadata its plugin with that plugin's own content."""
    metadata = bytes_field(1, bytes_field(1, plugin.encode()) + (bytes_field(2, content) if content else b""))
    if description:
        metadata += bytes_field(3, readable(description))
    metadata += field(4, data_class)
    return value_entry(tag.encode(), bytes_field(8, tensor_fields(tensor)) + bytes_field(9, metadata))


def checked_step(step: Any) -> int:
    """A step as an int; InvalidArgumentError for anything but a whole number from 0 to 2**63 - 1."""
    try:
        number = step.__index__()
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"step={step!r} is no whole number") from None
    if not 0 <= number <= _INT64_MAX:
        raise InvalidArgumentError(f"step={number} must be from 0 to 2**63 - 1")
    return int(number)


def checked_tag(tag: Any) -> str:
    """A tag as a str; InvalidArgumentError where it is empty or cannot be written as UTF-8."""
    if isinstance(tag, bytes):
        try:
            tag = tag.decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError(f"the tag {tag!r} is not UTF-8: tags are text") from None
    if not isinstance(tag, str) or not tag:
        raise InvalidArgumentError(f"a tag is text that is not empty, such as 'loss', not {tag!r}")
    try:
        tag.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the tag {tag!r} cannot be written as UTF-8") from None
    return tag


def readable(text: str | bytes) -> bytes:
    """A text as UTF-8; what is not UTF-8 becomes the character for that, U+FFFD."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace").encode()
    # Surrogates alone, as file names may have them, have no UTF-8.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def scalar_tensor(tag: str, value: Any) -> Array:
    """One number as float32 []; NaN and infinities stay. InvalidArgumentError for anything else."""
    array = numbers_in(tag, value)
    if array.size != 1:
        raise InvalidArgumentError(
            f"the scalar '{tag}' is one number, not {array.size} of shape {list(array.shape)}: use "
            "add_histogram, or a mean of them"
        )
    with np.errstate(over="ignore"):
        return array.reshape(()).astype(np.float32)


def numbers_in(tag: str, value: Any) -> Array:
    """The real numbers of a value as an array; InvalidArgumentError where it holds others."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"'{tag}': the value is no array of numbers: {error}") from None
    # Types such as bfloat16 are of kind "V" to NumPy.
    if array.dtype.kind not in "biufV" or array.dtype.names is not None:
        raise InvalidArgumentError(f"'{tag}': numbers are wanted, not {array.dtype}")
    return array


def histogram_tensor(tag: str, values: Any, buckets: int) -> tuple[Array, int]:
    """Buckets (float64 [buckets, 3]: left edge, right edge, count), and how many values were left out.

    The finite values are counted, between the smallest and the largest of them; NaN and infinities are left
    out. Without a finite value all buckets are 0, as they are in TensorFlow for an empty tensor.
    """
    if buckets < 1:
        raise InvalidArgumentError(f"buckets={buckets} must be at least 1")
    flat = numbers_in(tag, values).reshape(-1).astype(np.float64)
    finite = flat[np.isfinite(flat)]
    left_out = int(flat.size - finite.size)
    rows = np.zeros((buckets, 3))
    if not finite.size:
        return rows, left_out
    low, high = finite.min(), finite.max()
    if low == high:
        rows[:, :2], rows[-1, 2] = low, finite.size
        return rows, left_out
    shares = np.linspace(0.0, 1.0, buckets + 1)
    # Rounding must not let an edge lie before the last one.
    edges = np.maximum.accumulate(np.clip(low * (1 - shares) + high * shares, low, high))
    edges[-1] = high
    with np.errstate(over="ignore"):
        width = high - low
    # From the lowest number to the highest it is infinite: half of it is not.
    parts = (finite - low) / width if np.isfinite(width) else (finite / 2 - low / 2) / (high / 2 - low / 2)
    places = parts * buckets
    counts = np.bincount(np.minimum(places.astype(np.int64), buckets - 1), minlength=buckets)
    rows[:, 0], rows[:, 1], rows[:, 2] = edges[:-1], edges[1:], counts
    return rows, left_out


def image_tensor(tag: str, images: Any, max_outputs: int) -> Array:
    """Images (uint8, or floats from 0 to 1, (k, h, w, 1, 3 or 4)) as strings: width, height, and PNGs."""
    array = numbers_in(tag, images)
    if array.ndim != 4 or array.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(
            f"the images '{tag}' are of shape [k, height, width, 1, 3 or 4], not {list(array.shape)}: one "
            "image alone is image[None], and one without channels image[None, :, :, None]"
        )
    _, height, width, _ = array.shape
    if not height * width:
        raise InvalidArgumentError(f"the images '{tag}' have no pixels: their shape is {list(array.shape)}")
    array = array[: _checked_count(max_outputs)]
    if array.dtype != np.uint8:
        if array.dtype.kind not in "fV":
            raise InvalidArgumentError(f"the images '{tag}' are uint8 or floats, not {array.dtype}")
        # NaN becomes black; values outside of [0, 1] become its nearer end.
        bounded = np.clip(np.nan_to_num(array.astype(np.float32), nan=0.0), 0.0, 1.0)
        array = np.round(bounded * 255).astype(np.uint8)
    pictures = [encode_png(each, compression=-1) for each in array]
    return _strings([b"%d" % width, b"%d" % height, *pictures])


def audio_tensor(tag: str, sounds: Any, sample_rate: int, max_outputs: int) -> Array:
    """Sounds (floats from -1 to 1, (k, frames, channels)) as strings (k, 2): a wave file, and no label."""
    array = numbers_in(tag, sounds)
    if array.ndim != 3 or not array.shape[1] or array.dtype.kind not in "fV":
        raise InvalidArgumentError(
            f"the sounds '{tag}' are floats of shape [k, frames, channels], not {array.dtype} of shape "
            f"{list(array.shape)}"
        )
    if not 0 < sample_rate < 2**32:
        raise InvalidArgumentError(f"'{tag}': sample_rate={sample_rate!r} is in frames a second, above 0")
    bounded = np.nan_to_num(array[: _checked_count(max_outputs)].astype(np.float32), nan=0.0)
    waves = [encode_wav(each, np.int64(sample_rate)) for each in bounded]
    return _strings([part for wave in waves for part in (wave, b"")]).reshape(-1, 2)


def text_tensor(tag: str, text: Any) -> Array:
    """A text, or an array of texts, as strings of UTF-8 in that shape."""
    array = np.asarray(text, dtype=object)
    found = []
    for each in array.reshape(-1).tolist():
        if not isinstance(each, str | bytes):
            raise InvalidArgumentError(
                f"the text '{tag}' is a str, bytes, or an array of those, not {type(each).__name__}"
            )
        found.append(readable(each))
    return _strings(found).reshape(array.shape)


def _strings(values: list[bytes]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _checked_count(max_outputs: int) -> int:
    if max_outputs < 1:
        raise InvalidArgumentError(f"max_outputs={max_outputs} must be at least 1")
    return max_outputs


__all__ = [
    "BLOB_SEQUENCE",
    "SCALAR",
    "TENSOR",
    "WAV",
    "audio_tensor",
    "checked_step",
    "checked_tag",
    "histogram_tensor",
    "image_tensor",
    "numbers_in",
    "readable",
    "scalar_tensor",
    "text_tensor",
    "value_of",
]
