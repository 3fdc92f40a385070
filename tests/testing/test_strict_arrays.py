"""The stand-in for CuPy's arrays refuses what they refuse, and notes who looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flowengine.testing.strict_arrays import StrictArray, StrictModule

XP = StrictModule()
NEAR = np.arange(6.0)


def far(value: Any = NEAR) -> Any:
    return XP.moved_in(np.asarray(value))


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: np.asarray(x),
        lambda x: np.add(x, 1),
        lambda x: np.concatenate([x, x]),
        lambda x: x + NEAR,
        lambda x: NEAR + x,
        lambda x: XP.add(x, NEAR),
        lambda x: XP.add(x, [1.0] * 6),
        lambda x: XP.where(x > 1, x, NEAR),
        lambda x: XP.max(NEAR),
        lambda x: XP.max([x, x]),
        lambda x: x[np.array([1, 2])],
        lambda x: x.__setitem__(slice(None), NEAR),
        lambda x: XP.repeat(x, far([1] * 6).astype(np.int64)),
        lambda x: XP.add(x, x, np.empty(6)),
    ],
)
def test_arrays_of_the_host_are_not_taken(mixed: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        mixed(far())


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or"])
def test_reductions_that_cupy_lacks(name: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(XP, name).reduce(far())
    assert XP.moved_out(XP.add.reduce(far())) == 15


@pytest.mark.parametrize("name", ["errstate", "nditer", "ndenumerate", "insert", "block", "spacing"])
def test_names_that_cupy_lacks(name: str) -> None:
    assert hasattr(np, name)
    with pytest.raises(AttributeError):
        getattr(XP, name)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: XP.max(x, initial=0),
        lambda x: x.max(0, None, False, 0),
        lambda x: x.sum(where=x > 1),
        lambda x: x.take(x.astype(np.int64), 0, None, "clip"),
        lambda x: XP.bincount(x.astype(np.int64), None, 3, 1),
    ],
)
def test_parameters_that_cupy_lacks(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="takes"):
        call(far())


@pytest.mark.parametrize("dtype", [object, "S3", ml_dtypes.bfloat16])
def test_element_types_that_a_device_does_not_hold(dtype: Any) -> None:
    with pytest.raises(TypeError, match="not supported on a device"):
        XP.zeros(3, np.dtype(dtype))
    with pytest.raises(TypeError, match="not supported on a device"):
        far().astype(np.dtype(dtype))


@pytest.mark.parametrize(
    "look",
    [
        lambda x: bool(x[0]),
        lambda x: int(x[0]),
        lambda x: float(x[0]),
        lambda x: complex(x[0]),
        lambda x: x[0].item(),
        lambda x: x.tolist(),
        lambda x: x.tobytes(),
        lambda x: x.get(),
        lambda x: f"{x}",
        lambda x: x[x > 1],
        lambda x: XP.nonzero(x),
        lambda x: XP.where(x > 1),
        lambda x: XP.unique(x),
        lambda x: x.compress(x > 1),
    ],
)
def test_a_look_at_a_value_is_noted_with_its_line(look: Callable[[Any], Any]) -> None:
    x = far()
    XP.reads.clear()
    look(x)
    assert len(XP.reads) == 1
    assert "test_strict_arrays.py" in XP.reads[0]


def test_what_a_kernel_may_do_is_no_look() -> None:
    x = far()
    XP.reads.clear()
    y = XP.where(x > 1, x, np.float64(0)) * 2
    y[y > 4] = 0
    y[XP.arange(2)] = x[:2]
    total = sum(part for part in y.reshape(2, 3)) + XP.asarray(NEAR[:3])
    assert isinstance(total, StrictArray)
    assert (len(y), y.size, y.dtype, y.flags.c_contiguous) == (6, 6, np.float64, True)
    assert XP.moved_out(total).tolist() == [0.0, 2.0, 6.0]
    assert XP.reads == []


def test_an_index_beyond_its_axis_wraps_around() -> None:
    x = far()
    assert XP.moved_out(x[XP.asarray(np.array([7, -1]))]).tolist() == [1.0, 5.0]
    assert XP.moved_out(x.take(XP.asarray(np.array([7, -1])))).tolist() == [1.0, 5.0]
    with pytest.raises(IndexError):
        x[7]


def test_rank_0_stays_an_array() -> None:
    assert isinstance(far().sum(), StrictArray)
    assert isinstance(XP.add(np.float32(1), 2), StrictArray)
    assert far().sum().shape == ()
