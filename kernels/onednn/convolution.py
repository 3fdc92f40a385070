"""Conv2D and its two gradients: NHWC and NCHW, strides, dilations, any padding, groups.

Images stay in the layout of the graph; filters, which are small, are brought into the order that the
primitive prefers at each call, or once for filters that can never change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.onednn.filters import Packed
from flowengine.kernels.onednn.library import Library, LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_DIFF_DST,
    QUERY_DIFF_SRC,
    QUERY_DIFF_WEIGHTS,
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    Description,
    Handle,
    anyhow,
    attributes,
    dense,
    dims,
    image,
    strided,
)
from flowengine.kernels.onednn.products import SMALL, multiply
from flowengine.kernels.onednn.program import (
    BIAS,
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    DST,
    SRC,
    WEIGHTS,
    Program,
    dense_array,
    prepared,
    required,
)
from flowengine.kernels.onednn.serving import FLOAT32, serves
from flowengine.kernels.windows import Windows, explicit_pairs, is_channels_first, spatial, windows

_FORWARD: Final = 96
_FORWARD_TRAINING: Final = 64
_DIRECT: Final = 1

#: Multiplications and additions of one core in a microsecond; of depthwise ones, which are memory-bound.
_PRODUCTS: Final = 70_000.0
_DEPTHWISE_PRODUCTS: Final = 20_000.0


@dataclass(frozen=True, slots=True)
class Sliding:
    """The attributes of a convolution, as far as they do not depend on shapes."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: bytes
    explicit: tuple[int, ...]
    first: bool
    depthwise: bool = False

    @classmethod
    def of(cls, node: Node, depthwise: bool = False) -> Sliding:
        attrs = node.attrs
        return cls(
            attrs["strides"],
            attrs.get("dilations", (1, 1, 1, 1)),
            attrs["padding"],
            attrs.get("explicit_paddings", ()),
            is_channels_first(attrs.get("data_format", b"NHWC")),
            depthwise,
        )


#: Rows up to which a convolution that is a product of matrices is computed as one: to bring the filters
#: into order would take longer than to use them.
_FEW_ROWS: Final = 64


def product_sizes(
    sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...]
) -> tuple[int, int, int, tuple[int, ...]] | None:
    """(rows, depth, columns, output shape) of a convolution that only multiplies the input as it lies.

    That is one with windows of one element, or with one window that is as large as the input.
    """
    if sliding.first or sliding.depthwise or len(x) != 4 or len(w) != 4 or 0 in x or 0 in w:
        return None
    if x[3] != w[2] or sliding.padding == b"EXPLICIT":
        return None
    if w[:2] == (1, 1):
        if sliding.strides != (1, 1, 1, 1):
            return None
        return x[0] * x[1] * x[2], x[3], w[3], (*x[:3], w[3])
    if sliding.padding == b"VALID" and w[:2] == x[1:3] and sliding.dilations == (1, 1, 1, 1):
        return x[0], x[1] * x[2] * x[3], w[3], (x[0], 1, 1, w[3])
    return None


class _Product:
    """A convolution that is a product of few rows."""

    def __init__(
        self,
        found: Library,
        sizes: tuple[int, int, int],
        x: tuple[int, ...],
        w: tuple[int, ...],
        output: tuple[int, ...],
    ) -> None:
        self._library = found
        self._rows, self._depth, self._columns = sizes
        self.input, self.filters, self.output = x, w, output

    def forward(self, x: Array, w: Array) -> Array:
        out: Array = empty((self._rows, self._columns), np.float32)
        a, b = x.reshape(self._rows, self._depth), w.reshape(self._depth, self._columns)
        return multiply(self._library, a, b, out).reshape(self.output)

    def input_gradient(self, w: Array, gradient: Array) -> Array:
        out: Array = empty((self._rows, self._depth), np.float32)
        a, b = gradient.reshape(self._rows, self._columns), w.reshape(self._depth, self._columns)
        return multiply(self._library, a, b, out, False, True).reshape(self.input)

    def filter_gradient(self, x: Array, gradient: Array) -> Array:
        out: Array = empty((self._depth, self._columns), np.float32)
        a, b = x.reshape(self._rows, self._depth), gradient.reshape(self._rows, self._columns)
        return multiply(self._library, a, b, out, True, False).reshape(self.filters)


def _as_product(sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...]) -> _Product | None:
    """The convolution as a product of few rows, if it is one; LibraryError if NumPy's is as quick."""
    sizes = product_sizes(sliding, x, w)
    if sizes is None:
        return None
    rows, depth, columns, output = sizes
    if rows * depth * columns <= SMALL:
        raise LibraryError("a product that is too small")
    return _Product(required(), (rows, depth, columns), x, w, output) if rows <= _FEW_ROWS else None


class Layer:
    """The descriptors of a convolution of these shapes; LibraryError where oneDNN should not compute it.

    x, w      shapes of the input, in the layout of the graph, and of the filters (H, W, I, O)
    output    shape of the output in the layout of the graph
    """

    def __init__(self, sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...]) -> None:
        self.library = library = required()
        if len(x) != 4 or len(w) != 4 or 0 in x or 0 in w:
            raise LibraryError("not four axes with something in them")
        first = sliding.first
        count, channels = x[0], x[1] if first else x[3]
        sizes = spatial(x, first)
        self.geometry = geometry = _geometry(sliding, sizes, w[:2])
        if 0 in geometry.out:
            raise LibraryError("an empty output")
        high, wide, inward, outward = w
        if sliding.depthwise:
            if channels != inward:
                raise LibraryError("depths that differ")
            groups, outward = channels, inward * outward
            each = outward // groups
            # (group, output, input, H, W); the only input of a group has no stride of its own.
            shape: tuple[int, ...] = (groups, each, 1, high, wide)
            strides: tuple[int, ...] = (each, 1, 1, wide * outward, outward)
        elif channels == inward:
            shape, strides = (
                (outward, inward, high, wide),
                (1, outward, wide * inward * outward, inward * outward),
            )
        else:
            if channels % inward or outward % (channels // inward):
                raise LibraryError("depths that do not divide")
            groups = channels // inward
            each = outward // groups
            shape = (groups, each, inward, high, wide)
            strides = (each, 1, outward, wide * inward * outward, inward * outward)
        self.filters = strided(library, shape, strides)
        self.any_filters = anyhow(library, shape)
        self.filter_shape = w
        self.images = image(library, count, sizes, channels, first)
        self.results = image(library, count, geometry.out, outward, first)
        # NCHW is no layout to compute in: the primitive chooses one, and images are brought into it.
        self.any_images = anyhow(library, (count, channels, *sizes)) if first else self.images
        self.any_results = anyhow(library, (count, outward, *geometry.out)) if first else self.results
        self.input = x
        self.output = (count, outward, *geometry.out) if first else (count, *geometry.out, outward)
        self.slides = (
            dims(geometry.strides),
            dims([d - 1 for d in geometry.dilations]),
            dims(geometry.before),
            dims(geometry.after),
        )
        self.attributes = attributes(library)

    def forward(self, prop: int, bias: Handle | None = None, attrs: Handle | None = None) -> Description:
        library = self.library
        return Description(
            library,
            "convolution_forward",
            library.engine,
            prop,
            _DIRECT,
            self.any_images.value,
            self.any_filters.value,
            bias.value if bias is not None else None,
            self.any_results.value,
            *self.slides,
            (attrs or self.attributes).value,
        )


def _geometry(sliding: Sliding, sizes: tuple[int, ...], window: tuple[int, ...]) -> Windows:
    first = sliding.first
    for values in (sliding.strides, sliding.dilations):
        if len(values) != 4 or values[0] != 1 or values[1 if first else 3] != 1:
            raise LibraryError("a stride of batch or depth")
    if sliding.depthwise and spatial(sliding.strides, first)[0] != spatial(sliding.strides, first)[1]:
        raise LibraryError("unequal strides, which the op does not allow")
    pairs = explicit_pairs(sliding.explicit, first) if sliding.padding == b"EXPLICIT" else ()
    try:
        return windows(
            sizes,
            window,
            spatial(sliding.strides, first),
            spatial(sliding.dilations, first),
            sliding.padding,
            pairs,
        )
    except OpError as error:
        raise LibraryError("windows that do not fit") from error


def _given(program: Program, plain: Handle, wanted: Handle, attrs: Handle) -> int:
    """The memory to read of what the caller gives: that itself, or a copy that is brought into order."""
    outer = program.outside(plain)
    if program.library.equal(plain.value, wanted.value):
        return outer
    inner = program.inside(wanted)
    program.reorder(outer, inner, attrs)
    return inner


def _finish(
    program: Program,
    what: Description,
    arguments: dict[int, int],
    result: int,
    plain: Handle,
    produced: Handle,
    attrs: Handle,
) -> None:
    """The step itself, whose result is brought into the caller's order where it has another."""
    outer = program.outside(plain)
    if program.library.equal(plain.value, produced.value):
        program.step(what, {**arguments, result: outer})
        return
    inner = program.inside(produced)
    program.step(what, {**arguments, result: inner})
    program.reorder(inner, outer, attrs)


class Forward:
    """A convolution of these shapes, with a bias and an activation where they are asked for.

    activation   (number of the elementwise function, alpha, beta)
    """

    def __init__(
        self,
        sliding: Sliding,
        x: tuple[int, ...],
        w: tuple[int, ...],
        bias: bool,
        activation: tuple[int, float, float] | None,
        *,
        alone: bool,
    ) -> None:
        self._product = None if bias or activation else _as_product(sliding, x, w)
        self._packed: Packed | None = None
        if self._product is not None:
            return
        layer = Layer(sliding, x, w)
        library = layer.library
        vector = dense(library, (layer.output[1 if sliding.first else 3],)) if bias else None
        attrs = attributes(library, activation)
        what = layer.forward(_FORWARD, vector, attrs)
        self.shape = layer.output
        wanted = what.memory(QUERY_WEIGHTS)
        if not library.equal(wanted.value, layer.filters.value):
            self._packed = Packed(library, layer.filters, wanted, layer.attributes)
        self._program = self._run_of(Program(library, alone), layer, what, layer.filters, vector)
        self._packed_program = self._run_of(Program(library, alone), layer, what, wanted, vector)

    @staticmethod
    def _run_of(
        program: Program, layer: Layer, what: Description, given: Handle, vector: Handle | None
    ) -> Program:
        attrs = layer.attributes
        source = _given(program, layer.images, what.memory(QUERY_SRC), attrs)
        filters = _given(program, given, what.memory(QUERY_WEIGHTS), attrs)
        arguments = {SRC: source, WEIGHTS: filters}
        if vector is not None:
            arguments[BIAS] = program.outside(vector)
        _finish(program, what, arguments, DST, layer.results, what.memory(QUERY_DST), attrs)
        return program

    def kept(self) -> int:
        """How many constant filters are kept in the primitive's order."""
        return 0 if self._packed is None else len(self._packed)

    def __call__(self, x: Array, w: Array, *bias: Array) -> Array:
        if self._product is not None:
            return self._product.forward(x, w)
        out: Array = empty(self.shape, np.float32)
        packed = self._packed.find(w) if self._packed is not None else None
        if packed is None:
            self._program(address(x), address(w), *map(address, bias), address(out))
        else:
            self._packed_program(address(x), packed, *map(address, bias), address(out))
        return out


class InputGradient:
    """The gradient of a convolution's input."""

    def __init__(self, sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...], *, alone: bool) -> None:
        self._product = _as_product(sliding, x, w)
        if self._product is not None:
            self.expected = self._product.output
            return
        layer = Layer(sliding, x, w)
        library = layer.library
        hint = layer.forward(_FORWARD_TRAINING)
        what = Description(
            library,
            "convolution_backward_data",
            library.engine,
            _DIRECT,
            layer.any_images.value,
            layer.any_filters.value,
            layer.any_results.value,
            *layer.slides,
            hint.value,
            layer.attributes.value,
        )
        self.shape, self.expected = x, layer.output
        attrs = layer.attributes
        self._program = program = Program(library, alone)
        upstream = _given(program, layer.results, what.memory(QUERY_DIFF_DST), attrs)
        filters = _given(program, layer.filters, what.memory(QUERY_WEIGHTS), attrs)
        produced = what.memory(QUERY_DIFF_SRC)
        _finish(
            program, what, {DIFF_DST: upstream, WEIGHTS: filters}, DIFF_SRC, layer.images, produced, attrs
        )

    def __call__(self, w: Array, gradient: Array) -> Array:
        if self._product is not None:
            return self._product.input_gradient(w, gradient)
        out: Array = empty(self.shape, np.float32)
        self._program(address(gradient), address(w), address(out))
        return out


class FilterGradient:
    """The gradient of a convolution's filters."""

    def __init__(self, sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...], *, alone: bool) -> None:
        self._product = _as_product(sliding, x, w)
        if self._product is not None:
            self.expected = self._product.output
            return
        layer = Layer(sliding, x, w)
        library = layer.library
        hint = layer.forward(_FORWARD_TRAINING)
        what = Description(
            library,
            "convolution_backward_weights",
            library.engine,
            _DIRECT,
            layer.any_images.value,
            layer.any_filters.value,
            None,
            layer.any_results.value,
            *layer.slides,
            hint.value,
            layer.attributes.value,
        )
        self.shape, self.expected = w, layer.output
        attrs = layer.attributes
        self._program = program = Program(library, alone)
        source = _given(program, layer.images, what.memory(QUERY_SRC), attrs)
        upstream = _given(program, layer.results, what.memory(QUERY_DIFF_DST), attrs)
        produced = what.memory(QUERY_DIFF_WEIGHTS)
        _finish(
            program, what, {SRC: source, DIFF_DST: upstream}, DIFF_WEIGHTS, layer.filters, produced, attrs
        )

    def __call__(self, x: Array, gradient: Array) -> Array:
        if self._product is not None:
            return self._product.filter_gradient(x, gradient)
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(gradient), address(out))
        return out


def _work(sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...], *_: Any) -> float:
    pixels = math.prod(x) / max(1, math.prod(spatial(sliding.strides, sliding.first)))
    if sliding.depthwise:
        return pixels * math.prod(w[:2]) * w[-1] / _DEPTHWISE_PRODUCTS
    return pixels / max(x[1 if sliding.first else -1], 1) * math.prod(w) / _PRODUCTS


forward: Final = prepared(Forward, _work)
input_gradient: Final = prepared(InputGradient, _work)
filter_gradient: Final = prepared(FilterGradient, _work)


def _forward_cost(x: Array, filters: Array) -> float:
    pixels = x.size / max(x.shape[-1], 1) if x.ndim else 1
    return float(pixels * filters.size / _PRODUCTS)


def _filter_cost(x: Array, filter_sizes: Array, gradient: Array) -> float:
    window = float(np.prod(filter_sizes.reshape(-1)[:-1].astype(np.float64)))
    return gradient.size * window / _PRODUCTS


def _input_cost(input_sizes: Array, filters: Array, gradient: Array) -> float:
    width = max(filters.shape[-1], 1) if filters.ndim else 1
    return float(gradient.size * filters.size / width / _PRODUCTS)


@serves("Conv2D", types=FLOAT32, heavy=_forward_cost)
def conv2d(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    sliding = Sliding.of(node)

    def compute(x: Array, filters: Array) -> Any:
        layer = forward(sliding, x.shape, filters.shape, False, None)
        if layer is None:
            return otherwise(x, filters)
        return layer(dense_array(x), dense_array(filters))

    return compute


@serves("Conv2DBackpropInput", types=FLOAT32, heavy=_input_cost)
def conv2d_backprop_input(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return input_gradient_kernel(Sliding.of(node), otherwise)


def input_gradient_kernel(sliding: Sliding, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op that takes (sizes of the input, filters, gradient)."""

    def compute(input_sizes: Array, filters: Array, gradient: Array) -> Any:
        layer = input_gradient(sliding, tuple(input_sizes.tolist()), filters.shape)
        if layer is None or gradient.shape != layer.expected:
            return otherwise(input_sizes, filters, gradient)
        return layer(dense_array(filters), dense_array(gradient))

    return compute


@serves("Conv2DBackpropFilter", types=FLOAT32, heavy=_filter_cost)
def conv2d_backprop_filter(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return filter_gradient_kernel(Sliding.of(node), otherwise)


def filter_gradient_kernel(sliding: Sliding, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op that takes (input, sizes of the filters, gradient)."""

    def compute(x: Array, filter_sizes: Array, gradient: Array) -> Any:
        layer = filter_gradient(sliding, x.shape, tuple(filter_sizes.tolist()))
        if layer is None or gradient.shape != layer.expected:
            return otherwise(x, filter_sizes, gradient)
        return layer(dense_array(x), dense_array(gradient))

    return compute
