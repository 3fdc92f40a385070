"""Gradients of biases are the same to the last bit whatever computes them, and how many cores do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.common.pieces import Like
from flowengine.kernels.load import registry
from flowengine.kernels.onednn.library import library, search
from flowengine.kernels.onednn.programs.column_sums import BiasGradient, ColumnSums, block_of
from flowengine.kernels.onednn.programs.joint import JointProgram
from tests.effort import examples
from tests.kernels.onednn.processor import needs_products

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

FLOAT32 = np.dtype(np.float32)


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def kernel(**attrs: Any) -> Any:
    graph = fe.Graph()
    made = graph.ops.BiasAddGrad(graph.ops.Placeholder(dtype=np.float32), name="node", **attrs)
    node = graph[made.op.name]
    return registry("onednn").find(node).bind(node)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(1, 1 << 20))
def test_blocks_leave_no_rows_over(count: int) -> None:
    block = block_of(count)
    assert block <= 2048
    if block:
        assert count % block == 0
        assert count // block <= 2048


@pytest.mark.parametrize(
    ("count", "block"), [(1, 1), (2048, 2048), (6272, 1568), (25088, 1792), (22201, 149)]
)
def test_blocks_are_as_long_as_they_can_be(count: int, block: int) -> None:
    assert block_of(count) == block


shapes = st.one_of(
    st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.sampled_from([8, 32]), st.sampled_from([49, 196, 784]), st.sampled_from([16, 24, 100, 384])),
)


@settings(max_examples=examples(60), deadline=None)
@given(shapes, st.integers(0, 1000))
def test_any_shape_is_summed(shape: tuple[int, ...], seed: int) -> None:
    gradient = numbers(seed, *shape)
    got = kernel()(gradient)
    assert got.dtype == np.float32
    wanted = gradient.astype(np.float64).sum((0, 1))
    np.testing.assert_allclose(got, wanted, atol=1e-6 * shape[0] * shape[1] + 1e-5)


@needs_products
@pytest.mark.parametrize(
    "shape", [(8, 28, 28, 64), (8, 14, 14, 208), (3, 35, 35, 48), (50176, 64), (6272, 384)]
)
def test_no_bit_depends_on_how_many_threads_there_are(shape: tuple[int, ...]) -> None:
    found = library()
    assert found is not None
    rows = numbers(0, *shape).reshape(-1, shape[-1])
    before = found.threads()
    every = []
    try:
        for threads in (1, 2, 3, 8, 64):
            found.together(threads if threads > 1 else 0)
            if threads == 1:
                found.alone()
            every.append(ColumnSums(*rows.shape, alone=False)(rows))
            # As many as there are for one that was made for so many.
            found.together(before)
            every.append(ColumnSums(*rows.shape, alone=True)(rows))
    finally:
        found.together(before)
    for other in every[1:]:
        np.testing.assert_array_equal(other, every[0])


@needs_products
@pytest.mark.parametrize("shape", [(8, 7, 7, 48), (8, 28, 28, 64)])
def test_joined_it_gives_the_same_bits(shape: tuple[int, ...]) -> None:
    gradient = numbers(0, *shape)
    compute = BiasGradient(True, lambda given: pytest.fail("the library has not computed it"))
    piece = compute.piece(gradient)
    assert piece is not None
    assert piece.results == (Like(shape[-1:], FLOAT32),)
    known = [gradient, None]
    assert JointProgram([(piece, (0,), (1,))], {1}).run(known)
    np.testing.assert_array_equal(known[1], compute(gradient))


def test_what_is_no_number_stays_in_its_column() -> None:
    gradient = numbers(0, 4096, 24)
    gradient[3000, 5], gradient[10, 7], gradient[4095, 9], gradient[0, 9] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(all="ignore"):  # as steps call it
        got = kernel()(gradient)
    assert np.isnan(got[[5, 9]]).all()
    assert got[7] == np.inf
    assert np.isfinite(np.delete(got, [5, 7, 9])).all()


def test_what_the_library_does_not_take_is_summed_as_well() -> None:
    for attrs, shape, axes in [
        ({"data_format": "NCHW"}, (8, 24, 30, 30), (0, 2, 3)),
        ({}, (9001, 40), (0,)),
        ({}, (300, 2000), (0,)),
        ({}, (90000, 2), (0,)),
    ]:
        gradient = numbers(1, *shape)
        np.testing.assert_allclose(kernel(**attrs)(gradient), gradient.sum(axes, np.float64), atol=1e-2)
    strided = numbers(2, 2048, 64)[:, ::2]
    np.testing.assert_allclose(kernel()(strided), strided.sum(0, np.float64), atol=1e-3)
