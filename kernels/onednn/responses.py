"""Local response normalisation across channels, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.ir.graph import Node
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_WORKSPACE,
    Description,
    attributes,
    four_axes,
    image,
)
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import (
    DIFF_DST,
    DIFF_SRC,
    DST,
    SRC,
    WORKSPACE,
    PrimitiveProgram,
    dense_array,
    one_step,
)
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves

_TRAINING: Final = 64
_INFERENCE: Final = 96
_ACROSS_CHANNELS: Final = 0xAFF

#: Elements of a response norm that one core does in a microsecond, and the channels that it computes at
#: once: with others it is slow.
_RESPONSES: Final = 1_500.0
_LANES: Final = 16


class ResponseNorm:
    """x / (bias + alpha * sum of the squares of neighbouring channels) ** beta."""

    def __init__(
        self,
        x: tuple[int, ...],
        radius: int,
        bias: float,
        alpha: float,
        beta: float,
        *,
        alone: bool,
    ) -> None:
        library = required()
        count, sizes, channels, _ = four_axes(x, b"NHWC")
        if channels % _LANES:
            raise LibraryError("channels that do not fill registers")
        images = image(library, count, sizes, channels, False)
        attrs = attributes(library)
        self.shape = x
        what = _response_norm(images.value, _INFERENCE, radius, bias, alpha, beta, attrs.value)
        self._program = one_step(what, alone, {SRC: images, DST: images})

    def __call__(self, x: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(out))
        return out


def _response_norm(
    images: int, prop: int, radius: int, bias: float, alpha: float, beta: float, attrs: int
) -> Description:
    library = required()
    size = 2 * radius + 1
    return Description(
        library,
        "lrn_forward",
        library.engine,
        prop,
        _ACROSS_CHANNELS,
        images,
        images,
        size,
        alpha * size,
        beta,
        bias,
        attrs,
    )


class ResponseNormGradient:
    """The gradient of `ResponseNorm`'s input from the gradient and the input."""

    def __init__(
        self,
        x: tuple[int, ...],
        radius: int,
        bias: float,
        alpha: float,
        beta: float,
        *,
        alone: bool,
    ) -> None:
        library = required()
        count, sizes, channels, _ = four_axes(x, b"NHWC")
        if channels % _LANES:
            raise LibraryError("channels that do not fill registers")
        images = image(library, count, sizes, channels, False)
        attrs = attributes(library)
        ahead = _response_norm(images.value, _TRAINING, radius, bias, alpha, beta, attrs.value)
        size = 2 * radius + 1
        what = Description(
            library,
            "lrn_backward",
            library.engine,
            _ACROSS_CHANNELS,
            images.value,
            images.value,
            images.value,
            size,
            alpha * size,
            beta,
            bias,
            ahead.value,
            attrs.value,
        )
        self.shape = x
        self._program = program = PrimitiveProgram(library, alone)
        source = program.outside(images)
        arguments = {SRC: source, DIFF_DST: program.outside(images), DIFF_SRC: program.outside(images)}
        kept = ahead.memory(QUERY_WORKSPACE)
        if library.size_of(kept.value):
            between = program.inside(kept)
            program.step(ahead, {SRC: source, DST: program.inside(images), WORKSPACE: between})
            arguments[WORKSPACE] = between
        program.step(what, arguments)

    def __call__(self, gradient: Array, x: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(gradient), address(out))
        return out


def _response_work(x: tuple[int, ...], radius: int, *_: Any) -> float:
    return math.prod(x) / _RESPONSES


response_norm: Final = prepared(ResponseNorm, _response_work)
response_norm_gradient: Final = prepared(ResponseNormGradient, _response_work)


def _response_attrs(node: Node) -> tuple[int, float, float, float]:
    attrs = node.attrs
    return int(attrs["depth_radius"]), float(attrs["bias"]), float(attrs["alpha"]), float(attrs["beta"])


@serves("LRN", types=OF_FLOAT32)
def lrn(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    parameters = _response_attrs(node)

    def compute(x: Array) -> Any:
        layer = response_norm(x.shape, *parameters)
        return layer(dense_array(x)) if layer is not None else otherwise(x)

    return compute


@serves("LRNGrad", types=OF_FLOAT32)
def lrn_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    parameters = _response_attrs(node)

    def compute(gradient: Array, x: Array, y: Array) -> Any:
        layer = response_norm_gradient(x.shape, *parameters)
        if layer is None or not gradient.shape == x.shape == y.shape:
            return otherwise(gradient, x, y)
        return layer(dense_array(gradient), dense_array(x))

    return compute
