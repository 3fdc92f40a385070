"""Derivatives of sparse tensors by their values and by the dense operands beside them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.gradients.differences import check, numbers

_TYPES: Final = pytest.mark.parametrize("dtype", ["float64", "complex128"])
_SHAPES: Final = pytest.mark.parametrize("shapes", ["known", "unknown"])
_INDICES: Final = np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 3]])
_OTHERS: Final = np.array([[0, 0], [0, 1], [1, 1], [2, 3]])
_SHAPE: Final = np.array([3, 4])


def _some(*shape: int, dtype: str, seed: int = 1) -> Any:
    return numbers(np.random.default_rng((seed, *shape)), shape, dtype)


@pytest.mark.parametrize("least", [0.0, 0.6])
@_SHAPES
@_TYPES
def test_sums(dtype: str, shapes: str, least: float) -> None:
    def build(ops: Any, v: Any) -> Any:
        return ops.SparseAdd(*v, np.float64(least)).sum_values

    values, others = _some(5, dtype=dtype), _some(4, dtype=dtype)
    check(build, [_INDICES, values, _SHAPE, _OTHERS, others, _SHAPE], shapes=shapes)
    check(build, [_INDICES, values, _SHAPE, np.zeros((0, 2), int), others[:0], _SHAPE], shapes=shapes)


@_SHAPES
def test_the_larger_and_the_smaller(shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        return [ops.SparseSparseMaximum(*v).output_values, ops.SparseSparseMinimum(*v).output_values]

    values, others = _some(5, dtype="float64"), _some(4, dtype="float64")
    check(build, [_INDICES, values, _SHAPE, _OTHERS, others, _SHAPE], shapes=shapes)


@pytest.mark.parametrize("size", [(3, 4), (1, 4), (3, 1), (4,), (1,), ()])
@_SHAPES
@_TYPES
def test_a_dense_operand_is_broadcast(dtype: str, shapes: str, size: tuple[int, ...]) -> None:
    def build(ops: Any, v: Any) -> Any:
        return [ops.SparseDenseCwiseAdd(*v), ops.SparseDenseCwiseMul(*v), ops.SparseDenseCwiseDiv(*v)]

    dense = _some(*size, dtype=dtype, seed=3)
    check(build, [_INDICES, _some(5, dtype=dtype), _SHAPE, dense + np.sign(dense.real)], shapes=shapes)


@_SHAPES
def test_softmax(shapes: str) -> None:
    check(lambda ops, v: ops.SparseSoftmax(*v), [_INDICES, _some(5, dtype="float64"), _SHAPE], shapes=shapes)


@_SHAPES
@_TYPES
def test_entries_go_back_where_they_came_from(dtype: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        return [
            ops.SparseReorder(*v).output_values,
            *ops.SparseSplit(np.int64(1), *v, num_split=2)[1],
            *ops.SparseSplit(np.int64(0), *v, num_split=1)[1],
            ops.SparseSlice(*v, np.array([0, 1]), np.array([3, 3])).output_values,
        ]

    check(build, [_INDICES, _some(5, dtype=dtype), _SHAPE], shapes=shapes)
    check(
        lambda ops, v: ops.SparseReorder(*v).output_values,
        [_INDICES[[3, 1, 0, 4, 2]], _some(5, dtype=dtype), _SHAPE],
        shapes=shapes,
    )


@_SHAPES
@_TYPES
def test_empty_rows_are_filled(dtype: str, shapes: str) -> None:
    check(
        lambda ops, v: ops.SparseFillEmptyRows(*v).output_values,
        [_INDICES[[0, 1, 3, 4]], _some(4, dtype=dtype), np.array([5, 4]), _some(dtype=dtype)],
        shapes=shapes,
    )


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@_SHAPES
@_TYPES
def test_products_with_dense_matrices(dtype: str, shapes: str, turn_a: bool, turn_b: bool) -> None:
    size = (3 if turn_a else 4, 2)

    def build(ops: Any, v: Any) -> Any:
        product = ops.SparseTensorDenseMatMul(*v[:4], adjoint_a=turn_a, adjoint_b=turn_b)
        return [product, ops.SparseTensorDenseAdd(*v[:3], v[4])]

    dense = _some(*(size[::-1] if turn_b else size), dtype=dtype)
    check(build, [_INDICES, _some(5, dtype=dtype), _SHAPE, dense, _some(3, 4, dtype=dtype)], shapes=shapes)


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [-1], []])
@_SHAPES
def test_reductions(shapes: str, axes: list[int], keep_dims: bool) -> None:
    for dtype, names in (("float64", ("Sum", "Max")), ("complex128", ("Sum",))):

        def build(ops: Any, v: Any, names: Any = names) -> Any:
            made = []
            for name in names:
                dense = getattr(ops, f"SparseReduce{name}")
                sparse = getattr(ops, f"SparseReduce{name}Sparse")
                made.append(dense(*v, np.array(axes, np.int32), keep_dims=keep_dims))
                made.append(sparse(*v, np.array(axes, np.int32), keep_dims=keep_dims).output_values)
            return made

        check(build, [_INDICES, _some(5, dtype=dtype), _SHAPE], shapes=shapes)
