"""Batches of matrices without elements: their number takes no time, and what comes of them has its shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.kernels.linalg import decompositions, products
from flowengine.kernels.linalg import decompositions as functions
from flowengine.kernels.linalg.products import einsum

#: More than anybody could count.
_MANY = 2**40

_KERNELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Cholesky": (decompositions.cholesky, {}),
    "SelfAdjointEig": (decompositions.self_adjoint_eig, {}),
    "SelfAdjointEigV2": (decompositions.self_adjoint_eig_v2, {"compute_v": True}),
    "values alone": (decompositions.self_adjoint_eig_v2, {"compute_v": False}),
    "Eig": (decompositions.eig, {"compute_v": True, "Tout": dtypes.complex128}),
    "complex values alone": (decompositions.eig, {"compute_v": False, "Tout": dtypes.complex128}),
    "Svd": (decompositions.svd, {"compute_uv": True, "full_matrices": False}),
    "singular values": (decompositions.svd, {"compute_uv": False, "full_matrices": False}),
    "Qr": (decompositions.qr, {"full_matrices": False}),
    "Lu": (decompositions.lu, {"output_idx_type": dtypes.int32}),
    "MatrixInverse": (functions.matrix_inverse, {"adjoint": True}),
}


def _tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


@pytest.mark.parametrize("name", sorted(_KERNELS))
def test_no_end_of_empty_matrices(name: str) -> None:
    function, attrs = _KERNELS[name]
    one = _tuple(function(np, np.zeros((0, 0)), **attrs))
    many = _tuple(function(np, np.zeros((2, _MANY, 0, 0)), **attrs))
    for single, batch in zip(one, many, strict=True):
        # Vectors that nobody wants are a scalar.
        assert batch.shape == ((2, _MANY, *single.shape) if single.ndim else ())
        assert batch.dtype == single.dtype


@pytest.mark.parametrize("outer", [(), (1,), (3,), (2, 3), (0,), (3, 0)])
def test_what_comes_of_empty_matrices_is_given_for_each(outer: tuple[int, ...]) -> None:
    x = np.zeros((*outer, 0, 0))
    assert np.array_equal(functions.matrix_determinant(np, x), np.ones(outer))
    sign, logarithm = functions.log_matrix_determinant(np, x)
    assert np.array_equal(sign, np.ones(outer))
    assert np.array_equal(logarithm, np.zeros(outer))
    q, r = decompositions.qr(np, np.zeros((*outer, 2, 0)), full_matrices=True)
    assert np.array_equal(q, np.broadcast_to(np.eye(2), (*outer, 2, 2)))
    assert r.shape == (*outer, 2, 0)
    q[...] = 0  # its own, of each matrix


@pytest.mark.parametrize("adjoint", [False, True])
def test_no_end_of_empty_products(adjoint: bool) -> None:
    x, y = np.zeros((_MANY, 0, 0), np.float32), np.zeros((_MANY, 0, 3), np.float32)
    product = products.batch_mat_mul_v2(np, x, y, adj_x=adjoint, adj_y=False)
    assert (product.shape, product.dtype) == ((_MANY, 0, 3), np.float32)
    spread = products.batch_mat_mul_v2(np, x[:1], y, adj_x=adjoint, adj_y=False)
    assert spread.shape == (_MANY, 0, 3)


def test_products_over_nothing_are_zeros() -> None:
    x, y = np.zeros((2, 1, 3, 0), np.int32), np.zeros((5, 0, 4), np.int32)
    product = products.batch_mat_mul_v2(np, x, y, adj_x=False, adj_y=False)
    expected = np.matmul(x, y)
    assert product.dtype == expected.dtype
    assert np.array_equal(product, expected)


@pytest.mark.parametrize(
    ("equation", "left", "right", "expected"),
    [
        (b"bij,bjk->bik", (_MANY, 0, 0), (_MANY, 0, 0), (_MANY, 0, 0)),
        (b"bij,bjk->bik", (_MANY, 0, 3), (_MANY, 3, 0), (_MANY, 0, 0)),
        (b"bhi,bhj->bij", (_MANY, 2, 0), (_MANY, 2, 0), (_MANY, 0, 0)),
        (b"...ij,jk->...ik", (2, _MANY, 2, 0), (0, 0), (2, _MANY, 2, 0)),
        (b"bij,bjk->bik", (5, 2, 0), (5, 0, 3), (5, 2, 3)),
    ],
)
def test_no_end_of_empty_sums(equation: bytes, left: Any, right: Any, expected: Any) -> None:
    result = einsum(np, [np.zeros(left), np.zeros(right)], equation=equation)
    assert result.shape == expected
    assert not result.any()


async def test_determinants_of_more_matrices_than_there_is_room_for() -> None:
    g = fe.Graph()
    x = g.placeholder("float64", None, name="x")
    g.ops.MatrixDeterminant(x, name="one")
    g.ops.Eig(x, Tout="complex128", name="none")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=1_000_000)) as session:
        many = np.zeros((_MANY, 0, 0))
        with pytest.raises(ResourceExhaustedError, match="memory_limit_bytes"):
            await session.run("one:0", {"x:0": many})
        assert (await session.run("none:0", {"x:0": many})).shape == (_MANY, 0)


@pytest.mark.parametrize("name", sorted(_KERNELS))
@pytest.mark.parametrize("shape", [(0, _MANY), (_MANY, 0)])
def test_a_side_that_no_library_can_count_is_refused(name: str, shape: tuple[int, int]) -> None:
    function, attrs = _KERNELS[name]
    with pytest.raises(InvalidArgumentError, match=r"more than 2147483647 rows or columns|must be square"):
        function(np, np.zeros(shape), **attrs)


async def test_the_squares_beside_a_matrix_without_elements_are_asked_for() -> None:
    g = fe.Graph()
    x = g.placeholder("float64", None, name="x")
    g.ops.Svd(x, compute_uv=True, full_matrices=True, name="svd")
    g.ops.Qr(x, full_matrices=True, name="qr")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=1_000_000)) as session:
        for fetch, value in (("svd:1", np.zeros((0, 100_000))), ("qr:0", np.zeros((100_000, 0)))):
            with pytest.raises(ResourceExhaustedError, match="memory_limit_bytes"):
                await session.run(fetch, {"x:0": value})
