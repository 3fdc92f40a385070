"""Requests and answers as the Open Inference Protocol's and Triton's documents and sources have them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.serving.requests import RequestError
from flowengine.serving.v2.answers import write_infer
from flowengine.serving.v2.datatypes import datatype_of, dtype_of
from flowengine.serving.v2.inference import InferRequest, json_length, read_infer
from flowengine.serving.v2.repository import read_repository_request
from flowengine.serving.v2.routes import ProtocolRoute, route

CASES: Final = Path(__file__).with_name("cases")
DEEP: Final = "[" * 500_000 + "]" * 500_000


def cases(name: str) -> Any:
    """The parameters of a test: each case of a file, under its place."""
    read = [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text().splitlines()]
    return [pytest.param(each, id=f"{n}-{each['place']}") for n, each in enumerate(read)]


def _tensors(described: str) -> dict[str, SignatureTensor]:
    """Tensors as a case has them: `x:float32[-1,2] y:string`."""
    found = {}
    for each in described.split():
        name, dtype, dims = re.fullmatch(r"([^:]+):(\w+)(?:\[(.*)\])?", each).groups()  # type: ignore[union-attr]
        sizes = None if dims is None else [None if size == "-1" else int(size) for size in dims.split(",")]
        found[name] = SignatureTensor((f"{name}:0",), dtypes.as_dtype(dtype), TensorShape(sizes))
    return found


def _signatures(case: Any) -> dict[str, SignatureFacts]:
    inputs, outputs = _tensors(case["inputs"]), _tensors(case.get("outputs", "y:float32"))
    return {name: SignatureFacts(name, inputs, outputs) for name in ("serving_default", "other")}


def _array(dtype: str, shape: list[int], values: list[Any]) -> Any:
    array = np.empty(len(values), dtypes.as_dtype(dtype).as_numpy_dtype)
    for place, each in enumerate(values):
        array[place] = each.encode("latin-1") if isinstance(each, str) else each
    return array.reshape(shape)


def _outcome(pieces: Pieces[Any]) -> Any:
    try:
        return at_once(pieces)
    except InvalidArgumentError as error:
        return error.message


@pytest.mark.parametrize("case", cases("requests"))
def test_a_request_for_an_inference(case: Any) -> None:
    given = case["body"]
    text = (given if isinstance(given, str) else json.dumps(given)).replace("DEEP", DEEP).encode()
    binary = bytes.fromhex(case.get("binary", ""))
    length = case.get("length", len(text) if binary else None)
    outcome = _outcome(read_infer(text + binary, length, "m", _signatures(case)))
    expected = case["expected"]
    if isinstance(expected, str):
        assert isinstance(outcome, str), outcome
        assert expected in outcome
        assert len(outcome) < 1000
        return
    assert not isinstance(outcome, str), outcome
    assert outcome.inputs.keys() == expected["inputs"].keys()
    for name, array in outcome.inputs.items():
        wanted = _array(*expected["inputs"][name])
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted, strict=True)
        assert array.flags.aligned
        if array.dtype == bool:
            assert set(array.view(np.uint8).tolist()) <= {0, 1}
    for field, name in (("id", "id"), ("timeout", "timeout_seconds"), ("signature", "signature")):
        if field in expected:
            assert getattr(outcome, name) == expected[field]
    if "outputs" in expected:
        assert list(outcome.outputs.items()) == list(expected["outputs"].items())


def test_an_identifier_is_utf8() -> None:
    body = json.dumps({"id": "ID", "inputs": []}).encode()
    for given, text in ((b"\xff", "Unable to parse 'id'"), ("\u00e4".encode(), "missing required input")):
        outcome = _outcome(
            read_infer(body.replace(b"ID", given), None, "m", _signatures({"inputs": "x:float32"}))
        )
        assert text in outcome


@pytest.mark.parametrize("part", ["input", "datatype", "output", "parameter", "signature"])
def test_an_error_shows_the_beginning_of_a_long_name(part: str) -> None:
    long = "n" * 100_000
    entry = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
    bodies: dict[str, Any] = {
        "input": {"inputs": [{**entry, "name": long}]},
        "datatype": {"inputs": [{**entry, "datatype": long}]},
        "output": {"inputs": [entry], "outputs": [{"name": long}]},
        "parameter": {"inputs": [entry], "parameters": {long: []}},
        "signature": {"inputs": [entry], "parameters": {"signature_name": long}},
    }
    body = json.dumps(bodies[part]).encode()
    outcome = _outcome(read_infer(body, None, "m", _signatures({"inputs": "x:float32"})))
    assert "nnn" in outcome
    assert len(outcome) < 300


@pytest.mark.parametrize("case", cases("answers"))
def test_an_answer_to_an_inference(case: Any) -> None:
    arrays = {name: _array(*each) for name, each in case["outputs"].items()}
    asked = {name: name in case.get("as_binary", ()) for name in arrays}
    request = InferRequest("serving_default", {}, asked, case.get("id"))
    outcome, expected = _outcome(write_infer("m", 3, request, arrays)), case["expected"]
    if isinstance(expected, str):
        assert isinstance(outcome, str)
        assert expected in outcome
        return
    body = b"".join(outcome.pieces)
    assert body[len(body) - len(case["binary"]) // 2 :].hex() == case["binary"]
    assert (outcome.header_length is None) == (not case["binary"])
    document = json.loads(body[: outcome.header_length])
    head = {"model_name": "m", "model_version": "3"} | ({"id": case["id"]} if "id" in case else {})
    # As text, in which NaN is equal to itself.
    assert json.dumps(document) == json.dumps({**head, "outputs": expected})


def test_a_single_string_keeps_the_zeros_at_its_end() -> None:
    request = InferRequest("serving_default", {}, {"y": True})
    answer = at_once(write_infer("m", 3, request, {"y": b"a\0"}))
    assert b"".join(answer.pieces).endswith(bytes.fromhex("020000006100"))


@pytest.mark.parametrize("case", cases("datatypes"))
def test_a_type(case: Any) -> None:
    dtype = dtypes.as_dtype(case["dtype"])
    assert dtype_of(case["datatype"]) is dtype
    assert datatype_of(dtype) == case["datatype"]


@pytest.mark.parametrize("case", cases("routes"))
def test_a_route(case: Any) -> None:
    expected = case["expected"]
    if isinstance(expected, int):
        with pytest.raises(RequestError) as caught:
            route(case["method"], case["path"])
        assert caught.value.status == expected
    else:
        assert route(case["method"], case["path"]) == ProtocolRoute(*expected)


@pytest.mark.parametrize("case", cases("lengths"))
def test_the_length_of_the_json(case: Any) -> None:
    given = None if case["given"] is None else case["given"].encode()
    if isinstance(case["expected"], str):
        with pytest.raises(InvalidArgumentError) as caught:
            json_length(given, case["size"])
        assert case["expected"] in caught.value.message
        assert len(caught.value.message) < 300
    else:
        assert json_length(given, case["size"]) == case["expected"]


@pytest.mark.parametrize("case", cases("repository"))
def test_a_request_to_the_repository(case: Any) -> None:
    outcome, expected = (
        _outcome(read_repository_request(case["what"], case["body"].encode())),
        case["expected"],
    )
    if isinstance(expected, str):
        assert isinstance(outcome, str), outcome
        assert expected in outcome
    else:
        assert outcome.ready_only == expected["ready"]
