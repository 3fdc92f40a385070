"""Products of matrices, and sums of products along named axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.matrices import product
from flowengine.kernels.common.ufuncs import NARROW, float_kernel, shape_text, widened
from flowengine.kernels.registry import kernel

# Products of matrices, single and in batches, through BLAS where there is one for the type.
#
# Half and bfloat16 go through float32: NumPy has no fast product of them, and TensorFlow rounds once too.

#: Multiplications and additions a microsecond of one core, roughly: 25e9 a second.
_PRODUCTS_A_MICROSECOND = 25_000.0


def _matmul_cost(a: Array, b: Array) -> float:
    width = b.shape[-1] if b.ndim else 1
    return float(a.size * width / _PRODUCTS_A_MICROSECOND)


@kernel("MatMul", types={"T": NARROW}, fresh=True, heavy=_matmul_cost)
@widened
def mat_mul_narrow(xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    return mat_mul(xp, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@kernel("MatMul", fresh=True, heavy=_matmul_cost)
def mat_mul(xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply (M, K) by (K, N), each read transposed on demand; integers wrap; returns (M, N).

    InvalidArgumentError where one is no matrix or the inner dimensions differ.
    """
    if a.ndim != 2 or b.ndim != 2:
        which, value = (0, a) if a.ndim != 2 else (1, b)
        raise InvalidArgumentError(f"In[{which}] is not a matrix. Instead it has shape {shape_text(value)}")
    try:
        return xp.dot(a.T if transpose_a else a, b.T if transpose_b else b)
    except ValueError:
        raise InvalidArgumentError(
            f"Matrix size-incompatible: In[0]: {shape_text(a)}, In[1]: {shape_text(b)} "
            f"(transpose_a={transpose_a}, transpose_b={transpose_b})"
        ) from None


@kernel("SparseMatMul", fresh=True, heavy=_matmul_cost)
def sparse_mat_mul(xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    """MatMul of float32 or bfloat16 in any mixture; returns float32. Zeros are not exploited."""
    return mat_mul(
        xp,
        a.astype(np.float32, copy=False),
        b.astype(np.float32, copy=False),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )


def _batch_cost(x: Array, y: Array) -> float:
    inner = max(y.shape[-2] if y.ndim > 1 else 1, 1)
    batch = max(y.size // max(inner * y.shape[-1], 1), 1) if y.ndim > 1 else 1
    return x.size * (y.size / batch / inner) / _PRODUCTS_A_MICROSECOND


def _adjoint(xp: Any, x: Array) -> Any:
    x = x.swapaxes(-1, -2)
    return xp.conjugate(x) if x.dtype.kind == "c" else x


@float_kernel("BatchMatMul", fresh=True, heavy=_batch_cost)
def batch_mat_mul(xp: Any, x: Array, y: Array, *, adj_x: bool, adj_y: bool) -> Any:
    """Multiply (..., M, K) by (..., K, N) with equal leading dimensions, either side adjoint on demand."""
    if x.shape[:-2] != y.shape[:-2]:
        raise InvalidArgumentError(
            f"In[0] and In[1] must have the same leading dimensions: {shape_text(x)} vs. {shape_text(y)}"
        )
    return batch_mat_mul_v2(xp, x, y, adj_x=adj_x, adj_y=adj_y)


@float_kernel("BatchMatMulV2", fresh=True, heavy=_batch_cost)
def batch_mat_mul_v2(xp: Any, x: Array, y: Array, *, adj_x: bool, adj_y: bool) -> Any:
    """Multiply (..., M, K) by (..., K, N), leading dimensions broadcast, either side adjoint on demand.

    InvalidArgumentError for less than two dimensions, different inner dimensions, or leading ones that
    do not broadcast.
    """
    if (
        not (adj_x or adj_y)
        and x.ndim == y.ndim > 1
        and x.shape[-1] == y.shape[-2]
        and x.shape[:-2] == y.shape[:-2]
        and x.size
    ):
        return xp.matmul(x, y)
    for index, value in enumerate((x, y)):
        if value.ndim < 2:
            raise InvalidArgumentError(f"In[{index}] ndims must be >= 2: {value.ndim}")
    left = _adjoint(xp, x) if adj_x else x
    right = _adjoint(xp, y) if adj_y else y
    if left.shape[-1] != right.shape[-2]:
        raise InvalidArgumentError(
            f"In[0] mismatch In[1] shape: {left.shape[-1]} vs. {right.shape[-2]}: {shape_text(x)} "
            f"{shape_text(y)} {int(adj_x)} {int(adj_y)}"
        )
    try:
        return product(xp, left, right)
    except ValueError:
        raise InvalidArgumentError(
            f"In[0] and In[1] must have compatible batch dimensions: {shape_text(x)} vs. {shape_text(y)}"
        ) from None


@kernel("BatchMatMulV3", fresh=True, heavy=_batch_cost)
def batch_mat_mul_v3(xp: Any, x: Array, y: Array, *, adj_x: bool, adj_y: bool, Tout: DType) -> Any:
    """BatchMatMulV2 of operands of two types; half precision is multiplied in float32."""
    result = Tout.as_numpy_dtype
    wide = np.dtype(np.float32) if Tout.is_floating and result.itemsize == 2 else result
    wide_result = batch_mat_mul_v2(
        xp, x.astype(wide, copy=False), y.astype(wide, copy=False), adj_x=adj_x, adj_y=adj_y
    )
    return wide_result.astype(result, copy=False)


@kernel("Cross", fresh=True)
def cross(xp: Any, a: Array, b: Array) -> Any:
    """The vector product along the last axis, of 3; InvalidArgumentError for other shapes."""
    if a.shape != b.shape:
        raise InvalidArgumentError(f"Both inputs must be of same shape: {shape_text(a)} vs. {shape_text(b)}")
    if a.ndim < 1:
        raise InvalidArgumentError(f"Input must be at least 1D: {shape_text(a)}")
    if a.shape[-1] != 3:
        raise InvalidArgumentError(f"Cross-products are only defined for 3-element vectors: {shape_text(a)}")
    result = xp.empty_like(a)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        result[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return result


# Sums of products along named axes, as transposed matrices that are multiplied.
#
# Of two inputs, an axis is of the batch where both inputs and the output have it, summed where both
# inputs have
# it and the output has not, free where one input has it and the output too. What one input alone has is
# summed
# before. The product of (batch, free, summed) and (batch, summed, free) is BLAS's.

#: The name of an axis: its letter, or the place, from the last one backwards, of one that dots stand for.
Label: TypeAlias = str | int

_DOTS: Final = "..."
_NARROW: Final = frozenset(d.as_numpy_dtype for d in NARROW)
#: Multiplications and additions a microsecond of one core, roughly.


def _cost(inputs: Sequence[Array]) -> float:
    if len(inputs) < 2:
        return inputs[0].size / 1000
    # Where half of the axes of each are summed, and an upper bound for most others.
    return float(math.prod(x.size for x in inputs) ** 0.75 / _PRODUCTS_A_MICROSECOND)


@functools.lru_cache(maxsize=256)
def parsed(equation: bytes) -> tuple[list[str], str]:
    """The inputs' labels and the output's; InvalidArgumentError for anything but one arrow."""
    text = equation.decode("latin-1")
    left, *others = text.split("->")
    if len(others) != 1:
        raise InvalidArgumentError(f"Expecting exactly one '->' in einsum equation: {text}")
    terms = left.split(",")
    if len(terms) > 2:
        raise InvalidArgumentError(
            f"Expecting 1 or 2 input subscripts in equation '{text}' but got: {len(terms)}"
        )
    return terms, others[0]


@kernel(
    "Einsum",
    types={"T": (*NARROW, "float32", "float64", "int32", "int64", "complex64", "complex128")},
    fresh=True,
    heavy=_cost,
)
def einsum(xp: Any, inputs: Sequence[Array], *, equation: bytes) -> Any:
    """The sum of products that the equation tells, such as `ij,jk->ik`, of one input or two.

    A label may stand twice: in an input it picks the diagonal, in the output it makes one. Dots stand for
    any axes, which broadcast. InvalidArgumentError for what does not fit the inputs.
    """
    terms, right = parsed(equation)
    if len(terms) != len(inputs):
        raise InvalidArgumentError(
            f"Expecting {len(inputs)} input subscripts in equation '{equation.decode('latin-1')}' but got: "
            f"{len(terms)}"
        )
    labels = [_labels(term, x, index) for index, (term, x) in enumerate(zip(terms, inputs, strict=True))]
    output = _output_labels(right, labels)
    _check_sizes(inputs, labels)
    dtype = inputs[0].dtype
    wide = [x.astype(np.float32) for x in inputs] if dtype in _NARROW else inputs
    wanted = frozenset(output)
    others = [frozenset(each) for each in reversed(labels)] if len(labels) == 2 else [frozenset()]
    parts = [
        _reduced(xp, x, each, wanted | other) for x, each, other in zip(wide, labels, others, strict=True)
    ]
    result, found = parts[0] if len(parts) == 1 else _product(xp, parts[0], parts[1], wanted)
    distinct = list(dict.fromkeys(output))
    result = result.transpose([found.index(label) for label in distinct])
    if len(distinct) < len(output):
        result = _spread(xp, result, distinct, output)
    elif len(parts) == 1:
        result = result.copy()
    return result.astype(dtype, copy=False)


def _labels(term: str, x: Array, index: int) -> list[Label]:
    """A label for each axis of an input."""
    before, dots, after = term.partition(_DOTS)
    named = len(before) + len(after)
    if x.ndim < named or (not dots and x.ndim > named):
        least = "at least rank" if dots else "rank"
        raise InvalidArgumentError(f"Expected input {index} to have {least} {named} but got: {x.ndim}")
    return [*before, *range(named - x.ndim, 0), *after]


def _output_labels(right: str, inputs: Sequence[Sequence[Label]]) -> list[Label]:
    dotted = sorted({label for labels in inputs for label in labels if isinstance(label, int)})
    before, dots, after = right.partition(_DOTS)
    if dotted and not dots:
        raise InvalidArgumentError(
            f"Output contains {len(dotted)} broadcasting dimension(s) but no ellipsis (...) was found in the "
            "output subscripts."
        )
    known = {label for labels in inputs for label in labels}
    # A label of no input has no size.
    return [label for label in (*before, *dotted, *after) if label in known]


def _check_sizes(inputs: Sequence[Array], labels: Sequence[Sequence[Label]]) -> None:
    """Each label has one size; those of dots may be 1 beside another."""
    sizes: dict[Label, int] = {}
    for x, each in zip(inputs, labels, strict=True):
        for axis, (label, size) in enumerate(zip(each, x.shape, strict=True)):
            known = sizes.setdefault(label, size)
            if known == size:
                continue
            if isinstance(label, int) and 1 in (known, size):
                sizes[label] = max(known, size) if 0 not in (known, size) else 0
                continue
            raise InvalidArgumentError(
                f"Expected dimension {known} at axis {axis} of the input shaped {brackets(x.shape)} but got "
                f"dimension {size}"
            )


def _reduced(xp: Any, x: Array, labels: list[Label], kept: frozenset[Label]) -> tuple[Any, list[Label]]:
    """The input with each label once, and those alone that are kept."""
    labels = list(labels)
    value: Any = x
    for label in [each for each in dict.fromkeys(labels) if labels.count(each) > 1]:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            value = value.diagonal(axis1=first, axis2=second)
            labels = [each for i, each in enumerate(labels) if i not in (first, second)] + [label]
    to_sum = tuple(i for i, label in enumerate(labels) if label not in kept)
    if to_sum:
        value = value.sum(axis=to_sum, dtype=value.dtype)
    return value, [label for label in labels if label in kept]


def _product(
    xp: Any, left: tuple[Any, list[Label]], right: tuple[Any, list[Label]], wanted: frozenset[Label]
) -> tuple[Any, list[Label]]:
    """The product of two inputs, and the labels of its axes."""
    (x, x_labels), (y, y_labels) = left, right
    both = [label for label in x_labels if label in y_labels]
    batch = [label for label in both if label in wanted]
    summed = [label for label in both if label not in wanted]
    x_free = [label for label in x_labels if label not in both]
    y_free = [label for label in y_labels if label not in both]
    x = x.transpose([x_labels.index(label) for label in (*batch, *x_free, *summed)])
    y = y.transpose([y_labels.index(label) for label in (*batch, *summed, *y_free)])
    count, inside = len(batch), len(summed)
    x_sizes, y_sizes = x.shape[count : x.ndim - inside], y.shape[count + inside :]
    inner = math.prod(y.shape[count : count + inside])
    result = product(
        xp,
        x.reshape((*x.shape[:count], math.prod(x_sizes), inner)),
        y.reshape((*y.shape[:count], inner, math.prod(y_sizes))),
    )
    return result.reshape((*result.shape[:count], *x_sizes, *y_sizes)), [*batch, *x_free, *y_free]


def _spread(xp: Any, x: Any, labels: Sequence[Label], output: Sequence[Label]) -> Any:
    """Zeros but for the diagonals of labels that the output has several times."""
    sizes = dict(zip(labels, x.shape, strict=True))
    letters = {label: chr(ord("a") + i) for i, label in enumerate(labels)}
    result = xp.zeros([sizes[label] for label in output], x.dtype)
    repeated = "".join(letters[label] for label in output)
    xp.einsum(f"{repeated}->{''.join(letters[label] for label in labels)}", result)[...] = x
    return result


@kernel("MaskedMatmul", fresh=True, host=("transpose_a", "transpose_b"))
def masked_matmul(
    xp: Any, a: Array, b: Array, mask_indices: Array, transpose_a: Any, transpose_b: Any
) -> Any:
    """The elements of the product of (M, K) and (K, N) at places (n, 2), row and column each: (n,)."""
    for what, flag in (("transpose_a", transpose_a), ("transpose_b", transpose_b)):
        if getattr(flag, "ndim", 0):
            raise InvalidArgumentError(f"{what} must be a scalar, not {shape_text(flag)}")
    if a.ndim != 2 or b.ndim != 2:
        raise InvalidArgumentError(f"a and b must be matrices, not {shape_text(a)} and {shape_text(b)}")
    if mask_indices.ndim != 2 or mask_indices.shape[1] != 2:
        raise InvalidArgumentError(f"mask_indices must be (n, 2), not {shape_text(mask_indices)}")
    left, right = a.T if transpose_a else a, b if transpose_b else b.T
    if left.shape[1] != right.shape[1]:
        raise InvalidArgumentError(
            f"the inner dimensions of a and b differ: {left.shape[1]} and {right.shape[1]}"
        )
    rows, columns = mask_indices[:, 0], mask_indices[:, 1]
    _check_places(rows, left.shape[0], "row")
    _check_places(columns, right.shape[0], "column")
    return (left[rows] * right[columns]).sum(axis=-1)


def _check_places(places: Array, size: int, what: str) -> None:
    refuse(
        ((places < 0) | (places >= size)).any(),
        lambda: InvalidArgumentError(f"mask_indices has a {what} index out of bounds [0, {size})"),
    )
