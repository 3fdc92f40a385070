"""Work over large tensors in one pass: the gradients of Relu and of biases, and steps of gradient descent.

NumPy needs two passes for most, with memory between them; a primitive needs one, on every core. Every value
is that of the NumPy kernel, to the last bit; sums for a bias are taken in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.buffers import empty
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import FixedMemory, Like, Piece, Source
from flowengine.kernels.common.windows import is_channels_first
from flowengine.kernels.onednn.library import address, library
from flowengine.kernels.onednn.objects import Description, attributes, dense, strided
from flowengine.kernels.onednn.programs.column_sums import BiasGradient
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import (
    DST,
    SCALE_OF,
    SRC,
    SRC_1,
    PrimitiveProgram,
    one_step,
    operand_after,
)
from flowengine.kernels.onednn.programs.thin_products import BLOCK, gives_large, large_result
from flowengine.kernels.onednn.serving import FLOAT32, serves

_ADD: Final = 0x1FFF0
_MULTIPLY: Final = 0x1FFF1
_LESS: Final = 0x1FFF9
_ONE: Final = np.ones(1, np.float32)
_MINUS_ONE: Final = -_ONE
_ZERO: Final = np.zeros(1, np.float32)

#: Elements from which a call pays.
_LARGE: Final = 1 << 15
#: Elements that one core does in a microsecond, in cache.
_ELEMENTS: Final = 5_000.0

_float32: Final = np.dtype(np.float32)


def _work(size: int) -> float:
    return size / _ELEMENTS


class Gate:
    """gradients * (features > 0), for so many elements.

    program   takes the features, the two `numbers`, the gradients, and where the result shall lie
    """

    numbers: Final = (_ZERO, _MINUS_ONE)

    def __init__(self, size: int, *, alone: bool) -> None:
        found = required()
        elements, number = dense(found, (size,)), dense(found, (1,))
        # -x < 0 instead of x > 0, which the library finds true of a NaN.
        attrs = attributes(found, [("binary", _MULTIPLY, elements)], scaled=[SRC])
        what = Description(
            *(found, "binary", found.engine, _LESS),
            *(elements.value, number.value, elements.value, attrs.value),
        )
        self.program = one_step(
            what,
            alone,
            {
                SRC: elements,
                SRC_1: number,
                SCALE_OF | SRC: number,
                operand_after(0): elements,
                DST: elements,
            },
        )

    def call(
        self, gradients: Source, features: Source, out: Source
    ) -> tuple[PrimitiveProgram, tuple[Source, ...]]:
        """The call of a piece, see `pieces`."""
        return self.program, (features, *map(staying, self.numbers), gradients, out)

    def __call__(self, gradients: Array, features: Array, out: Array) -> None:
        self.program(*map(address, (features, *self.numbers, gradients, out)))


class ContiguousCopy:
    """A view of this shape with these strides, in elements, made C-contiguous."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], *, alone: bool) -> None:
        found = required()
        self._program = program = PrimitiveProgram(found, alone)
        view, whole = strided(found, shape, strides), dense(found, shape)
        program.reorder(program.outside(view), program.outside(whole), attributes(found))

    def call(self, view: Source, out: Source) -> tuple[PrimitiveProgram, tuple[Source, ...]]:
        """The call of a piece, see `pieces`."""
        return self._program, (view, out)


def staying(array: Array) -> FixedMemory:
    """The memory of an array that is never replaced, see `pieces`."""
    return FixedMemory(address(array), array)


class Sum:
    """x a + y b in x, for so many elements."""

    def __init__(self, size: int, *, alone: bool) -> None:
        found = required()
        elements, number = dense(found, (size,)), dense(found, (1,))
        attrs = attributes(found, scaled=[SRC, SRC_1])
        what = Description(
            *(found, "binary", found.engine, _ADD),
            *(elements.value, elements.value, elements.value, attrs.value),
        )
        self._program = one_step(
            what,
            alone,
            {
                SRC: elements,
                SRC_1: elements,
                SCALE_OF | SRC: number,
                SCALE_OF | SRC_1: number,
                DST: elements,
            },
        )

    def __call__(self, x: Array, a: Array, y: Array, b: Array) -> None:
        given = (x, y, a, b, x)
        self._program(*map(address, given))


gate: Final = prepared(Gate, _work)
gathering: Final = prepared(ContiguousCopy, lambda shape, strides: _work(math.prod(shape)))
sum_in_place: Final = prepared(Sum, _work)


def _is_dense(array: Any, shape: tuple[int, ...]) -> bool:
    return (
        type(array) is np.ndarray
        and array.shape == shape
        and array.dtype == _float32
        and array.flags.c_contiguous
    )


class _ReluGradient:
    def __init__(self, otherwise: Callable[..., Any]) -> None:
        self._otherwise = otherwise

    def _layer(self, gradients: Array, features: Array, least: int) -> Gate | None:
        shape = features.shape
        if features.size < least or gradients.shape != shape or not _is_dense(features, shape):
            return None
        return gate(features.size)

    def __call__(self, gradients: Array, features: Array) -> Any:
        layer = self._layer(gradients, features, _LARGE)
        if layer is None:
            return self._otherwise(gradients, features)
        out: Array = empty(features.shape, _float32)
        if not gradients.flags.c_contiguous:
            np.copyto(out, gradients)  # a part of the gradient of a concatenation
            gradients = out
        layer(gradients, features, out)
        return out

    def piece(self, gradients: Array, features: Array) -> Piece | None:
        # Joined with others it pays for few, too.
        layer = self._layer(gradients, features, 1)
        if layer is None or type(gradients) is not np.ndarray:
            return None
        wants, results = (Like.of(gradients), Like.of(features)), (Like.of(features),)
        if gradients.flags.c_contiguous:
            return Piece((layer.call(0, 1, ~0),), wants, results, JointProgram)
        strides = gradients.strides
        if any(stride <= 0 or stride % _float32.itemsize for stride in strides):
            return None
        gathered = gathering(gradients.shape, tuple(stride // _float32.itemsize for stride in strides))
        if gathered is None:
            return None
        return Piece((gathered.call(0, ~0), layer.call(~0, 1, ~0)), wants, results, JointProgram)


@serves("ReluGrad", types=FLOAT32)
def relu_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return _ReluGradient(otherwise)


@serves("BiasAddGrad", types=FLOAT32)
def bias_add_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return BiasGradient(not is_channels_first(node.attrs["data_format"]), otherwise)


def _number(value: Any) -> Array | None:
    """A scalar input as the library reads it; None for what is none."""
    array = to_array(value)
    return array.reshape(1) if array.size == 1 and not array.ndim and array.dtype == _float32 else None


def _is_large(gradient: Any) -> bool:
    return getattr(gradient, "size", 0) >= _LARGE


def _arrays(variables: tuple[Any, ...], gradient: Any) -> list[Array] | None:
    """Return the arrays of large variables, to write to, if a gradient of their shape has come; else None."""
    shape = getattr(gradient, "shape", ())
    if not _is_dense(gradient, shape) or library() is None:
        return None
    if any(variable.dtype.as_numpy_dtype != _float32 for variable in variables):
        return None
    arrays = [variable.mutable() for variable in variables]
    return arrays if all(_is_dense(array, shape) for array in arrays) else None


class Descent:
    """The kernel of a step of gradient descent, which may compute the product that it goes along as well."""

    def __init__(self, gives_variable: bool, otherwise: Callable[..., Any]) -> None:
        self._gives_variable = gives_variable
        self._otherwise = otherwise

    def __call__(self, variable: Any, alpha: Any, delta: Any) -> Any:
        rate = _number(alpha) if _is_large(delta) else None
        arrays = None if rate is None else _arrays((variable,), delta)
        layer = None if arrays is None else sum_in_place(delta.size)
        if rate is None or arrays is None or layer is None:
            return self._otherwise(variable, alpha, delta)
        layer(arrays[0], _ONE, delta, -rate)
        return variable if self._gives_variable else None

    def by_product(self, variable: Any, alpha: Any, a: Any, b: Any, left: bool, right: bool) -> bool:
        """See `descents.DescentByProduct`: each block of the product changes the variable while in cache."""
        rate = _number(alpha)
        if rate is None or variable.dtype.as_numpy_dtype != _float32 or library() is None:
            return False
        if not all(type(m) is np.ndarray and m.ndim == 2 and m.dtype == _float32 for m in (a, b)):
            return False
        a, b = a.T if left else a, b.T if right else b
        if a.shape[1] != b.shape[0] or not gives_large(len(a), *b.shape):
            return False
        array = variable.mutable()
        if not _is_dense(array, (len(a), b.shape[1])):
            return False
        step = -rate
        layers = {
            size: sum_in_place(size)
            for size in (BLOCK * array.shape[1], len(a) % BLOCK * array.shape[1])
            if size
        }
        if None in layers.values():
            return False

        def change(rows: Array, delta: Array) -> None:
            layer = layers[rows.size]
            assert layer is not None
            layer(rows, _ONE, delta, step)

        return large_result(a, b, array, change)


@serves("ApplyGradientDescent", "ResourceApplyGradientDescent", types=FLOAT32)
def gradient_descent(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return Descent(bool(node.output_types), otherwise)


@serves("ApplyMomentum", "ResourceApplyMomentum", types=FLOAT32)
def momentum(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    gives_variable, nesterov = bool(node.output_types), bool(node.attrs["use_nesterov"])

    def compute(variable: Any, slot: Any, rate: Any, gradient: Any, share: Any) -> Any:
        if nesterov or not _is_large(gradient):
            return otherwise(variable, slot, rate, gradient, share)
        by, kept = _number(rate), _number(share)
        found = None if by is None or kept is None else _arrays((variable, slot), gradient)
        layer = None if found is None else sum_in_place(gradient.size)
        if by is None or kept is None or found is None or layer is None:
            return otherwise(variable, slot, rate, gradient, share)
        layer(found[1], kept, gradient, _ONE)
        layer(found[0], _ONE, found[1], -by)
        return variable if gives_variable else None

    return compute
