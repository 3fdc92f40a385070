"""Random ops by key, counter, state or seed: TensorFlow 2.21's own numbers, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from flowengine.resources.container import ResourceManager
from flowengine.resources.variable import Variable


class State(tuple[int, ...]):
    """The numbers that a variable holds before."""


def _run(op: str, inputs: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """The outputs, and at last what the state is afterwards."""
    definition = registry()[op]
    given = {name: dtypes.as_dtype(v) if isinstance(v, str) else v for name, v in attrs.items()}
    variables, values = [], []
    for argument, value in zip(definition.inputs, inputs, strict=True):
        if isinstance(value, State):
            variable = Variable("state", dtypes.int64, TensorShape([len(value)]))
            variable.assign(np.array(value, np.int64))
            variables.append(variable)
            values.append(variable)
            continue
        values.append(value)
        if argument.type_attr is not None:
            given[argument.type_attr] = dtypes.as_dtype(value.dtype)
    node = Node("node", op, attrs=definition.with_defaults(given))
    kernel = load_all().find(node)
    context = {"ctx": SimpleNamespace(sequences=ResourceManager())} if kernel.takes_context else {}
    with np.errstate(all="ignore"):
        result = kernel.bind(node)(*values, **context)
    outputs = list(result) if isinstance(result, tuple) else [] if result is None else [result]
    return [*outputs, *(variable.read() for variable in variables)]


def _decoded(value: dict[str, Any]) -> Any:
    if "state" in value:
        return State(value["state"])
    return np.array(value["values"], value["dtype"]).reshape(value["shape"])[()]


#: [{op, inputs, attrs, outputs: what TensorFlow returned, with the state last}]
_RECORDED: Final = json.loads(Path(__file__).with_name("random_by_key.json").read_text())


@pytest.mark.parametrize("case", _RECORDED, ids=[f"{c['op']}-{i}" for i, c in enumerate(_RECORDED)])
def test_gives_the_numbers_of_tensorflow(case: dict[str, Any]) -> None:
    expected = [_decoded(value) for value in case["outputs"]]
    outputs = _run(case["op"], [_decoded(value) for value in case["inputs"]], case["attrs"])
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype == np.float64:
            # The machine's logarithm, sine and power differ in the last bits.
            np.testing.assert_allclose(got, want, 1e-14)
        else:
            np.testing.assert_array_equal(got, want)


_KEY: Final = [np.array([1], np.uint64), np.array([2, 3], np.uint64)]
_FIVE: Final = np.array([5], np.int32)
_ONE: Final = np.int32(1)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "error", "message"),
    [
        ("StatelessRandomUniformV2", [_FIVE, *_KEY, np.int32(2)], {}, InvalidArgumentError, "id: 2"),
        (
            "StatelessRandomUniformV2",
            [_FIVE, *_KEY, np.array([1], np.int32)],
            {},
            InvalidArgumentError,
            r"\[1\]",
        ),
        ("StatelessRandomUniformV2", [_FIVE, _KEY[1], _KEY[1], _ONE], {}, InvalidArgumentError, "key"),
        ("StatelessRandomUniformV2", [_FIVE, _KEY[0], _KEY[0], _ONE], {}, InvalidArgumentError, "counter"),
        ("StatelessRandomUniformIntV2", [_FIVE, *_KEY, _ONE, _ONE, _ONE], {}, InvalidArgumentError, "1 >= 1"),
        ("StatelessRandomUniformIntV2", [_FIVE, *_KEY, _ONE, _ONE, _FIVE], {}, InvalidArgumentError, "0-D"),
        (
            "StatefulUniform",
            [State((1, 2)), np.int64(1), _FIVE],
            {},
            InvalidArgumentError,
            "at least 3; got 2",
        ),
        ("StatefulUniform", [State((1, 2, 3)), np.int64(2), _FIVE], {}, UnimplementedError, "ThreeFry"),
        ("StatefulUniform", [State((1, 2, 3)), np.int64(9), _FIVE], {}, InvalidArgumentError, "id: 9"),
        ("StatefulStandardNormal", [State((1, 2, 3)), _FIVE], {}, InvalidArgumentError, "at least 4; got 3"),
        (
            "RngSkip",
            [State((1, 2, 3)), np.int64(1), _FIVE.astype(np.int64)],
            {},
            InvalidArgumentError,
            "delta",
        ),
        (
            "StatelessRandomPoisson",
            [_FIVE, np.array([1, 2]), np.ones(2)],
            {"dtype": "int64"},
            InvalidArgumentError,
            "end with",
        ),
        (
            "StatelessRandomGammaV2",
            [_FIVE, np.array([1, 2]), np.ones(2)],
            {},
            InvalidArgumentError,
            "end with",
        ),
        (
            "StatelessRandomBinomial",
            [_FIVE, np.array([1, 2]), np.ones(2), np.ones(3)],
            {},
            InvalidArgumentError,
            "compatible",
        ),
        (
            "StatelessRandomBinomial",
            [_FIVE, np.array([1, 2]), np.ones(2), np.ones(2)],
            {},
            InvalidArgumentError,
            "end with",
        ),
        ("RandomPoissonV2", [_FIVE, np.ones(0)], {}, InvalidArgumentError, "non-zero"),
        (
            "RandomIndexShuffle",
            [_ONE * 5, np.arange(3), _ONE * 4],
            {},
            InvalidArgumentError,
            "5 is not between",
        ),
        ("RandomIndexShuffle", [_ONE, np.arange(2), _ONE], {}, InvalidArgumentError, r"not \[2\]"),
        ("RandomIndexShuffle", [_ONE, np.arange(3), _ONE], {"rounds": 3}, InvalidArgumentError, "is 3"),
    ],
)
def test_refuses(op: str, inputs: list[Any], attrs: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        _run(op, inputs, attrs)


def test_parameters_at_the_edges_need_no_draws() -> None:
    seed = np.array([1, 2])
    rates = np.array([0.0, np.nan, np.inf, -1.0])
    drawn = _run("StatelessRandomPoisson", [np.array([3, 4]), seed, rates], {"dtype": "float64"})[0]
    assert (drawn[:, [0, 3]] == 0).all()
    assert np.isnan(drawn[:, 1:3]).all()
    counts, shares = np.array([5.0, 0.0, 5.0, 5.0]), np.array([0.0, 0.5, 1.0, np.nan])
    found = _run("StatelessRandomBinomial", [np.array([2, 4]), seed, counts, shares], {"dtype": "float64"})[0]
    assert found[:, :3].tolist() == [[0, 0, 5]] * 2
    assert np.isnan(found[:, 3]).all()


def test_every_index_has_one_place() -> None:
    places = [
        int(_run("RandomIndexShuffle", [np.int32(i), np.arange(3), np.int32(99)], {})[0]) for i in range(100)
    ]
    assert sorted(places) == list(range(100))
    assert places != list(range(100))


def test_integers_from_the_system_differ() -> None:
    first, second = (
        _run("NonDeterministicInts", [np.array([4, 5])], {"dtype": "uint32"})[0] for _ in range(2)
    )
    assert first.shape == (4, 5)
    assert first.dtype == np.uint32
    assert (first != second).any()


def test_the_state_of_a_generator_goes_on() -> None:
    whole = _run("StatefulStandardNormal", [State((1, 7, 8, 9)), _FIVE], {})
    assert whole[1].tolist() == [1, 7 + 5 * 256, 8, 9]
    without_tag = _run("StatefulStandardNormalV2", [State((7, 8, 9)), np.int64(1), _FIVE], {})
    np.testing.assert_array_equal(whole[0], without_tag[0])
