"""A bias along the channels with an activation behind it, and the gradients of both: `sources/bias.cuh`.

The sum and the activation round one after the other, so results have the bits of the two nodes. Arrays lie
row by row without gaps; they are float16, bfloat16, float32 or float64. Nothing is waited for.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.launching import (
    ChannelSums,
    Launcher,
    each,
    each_column,
    rows_and_channels,
    wide_type,
)

#: {op behind a BiasAdd: the word in its kernels' names}; None is for none.
ACTIVATIONS: Final[dict[str | None, str]] = {
    None: "plain",
    "Relu": "relu",
    "Relu6": "relu6",
    "Elu": "elu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
}


def _word(activation: str | None) -> str:
    if activation not in ACTIVATIONS:
        known = ", ".join(name for name in ACTIVATIONS if name)
        raise InvalidArgumentError(f"there is no kernel for a bias with {activation} behind it: {known}")
    return ACTIVATIONS[activation]


def bias_add(
    launcher: Launcher, x: Array, bias: Array, activation: str | None = None, *, channels_first: bool = False
) -> Any:
    """activation(x + bias): x (N, ..., C), or (N, C, ...), bias (C,); InvalidArgumentError for another."""
    name = f"bias_{_word(activation)}_{x.dtype.name}"
    _, channels, inner = rows_and_channels(x.shape, channels_first)
    if bias.shape != (channels,):
        raise InvalidArgumentError(
            f"the bias must have as many elements as x has channels: {list(bias.shape)} vs. {channels}"
        )
    result = launcher.empty(x.shape, x.dtype)
    if x.size:
        launcher.launch(each(name, x.size, channels, inner), [x, bias, result])
    return result


def bias_gradients(
    launcher: Launcher,
    gradient: Array,
    y: Array | None = None,
    activation: str | None = None,
    *,
    channels_first: bool = False,
) -> tuple[Any, Any]:
    """The gradients of x and of the bias, from that of what `bias_add` gave.

    y         what it gave; not looked at without an activation
    returns   (N, ..., C), which is `gradient` itself without an activation; (C,)
    """
    rows, channels, inner = rows_and_channels(gradient.shape, channels_first)
    word, dtype = _word(activation), gradient.dtype
    dx = gradient if activation is None else launcher.empty(gradient.shape, dtype)
    sums = launcher.empty((channels,), dtype)
    # Without rows nothing is summed, and a fold of no chunks writes zeros.
    columns = ChannelSums.over(rows, channels, inner) if rows and channels else None
    chunks = columns.chunks if columns else 0
    partial = launcher.empty((chunks, channels), wide_type(dtype))
    if columns:
        given = [gradient, None, None] if activation is None else [gradient, y, dx]
        launcher.launch(columns.launch(f"bias_{word}_gradients_{dtype.name}"), [*given, partial])
    if channels:
        launcher.launch(each_column(f"bias_sums_{dtype.name}", chunks, channels), [partial, sums])
    return dx, sums


__all__ = ["ACTIVATIONS", "bias_add", "bias_gradients"]
