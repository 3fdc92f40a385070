"""The kit for kernels finds what it is there to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.kernels.registry import KernelRegistry
from flowengine.testing.kits import check_kernel


def test_good_kernels_pass() -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    check_kernel("AddV2", x, np.float32(1), expected=x + 1)
    check_kernel("ConcatV2", [x, x], np.int32(0), expected=np.concatenate([x, x]))
    (total,) = check_kernel("Sum", x, np.array([0], np.int32), keep_dims=True)
    assert total.tolist() == [[4, 6]]
    check_kernel("Unpack", x, num=2, expected=(x[0], x[1]))
    check_kernel("Shape", x, expected=np.array([2, 2], np.int32))


def registry_with(function: Any) -> KernelRegistry:
    registry = KernelRegistry()
    registry.kernel("Neg")(function)
    return registry


def writes_its_input(x: Any) -> Any:
    x.flags.writeable = True
    return np.negative(x, out=x)


def gives_another_type(x: Any) -> Any:
    return np.asarray(-x, np.float64)


def gives_another_shape(x: Any) -> Any:
    return np.atleast_2d(-x).copy()


def minds_scalars(x: Any) -> Any:
    return -x if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize(
    ("function", "value", "complaint"),
    [
        (writes_its_input, np.array([1, 2], np.float32), "WRITEABLE|after the call"),
        (gives_another_type, np.array([1, 2], np.float32), "signature says float32"),
        (gives_another_shape, np.array([1, 2], np.float32), "shape function says"),
        (minds_scalars, np.float32(3), "from scalars"),
    ],
)
def test_bad_kernels_are_found(function: Any, value: Any, complaint: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=complaint):
        check_kernel("Neg", value, registry=registry_with(function))


def test_a_wrong_expectation_is_found() -> None:
    with pytest.raises(AssertionError):
        check_kernel("Neg", np.float32(1), expected=np.float32(1))
