"""The Open Inference Protocol over HTTP: what is answered, and what is refused."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from tests.serving.clients import Reply, ask, served
from tests.serving.exports import export_factor, export_gate
from tests.serving.v2.exports import export_identity, export_sum


def floats(*values: float, **more: Any) -> bytes:
    """The body of a request with these numbers as x."""
    entry = {"name": "x", "shape": [len(values)], "datatype": "FP32", "data": list(values)}
    return json.dumps({"inputs": [entry], **more}).encode()


def as_binary(array: Any, datatype: str = "FP32", **more: Any) -> tuple[bytes, dict[str, str]]:
    """The body of a request with an array as x in binary data, and its header."""
    entry = {"name": "x", "shape": list(array.shape), "datatype": datatype}
    text = json.dumps(
        {"inputs": [{**entry, "parameters": {"binary_data_size": array.nbytes}}], **more}
    ).encode()
    return text + array.tobytes(), {"Inference-Header-Content-Length": str(len(text))}


async def test_health_and_metadata(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "7", 3.0)
    async with served(tmp_path) as application:
        assert (await ask(application, "/v2/health/live")).json == {"live": True}
        assert (await ask(application, "/v2/health/ready")).json == {"ready": True}
        for path in ("/v2", "/v2/"):
            server = (await ask(application, path)).json
            assert (server["name"], server["version"]) == ("flowengine", fe.__version__)
            assert {"binary_tensor_data", "model_repository"} <= set(server["extensions"])
        described = {
            "name": "m",
            "versions": ["7"],
            "platform": "tensorflow_savedmodel",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
        }
        assert (await ask(application, "/v2/models/m")).json == described
        assert (await ask(application, "/v2/models/m/versions/7")).json == described
        assert (await ask(application, "/v2/models/m/ready")).json == {"name": "m", "ready": True}
        assert (await ask(application, "/v2/models/m/versions/7/ready")).status == 200
        reply = await ask(application, "/v2/models/m/versions/8/ready")
        assert (reply.status, reply.json) == (503, {"name": "m", "ready": False})
        reply = await ask(application, "/v2/models/other/ready")
        assert (reply.status, reply.error) == (404, "Request for unknown model: 'other' is not found")
        application.manager.is_draining = True
        assert (await ask(application, "/v2/health/live")).status == 200
        assert (await ask(application, "/v2/health/ready")).status == 503
        assert (await ask(application, "/v2/models/m/ready")).status == 503
        assert (await ask(application, "/v2/models/m/infer", floats(1.0))).status == 503


async def test_an_inference_in_json(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, "/v2/models/m/infer", floats(1.0, 2.5, id="42"))
        assert reply.status == 200, reply.body
        assert reply.headers[b"content-type"] == b"application/json"
        assert reply.json == {
            "model_name": "m",
            "model_version": "1",
            "id": "42",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": [3.0, 7.5]}],
        }
        reply = await ask(application, "/v2/models/m/versions/1/infer", floats(4.0))
        assert reply.json["outputs"][0]["data"] == [12.0]


async def test_an_inference_in_binary(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    values = np.arange(200_000, dtype=np.float32)
    async with served(tmp_path) as application:
        body, headers = as_binary(values, parameters={"binary_data_output": True})
        reply = await ask(application, "/v2/models/m/infer", body, headers=headers)
        assert reply.headers[b"content-type"] == b"application/octet-stream"
        length = int(reply.headers[b"inference-header-content-length"])
        (described,) = json.loads(reply.body[:length])["outputs"]
        assert described["parameters"] == {"binary_data_size": values.nbytes}
        np.testing.assert_array_equal(np.frombuffer(reply.body[length:], np.float32), 3 * values)
        # The same as JSON, and as nothing but data.
        body, headers = as_binary(values)
        reply = await ask(application, "/v2/models/m/infer", body, headers=headers)
        np.testing.assert_array_equal(np.array(reply.json["outputs"][0]["data"], np.float32), 3 * values)
        raw = {"Inference-Header-Content-Length": "0"}
        reply = await ask(application, "/v2/models/m/infer", values[:4].tobytes(), headers=raw)
        length = int(reply.headers[b"inference-header-content-length"])
        np.testing.assert_array_equal(np.frombuffer(reply.body[length:], np.float32), [0, 3, 6, 9])


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_bodies(tmp_path: Path, encoding: str) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    expand = gzip.decompress if encoding == "gzip" else zlib.decompress
    values = np.arange(20_000, dtype=np.float32)
    async with served(tmp_path) as application:
        body, headers = as_binary(values, parameters={"binary_data_output": True})
        headers |= {"Content-Encoding": encoding, "Accept-Encoding": encoding}
        reply = await ask(application, "/v2/models/m/infer", compress(body), headers=headers)
        assert reply.headers[b"content-encoding"] == encoding.encode()
        assert int(reply.headers[b"content-length"]) == len(reply.body)
        expanded = expand(reply.body)
        length = int(reply.headers[b"inference-header-content-length"])
        np.testing.assert_array_equal(np.frombuffer(expanded[length:], np.float32), 3 * values)
        # A short answer is sent as it is.
        accepts = {"Accept-Encoding": encoding}
        reply = await ask(application, "/v2/models/m/infer", floats(1.0), headers=accepts)
        assert b"content-encoding" not in reply.headers
        for broken in (compress(body)[:-9], b"nothing"):
            reply = await ask(application, "/v2/models/m/infer", broken, headers=headers)
            assert (reply.status, encoding in reply.error) == (400, True)


async def test_several_inputs_and_named_outputs(tmp_path: Path) -> None:
    export_sum(tmp_path / "simple" / "1")
    rows = [list(range(16)), [1] * 16]
    inputs = [
        {"name": f"INPUT{n}", "shape": [1, 16], "datatype": "INT32", "data": row}
        for n, row in enumerate(rows)
    ]
    async with served(tmp_path) as application:
        body = json.dumps({"inputs": inputs, "outputs": [{"name": "OUTPUT1"}]}).encode()
        reply = await ask(application, "/v2/models/simple/infer", body)
        (output,) = reply.json["outputs"]
        assert (output["name"], output["shape"]) == ("OUTPUT1", [1, 16])
        assert output["data"] == [a - 1 for a in range(16)]
        body = json.dumps({"inputs": inputs[:1]}).encode()
        reply = await ask(application, "/v2/models/simple/infer", body)
        assert (reply.status, "missing required input(s) ['INPUT1']" in reply.error) == (400, True)


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v2/models/other/infer", floats(1.0), 404, "Request for unknown model: 'other' is not found"),
        ("/v2/models/m/versions/9/infer", floats(1.0), 404, "'m' version 9 is not found"),
        ("/v2/models/m/versions/one/infer", floats(1.0), 400, "unexpected model version"),
        ("/v2/models/..%2fm/infer", floats(1.0), 400, "is no name of a model"),
        ("/v2/models/m/infer", b"", 400, "The document is empty"),
        (
            "/v2/models/m/infer",
            b'{"inputs": [{"name": "\xff"}]}',
            400,
            "inference input '\ufffd' for model 'm'",
        ),
        ("/v2/models/m/infer", floats(1.0).replace(b"[1]", b"[1, 1]"), 400, "shape"),
        ("/v2/models/m/infer", floats(1.0).replace(b"1.0", b"1e400"), 400, "Number too big"),
        ("/v2/repository/models/m/load", b"", 403, "--model-control=explicit"),
        ("/v2/repository/models/m/unload", b"", 403, "--model-control=explicit"),
        ("/v2/health/live", b"", 405, "Method Not Allowed"),
        ("/v2/models/m/stats", b"", 404, "this extension of Triton's is not supported"),
        ("/v2/nothing", b"", 404, "there is nothing at /v2/nothing"),
    ],
)
async def test_what_is_refused(tmp_path: Path, path: str, body: bytes, status: int, text: str) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, path, body)
        assert (reply.status, text in reply.error) == (status, True), reply.body


async def test_rows_that_the_model_does_not_take(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    entry = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
    async with served(tmp_path) as application:
        reply = await ask(application, "/v2/models/m/infer", json.dumps({"inputs": [entry]}).encode())
        assert reply.status == 400
        assert "'x'" in reply.error


async def test_half_floats_are_binary(tmp_path: Path) -> None:
    export_identity(tmp_path / "m" / "1", "FP16")
    values = np.array([[0.5, -2.0]], np.float16)
    async with served(tmp_path) as application:
        body, headers = as_binary(values, "FP16")
        reply = await ask(application, "/v2/models/m/infer", body, headers=headers)
        assert (reply.status, "sending FP16 data via JSON" in reply.error) == (400, True)
        body, headers = as_binary(
            values, "FP16", outputs=[{"name": "y", "parameters": {"binary_data": True}}]
        )
        reply = await ask(application, "/v2/models/m/infer", body, headers=headers)
        assert reply.body.endswith(values.tobytes())


async def test_the_timeout_of_a_request(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.autojump_threshold = float("inf")  # threads load the model in their own time
    export_gate(tmp_path / "gate" / "1")
    replies: list[Reply] = []
    async with served(tmp_path) as application, trio.open_nursery() as nursery:

        async def asked() -> None:
            body = floats(1.0, parameters={"timeout": 5_000_000})
            replies.append(await ask(application, "/v2/models/gate/infer", body))

        nursery.start_soon(asked)
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(5.5)
        await trio.testing.wait_all_tasks_blocked()
        assert (replies[0].status, replies[0].error) == (504, "the request was not answered within 5 s")


async def test_a_client_that_hangs_up_ends_its_step(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    async with served(tmp_path) as application, trio.open_nursery() as nursery:
        gone = trio.Event()
        version = application.manager.models["gate"].available[0]

        async def asked() -> None:
            reply = await ask(application, "/v2/models/gate/infer", floats(1.0), gone=gone)
            assert reply.status == 0

        nursery.start_soon(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert version.requests == 1
        gone.set()
        await trio.testing.wait_all_tasks_blocked()
        assert version.requests == 0


async def test_requests_are_counted(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    logged: list[Any] = []
    async with served(tmp_path, access_log=logged.append) as application:
        await ask(application, "/v2/models/m/infer", floats(1.0, 2.0))
        text = (await ask(application, "/metrics")).body.decode()
        assert ':tensorflow:serving:request_count{model_name="m",status="OK"} 1.0' in text
        assert 'flowengine_serving_request_rows_sum{model_name="m"} 2.0' in text
    facts = logged[0]
    assert (facts["model"], facts["version"], facts["rows"], facts["signature"]) == (
        "m",
        1,
        2,
        "serving_default",
    )
