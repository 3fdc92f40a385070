"""Optimizers: TensorFlow's numbers, blocks and rows against the whole, and what bad input leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.training import optimizers
from flowengine.kernels.training.sparse_rows import apply_sparse
from flowengine.ops.load import registry
from flowengine.resources.variable import Variable

Run = Callable[..., Any]

_CASES = [
    json.loads(line) for line in (Path(__file__).parent / "optimizer_records.jsonl").read_text().splitlines()
]


def _variable(value: Any, name: str = "var") -> Variable:
    array = np.asarray(value)
    variable = Variable(name, dtypes.as_dtype(array.dtype), TensorShape(array.shape))
    variable.assign(array)
    return variable


def _value(name: str, value: Any, dtype: Any) -> Any:
    kinds = {"indices": np.int32, "global_step": np.int64}
    return np.array(value, kinds.get(name, dtype))


@pytest.fixture
def apply_op() -> Run:
    """`apply_op(op, {input: value}, **attrs)`; an input that is a Variable is passed as it is."""
    from flowengine.ir.graph import Node
    from flowengine.kernels.load import load_all

    kernels = load_all()

    def run(op: str, inputs: dict[str, Any], **given: Any) -> Any:
        attrs = registry()[op].with_defaults(given)
        call = kernels.find(Node("node", op, attrs=attrs)).bind(Node("node", op, attrs=attrs))
        with np.errstate(all="ignore"):
            return call(*(inputs[a.name] for a in registry()[op].inputs))

    return run


@pytest.mark.parametrize(
    ("dtype", "relative", "absolute"),
    [(np.float32, 1e-5, 1e-6), (np.float64, 1e-5, 1e-6), (ml_dtypes.bfloat16, 0.03, 0.02)],
    ids=["float32", "float64", "bfloat16"],
)
@pytest.mark.parametrize("case", _CASES, ids=[f"{c['op']}-{i}" for i, c in enumerate(_CASES)])
def test_agrees_with_tensorflow(
    apply_op: Run, case: dict[str, Any], dtype: Any, relative: float, absolute: float
) -> None:
    inputs: dict[str, Any] = {}
    for name, value in case["inputs"].items():
        array = _value(name, value, dtype)
        inputs[name] = _variable(array, name) if name in case["variables"] else array[()]
    result = apply_op(case["op"], inputs, **case["attrs"])
    assert result is (None if case["op"].startswith("Resource") else inputs["var"])
    for name, expected in zip(case["variables"], case["after"], strict=True):
        actual = np.asarray(inputs[name].read())
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=relative, atol=absolute)


def test_a_large_variable_is_changed_in_blocks_as_it_would_be_whole(apply_op: Run) -> None:
    random = np.random.default_rng(0)
    var, accum, grad = (random.normal(size=(70, 1001)).astype(np.float32) ** 2 for _ in range(3))
    whole_var, whole_accum = var.copy(), accum.copy()
    optimizers.adagrad(np, whole_var, whole_accum, grad, lr=np.float32(0.1), update_slots=True)
    inputs: dict[str, Any] = {
        "var": _variable(var),
        "accum": _variable(accum),
        "lr": np.float32(0.1),
        "grad": grad,
    }
    apply_op("ApplyAdagrad", inputs)
    np.testing.assert_array_equal(inputs["var"].read(), whole_var)
    np.testing.assert_array_equal(inputs["accum"].read(), whole_accum)


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(0, 2**32 - 1))
def test_a_repeated_row_is_changed_once_for_each_time(rows: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    var, accum = random.normal(size=(5, 3)), random.uniform(1, 2, size=(5, 3))
    grad = random.normal(size=(len(rows), 3))
    one_var, one_accum = var.copy(), accum.copy()
    keywords: dict[str, Any] = {"lr": np.float64(0.1), "momentum": np.float64(0.9), "use_nesterov": True}
    for row, part in zip(rows, grad, strict=True):
        taken_var, taken_accum = one_var[row : row + 1], one_accum[row : row + 1]
        optimizers.momentum(np, taken_var, taken_accum, part[None], **keywords)
    variables = [_variable(var), _variable(accum)]
    apply_sparse(
        np, optimizers.momentum, ("var", "accum"), variables, grad, np.array(rows, np.int64), keywords
    )
    np.testing.assert_array_equal(variables[0].read(), one_var)
    np.testing.assert_array_equal(variables[1].read(), one_accum)


def test_what_was_read_before_keeps_its_value(apply_op: Run) -> None:
    variable = _variable(np.ones(3, np.float32))
    before = variable.read()
    apply_op("ApplyGradientDescent", {"var": variable, "alpha": np.float32(1), "delta": before})
    assert before.tolist() == [1, 1, 1]
    assert variable.read().tolist() == [0, 0, 0]


def test_a_sparse_update_copies_nothing_when_nobody_reads(apply_op: Run) -> None:
    variable, accum = _variable(np.ones((1000, 4), np.float32)), _variable(np.ones((1000, 4), np.float32))
    inputs = {
        "var": variable,
        "accum": accum,
        "lr": np.float32(0.1),
        "grad": np.ones((2, 4), np.float32),
        "indices": np.array([0, 999]),
    }
    apply_op("SparseApplyAdagrad", inputs)
    assert variable.copies == accum.copies == 0
    assert variable.read()[0, 0] == np.float32(1) - np.float32(0.1) / np.sqrt(np.float32(2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"indices": np.array([0, 7])}, r"Index 7 at offset 1 in indices is out of range \[0, 4\)"),
        ({"indices": np.array([-1, 0])}, "Index -1 at offset 0"),
        ({"indices": np.array([[0, 1]])}, "must be one-dimensional"),
        ({"grad": np.ones((3, 2), np.float32)}, "same size as indices in the first dimension: 3 vs. 2"),
        (
            {"grad": np.ones((2, 3), np.float32)},
            r"match in every dimension but the first: \[4,2\] vs. \[2,3\]",
        ),
        ({"lr": np.ones(1, np.float32)}, r"lr is not a scalar: \[1\]"),
    ],
)
def test_bad_sparse_input_changes_nothing(apply_op: Run, changed: dict[str, Any], message: str) -> None:
    inputs: dict[str, Any] = {
        "var": _variable(np.ones((4, 2), np.float32)),
        "accum": _variable(np.ones((4, 2), np.float32)),
        "lr": np.float32(0.1),
        "grad": np.ones((2, 2), np.float32),
        "indices": np.array([0, 1]),
        **changed,
    }
    with pytest.raises(InvalidArgumentError, match=message):
        apply_op("ResourceSparseApplyAdagrad", inputs)
    assert (inputs["var"].read() == 1).all()
    assert (inputs["accum"].read() == 1).all()


def test_dense_shapes_must_agree(apply_op: Run) -> None:
    inputs = {
        "var": _variable(np.ones(2, np.float32)),
        "alpha": np.float32(1),
        "delta": np.ones(3, np.float32),
    }
    with pytest.raises(InvalidArgumentError, match=r"var and grad do not have the same shape\[2\] \[3\]"):
        apply_op("ApplyGradientDescent", inputs)


def test_an_uninitialized_variable_cannot_be_trained(apply_op: Run) -> None:
    empty = Variable("weights", dtypes.float32, TensorShape([2]))
    with pytest.raises(FailedPreconditionError, match="uninitialized value weights"):
        apply_op(
            "ApplyGradientDescent", {"var": empty, "alpha": np.float32(1), "delta": np.ones(2, np.float32)}
        )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("lr", 0, "lr is not a positive"), ("l1", -1, "l1 regularization"), ("lr_power", 1, "lr_power is not")],
)
def test_ftrl_refuses_numbers_out_of_range(apply_op: Run, name: str, value: float, message: str) -> None:
    inputs: dict[str, Any] = {n: _variable(np.ones(2, np.float32)) for n in ("var", "accum", "linear")}
    inputs |= {"grad": np.ones(2, np.float32), "lr": np.float32(1), "l1": np.float32(0), "l2": np.float32(0)}
    inputs |= {"lr_power": np.float32(-0.5), name: np.float32(value)}
    with pytest.raises(InvalidArgumentError, match=message):
        apply_op("ApplyFtrl", inputs)
