"""Tensors that are read and written in several parts, and several of them in one answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.core.work_pieces import at_once
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.serving.v2.answers import write_infer
from flowengine.serving.v2.binary import read_binary, write_binary
from flowengine.serving.v2.data import read_data
from flowengine.serving.v2.inference import InferRequest, read_infer
from tests.serving.clients import ask, served
from tests.serving.v2.exports import export_identity
from tests.serving.v2.test_open_inference import as_binary


def _texts(count: int) -> Any:
    array = np.empty(count, object)
    array[:] = [f"t{number}".encode() for number in range(count)]
    return array


@pytest.mark.parametrize("count", [999, 1000, 1001, 8192, 10_000])
def test_strings_in_json(count: int) -> None:
    texts = _texts(count)
    data = [each.decode() for each in texts]
    read = at_once(read_data("x", dtypes.string, (count,), count, data))
    np.testing.assert_array_equal(read, texts)
    request = InferRequest("serving_default", {}, {"y": False})
    answer = at_once(write_infer("m", 1, request, {"y": texts}))
    assert json.loads(b"".join(answer.pieces))["outputs"][0]["data"] == data


@pytest.mark.parametrize("count", [999, 1000, 1001, 8192])
def test_strings_in_binary(count: int) -> None:
    texts = _texts(count)
    data = memoryview(b"".join(at_once(write_binary(texts))))
    read = at_once(read_binary("x", dtypes.string, (count,), count, data))
    np.testing.assert_array_equal(read, texts)


@pytest.mark.parametrize("count", [4096, 8192, 9000])
def test_numbers_in_json(count: int) -> None:
    values: Any = list(range(count))
    for data in (values, np.array(values), [[each] for each in values]):
        read = at_once(read_data("x", dtypes.int32, (count, 1), count, data))
        np.testing.assert_array_equal(read.ravel(), values)


def test_a_transposed_array_is_written_by_rows() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert b"".join(at_once(write_binary(values.T))) == values.T.tobytes()


def test_nothing_may_follow_a_long_request() -> None:
    tensor = SignatureTensor(("x:0",), dtypes.float32, TensorShape([None]))
    facts = SignatureFacts("serving_default", {"x": tensor}, {"y": tensor})
    entry = {"name": "x", "shape": [20_000], "datatype": "FP32", "data": list(range(20_000))}
    body = json.dumps({"inputs": [entry]}).encode()
    assert at_once(read_infer(body + b" \n", None, "m", {facts.name: facts})).inputs["x"][-1] == 19_999
    with pytest.raises(InvalidArgumentError, match="must not be followed by other values"):
        at_once(read_infer(body + b" 1", None, "m", {facts.name: facts}))


async def test_outputs_in_the_order_of_the_request(tmp_path: Path) -> None:
    export_identity(tmp_path / "m" / "1", "FP32")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    asked = [{"name": name, "parameters": {"binary_data": True}} for name in ("z", "y")]
    async with served(tmp_path) as application:
        body, headers = as_binary(values, outputs=asked)
        reply = await ask(application, "/v2/models/m/infer", body, headers=headers)
        length = int(reply.headers[b"inference-header-content-length"])
        outputs = json.loads(reply.body[:length])["outputs"]
        assert [(each["name"], each["shape"]) for each in outputs] == [("z", [3, 2]), ("y", [2, 3])]
        assert [each["parameters"]["binary_data_size"] for each in outputs] == [24, 24]
        np.testing.assert_array_equal(
            np.frombuffer(reply.body[length:], np.float32), [*values.T.ravel(), *values.ravel()]
        )
