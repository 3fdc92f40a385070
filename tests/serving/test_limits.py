"""The limits of a request: the smaller of two timeouts, and bytes counted over all pieces of a body."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import DeadlineExceededError, InvalidArgumentError
from flowengine.core.work_pieces import at_once
from flowengine.serving.bodies import received_body
from flowengine.serving.encodings import expanding
from flowengine.serving.requests import HttpRequest, RequestError, RequestLimits
from tests.serving.clients import Reply, ask, rows, served
from tests.serving.exports import export_factor, export_gate
from tests.serving.v2.test_open_inference import floats


async def _nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def request(path: str = "/", prefix: str = "", **headers: str) -> HttpRequest:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "root_path": prefix, "headers": given}
    return HttpRequest(scope, _nothing)


@pytest.mark.parametrize(("limit", "header", "wanted"), [(2.0, 5.0, 2.0), (5.0, 2.0, 2.0), (None, 7.0, 7.0)])
def test_the_smaller_timeout_counts(limit: float | None, header: float, wanted: float) -> None:
    limits = RequestLimits(timeout_seconds=limit)
    assert request(request_timeout=str(header)).timeout(limits) == wanted
    assert request().timeout(limits) == limit


def test_the_time_of_the_body_is_part_of_the_timeout() -> None:
    asked = request()
    asked.started -= 30.0
    left = asked.left(40.0)
    assert left is not None
    assert 0.0 < left <= 10.0
    with pytest.raises(DeadlineExceededError, match="within 20 s"):
        asked.left(20.0)


def test_a_prefix_is_a_whole_part_of_the_path() -> None:
    assert request("/models/v2", "/models").path == "/v2"
    assert request("/models-of-others/v2", "/models").path == "/models-of-others/v2"


def test_a_body_must_come_in_time_to_an_asyncio_server_too() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}

    async def main() -> None:
        body = received_body(HttpRequest(scope, receive), RequestLimits(body_seconds=0.01))
        with pytest.raises(RequestError, match="did not come within"):
            await asyncio.wait_for(body, 60)

    asyncio.run(main())


async def test_all_pieces_of_a_body_count(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path, max_body_bytes=1000) as application:
        pieces = [b" " * 400, b" " * 400, b" " * 400, rows(1.0)]
        assert (await ask(application, "/v1/models/m:predict", pieces)).status == 413
        assert (await ask(application, "/v2/models/m/infer", pieces)).status == 413


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v2/models/m/infer", "/v2/repository/index"])
async def test_expanded_bodies_have_the_limit(tmp_path: Path, path: str) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    body = gzip.compress(b" " * 2000 + b"{}")
    async with served(tmp_path, max_body_bytes=1000) as application:
        reply = await ask(application, path, body, headers={"Content-Encoding": "gzip"})
        assert (reply.status, reply.error) == (413, "the body has more than 1,000 bytes")


async def test_the_smaller_timeout_of_an_inference_counts(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = float("inf")  # threads load the model in their own time
    export_gate(tmp_path / "gate" / "1")
    async with served(tmp_path, timeout_seconds=5.0) as application:
        replies: list[Reply] = []

        async def asked() -> None:
            body = floats(1.0, parameters={"timeout": 100_000_000})
            replies.append(await ask(application, "/v2/models/gate/infer", body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked)
            await trio.testing.wait_all_tasks_blocked()
            autojump_clock.jump(5.5)
        assert (replies[0].status, replies[0].error) == (504, "the request was not answered within 5 s")


async def test_the_gauges_of_rows_and_requests(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="metrics need prometheus-client")
    export_gate(tmp_path / "gate" / "1")
    async with served(tmp_path, max_rows=8) as application, trio.open_nursery() as nursery:
        nursery.start_soon(ask, application, "/v1/models/gate:predict", rows(1.0, 2.0, 3.0))
        await trio.testing.wait_all_tasks_blocked()
        text = (await ask(application, "/metrics")).body.decode()
        labels = '{model_name="gate",version="1"}'
        assert f"flowengine_serving_waiting_rows{labels} 3.0" in text
        assert f"flowengine_serving_running_requests{labels} 1.0" in text
        version = application.manager.models["gate"].available[0]
        await version.call("open", {"token": np.zeros(1, np.float32)})


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bytes_behind_a_compressed_body_are_refused(encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    body = compress(json.dumps({"inputs": []}).encode())
    for rest in (b"more", compress(b"more")):
        with pytest.raises(InvalidArgumentError, match="stream"):
            at_once(expanding(body + rest, encoding, RequestLimits()))
