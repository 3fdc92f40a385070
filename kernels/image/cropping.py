"""Parts of images, drawn at random or around given places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.context import KernelContext
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import node_generator
from flowengine.kernels.registry import kernel

# Parts of an image, drawn at random: of one size, or of many that still show enough of an object.
#
# Rounding matters, as the numbers are those that TensorFlow draws for a seed: areas and ratios are
# float32, and
# whole numbers are the nearest, of two equally near ones the even one.

HOST: Final = "one part of one image: a few numbers, drawn until they are accepted"

#: So many draws at most, some tenths of a second: what they did not find is not there, or not worth waiting.
ATTEMPTS_MAX: Final = 10_000

_INT32_MAX: Final = (1 << 31) - 1


@kernel("RandomCrop", device="CPU")
def random_crop(image: Array, size: Array, *, node: Node, ctx: KernelContext) -> Array:
    """(H, W, C) -> (height, width, C), from a random place.

    FailedPreconditionError where the image is smaller than the part.
    """
    if image.ndim != 3:
        raise InvalidArgumentError(f"input must be 3-dimensional, not {shape_text(image)}")
    if size.shape != (2,):
        raise InvalidArgumentError(f"size must be height and width, not {shape_text(size)}")
    height, width = size.tolist()
    if height < 0 or width < 0:
        raise InvalidArgumentError(f"size must not be negative, but is {[height, width]}")
    spare = image.shape[0] - height, image.shape[1] - width
    if min(spare) < 0:
        raise FailedPreconditionError(
            "width must be >= target_width and height >= target_height: the image has "
            f"{image.shape[0]} rows of {image.shape[1]}, wanted are {height} of {width}"
        )
    stream = philox.Stream(*node_generator(ctx, node).reserve(1))
    left = stream.bits32() % (spare[1] + 1) if spare[1] else 0
    top = stream.bits32() % (spare[0] + 1) if spare[0] else 0
    return image[top : top + height, left : left + width]


class _Crop(NamedTuple):
    """A rectangle of pixels: from (top, left) to before (bottom, right)."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def area(self) -> Any:
        return np.float32((self.right - self.left) * (self.bottom - self.top))

    def shared(self, other: _Crop) -> Any:
        """The area of what both cover."""
        top, left = max(self.top, other.top), max(self.left, other.left)
        bottom, right = min(self.bottom, other.bottom), min(self.right, other.right)
        return _Crop(top, left, bottom, right).area if top <= bottom and left <= right else np.float32(0)

    def shows_enough(self, objects: Sequence[_Crop], least: Any) -> bool:
        """Whether so much of one of the objects lies in it; those without a pixel do not count."""
        return self.area >= 1 and any(
            self.shared(each) / each.area >= least for each in objects if each.area >= 1
        )


def _nearest(value: Any) -> int:
    return int(np.rint(value))


def _drawn(
    width: int, height: int, areas: Sequence[float], ratio: Any, stream: philox.Stream
) -> _Crop | None:
    """A part whose width is `ratio` times its height and whose area is in a range; None where none fits.

    areas   least and greatest, as parts of the image's area
    """
    if width <= 0 or height <= 0 or areas[0] > areas[1]:
        return None
    single = np.float32
    least, most = (single(area) * single(width) * single(height) for area in areas)
    rows = _nearest(np.sqrt(least / ratio))
    rows_max = _nearest(np.sqrt(most / ratio))
    if _nearest(single(rows_max) * ratio) > width:
        # The most rows whose width, rounded, the image has.
        rows_max = int((width + 0.5 - float(single(0.0000001))) / float(ratio))
        if _nearest(single(rows_max) * ratio) > width:
            rows_max -= 1
    rows_max = min(rows_max, height)
    rows = min(rows, rows_max)
    if rows < rows_max:
        rows += stream.below32(rows_max - rows + 1)
    columns = _nearest(single(rows) * ratio)
    # One row more or less makes good for rounding.
    if single(columns * rows) < least:
        rows += 1
        columns = _nearest(single(rows) * ratio)
    if single(columns * rows) > most:
        rows -= 1
        columns = _nearest(single(rows) * ratio)
    if not least <= single(columns * rows) <= most or not (0 < columns <= width and 0 < rows <= height):
        return None
    top = stream.below32(height - rows) if rows < height else 0
    left = stream.below32(width - columns) if columns < width else 0
    return _Crop(top, left, top + rows, left + columns)


class _CropRanges(NamedTuple):
    """The limits of parts; the attributes of the ops."""

    aspect_ratio: Sequence[float]
    area: Sequence[float]
    attempts: int
    may_be_whole: bool

    def check(self) -> None:
        for name, pair in (("aspect_ratio_range", self.aspect_ratio), ("area_range", self.area)):
            if len(pair) != 2 or min(pair) <= 0:
                raise InvalidArgumentError(f"{name} must be two positive numbers, but is {list(pair)}")
        if max(self.area) > 1:
            raise InvalidArgumentError(f"area_range must not go beyond 1, but is {list(self.area)}")
        if self.attempts <= 0:
            raise InvalidArgumentError(f"max_attempts must be positive, but is {self.attempts}")


def _objects(boxes: Array, width: int, height: int, may_be_whole: bool) -> list[_Crop]:
    """The boxes in pixels; the whole image where there are none and that is allowed."""
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InvalidArgumentError(
            f"bounding_boxes must be [images, boxes, 4], but have shape {shape_text(boxes)}"
        )
    flat = boxes.reshape(-1, 4)
    wrong = ~((flat >= 0) & (flat <= 1))
    if wrong.any():
        raise InvalidArgumentError(
            f"All bounding box coordinates must be in [0.0, 1.0]: {float(flat[wrong][0]):g}"
        )
    if flat.size:
        scale = np.array([height, width, height, width], np.float32)
        return [_Crop(*row) for row in (flat * scale).astype(np.int32).tolist()]
    if not may_be_whole:
        raise InvalidArgumentError(
            "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish "
            "to not provide any bounding boxes."
        )
    return [_Crop(0, 0, height, width)]


def _size_of(image_size: Array) -> tuple[int, int]:
    """(height, width)"""
    if image_size.shape != (3,):
        raise InvalidArgumentError(
            f"image_size must contain 3 elements, but has shape {shape_text(image_size)}"
        )
    height, width, _ = image_size.tolist()
    for name, value in (("height", height), ("width", width)):
        if not 0 <= value < _INT32_MAX:
            raise InvalidArgumentError(f"image {name} cannot be >= int32 max or negative: {value}")
    return height, width


def _sample(
    image_size: Array,
    boxes: Array,
    least: Any,
    ranges: _CropRanges,
    start: tuple[int, int],
    dtype: DType,
) -> tuple[Array, Array, Array]:
    ranges.check()
    height, width = _size_of(image_size)
    if getattr(least, "ndim", 0):
        raise InvalidArgumentError(f"min_object_covered must be 0-D, got shape {shape_text(least)}")
    if not float(least) >= 0:
        raise InvalidArgumentError(f"Min object covered must be non-negative: {float(least):g}")
    objects = _objects(boxes, width, height, ranges.may_be_whole)
    stream = philox.Stream(*start)
    low, high = (np.float32(ratio) for ratio in ranges.aspect_ratio)
    whole = chosen = _Crop(0, 0, height, width)
    for _ in range(min(ranges.attempts, ATTEMPTS_MAX)):
        ratio = np.float32(stream.single()) * (high - low) + low
        part = _drawn(width, height, ranges.area, ratio, stream)
        if part is not None and part.shows_enough(objects, np.float32(least)):
            chosen = part
            break
    size = np.array([whole.bottom, whole.right, whole.bottom, whole.right], np.float32)
    box = (np.array(chosen, np.float32) / size).reshape(1, 1, 4)
    of = dtype.as_numpy_dtype
    begin = np.array([chosen.top, chosen.left, 0], np.int64).astype(of)
    extent = np.array([chosen.bottom - chosen.top, chosen.right - chosen.left, -1], np.int64).astype(of)
    return begin, extent, box


@kernel("SampleDistortedBoundingBox", device="CPU", fresh=True)
def sample_distorted_bounding_box(
    image_size: Array,
    bounding_boxes: Array,
    *,
    min_object_covered: float,
    aspect_ratio_range: tuple[float, ...],
    area_range: tuple[float, ...],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    T: DType,
    node: Node,
    ctx: KernelContext,
) -> Any:
    """Draw a random part: its start and size, for a Slice, and the same as a box (1, 1, 4).

    A part shows at least a share of one of the boxes (N, n, 4). After `max_attempts`, or 10,000, it is
    the whole image.
    """
    ranges = _CropRanges(aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes)
    start = node_generator(ctx, node).reserve(max(max_attempts, 0))
    return _sample(image_size, bounding_boxes, min_object_covered, ranges, start, T)


@kernel("SampleDistortedBoundingBoxV2", device="CPU", fresh=True)
def sample_distorted_bounding_box_v2(
    image_size: Array,
    bounding_boxes: Array,
    min_object_covered: Any,
    *,
    aspect_ratio_range: tuple[float, ...],
    area_range: tuple[float, ...],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    T: DType,
    node: Node,
    ctx: KernelContext,
) -> Any:
    """`SampleDistortedBoundingBox` with the share as a tensor."""
    ranges = _CropRanges(aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes)
    start = node_generator(ctx, node).reserve(max(max_attempts, 0))
    return _sample(image_size, bounding_boxes, min_object_covered, ranges, start, T)


@kernel("StatelessSampleDistortedBoundingBox", device="CPU", fresh=True)
def stateless_sample_distorted_bounding_box(
    image_size: Array,
    bounding_boxes: Array,
    min_object_covered: Any,
    seed: Array,
    *,
    aspect_ratio_range: tuple[float, ...],
    area_range: tuple[float, ...],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    T: DType,
) -> Any:
    """`SampleDistortedBoundingBoxV2` by a seed: the same for the same."""
    ranges = _CropRanges(aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes)
    return _sample(image_size, bounding_boxes, min_object_covered, ranges, key_and_counter(seed), T)


# Windows of images, around a place of each.

NOISE_HOST: Final = (
    "what lies outside of an image is filled with noise that no seed repeats, drawn in host memory"
)

_NOISES: Final = (b"uniform", b"gaussian", b"zero")


def _starts(
    offsets: Array, size: tuple[int, int], window: tuple[int, int], centered: bool, normalized: bool
) -> Array:
    """(N, 2) int64: the first row and column of each window."""
    places = offsets * np.array(size, np.float32) if normalized else offsets
    if centered:
        places = places / np.float32(2) + np.array(size, np.float32) / np.float32(2)
    return _whole(places - np.array(window, np.float32) / np.float32(2))


def _starts_v2(
    offsets: Array, size: tuple[int, int], window: tuple[int, int], centered: bool, normalized: bool
) -> Array:
    """As `_starts`; offsets in pixels, and those from the corner, are where the window begins."""
    if centered and normalized:
        return _starts(offsets, size, window, centered, normalized)
    if centered:
        return _whole(offsets + np.array(size, np.float32) / np.float32(2))
    return _whole(offsets * np.array(size, np.float32) if normalized else offsets)


def _whole(places: Array) -> Array:
    """Without what is behind the point; far outside for what is no number."""
    bound = np.float32(2**40)
    whole: Array = np.trunc(np.clip(np.where(np.isnan(places), bound, places), -bound, bound)).astype(
        np.int64
    )
    return whole


@kernel("ExtractGlimpse", "ExtractGlimpseV2", fresh=True)
def extract_glimpse(
    images: Array,
    size: Array,
    offsets: Array,
    *,
    centered: bool,
    normalized: bool,
    noise: bytes,
    uniform_noise: bool,
    node: Node,
) -> Any:
    """Windows of `size` around `offsets` (N, 2: y, x) of images (N, H, W, C); returns (N, height, width, C).

    centered     offsets are from the middle of the image to the middle of the window
    normalized   they are parts of the image's size: from -1 to 1 if centred
    noise        what lies outside: uniform, gaussian, or zero
    """
    if images.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, not {shape_text(images)}")
    batch, height, width, depth = images.shape
    if size.ndim != 1 or size.shape[0] != 2:
        raise InvalidArgumentError(f"input must be a vector of size 2, not {shape_text(size)}")
    rows, columns = size.tolist()
    if rows < 0 or columns < 0:
        raise InvalidArgumentError(f"glimpse size must not be negative: {rows} x {columns}")
    if offsets.ndim != 2 or offsets.shape != (batch, 2):
        raise InvalidArgumentError(f"offsets must be ({batch}, 2), not {shape_text(offsets)}")
    if noise not in _NOISES:
        raise InvalidArgumentError(f"Unsupported noise: {noise.decode('utf-8', 'backslashreplace')}")
    if uniform_noise and noise != b"uniform":
        raise InvalidArgumentError(f"uniform_noise should not be True when noise is {noise.decode()}")
    window = (rows, columns)
    starts = _STARTS[node.op](offsets, (height, width), window, centered, normalized)
    y = starts[:, 0, None] + np.arange(rows)
    x = starts[:, 1, None] + np.arange(columns)
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    result = np.zeros((batch, rows, columns, depth), np.float32)
    image, row, column = np.nonzero(inside)
    result[image, row, column] = images[image, y[image, row], x[image, column]]
    if noise != b"zero" and not inside.all():
        result[~inside] = _noise(images, noise, int((~inside).sum()))
    return result


_STARTS: Final = {"ExtractGlimpse": _starts, "ExtractGlimpseV2": _starts_v2}


def _noise(images: Array, kind: bytes, count: int) -> Any:
    """(count, C): of the range, or of the mean and deviation, of all pixels."""
    generator = np.random.default_rng()
    shape = (count, images.shape[3])
    if not images.size:
        return np.zeros(shape, np.float32)
    if kind == b"gaussian":
        return generator.normal(images.mean(), images.std(), shape)
    low, high = float(images.min()), float(images.max())
    return low + (high - low) * generator.random(shape)
