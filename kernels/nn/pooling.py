"""Pooling ops: arguments checked and layouts undone before `pooling` does the work."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import NARROW, float_kernel, shape_text, widened
from flowengine.kernels.common.windows import (
    Windows,
    from_channels_last,
    is_channels_first,
    spatial,
    to_channels_last,
    windows,
)
from flowengine.kernels.nn import window_extremes as pooling
from flowengine.kernels.registry import kernel


@functools.lru_cache(maxsize=1024)
def _cached_plan(
    shape: tuple[int, ...],
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
) -> tuple[Windows, bool, bool]:
    """(geometry, channels first, pooled over channels) of a pooling over a tensor of this shape.

    Pooling over channels treats them as the one spatial axis, as TensorFlow allows for one layout.
    """
    rank = len(shape)
    first = is_channels_first(data_format)
    if len(ksize) != rank or len(strides) != rank:
        raise InvalidArgumentError(
            f"the input has shape {list(shape)}, but ksize {list(ksize)} and strides {list(strides)} do not "
            "have an entry for each of its dimensions"
        )
    if any(k <= 0 for k in ksize) or any(s <= 0 for s in strides):
        raise InvalidArgumentError(f"ksize {list(ksize)} and strides {list(strides)} must be positive")
    _check_batch(ksize, strides)
    channel = 1 if first else rank - 1
    if ksize[channel] == 1 and strides[channel] == 1:
        return _spatial(shape, ksize, strides, padding, first), first, False
    if any(k != 1 for i, k in enumerate(ksize) if i != channel) or first:
        raise UnimplementedError(
            "MaxPooling supports exactly one of pooling across depth or pooling across width/height."
        )
    if shape[-1] % ksize[-1]:
        raise UnimplementedError(
            "Depthwise max pooling requires the depth window to evenly divide the input depth"
        )
    if ksize[-1] != strides[-1]:
        raise UnimplementedError("Depthwise max pooling requires the depth window to equal the depth stride.")
    geometry = windows((shape[-1],), (ksize[-1],), (strides[-1],), (1,), b"VALID")
    return geometry, False, True


def _plan(
    shape: tuple[int, ...],
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
) -> tuple[Windows, bool, bool]:
    return _cached_plan(shape, tuple(ksize), tuple(strides), padding, data_format)


def _check_batch(ksize: Sequence[int], strides: Sequence[int]) -> None:
    if (ksize and ksize[0] != 1) or (strides and strides[0] != 1):
        raise UnimplementedError("Pooling is not yet supported on the batch dimension.")


def _accepts(attrs: Mapping[str, Any]) -> bool:
    """Refuse what no input could make right when the plan is made, before anything is fed."""
    _check_batch(attrs["ksize"], attrs["strides"])
    return True


def _spatial(
    shape: Sequence[int], ksize: Sequence[int], strides: Sequence[int], padding: bytes, first: bool
) -> Windows:
    window = spatial(ksize, first)
    return windows(spatial(shape, first), window, spatial(strides, first), (1,) * len(window), padding)


def _check_rank(value: Array, rank: int, name: str = "tensor_in") -> None:
    if value.ndim != rank:
        raise InvalidArgumentError(f"{name} must be {rank}-dimensional, not {shape_text(value)}")


def _max_pool(
    x: Array, ksize: Sequence[int], strides: Sequence[int], padding: bytes, data_format: bytes
) -> Any:
    geometry, first, over_channels = _plan(x.shape, ksize, strides, padding, data_format)
    if over_channels:
        return pooling.maximum(x.reshape(-1, x.shape[-1], 1), geometry).reshape(*x.shape[:-1], -1)
    return from_channels_last(pooling.maximum(to_channels_last(x, first), geometry), first)


@kernel("MaxPool", supports=_accepts, fresh=True)
def max_pool(x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The greatest of each window of (N, H, W, C)."""
    _check_rank(x, 4)
    return _max_pool(x, ksize, strides, padding, data_format)


@kernel("MaxPoolV2", fresh=True)
def max_pool_v2(x: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes) -> Any:
    """`MaxPool` with window and strides as tensors of four numbers."""
    _check_rank(x, 4)
    return _max_pool(x, ksize.tolist(), strides.tolist(), padding, data_format)


@kernel("MaxPool3D", supports=_accepts, fresh=True)
def max_pool_3d(x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The greatest of each window of (N, D, H, W, C)."""
    _check_rank(x, 5)
    return _max_pool(x, ksize, strides, padding, data_format)


def _max_pool_grad(
    x: Array,
    y: Array,
    g: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    geometry, first, over_channels = _plan(x.shape, ksize, strides, padding, data_format)
    if over_channels:
        raise UnimplementedError("MaxPoolingGrad is not yet supported on the depth dimension.")
    x, y, g = (to_channels_last(v, first) for v in (x, y, g))
    expected = (x.shape[0], *geometry.out, x.shape[-1])
    for name, value in (("orig_output", y), ("grad", g)):
        if value.shape != expected:
            raise InvalidArgumentError(
                f"Expected {name} shape to be {list(expected)} (channels last), but got {shape_text(value)}"
            )
    return from_channels_last(pooling.maximum_gradient(x, g, geometry), first)


@kernel("MaxPoolGrad", "MaxPool3DGrad", supports=_accepts, fresh=True)
def max_pool_grad(
    x: Array, y: Array, g: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes
) -> Any:
    """The gradient of the input from input, output and the output's gradient."""
    return _max_pool_grad(x, y, g, ksize, strides, padding, data_format)


@kernel("MaxPoolGradV2", fresh=True)
def max_pool_grad_v2(
    x: Array, y: Array, g: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes
) -> Any:
    """`MaxPoolGrad` with window and strides as tensors of four numbers."""
    return _max_pool_grad(x, y, g, ksize.tolist(), strides.tolist(), padding, data_format)


def _gathered(x: Array, y: Array, g: Array, geometry: Windows) -> Array:
    """For each window the element of g (shaped as the input) where the input is first the greatest."""
    image = int(np.prod(x.shape[1:]))
    place = _offset_by_image(pooling.maximum_with_position(x, geometry)[1], image)
    return g.reshape(-1)[place].reshape(y.shape)


@kernel("MaxPoolGradGrad", "MaxPool3DGradGrad", supports=_accepts, fresh=True)
def max_pool_grad_grad(
    x: Array, y: Array, g: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes
) -> Any:
    """The gradient of `MaxPoolGrad` by its gradient: what flows back at each window's maximum."""
    geometry, first, _ = _plan(x.shape, ksize, strides, padding, data_format)
    x, y, g = (np.ascontiguousarray(to_channels_last(v, first)) for v in (x, y, g))
    return from_channels_last(_gathered(x, y, g, geometry), first)


@kernel("MaxPoolGradGradV2", fresh=True)
def max_pool_grad_grad_v2(
    x: Array, y: Array, g: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes
) -> Any:
    """`MaxPoolGradGrad` with window and strides as tensors of four numbers."""
    return max_pool_grad_grad(
        x,
        y,
        g,
        ksize=ksize.tolist(),
        strides=strides.tolist(),
        padding=padding,
        data_format=data_format,
    )


def _offset_by_image(place: Array, image_size: int) -> Array:
    images = np.arange(place.shape[0], dtype=np.int64) * image_size
    return place + images.reshape(-1, *(1,) * (place.ndim - 1))


@kernel("MaxPoolWithArgmax", supports=_accepts, fresh=True)
def max_pool_with_argmax(
    x: Array,
    *,
    ksize: Any,
    strides: Any,
    padding: bytes,
    include_batch_in_index: bool,
    Targmax: DType,
) -> Any:
    """The greatest of each window and where it lies.

    The position is (y W + x) C + c, with b H W C added where `include_batch_in_index`.
    """
    _check_rank(x, 4)
    geometry, _, over_channels = _plan(x.shape, ksize, strides, padding, b"NHWC")
    if over_channels:
        raise UnimplementedError("MaxPoolWithArgmax is not yet supported on the depth dimension.")
    best, place = pooling.maximum_with_position(np.ascontiguousarray(x), geometry)
    if include_batch_in_index:
        place = _offset_by_image(place, int(np.prod(x.shape[1:])))
    return best, place.astype(Targmax.as_numpy_dtype)


def _argmax_places(argmax: Array, image: int, include_batch_in_index: bool, total: int) -> Array:
    place = argmax.astype(np.int64)
    if not include_batch_in_index:
        place = _offset_by_image(place, image)
    if place.size and (int(place.min()) < 0 or int(place.max()) >= total):
        raise InvalidArgumentError(
            f"an index in argmax is outside of the input's [0, {total}): {int(place.max())}"
        )
    return place.reshape(-1)


@kernel("MaxPoolGradWithArgmax", fresh=True)
def max_pool_grad_with_argmax(x: Array, g: Array, argmax: Array, *, include_batch_in_index: bool) -> Any:
    """The gradient of the input: each window's goes to the position that argmax names."""
    if g.shape != argmax.shape:
        raise InvalidArgumentError(
            f"grad and argmax must have one shape: {shape_text(g)} vs. {shape_text(argmax)}"
        )
    result = np.zeros(x.size, g.dtype)
    places = _argmax_places(argmax, int(np.prod(x.shape[1:])), include_batch_in_index, x.size)
    np.add.at(result, places, g.reshape(-1))
    return result.reshape(x.shape)


@kernel("MaxPoolGradGradWithArgmax", fresh=True)
def max_pool_grad_grad_with_argmax(x: Array, g: Array, argmax: Array, *, include_batch_in_index: bool) -> Any:
    """What of a tensor shaped as the input lies at the positions that argmax names."""
    places = _argmax_places(argmax, int(np.prod(x.shape[1:])), include_batch_in_index, x.size)
    return g.reshape(-1)[places].reshape(argmax.shape)


@float_kernel("AvgPool", "AvgPool3D", supports=_accepts, fresh=True)
def avg_pool(xp: Any, x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The mean of each window; padding does not count."""
    if x.ndim not in (4, 5):
        raise InvalidArgumentError(f"tensor_in must be 4- or 5-dimensional, not {shape_text(x)}")
    geometry, first, over_channels = _plan(x.shape, ksize, strides, padding, data_format)
    if over_channels:
        raise UnimplementedError("AvgPooling is not yet supported on the depth dimension.")
    return from_channels_last(pooling.mean(to_channels_last(x, first), geometry), first)


def _average_grad(shape: Array, gradient: Array, attrs: Mapping[str, Any]) -> Any:
    sizes = tuple(shape.tolist())
    if len(sizes) != gradient.ndim:
        raise InvalidArgumentError(
            f"out_backprop must have the rank of orig_input_shape {list(sizes)}, not {shape_text(gradient)}"
        )
    geometry, first, _ = _plan(
        sizes, attrs["ksize"], attrs["strides"], attrs["padding"], attrs["data_format"]
    )
    last = to_channels_last(gradient, first)
    if last.shape[1:-1] != geometry.out:
        raise InvalidArgumentError(
            f"the gradient has spatial sizes {list(last.shape[1:-1])}, the pooling of {list(sizes)} "
            f"{list(geometry.out)}"
        )
    return from_channels_last(pooling.mean_gradient(last, geometry), first)


@kernel("AvgPoolGrad", "AvgPool3DGrad", device="CPU", types={"T": NARROW}, fresh=True)
@widened
def avg_pool_grad_narrow(xp: Any, orig_input_shape: Array, grad: Array, *, node: Node) -> Any:
    return _average_grad(orig_input_shape, grad, node.attrs)


@kernel("AvgPoolGrad", "AvgPool3DGrad", supports=_accepts, fresh=True)
def avg_pool_grad(orig_input_shape: Array, grad: Array, *, node: Node) -> Any:
    """The gradient of a mean over windows, spread evenly over each window's real elements."""
    return _average_grad(orig_input_shape, grad, node.attrs)
