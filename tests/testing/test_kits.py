"""The kit for kernels finds what it is there to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry
from flowengine.testing import check_kernel


def test_good_kernels_pass() -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    check_kernel("AddV2", x, np.float32(1), expected=x + 1)
    check_kernel("ConcatV2", [x, x], np.int32(0), expected=np.concatenate([x, x]))
    (total,) = check_kernel("Sum", x, np.array([0], np.int32), keep_dims=True)
    assert total.tolist() == [[4, 6]]
    check_kernel("Unpack", x, num=2, expected=(x[0], x[1]))
    check_kernel("Shape", x, expected=np.array([2, 2], np.int32))


def registry_with(function: Any) -> KernelRegistry:
    kernels = KernelRegistry()
    kernels.kernel("Neg")(function)
    return kernels


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
    with pytest.raises(AssertionError, match=complaint):
        check_kernel("Neg", value, kernels=registry_with(function))


def halving(function: Any) -> dict[str, Any]:
    """An op of one's own, with two outputs where the kernel says so, as `check_kernel` takes it."""
    ops = fe.OpRegistry(parent=registry())
    ops.register(
        fe.OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}", shape=lambda context: [context.input(0)])
    )
    ops.register(fe.OpDef.parse("Halves(x: float) -> low: float, high: float"))
    ops.register(fe.OpDef.parse("Told(x: float)", "stateful"))
    kernels = fe.KernelRegistry(parent=load_all())
    for name in ("Halve", "Halves", "Told"):
        kernels.kernel(name)(function)
    return {"ops": ops, "kernels": kernels}


def test_an_op_of_ones_own_is_checked() -> None:
    own = halving(lambda x: x / 2)
    check_kernel("Halve", np.array([3.0]), expected=np.array([1.5]), **own)
    check_kernel("Halve", np.float32(3), expected=np.float32(1.5), **own)
    check_kernel("Neg", np.float32(3), expected=np.float32(-3), **own)
    check_kernel(
        "Halves",
        np.float32(3),
        expected=(np.float32(1), np.float32(2)),
        **halving(lambda x: (x / 3, x / 1.5)),
    )
    assert check_kernel("Told", np.float32(3), **halving(lambda x: None)) == ()


@pytest.mark.parametrize(
    ("op", "returned", "complaint"),
    [
        ("Halve", None, "returned a NoneType, the signature has 1 outputs: return the array"),
        ("Halve", (np.float32(1),), "returned a tuple of 1, the signature has 1 outputs"),
        ("Halves", np.float32(1), "the signature has 2 outputs: return a tuple of 2 arrays"),
        ("Halves", (np.float32(1),), "returned a tuple of 1, the signature has 2 outputs"),
        ("Told", np.float32(1), "the signature has 0 outputs: return None"),
    ],
)
def test_another_number_of_outputs_is_found(op: str, returned: Any, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_kernel(op, np.float32(3), **halving(lambda x: returned))


def test_what_cannot_be_checked_is_said() -> None:
    with pytest.raises(fe.errors.NotFoundError, match="Halve"):
        check_kernel("Halve", np.float32(3))
    with pytest.raises(fe.errors.InvalidArgumentError, match="takes 1 inputs"):
        check_kernel("Halve", np.float32(3), np.float32(3), **halving(lambda x: x))


def test_a_wrong_expectation_is_found() -> None:
    with pytest.raises(AssertionError):
        check_kernel("Neg", np.float32(1), expected=np.float32(1))


def clamp_in_place(x: Any) -> Any:
    x[x > 1] = 1
    return x


@pytest.mark.parametrize(
    ("function", "value", "complaint"),
    [
        (
            clamp_in_place,
            [0.5, 2],
            r"raised ValueError: .*read-only; .* float32\[2\]. It writes into",
        ),
        (
            lambda x: x.no_such_method(),
            [1],
            r"raised AttributeError: .*; .* float32\[1\]. For inputs that",
        ),
        (lambda x: dict[str, int]()["a"], [1], "raised KeyError: 'a'; its inputs were"),
        (lambda x: np.linalg.inv(x), [[1, 2], [2, 4]], r"raised LinAlgError: .*float32\[2,2\]"),
        (
            lambda x: x.copy() if isinstance(x, np.ndarray) else len(x),
            3,
            r"raised TypeError: .* float32\[\]. Inputs of rank 0 were NumPy scalars or bytes here",
        ),
    ],
)
def test_an_error_that_a_kernel_raises_is_what_the_kernel_did(
    function: Any, value: Any, complaint: str
) -> None:
    with pytest.raises(AssertionError, match=f"^Neg: the kernel {complaint}") as caught:
        check_kernel("Neg", np.array(value, np.float32), kernels=registry_with(function))
    assert caught.value.__cause__ is not None


def test_inputs_that_a_kernel_refuses_are_its_own_error() -> None:
    def refuses(x: Any) -> Any:
        raise fe.errors.InvalidArgumentError("x must be positive")

    with pytest.raises(fe.errors.InvalidArgumentError, match="x must be positive"):
        check_kernel("Neg", np.float32(3), kernels=registry_with(refuses))
