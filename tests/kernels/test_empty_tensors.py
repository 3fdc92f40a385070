"""Tensors of no elements whose outer dimensions are beyond counting: kernels do not go through those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.common.indices import along

#: More than anybody could count.
_MANY = 2**40


@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [
        ((_MANY, 3, 0), (2,), 1),
        ((2, _MANY, 3, 0), (2, 2), 2),
        ((_MANY, 0, 3), (2,), 2),
        ((_MANY, 0), (0,), 1),
    ],
)
def test_taking_from_nothing(shape: tuple[int, ...], places: tuple[int, ...], axis: int) -> None:
    taken = along(np, np.zeros(shape, np.int16), np.zeros(places, np.int64), axis)
    small = tuple(min(size, 4) for size in shape)
    expected = np.zeros(small, np.int16).take(np.zeros(places, np.int64), axis)
    assert tuple(min(size, 4) for size in taken.shape) == expected.shape
    assert taken.dtype == expected.dtype


def test_taking_a_place_that_is_not_there() -> None:
    with pytest.raises(IndexError):
        along(np, np.zeros((3, 0)), np.zeros(2, np.int64), 1)


_IMAGES = (_MANY, 3, 2, 0)

_BUILT: dict[str, Any] = {
    "LowerBound": lambda ops, x: ops.LowerBound(x([_MANY, 0]), x([_MANY, 0])),
    "UpperBound": lambda ops, x: ops.UpperBound(x([_MANY, 0]), x([_MANY, 0])),
    "MirrorPad": lambda ops, x: ops.MirrorPad(x(_IMAGES), [[0, 0], [1, 1], [1, 0], [0, 0]], mode="SYMMETRIC"),
    "ResizeArea": lambda ops, x: ops.ResizeArea(x(_IMAGES), [5, 4]),
    "ResizeBicubicGrad": lambda ops, x: ops.ResizeBicubicGrad(x(_IMAGES), x((_MANY, 5, 4, 0))),
    "ResizeBilinearGrad": lambda ops, x: ops.ResizeBilinearGrad(x(_IMAGES), x((_MANY, 5, 4, 0))),
    "ResizeBicubic": lambda ops, x: ops.ResizeBicubic(x(_IMAGES), [5, 4]),
    "ResizeBilinear": lambda ops, x: ops.ResizeBilinear(x(_IMAGES), [5, 4]),
    "ResizeNearestNeighbor": lambda ops, x: ops.ResizeNearestNeighbor(x(_IMAGES), [5, 4]),
    "QuantizedResizeBilinear": lambda ops, x: ops.QuantizedResizeBilinear(x(_IMAGES), [5, 4], 0.0, 1.0)[0],
}


@pytest.mark.parametrize("name", sorted(_BUILT))
async def test_rows_and_images_of_nothing(name: str) -> None:
    g = fe.Graph()
    fed: dict[Any, Any] = {}

    def nothing(shape: Any) -> Any:
        x = g.placeholder("float32", None)
        fed[x] = np.zeros(shape, np.float32)
        return x

    y = _BUILT[name](g.ops, nothing)
    async with fe.Session(g) as session:
        value = await session.run(y, fed)
    assert value.shape[0] == _MANY
    assert value.size == 0


async def test_norms_of_no_pixels_have_no_mean() -> None:
    g = fe.Graph()
    x = g.placeholder("quint8", None)
    y = g.ops.QuantizedInstanceNorm(x, 0.0, 1.0)
    async with fe.Session(g) as session:
        for shape in ((2, 0, 3, 1), (2, 3, 3, 0)):
            # NumPy would warn of the mean, which is an error in tests.
            value = (await session.run(y, {x: np.zeros(shape, x.dtype.as_numpy_dtype)}))[0]
            assert value.shape == shape
