"""Requests and answers as TensorFlow Serving's documentation, parser and tests have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from flowengine.core import dtypes, errors
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.proto.example_pb2 import Example
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.serving.v1.examples import read_examples, write_classification, write_regression
from flowengine.serving.v1.predicting import read_predict, write_predict
from flowengine.serving.v1.routes import ModelRoute, route, status_of

CASES: Final = Path(__file__).with_name("cases")
DEEP: Final = "[" * 500_000 + "]" * 500_000
#: Names of types where TensorFlow's differ from this package's.
TYPES: Final = {"float": "float32", "double": "float64", "half": "float16"}


def cases(name: str) -> Any:
    """The parameters of a test: each case of a file, under its place."""
    lines = (CASES / f"{name}.jsonl").read_text().splitlines()
    read = [json.loads(line) for line in lines]
    return [pytest.param(each, id=f"{n}-{each.get('place', '')}") for n, each in enumerate(read)]


def _dtype(name: str) -> dtypes.DType:
    return dtypes.as_dtype(TYPES.get(name, name))


def _signatures(inputs: str) -> dict[str, SignatureFacts]:
    named = dict(each.split(":") for each in inputs.split())
    tensors = {
        name: SignatureTensor((f"{name}:0",), _dtype(dtype), TensorShape(None))
        for name, dtype in named.items()
    }
    names = ("serving_default", "serve")
    return {name: SignatureFacts(name, tensors, tensors) for name in names}


def _array(dtype: str, value: Any) -> Any:
    if dtype == "string":
        array = np.array(value, object)
        array.reshape(-1)[:] = [each.encode("latin-1") for each in array.flat]
        return array
    if dtype == "complex64":
        return np.array([1j], np.complex64)
    return np.array(value, _dtype(dtype).as_numpy_dtype)


def _arrays(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: _array(*each) for name, each in outputs.items()}


def _outcome(pieces: Pieces[Any]) -> Any:
    try:
        return at_once(pieces)
    except OpError as error:
        return error.message


def _text(pieces: Pieces[list[bytes]]) -> str:
    outcome = _outcome(pieces)
    return outcome if isinstance(outcome, str) else b"".join(outcome).decode()


class Number:
    """A number of JSON: its value, and whether it is written as a float."""

    def __init__(self, text: str) -> None:
        self.value = float(text)
        self.is_float = any(each in text for each in ".eEN") or "Inf" in text
        self.text = text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number) or self.is_float != other.is_float:
            return False
        return self.value == other.value or str(self.value) == str(other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return self.text


def _read(text: str) -> Any:
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=Number)


def _compare(text: str, expected: str) -> None:
    if expected.startswith("{"):
        assert _read(text) == _read(expected)
    else:
        assert expected in text


@pytest.mark.parametrize("case", cases("requests"))
def test_a_request_for_predictions(case: Any) -> None:
    body = case["body"].replace("DEEP", DEEP).encode("utf-8", "surrogateescape")
    outcome, expected = _outcome(read_predict(body, _signatures(case["inputs"]))), case["expected"]
    if isinstance(expected, str):
        assert isinstance(outcome, str), outcome
        assert expected in outcome
        return
    assert not isinstance(outcome, str), outcome
    named = dict(each.split(":") for each in case["inputs"].split())
    assert outcome.inputs.keys() == expected.keys()
    for name, array in outcome.inputs.items():
        wanted = _array(named[name], expected[name])
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)
        if wanted.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(array), np.signbit(wanted))


@pytest.mark.parametrize("case", cases("answers"))
def test_an_answer_with_predictions(case: Any) -> None:
    text = _text(write_predict(_arrays(case["outputs"]), by_rows=case["form"] == "rows"))
    _compare(text, case["expected"])


def test_a_single_string_keeps_the_zeros_at_its_end() -> None:
    text = _text(write_predict({"y_bytes": b"a\0"}, by_rows=False))
    assert text == '{"outputs": {"b64":"YQA="}}'


def test_an_error_shows_a_long_list_of_numbers() -> None:
    body = json.dumps({"instances": list(range(20_000)), "inputs": [1]}).encode()
    outcome = _outcome(read_predict(body, _signatures("x:int32")))
    assert outcome.startswith('JSON Value: {"instances": [0, 1, 2,')
    assert "expecting only one of" in outcome


@pytest.mark.parametrize("case", cases("digits"))
def test_the_digits_of_a_float(case: Any) -> None:
    text = _text(write_predict({"x": _array(case["dtype"], [case["value"]])}, by_rows=True))
    assert text == f'{{"predictions": [{case["digits"]}]}}'


@pytest.mark.parametrize("case", cases("examples"))
def test_a_request_with_examples(case: Any) -> None:
    outcome, expected = _outcome(read_examples(case["body"].encode())), case["expected"]
    if isinstance(expected, str):
        assert isinstance(outcome, str)
        assert expected in outcome
        return
    examples, signature = expected
    assert outcome.signature == signature
    found = [_features(Example.FromString(each)) for each in outcome.examples]
    assert str(found) == str([{name: tuple(each[name]) for name in sorted(each)} for each in examples])


def _features(example: Example) -> dict[str, tuple[str, list[Any]]]:
    found = {}
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = [] if kind is None else list(getattr(feature, kind).value)
        values = [each.decode("latin-1") if isinstance(each, bytes) else each for each in values]
        found[name] = ("none" if kind is None else kind.removesuffix("_list"), values)
    return found


@pytest.mark.parametrize("case", cases("classifications"))
def test_an_answer_with_classes(case: Any) -> None:
    _compare(_text(write_classification(_arrays(case["outputs"]), 2)), case["expected"])


@pytest.mark.parametrize("case", cases("regressions"))
def test_an_answer_with_regressions(case: Any) -> None:
    text = _text(write_regression({"outputs": _array(*case["output"])}, 2))
    _compare(text, case["expected"])


@pytest.mark.parametrize("case", cases("routes"))
def test_a_route(case: Any) -> None:
    if isinstance(case["expected"], str):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            route(case["method"], case["path"])
        assert case["expected"] in caught.value.message
    else:
        assert route(case["method"], case["path"]) == ModelRoute(*case["expected"])


@pytest.mark.parametrize("case", cases("statuses"))
def test_the_status_of_an_error(case: Any) -> None:
    assert status_of(getattr(errors, case["name"])("why")) == case["status"]
