"""Fetched values: each has the type that its node declares, or raises an error; and is the caller's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.buffers import ALIGNED, aligned
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.runtime.planning.values import FetchSpec


@pytest.mark.parametrize("value", [np.zeros(4, np.uint8), np.array(1, np.uint8), np.uint8(1)])
def test_codes_of_another_type_are_told(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="'x:0' is to have dtype quint16, its value has uint8"):
        FetchSpec("x:0", dtypes.quint16).convert([value], 0)


@pytest.mark.parametrize("op", ["QuantizedRelu", "QuantizedRelu6", "QuantizedReluX"])
async def test_codes_are_not_given_as_another_type(op: str) -> None:
    g = fe.Graph()
    codes = g.placeholder("quint8", [4], name="codes")
    rest = [5.0] if op == "QuantizedReluX" else []
    getattr(g.ops, op)(codes, *rest, -1.0, 13.0, out_type="quint16", name="y")
    async with fe.Session(g) as session:
        with pytest.raises(OpError, match="out_type"):
            await session.run("y:0", {"codes:0": np.arange(4, dtype=np.uint8)})


@pytest.mark.parametrize("shape", [(70_000,), (300, 300), (40, 50, 60), (0, 7)])
def test_a_view_is_given_as_an_array_of_its_own(shape: tuple[int, ...]) -> None:
    whole = np.arange(2 * np.prod(shape), dtype=np.float32).reshape(*shape, 2)
    for view in (whole[..., 1], whole[..., 1].T):
        given = FetchSpec("x:0", dtypes.float32).convert([view], 0)
        np.testing.assert_array_equal(given, view)
        assert not np.shares_memory(given, whole)
        assert given.flags.c_contiguous


def test_memory_that_another_array_has_is_not_given_away() -> None:
    """The list holds the one array alone, and so do others its memory."""
    spec = FetchSpec("x:0", dtypes.uint8)
    values = [aligned((ALIGNED,), np.uint8)]
    address = values[0].ctypes.data
    assert spec.convert(values, 0).ctypes.data == address, "nobody else has it"
    memory: Any = values[0].base
    other = np.asarray(memoryview(memory))
    del memory
    other[:] = 1
    given = spec.convert(values, 0)
    assert not np.shares_memory(given, other)
