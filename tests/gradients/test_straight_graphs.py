"""Graphs of straight code, made at random, beside finite differences: first and second derivatives.

Values stay between about -3 and 3, away from poles; no op has a kink or a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from tests.gradients.differences import Derivatives

#: An op on one tensor: constructors, the tensor, its shape -> a tensor.
Move = Callable[[Any, fe.Tensor, tuple[int, ...]], fe.Tensor]

_SMOOTH: Final = ("Tanh", "Sigmoid", "Sin", "Cos", "Erf", "Atan", "Softplus", "Asinh", "Softsign")


def _shape(x: fe.Tensor) -> tuple[int, ...]:
    known = x.shape.as_tuple()
    assert known is not None
    return known


def _of_one(name: str) -> Move:
    def move(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
        result: fe.Tensor = getattr(ops, name)(x)
        return result

    return move


def _exponential(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Exp(ops.Mul(x, 0.3))
    return result


def _logarithm(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Log1p(ops.Square(x))
    return result


def _softmax(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Softmax(x) if shape else ops.Sigmoid(x)
    return result


def _turned(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Transpose(x, np.arange(len(shape), dtype=np.int32)[::-1])
    return result


def _flat(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Reshape(x, [-1])
    return result


def _mean(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Mean(x, [-1] if shape else np.zeros(0, np.int32), keep_dims=True)
    return result


def _sum(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Mul(ops.Sum(x, np.arange(len(shape), dtype=np.int32)[:1]), 0.5)
    return result


def _part(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    if not shape:
        return x
    result: fe.Tensor = ops.StridedSlice(x, [0], [max(shape[0] - 1, 1)], [1])
    return result


def _backwards(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.ReverseV2(x, np.arange(len(shape), dtype=np.int32)[:1])
    return result


def _rows_again(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    if not shape:
        return x
    result: fe.Tensor = ops.GatherV2(x, [0, shape[0] - 1, 0], 0)
    return result


def _padded(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    if not shape:
        return x
    result: fe.Tensor = ops.Pad(x, [[0, 0]] * (len(shape) - 1) + [[1, 0]])
    return result


def _doubled(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.ConcatV2([x, ops.Mul(x, x)], 0) if shape else ops.Pack([x, ops.Square(x)])
    return result


def _running(ops: Any, x: fe.Tensor, shape: tuple[int, ...]) -> fe.Tensor:
    result: fe.Tensor = ops.Tanh(ops.Cumsum(x, -1)) if shape else x
    return result


_MOVES: Final[tuple[Move, ...]] = (
    *map(_of_one, _SMOOTH),
    *(_exponential, _logarithm, _softmax, _turned, _flat, _mean, _sum, _part, _backwards, _rows_again),
    *(_padded, _doubled, _running),
)


def _joined(ops: Any, name: str, x: fe.Tensor, y: fe.Tensor) -> fe.Tensor:
    """Two tensors as one: broadcast where their shapes allow it, else by the sums of both."""
    try:
        np.broadcast_shapes(_shape(x), _shape(y))
    except ValueError:
        x, y = (ops.Mean(each, np.arange(len(_shape(each)), dtype=np.int32)) for each in (x, y))
    if name == "RealDiv":
        y = ops.AddV2(ops.Square(y), 1.5)
    joined = getattr(ops, name)(x, y)
    # Products of products grow, and differences lose their digits.
    result: fe.Tensor = ops.Tanh(joined) if name in ("Mul", "SquaredDifference") else joined
    return result


_JOINS: Final = ("AddV2", "Sub", "Mul", "RealDiv", "SquaredDifference")


def _product(ops: Any, x: fe.Tensor, y: fe.Tensor) -> fe.Tensor:
    """The product of two tensors as matrices of one row length, kept small."""
    left, right = (ops.Reshape(each, [-1, _shape(each)[-1] if _shape(each) else 1]) for each in (x, y))
    size = math.gcd(_shape(left)[1], _shape(right)[1])
    left, right = (ops.Reshape(each, [-1, size]) for each in (left, right))
    result: fe.Tensor = ops.Tanh(ops.MatMul(left, right, transpose_b=True))
    return result


#: (the move, or how to join; which tensors, counted back from the newest)
Step = tuple[int, int, int]
_STEPS: Final = st.lists(
    st.tuples(st.integers(0, len(_MOVES) + len(_JOINS)), st.integers(0, 3), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)
_SIZES: Final = st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=3)


def _program(steps: Sequence[Step]) -> Callable[[Any, Sequence[fe.Tensor]], list[fe.Tensor]]:
    def build(ops: Any, inputs: Sequence[fe.Tensor]) -> list[fe.Tensor]:
        made = list(inputs)
        for which, first, second in steps:
            x, y = (made[-1 - place % len(made)] for place in (first, second))
            if which < len(_MOVES):
                made.append(_MOVES[which](ops, x, _shape(x)))
            elif which < len(_MOVES) + len(_JOINS):
                made.append(_joined(ops, _JOINS[which - len(_MOVES)], x, y))
            else:
                made.append(_product(ops, x, y))
        whole = [ops.Sum(each, np.arange(len(_shape(each)), dtype=np.int32)) for each in inputs]
        # Every input counts, and every tensor of the program is seen by the last one or by this sum.
        seen = [ops.Mean(each, np.arange(len(_shape(each)), dtype=np.int32)) for each in made]
        return [made[-1], ops.Tanh(ops.Mul(ops.AddN([*whole, *seen]), 0.1))]

    return build


@given(steps=_STEPS, sizes=_SIZES, seed=st.integers(0, 2**16))
def test_random_graphs_agree_with_finite_differences(
    steps: list[Step], sizes: list[tuple[int, ...]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    arrays = [random.uniform(-1.5, 1.5, size) for size in sizes]
    Derivatives(_program(steps), arrays, seed=seed).check()
