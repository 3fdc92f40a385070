"""A product with a constant matrix gives the bits that a copy of it which could change gives."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.load import registry
from flowengine.kernels.onednn.layers.filters import AlignedConstants
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.products import SMALL, multiply
from flowengine.kernels.onednn.programs.constant_products import ROWS_MAX, ConstantProduct, constant_product
from tests.effort import examples
from tests.kernels.onednn.processor import needs_products

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def constant(values: Any) -> Any:
    """The same numbers where no one can write: what a graph's constants are."""
    return np.frombuffer(values.tobytes(), values.dtype).reshape(values.shape)


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(rows: int, inner: int, columns: int) -> ConstantProduct:
    layer = constant_product(rows, inner, columns, False, False)
    assert layer is not None
    return layer


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, ROWS_MAX),
    st.integers(1, 300),
    st.integers(1, 300),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_no_bit_differs(rows: int, inner: int, columns: int, left: bool, right: bool, seed: int) -> None:
    a = numbers(seed, *((inner, rows) if left else (rows, inner)))
    b = numbers(seed + 1, *((columns, inner) if right else (inner, columns)))
    layer = constant_product(rows, inner, columns, left, right)
    if layer is None:
        return
    kept, got, wanted = (
        constant(b),
        np.empty((rows, columns), np.float32),
        np.empty((rows, columns), np.float32),
    )
    for _ in range(2):
        got.fill(np.nan)
        assert layer(a, kept, got)
        multiply(a, b, wanted, left, right)
        np.testing.assert_array_equal(got, wanted)


@needs_products
def test_what_may_change_is_left_alone() -> None:
    layer = product(4, 8, 16)
    a, b, out = numbers(0, 4, 8), numbers(1, 8, 16), np.zeros((4, 16), np.float32)
    assert not layer(a, b, out)
    shown = b.view()
    shown.flags.writeable = False
    assert not layer(a, shown, out)
    assert not out.any()


@needs_products
def test_a_constant_is_forgotten_with_its_graph() -> None:
    layer = product(4, 8, 24)
    before = len(layer.kept)
    b = constant(numbers(1, 8, 24))
    assert layer(numbers(0, 4, 8), b, np.empty((4, 24), np.float32))
    assert len(layer.kept) == before + 1
    del b
    gc.collect()
    assert len(layer.kept) == before


@needs_products
def test_the_kernel_of_a_node_uses_it() -> None:
    graph = fe.Graph()
    x, w = (
        graph.placeholder("float32", [10, 256], name="x"),
        graph.placeholder("float32", [256, 512], name="w"),
    )
    node = graph[graph.ops.MatMul(x, w, name="y").op.name]
    kernel = registry("onednn").find(node).bind(node)
    a, b = numbers(0, 10, 256), numbers(1, 256, 512)
    assert a.shape[0] * b.size > SMALL
    kept = constant(b)
    np.testing.assert_array_equal(kernel(a, kept), kernel(a, b))
    layer = product(10, 256, 512)
    before = len(layer.kept)
    assert layer(a, kept, np.empty((10, 512), np.float32))
    assert len(layer.kept) == before  # it was there already


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 4), st.integers(60, 200), st.integers(500, 560), st.integers(0, 99))
def test_small_products_take_an_aligned_copy(rows: int, inner: int, columns: int, seed: int) -> None:
    graph = fe.Graph()
    x, w = (graph.placeholder("float32", [None, None], name=name) for name in "xw")
    node = graph[graph.ops.MatMul(x, w, name="y").op.name]
    kernel = registry("onednn").find(node).bind(node)
    a, b = numbers(seed, rows, inner), numbers(seed + 1, inner, columns)
    kept = constant(b)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(a, kept), kernel(a, b))


def test_aligned_copies() -> None:
    copies = AlignedConstants()
    plain = numbers(0, 33, 7)
    assert copies.find(plain) is plain
    kept = constant(plain)
    copy = copies.find(kept)
    assert copy is not kept
    assert copies.find(kept) is copy
    assert copy.ctypes.data % 64 == 0
    assert np.array_equal(copy, plain)
    del kept, copy
    gc.collect()
    assert not len(copies)
