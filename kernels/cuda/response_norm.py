"""Local response normalisation and its gradient: `sources/response_norm.cuh`.

Arrays are (N, H, W, C) of one float type and lie row by row without gaps. Nothing is waited for.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.launching import Launcher, each, float_bits, wide_type


def response_norm(
    launcher: Launcher, x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Any:
    """x / (bias + alpha * sum of the squares of neighbouring channels) ** beta."""
    result = launcher.empty(x.shape, x.dtype)
    if x.size:
        numbers = (x.shape[-1], depth_radius, float_bits(bias), float_bits(alpha), float_bits(beta))
        launcher.launch(each(f"response_norm_{x.dtype.name}", x.size, *numbers), [x, result])
    return result


def response_norm_gradient(
    launcher: Launcher,
    gradient: Array,
    x: Array,
    y: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Any:
    """The gradient of x from that of y, x and y; InvalidArgumentError unless the three have one shape."""
    if not gradient.shape == x.shape == y.shape:
        raise InvalidArgumentError(
            "the gradient, input and output must have the same shape: "
            f"{list(gradient.shape)}, {list(x.shape)}, {list(y.shape)}"
        )
    result = launcher.empty(x.shape, x.dtype)
    if not x.size:
        return result
    name, channels = x.dtype.name, x.shape[-1]
    norms, ratios = (launcher.empty(x.shape, wide_type(x.dtype)) for _ in range(2))
    numbers = (channels, depth_radius, float_bits(bias), float_bits(alpha))
    launcher.launch(each(f"response_norm_ratios_{name}", x.size, *numbers), [gradient, x, y, norms, ratios])
    factor = float_bits(-2.0 * alpha * beta)
    launch = each(f"response_norm_gradient_{name}", x.size, channels, depth_radius, factor, float_bits(beta))
    launcher.launch(launch, [gradient, x, norms, ratios, result])
    return result


__all__ = ["response_norm", "response_norm_gradient"]
