"""Pooling ops: arguments checked and layouts undone before the windows are reduced.

`pool` reduces them: `WindowReductions` for any array module, what `kernels/numpy` has for NumPy's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, is_numpy
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import integers
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.common.ufuncs import NARROW, float_kernel, shape_text, widened
from flowengine.kernels.common.windows import (
    Windows,
    from_channels_last,
    is_channels_first,
    spatial,
    to_channels_last,
    windows,
)
from flowengine.kernels.nn.window_extremes import WindowReductions, maximum_with_position, offset_by_image
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
    return geometry.clipped(), False, True


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


def accepts(attrs: Mapping[str, Any]) -> bool:
    """Refuse what no input could make right when the plan is made, before anything is fed."""
    _check_batch(attrs["ksize"], attrs["strides"])
    return True


def _spatial(
    shape: Sequence[int], ksize: Sequence[int], strides: Sequence[int], padding: bytes, first: bool
) -> Windows:
    window = spatial(ksize, first)
    steps = spatial(strides, first)
    return windows(spatial(shape, first), window, steps, (1,) * len(window), padding).clipped()


def check_rank(value: Array, rank: int, name: str = "tensor_in") -> None:
    if value.ndim != rank:
        raise InvalidArgumentError(f"{name} must be {rank}-dimensional, not {shape_text(value)}")


def max_pooled(
    xp: Any,
    pool: Any,
    x: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The greatest of each window."""
    geometry, first, over_channels = _plan(x.shape, ksize, strides, padding, data_format)
    if over_channels:
        return pool.maximum(x.reshape(-1, x.shape[-1], 1), geometry).reshape(*x.shape[:-1], -1)
    return from_channels_last(xp, pool.maximum(to_channels_last(x, first), geometry), first)


@kernel("MaxPool", supports=accepts, fresh=True)
def max_pool(xp: Any, x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The greatest of each window of (N, H, W, C)."""
    check_rank(x, 4)
    return max_pooled(xp, WindowReductions(xp), x, ksize, strides, padding, data_format)


@kernel("MaxPoolV2", fresh=True, host=("ksize", "strides"))
def max_pool_v2(
    xp: Any, x: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes
) -> Any:
    """`MaxPool` with window and strides as tensors of four numbers."""
    check_rank(x, 4)
    pool = WindowReductions(xp)
    window, steps = integers(ksize, "ksize"), integers(strides, "strides")
    return max_pooled(xp, pool, x, window, steps, padding, data_format)


@kernel("MaxPool3D", supports=accepts, fresh=True)
def max_pool_3d(xp: Any, x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The greatest of each window of (N, D, H, W, C)."""
    check_rank(x, 5)

    def pooled(values: Array) -> Any:
        return max_pooled(xp, WindowReductions(xp), values, ksize, strides, padding, data_format)

    return without_numbers(xp, x, pooled)


def without_numbers(xp: Any, x: Array, pooled: Callable[[Array], Any]) -> Any:
    """Pool x, but with NaN for windows of only NaN (pooling in two dimensions gives the least number)."""
    found = pooled(x)
    if x.dtype.kind in "iu":
        return found
    lost = ~(found > x.dtype.type(as_dtype(x.dtype).min))
    if is_numpy(xp) and not lost.any():
        return found
    is_number = pooled(xp.where(xp.isnan(x), x.dtype.type(0), x.dtype.type(1)))
    return xp.where(lost & ~(is_number > 0), x.dtype.type(np.nan), found)


def max_pooled_gradient(
    xp: Any,
    pool: Any,
    x: Array,
    y: Array,
    g: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The gradient of the input of `max_pooled`."""
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
    return from_channels_last(xp, pool.maximum_gradient(x, g, geometry), first)


@kernel("MaxPoolGrad", "MaxPool3DGrad", supports=accepts, fresh=True)
def max_pool_grad(
    xp: Any,
    x: Array,
    y: Array,
    g: Array,
    *,
    ksize: Any,
    strides: Any,
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The gradient of the input from input, output and the output's gradient."""
    pool = WindowReductions(xp)
    return max_pooled_gradient(xp, pool, x, y, g, ksize, strides, padding, data_format)


@kernel("MaxPoolGradV2", fresh=True, host=("ksize", "strides"))
def max_pool_grad_v2(
    xp: Any,
    x: Array,
    y: Array,
    g: Array,
    ksize: Array,
    strides: Array,
    *,
    padding: bytes,
    data_format: bytes,
) -> Any:
    """`MaxPoolGrad` with window and strides as tensors of four numbers."""
    pool = WindowReductions(xp)
    window, steps = ksize.reshape(-1).tolist(), strides.reshape(-1).tolist()
    return max_pooled_gradient(xp, pool, x, y, g, window, steps, padding, data_format)


def _gathered(xp: Any, x: Array, y: Array, g: Array, geometry: Windows) -> Any:
    """For each window the element of g (shaped as the input) where the input is first the greatest."""
    image = math.prod(x.shape[1:])
    place = offset_by_image(xp, maximum_with_position(xp, x, geometry)[1], image)
    return g.reshape(-1)[place].reshape(y.shape)


@kernel("MaxPoolGradGrad", "MaxPool3DGradGrad", supports=accepts, fresh=True)
def max_pool_grad_grad(
    xp: Any, x: Array, y: Array, g: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes
) -> Any:
    """The gradient of `MaxPoolGrad` by its gradient: what flows back at each window's maximum."""
    geometry, first, _ = _plan(x.shape, ksize, strides, padding, data_format)
    x, y, g = (xp.ascontiguousarray(to_channels_last(v, first)) for v in (x, y, g))
    return from_channels_last(xp, _gathered(xp, x, y, g, geometry), first)


@kernel("MaxPoolGradGradV2", fresh=True, host=("ksize", "strides"))
def max_pool_grad_grad_v2(
    xp: Any, x: Array, y: Array, g: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes
) -> Any:
    """`MaxPoolGradGrad` with window and strides as tensors of four numbers."""
    return max_pool_grad_grad(
        xp,
        x,
        y,
        g,
        ksize=integers(ksize, "ksize"),
        strides=integers(strides, "strides"),
        padding=padding,
        data_format=data_format,
    )


@kernel("MaxPoolWithArgmax", supports=accepts, fresh=True)
def max_pool_with_argmax(
    xp: Any,
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
    check_rank(x, 4)
    if not x.size:
        raise InvalidArgumentError(f"tensor_in must not be empty, but is {shape_text(x)}")
    geometry, _, over_channels = _plan(x.shape, ksize, strides, padding, b"NHWC")
    if over_channels:
        raise UnimplementedError("MaxPoolWithArgmax is not yet supported on the depth dimension.")
    best, place = maximum_with_position(xp, xp.ascontiguousarray(x), geometry)
    if include_batch_in_index:
        place = offset_by_image(xp, place, math.prod(x.shape[1:]))
    return best, place.astype(Targmax.as_numpy_dtype)


def _argmax_places(xp: Any, argmax: Array, image: int, include_batch_in_index: bool, total: int) -> Any:
    place = argmax.astype(np.int64)
    if not include_batch_in_index:
        place = offset_by_image(xp, place, image)
    if place.size:
        refuse(((place < 0) | (place >= total)).any(), lambda: _argmax_outside(place, total))
    return place.reshape(-1)


def _argmax_outside(place: Array, total: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"an index in argmax is outside of the input's [0, {total}): {int(place.max())}"
    )


@kernel("MaxPoolGradWithArgmax", fresh=True)
def max_pool_grad_with_argmax(
    xp: Any, x: Array, g: Array, argmax: Array, *, include_batch_in_index: bool
) -> Any:
    """The gradient of the input: each window's goes to the position that argmax names."""
    if g.shape != argmax.shape:
        raise InvalidArgumentError(
            f"grad and argmax must have one shape: {shape_text(g)} vs. {shape_text(argmax)}"
        )
    result = xp.zeros(x.size, g.dtype)
    places = _argmax_places(xp, argmax, math.prod(x.shape[1:]), include_batch_in_index, x.size)
    add_rows(xp, result, places, g.reshape(-1))
    return result.reshape(x.shape)


@kernel("MaxPoolGradGradWithArgmax", fresh=True)
def max_pool_grad_grad_with_argmax(
    xp: Any, x: Array, g: Array, argmax: Array, *, include_batch_in_index: bool
) -> Any:
    """Gather the elements of a tensor shaped as the input at the positions that argmax names."""
    places = _argmax_places(xp, argmax, math.prod(x.shape[1:]), include_batch_in_index, x.size)
    return g.reshape(-1)[places].reshape(argmax.shape)


def average_pooled(
    xp: Any, pool: Any, x: Array, ksize: Any, strides: Any, padding: bytes, data_format: bytes
) -> Any:
    """The mean of each window; padding does not count."""
    if x.ndim not in (4, 5):
        raise InvalidArgumentError(f"tensor_in must be 4- or 5-dimensional, not {shape_text(x)}")
    geometry, first, over_channels = _plan(x.shape, ksize, strides, padding, data_format)
    if over_channels:
        raise UnimplementedError("AvgPooling is not yet supported on the depth dimension.")
    return from_channels_last(xp, pool.mean(to_channels_last(x, first), geometry), first)


@float_kernel("AvgPool", "AvgPool3D", supports=accepts, fresh=True)
def avg_pool(xp: Any, x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The mean of each window; padding does not count."""
    return average_pooled(xp, WindowReductions(xp), x, ksize, strides, padding, data_format)


def average_gradient(xp: Any, pool: Any, shape: Array, gradient: Array, attrs: Mapping[str, Any]) -> Any:
    """The gradient of the input, of the shape given, of `average_pooled`."""
    sizes = tuple(integers(shape, "orig_input_shape"))
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
    if last.shape[0] > sizes[0] or (gradient.ndim == 5 and len(last) not in (0, sizes[0])):
        raise InvalidArgumentError(
            f"Expected first dimension of orig_input_shape and grad to match, got {sizes[0]} and {len(last)}"
        )
    found = from_channels_last(xp, pool.mean_gradient(last, geometry), first)
    if len(found) == sizes[0]:
        return found
    # Of images that have no gradient it is 0.
    missing = xp.zeros((sizes[0] - len(found), *found.shape[1:]), found.dtype)
    return xp.concatenate([found, missing])


@kernel("AvgPoolGrad", "AvgPool3DGrad", types={"T": NARROW}, fresh=True, host=("orig_input_shape",))
@widened
def avg_pool_grad_narrow(xp: Any, orig_input_shape: Array, grad: Array, *, node: Node) -> Any:
    return average_gradient(xp, WindowReductions(xp), orig_input_shape, grad, node.attrs)


@kernel("AvgPoolGrad", "AvgPool3DGrad", supports=accepts, fresh=True, host=("orig_input_shape",))
def avg_pool_grad(xp: Any, orig_input_shape: Array, grad: Array, *, node: Node) -> Any:
    """The gradient of a mean over windows, spread evenly over each window's real elements."""
    return average_gradient(xp, WindowReductions(xp), orig_input_shape, grad, node.attrs)
