"""The OpenAPI description says what each signature takes, and real requests and answers conform to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.serving.clients import ask, served
from tests.serving.exports import export_factor, export_gate, export_scalar
from tests.serving.v2.exports import export_identity, export_sum


def schema_of(document: Any, path: str, side: str) -> Any:
    """The schema of a path's requests or answers."""
    post = document["paths"][path]["post"]
    content = post["requestBody"] if side == "request" else post["responses"]["200"]
    return content["content"]["application/json"]["schema"]


async def test_what_is_described(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    export_gate(tmp_path / "gate" / "1")
    async with served(tmp_path) as application:
        document = (await ask(application, "/openapi.json")).json
        assert document["openapi"] == "3.1.0"
        assert document["servers"] == [{"url": "/"}]
        assert sorted(document["paths"]) == [
            "/v1/models/gate:predict",
            "/v1/models/m:predict",
            "/v2/models/gate/infer",
            "/v2/models/m/infer",
        ]
        predict = schema_of(document, "/v1/models/m:predict", "request")
        assert predict["properties"]["instances"]["items"]["anyOf"][1] == {
            "type": "number",
            "format": "float",
        }
        infer = schema_of(document, "/v2/models/m/infer", "request")
        assert infer["properties"]["inputs"]["items"]["properties"]["datatype"] == {"const": "FP32"}
        titles = [each["title"] for each in schema_of(document, "/v2/models/gate/infer", "request")["anyOf"]]
        assert sorted(titles) == ["signature open", "signature read", "signature serving_default"]
        named = schema_of(document, "/v1/models/gate:predict", "request")["anyOf"]
        required = {each["title"]: each["required"] for each in named}
        assert required["signature open"] == ["signature_name"]
        assert required["signature serving_default"] == []
        mounted = (await ask(application, "/openapi.json", root_path="/models")).json
        assert mounted["servers"] == [{"url": "/models"}]


async def test_the_description_is_valid(tmp_path: Path) -> None:
    validator = pytest.importorskip(
        "openapi_spec_validator", reason="openapi-spec-validator is not installed"
    )
    export_gate(tmp_path / "a model" / "1")
    export_identity(tmp_path / "bytes" / "1", "BYTES")
    export_identity(tmp_path / "half" / "1", "FP16")
    export_scalar(tmp_path / "scalar" / "1")
    export_sum(tmp_path / "simple" / "1")
    async with served(tmp_path) as application:
        validator.validate((await ask(application, "/openapi.json")).json)


async def test_requests_and_answers_conform(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    export_sum(tmp_path / "simple" / "1")
    export_factor(tmp_path / "m" / "1", 3.0)
    export_identity(tmp_path / "bytes" / "1", "BYTES")
    export_scalar(tmp_path / "scalar" / "1")
    entry = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}
    scalar = {"name": "x", "shape": [], "datatype": "FP64", "data": [1.0]}
    texts = {"name": "x", "shape": [1, 2], "datatype": "BYTES", "data": [["a", "b"]]}
    two = [
        {"name": f"INPUT{n}", "shape": [1, 16], "datatype": "INT32", "data": list(range(16))}
        for n in range(2)
    ]
    column = np.ones((1, 16), int).tolist()
    bodies: list[tuple[str, Any]] = [
        ("/v1/models/m:predict", {"instances": [1.0, 2]}),
        ("/v1/models/m:predict", {"instances": [{"x": 1.0}]}),
        ("/v1/models/m:predict", {"signature_name": "serving_default", "inputs": [1.0]}),
        ("/v1/models/m:predict", {"inputs": {"x": [1.0]}}),
        ("/v1/models/simple:predict", {"inputs": {"INPUT0": column, "INPUT1": column}}),
        ("/v1/models/simple:predict", {"instances": [{"INPUT0": column[0], "INPUT1": column[0]}]}),
        ("/v1/models/bytes:predict", {"inputs": [["a", {"b64": "AAE="}]]}),
        ("/v2/models/m/infer", {"inputs": [entry], "id": "7", "outputs": [{"name": "y"}]}),
        ("/v2/models/simple/infer", {"inputs": two}),
        ("/v2/models/bytes/infer", {"inputs": [texts]}),
        ("/v1/models/scalar:predict", {"inputs": 2.0}),
        ("/v2/models/scalar/infer", {"inputs": [scalar]}),
    ]
    wrong: list[tuple[str, Any]] = [
        ("/v1/models/m:predict", {"instances": ["a"]}),
        ("/v1/models/m:predict", {"instances": [1.0], "inputs": [1.0]}),
        ("/v1/models/m:predict", {"signature_name": "other", "inputs": [1.0]}),
        ("/v1/models/simple:predict", {"inputs": {"INPUT0": column}}),
        ("/v1/models/simple:predict", {"inputs": {"INPUT0": [[1]], "INPUT1": [[1]]}}),
        ("/v2/models/m/infer", {"inputs": [{**entry, "datatype": "INT32"}]}),
        ("/v2/models/m/infer", {"inputs": [{**entry, "shape": [-1]}]}),
        ("/v2/models/m/infer", {"inputs": [{**entry, "parameters": {"binary_data_size": 4}}]}),
        ("/v2/models/m/infer", {"id": "7"}),
    ]
    async with served(tmp_path) as application:
        document = (await ask(application, "/openapi.json")).json
        for path, body in bodies:
            jsonschema.Draft202012Validator(schema_of(document, path, "request")).validate(body)
            reply = await ask(application, path, json.dumps(body).encode())
            assert reply.status == 200, reply.body
            jsonschema.Draft202012Validator(schema_of(document, path, "answer")).validate(reply.json)
        for path, body in wrong:
            assert not jsonschema.Draft202012Validator(schema_of(document, path, "request")).is_valid(body)
            assert (await ask(application, path, json.dumps(body).encode())).status == 400, body


async def test_a_model_that_classifies(tmp_path: Path) -> None:
    graph = fe.Graph()
    examples = graph.placeholder("string", [None], name="examples")
    (scores,) = graph.ops.ParseExample(
        examples, [], [], [b"a"], [[0.0]], sparse_types=[], dense_shapes=[[1]]
    )[-1]
    signatures: dict[str, Any] = {
        "serving_default": ({"inputs": examples}, {"scores": scores}, "tensorflow/serving/classify")
    }
    with fe.blocking.Session(graph) as session:
        session.call(fe.saved_model.save, tmp_path / "m" / "1", signatures=signatures)
    async with served(tmp_path) as application:
        document = (await ask(application, "/openapi.json")).json
        assert "/v1/models/m:classify" in document["paths"]
        assert schema_of(document, "/v1/models/m:classify", "request")["required"] == ["examples"]
