"""Tensors that cross at half the size, with less precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.control.sendrecv import narrow, widen


@given(st.lists(st.floats(width=32), max_size=20))
def test_the_upper_half_crosses(values: list[float]) -> None:
    array = np.array(values, np.float32)
    with np.errstate(all="ignore"):
        back = widen(narrow(array))
        assert back.dtype == np.float32
        np.testing.assert_array_equal(np.isnan(back), np.isnan(array))
        known = ~np.isnan(array)
        cut = array.view(np.uint32) & np.uint32(0xFFFF0000)
        np.testing.assert_array_equal(back.view(np.uint32)[known], cut[known])


def test_rank_0_and_views_cross() -> None:
    assert widen(narrow(np.float32(1.5))) == np.float32(1.5)
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(widen(narrow(transposed)), transposed)


def written() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [1000], name="x")
    with g.device("/cpu:0"):
        a = g.ops.Mul(x, g.constant(3.0), name="layer/a")
        whole = g.ops.Cast(x, DstT="int32", name="layer/whole")
    with g.device("/cpu:1"):
        g.ops.Neg(a, name="y")
        g.ops.Neg(whole, name="z")
    return g


@pytest.mark.parametrize(
    ("scopes", "saved"), [((), 0), (("other",), 0), (("layer",), 2000), (("layer/a",), 2000), (True, 2000)]
)
async def test_scopes_choose_and_what_is_saved_is_told(scopes: Any, saved: int) -> None:
    config = fe.Config(device_count={"CPU": 2}, compress_transfers=scopes)
    value = np.linspace(0, 1, 1000, dtype=np.float32)
    async with fe.Session(written(), config=config) as session:
        for _ in range(9):
            await session.run(["y:0", "z:0"], {"x:0": value})
        metadata = fe.RunMetadata()
        y, z = await session.run(["y:0", "z:0"], {"x:0": value}, run_metadata=metadata)
        assert metadata.bytes_saved == saved
        crossed = {edge.split(" ")[0]: size for edge, (_, size) in metadata.transfers.items()}
        assert crossed == {"layer/a:0": 4000 - saved, "layer/whole:0": 4000}
        np.testing.assert_allclose(y, value * -3, rtol=2**-7 if saved else 0)
        np.testing.assert_array_equal(z, -value.astype(np.int32))


def test_a_single_scope_must_stand_in_a_list() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="compress_transfers"):
        fe.Config(compress_transfers="layer").resolved()
