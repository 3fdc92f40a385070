"""The application answers, refuses what does not fit, and ends a step with its client."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from tests.serving.clients import ask, rows, served
from tests.serving.exports import export_factor, export_gate


async def test_predictions_by_rows_and_columns(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, "/v1/models/m:predict", rows(1.0, 2.5))
        assert (reply.status, reply.json) == (200, {"predictions": [3.0, 7.5]})
        assert reply.headers[b"content-type"] == b"application/json"
        assert int(reply.headers[b"content-length"]) == len(reply.body)
        reply = await ask(application, "/v1/models/m/versions/1:predict", b'{"inputs": {"x": [4]}}')
        assert (reply.status, reply.json) == (200, {"outputs": [12.0]})


async def test_status_and_metadata(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "7", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, "/v1/models/m")
        assert reply.json == {
            "model_version_status": [
                {"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
            ]
        }
        reply = await ask(application, "/v1/models/m/metadata")
        assert reply.json["model_spec"] == {"name": "m", "signature_name": "", "version": "7"}
        described = reply.json["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert described["method_name"] == "tensorflow/serving/predict"
        assert described["inputs"]["x"] == {
            "dtype": "DT_FLOAT",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
            "name": "x:0",
        }
        reply = await ask(application, "/v1/models/m/versions/8")
        assert (reply.status, reply.error) == (404, "Could not find version 8 of model m")
        reply = await ask(application, "/v1/models/other")
        assert (reply.status, reply.error) == (404, "Could not find any versions of model other")


async def test_a_failed_version_is_told_without_its_path(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        (tmp_path / "m" / "2").mkdir()
        await application.manager.look()
        with trio.fail_after(60):
            while 2 not in application.manager.models["m"].versions:
                await trio.testing.wait_all_tasks_blocked()
            while application.manager.models["m"].versions[2].state.name != "END":
                await trio.testing.wait_all_tasks_blocked()
        reply = await ask(application, "/v1/models/m/versions/2")
        (status,) = reply.json["model_version_status"]
        assert status["state"] == "END"
        assert status["status"]["error_code"] == "NOT_FOUND"
        assert str(tmp_path) not in reply.body.decode()


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v1/models/other:predict", rows(1.0), 404, "Servable not found for request: Latest(other)"),
        ("/v1/models/m/versions/9:predict", rows(1.0), 404, "Specific(m, 9)"),
        ("/v1/models/m/labels/l:predict", rows(1.0), 400, "Unrecognized servable version label: l"),
        ("/v1/models/..%2fm:predict", rows(1.0), 400, "is no name of a model"),
        ("/v1/models/%2e%2e:predict", rows(1.0), 400, "is no name of a model"),
        ("/v1/models/m:guess", rows(1.0), 400, "Malformed request: POST /v1/models/m:guess"),
        (
            "/v1/models/m:classify",
            b'{"examples": [{"a\xff": 1.0}]}',
            400,
            "a\ufffd has a name that is no UTF-8",
        ),
        ("/v1/models/m:predict", b'{"instances": [{"x": 1, "\xff": 1}]}', 400, "\ufffd"),
        ("/v1/models/m:predict", b"", 400, "The document is empty"),
        ("/v1/models/m:predict", b"\xff\xfe", 400, "Invalid value."),
        ("/v1/models/m:predict", rows("a"), 400, "not of expected type: float"),
        ("/v1/models/m:predict", rows([1.0]), 400, "for input 'x', which has shape [?]"),
        ("/v1/models/m:predict", b'{"instances": [1e400]}', 400, "Number too big"),
        ("/v1/models/m:predict", b'{"instances": [1], "instances": [2]}', 400, "twice"),
        (
            "/v1/models/m:classify",
            b'{"examples": [{"x": 1.0}]}',
            400,
            "method_name to be tensorflow/serving/classify",
        ),
        ("/v2/nothing", rows(1.0), 404, "there is nothing at /v2/nothing"),
        ("/", rows(1.0), 404, "there is nothing at /"),
    ],
)
async def test_what_is_refused(tmp_path: Path, path: str, body: bytes, status: int, text: str) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, path, body)
        assert reply.status == status
        assert text in reply.error


async def test_bodies_have_a_limit(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path, max_body_bytes=1000) as application:
        path = "/v1/models/m:predict"
        reply = await ask(application, path, rows(*[1.0] * 1000))
        assert (reply.status, reply.error) == (413, "the body has more than 1,000 bytes")
        reply = await ask(application, path, rows(1.0), headers={"Content-Length": "1001"})
        assert reply.status == 413
        bomb = gzip.compress(b'{"instances": [' + b" " * 1_000_000 + b"1]}")
        reply = await ask(application, path, bomb[:900], headers={"Content-Encoding": "gzip"})
        assert reply.status == 413
        reply = await ask(application, path, gzip.compress(rows(2.0)), headers={"Content-Encoding": "gzip"})
        assert (reply.status, reply.json) == (200, {"predictions": [6.0]})
        for broken in (gzip.compress(rows(2.0))[:-9], b"no gzip"):
            reply = await ask(application, path, broken, headers={"Content-Encoding": "gzip"})
            assert reply.status == 400
        reply = await ask(application, path, rows(2.0), headers={"Content-Encoding": "br"})
        assert reply.status == 415


async def test_a_body_must_come_in_time(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.autojump_threshold = float("inf")  # threads load the model in their own time
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application, trio.open_nursery() as nursery:
        replies: list[Any] = []

        async def asked() -> None:
            replies.append(await ask(application, "/v1/models/m:predict", b'{"instances"', cut=True))

        nursery.start_soon(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert not replies
        autojump_clock.jump(30.5)
        await trio.testing.wait_all_tasks_blocked()
        assert (replies[0].status, replies[0].error) == (408, "the body did not come within 30 s")


async def test_a_body_in_pieces(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    body = rows(1.0, 2.0)
    async with served(tmp_path) as application:
        reply = await ask(application, "/v1/models/m:predict", [body[:5], b"", body[5:]])
        assert reply.json == {"predictions": [3.0, 6.0]}


async def test_long_texts_are_read_and_written_in_pieces(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    values = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    async with served(tmp_path) as application:
        reply = await ask(
            application, "/v1/models/m:predict", json.dumps({"inputs": values.tolist()}).encode()
        )
        np.testing.assert_array_equal(np.array(reply.json["outputs"], np.float32), values * np.float32(3.0))


async def test_a_client_that_hangs_up_ends_its_step(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    logged: list[Any] = []
    async with served(tmp_path, access_log=logged.append) as application, trio.open_nursery() as nursery:
        gone = trio.Event()
        version = application.manager.models["gate"].available[0]

        async def asked() -> None:
            assert (await ask(application, "/v1/models/gate:predict", rows(1.0), gone=gone)).status == 0

        nursery.start_soon(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert version.requests == 1
        gone.set()
        await trio.testing.wait_all_tasks_blocked()
        assert version.requests == 0
        assert logged[-1]["status"] == 499
        # The token that comes now is for the next client.
        reply = None

        async def next_client() -> None:
            nonlocal reply
            reply = await ask(application, "/v1/models/gate:predict", rows(2.0))

        nursery.start_soon(next_client)
        await trio.testing.wait_all_tasks_blocked()
        await ask(application, "/v1/models/gate:predict", b'{"signature_name": "open", "instances": [0.0]}')
        with trio.fail_after(60):
            while reply is None:
                await trio.testing.wait_all_tasks_blocked()
        assert reply.json == {"predictions": [4.0]}


async def test_an_answer_has_a_deadline(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.autojump_threshold = float("inf")  # threads load the model in their own time
    export_gate(tmp_path / "gate" / "1")
    async with served(tmp_path, timeout_seconds=1000.0) as application:
        for headers in ({}, {"Request-Timeout": "5"}):
            async with trio.open_nursery() as nursery:
                began = trio.current_time()
                replies: list[Any] = []

                async def asked(headers: dict[str, str] = headers, replies: list[Any] = replies) -> None:
                    replies.append(
                        await ask(application, "/v1/models/gate:predict", rows(1.0), headers=headers)
                    )

                nursery.start_soon(asked)
                await trio.testing.wait_all_tasks_blocked()
                autojump_clock.jump(5.5 if headers else 1000.5)
            assert replies[0].status == 504
            assert "within 5 s" in replies[0].error if headers else "within 1000 s" in replies[0].error
            assert trio.current_time() > began
        reply = await ask(
            application, "/v1/models/gate:predict", rows(1.0), headers={"Request-Timeout": "soon"}
        )
        assert (reply.status, reply.error) == (
            400,
            "the header Request-Timeout must be a positive number of seconds",
        )


async def test_what_the_model_raises_is_told_by_kind(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    secret = str(tmp_path / "secret" / "file")
    body = json.dumps({"signature_name": "read", "inputs": {"file": secret}}).encode()
    async with served(tmp_path) as application:
        reply = await ask(application, "/v1/models/gate:predict", body)
        assert (reply.status, reply.error) == (404, "the model failed (NotFoundError)")


async def test_health_and_metrics(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        assert (await ask(application, "/v2/health/live")).status == 200
        assert (await ask(application, "/v2/health/ready")).status == 200
        await ask(application, "/v1/models/m:predict", rows(1.0, 2.0))
        await ask(application, "/v1/models/m:predict", rows("a"))
        await ask(application, "/v1/models/made-up:predict", rows(1.0))
        for path in ("/metrics", "/monitoring/prometheus/metrics"):
            text = (await ask(application, path)).body.decode()
            assert ':tensorflow:serving:request_count{model_name="m",status="OK"} 1.0' in text
            assert ':tensorflow:serving:request_count{model_name="m",status="400"} 1.0' in text
            assert 'model_name="made-up"' not in text
            assert 'flowengine_serving_version_state{model_name="m",version="1"} 30.0' in text
            assert 'flowengine_serving_request_rows_sum{model_name="m"} 2.0' in text
        application.manager.is_draining = True
        assert (await ask(application, "/v2/health/live")).status == 200
        assert (await ask(application, "/v2/health/ready")).status == 503
        reply = await ask(application, "/v1/models/m:predict", rows(1.0))
        assert (reply.status, reply.headers[b"retry-after"]) == (503, b"1")


async def test_too_many_rows_wait(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    async with served(tmp_path, max_rows=1) as application, trio.open_nursery() as nursery:
        path, done = "/v1/models/gate:predict", []

        async def asked() -> None:
            done.append((await ask(application, path, rows(1.0))).status)

        for _ in range(16):
            nursery.start_soon(asked)
            await trio.testing.wait_all_tasks_blocked()
        reply = await ask(application, path, rows(1.0))
        assert (reply.status, reply.headers[b"retry-after"]) == (429, b"1")
        tokens = json.dumps({"signature_name": "open", "inputs": [0.0] * 16}).encode()
        await ask(application, path, tokens)
        with trio.fail_after(60):
            while len(done) < 16:
                await trio.testing.wait_all_tasks_blocked()
        assert done == [200] * 16


async def test_an_application_that_is_mounted(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, "/v1/models/m:predict", rows(1.0), root_path="/models")
        assert reply.json == {"predictions": [3.0]}


async def test_an_application_that_was_not_entered(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    reply = await ask(fe.serving.app(tmp_path), "/v1/models/m:predict", rows(1.0))
    assert reply.status == 400
    assert "enter the application" in reply.error


async def test_a_head_has_no_body(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        reply = await ask(application, "/v1/models/m", method="HEAD")
        assert (reply.status, reply.body) == (200, b"")


def test_there_must_be_models(tmp_path: Path) -> None:
    with pytest.raises(fe.errors.NotFoundError, match="holds no model"):
        fe.serving.app(tmp_path)
    with pytest.raises(fe.errors.NotFoundError, match="there is no folder"):
        fe.serving.app(tmp_path / "nowhere")
