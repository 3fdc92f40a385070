"""Products of matrices, and sums of products along named axes."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, Dimension, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Droppable, NetworkLayer, Newer, Product
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge, merge_dims, prefix, ranked, ranked_at_least

# Products of matrices and of tensors along named axes.


@define(
    "MatMul(a, b: T) -> product: T",
    "transpose_a, transpose_b: bool = false; T: signedtype",
    "grad_a, grad_b: bool = false",
    Newer(("grad_a", "grad_b")),
    Product("a", "b"),
    Droppable(),
    NetworkLayer(),
)
@define(
    "SparseMatMul(a: Ta, b: Tb) -> product: float",
    "transpose_a, transpose_b, a_is_sparse, b_is_sparse: bool = false; Ta, Tb: {float, bfloat16} = float",
    Product("a", "b"),
)
def mat_mul(c: ShapeContext) -> Shapes:
    """(M, K), (K, N) -> (M, N), each transposed if its attribute says so."""
    a, b = dims_of(ranked(c, 0, 2), 2), dims_of(ranked(c, 1, 2), 2)
    rows, inner_a = (a[1], a[0]) if c.attrs["transpose_a"] else (a[0], a[1])
    inner_b, columns = (b[1], b[0]) if c.attrs["transpose_b"] else (b[0], b[1])
    _check_inner(inner_a, inner_b, c)
    return [TensorShape([rows, columns])]


def _check_inner(a: Dimension, b: Dimension, c: ShapeContext) -> None:
    if a is not None and b is not None and a != b:
        raise InvalidArgumentError(
            f"Dimensions must be equal, but are {a} and {b}: the inner ones of {c.input(0)} and {c.input(1)}"
        )


@define(
    "BatchMatMul(x, y: T) -> output: T",
    "T: signedtype; adj_x, adj_y: bool = false",
    "grad_x, grad_y: bool = false",
    Newer(("grad_x", "grad_y")),
    Product("x", "y"),
    Droppable(),
    NetworkLayer(),
)
def batch_mat_mul(c: ShapeContext) -> Shapes:
    """(..., M, K), (..., K, N) -> (..., M, N), with equal leading dimensions."""
    a, b = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if a.dims is None or b.dims is None:
        return [UNKNOWN_SHAPE]
    return [_batched(c, a, b, prefix(a, -2).merge_with(prefix(b, -2)))]


def _batched(c: ShapeContext, a: TensorShape, b: TensorShape, batch: TensorShape) -> TensorShape:
    rows, inner_a = (a[-1], a[-2]) if c.attrs["adj_x"] else (a[-2], a[-1])
    inner_b, columns = (b[-1], b[-2]) if c.attrs["adj_y"] else (b[-2], b[-1])
    _check_inner(inner_a, inner_b, c)
    return batch.concatenate(TensorShape([rows, columns]))


@define(
    "BatchMatMulV2(x, y: T) -> output: T",
    "T: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}",
    "adj_x, adj_y, grad_x, grad_y: bool = false",
    Newer(("grad_x", "grad_y")),
    Product("x", "y"),
    Droppable(),
    NetworkLayer(),
)
@define(
    "BatchMatMulV3(x: Ta, y: Tb) -> output: Tout",
    "Ta, Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
    "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}",
    "adj_x, adj_y, grad_x, grad_y: bool = false",
    Droppable(),
)
def batch_mat_mul_broadcast(c: ShapeContext) -> Shapes:
    """(..., M, K), (..., K, N) -> (..., M, N), leading dimensions broadcast."""
    a, b = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if a.dims is None or b.dims is None:
        return [UNKNOWN_SHAPE]
    return [_batched(c, a, b, broadcast_shapes(prefix(a, -2), prefix(b, -2)))]


@define("Cross(a, b: T) -> product: T", "T: realnumbertype")
def cross(c: ShapeContext) -> Shapes:
    ranked_at_least(c, 0, 1)
    ranked_at_least(c, 1, 1)
    shape = merge(c, (0, 1))
    if shape.dims is not None:
        merge_dims(shape.dims[-1], 3, "The last dimension and 3")
    return [shape]


# Sums of products along named axes.


@define("Einsum(inputs: N * T) -> output: T", "equation: string; N: int >= 1; T: type")
def einsum(c: ShapeContext) -> Shapes:
    """The output's letters, each with the size that it has in the inputs."""
    equation = c.attrs["equation"].decode("latin-1")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != c.num_inputs:
        raise InvalidArgumentError(f"equation {equation!r} does not fit {c.num_inputs} inputs")
    sizes: dict[str, list[Dimension]] = {}
    ellipsis = SCALAR
    for index, term in enumerate(terms):
        shape = c.input(index)
        letters = term.replace("...", "")
        if shape.dims is None:
            ellipsis = UNKNOWN_SHAPE if "..." in term else ellipsis
            for letter in letters:
                sizes.setdefault(letter, []).append(None)
            continue
        extra = len(shape.dims) - len(letters)
        if extra < 0 or (extra and "..." not in term):
            raise InvalidArgumentError(f"input {index} of shape {shape} does not fit {term!r}")
        start = term.find("...")
        named = shape.dims
        if start >= 0:
            named = shape.dims[:start] + shape.dims[start + extra :]
            ellipsis = broadcast_shapes(ellipsis, TensorShape(shape.dims[start : start + extra]))
        for letter, size in zip(letters, named, strict=True):
            sizes.setdefault(letter, []).append(size)
    known = {letter: _one_size(several) for letter, several in sizes.items()}
    before, dots, after = right.partition("...")
    if dots and ellipsis.dims is None:
        return [UNKNOWN_SHAPE]
    middle = ellipsis.dims if dots and ellipsis.dims is not None else ()
    # A letter of no input has no size: the kernel leaves it out, too.
    return [
        TensorShape(
            [*(known[x] for x in before if x in known), *middle, *(known[x] for x in after if x in known)]
        )
    ]


def _one_size(sizes: Sequence[Dimension]) -> Dimension:
    """The one size of a letter."""
    known = {size for size in sizes if size is not None}
    if len(known) > 1:
        raise InvalidArgumentError(f"one letter of the equation has several sizes: {sorted(known)}")
    return known.pop() if known else None


@define(
    "MaskedMatmul(a, b: float, mask_indices: int64, transpose_a, transpose_b: bool) -> prod_values: float",
)
def masked_matmul(c: ShapeContext) -> Shapes:
    """(M, K), (K, N), places (n, 2) in their product -> (n)"""
    ranked(c, 0, 2)
    ranked(c, 1, 2)
    count, pair = dims_of(ranked(c, 2, 2), 2)
    merge_dims(pair, 2, "The numbers of a place")
    return [TensorShape([count])]
