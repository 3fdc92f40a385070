"""Requests for one of several versions, by number or label, get the answer of that one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.serving.application import ServingApplication
from flowengine.serving.models.manager import ModelManager
from flowengine.serving.models.settings import ModelSettings, VersionPolicy
from tests.serving.clients import Reply, ask, rows
from tests.serving.exports import export_factor, export_gate, export_scalar
from tests.serving.models.test_changes_meanwhile import settled
from tests.serving.v2.test_open_inference import floats


@asynccontextmanager
async def two_versions(
    folder: Path, access_log: Callable[[Mapping[str, Any]], None] | None = None
) -> AsyncIterator[ServingApplication]:
    """Return a context in which versions 1 and 2 answer, "stable" is the first; a version 3 has failed.

    Version 1 multiplies by 3, version 2 doubles a number without dimensions.
    """
    export_factor(folder / "1", 3.0)
    export_scalar(folder / "2")
    (folder / "3").mkdir()
    settings = ModelSettings("m", folder, VersionPolicy(latest=None), {"stable": 1})
    manager = ModelManager([settings], poll_seconds=None)
    async with ServingApplication(manager, access_log=access_log) as application:
        await settled(application.manager)
        yield application


async def test_versions_and_labels_of_tensorflow_serving(tmp_path: Path) -> None:
    async with two_versions(tmp_path) as application:
        for which in ("versions/1", "labels/stable"):
            reply = await ask(application, f"/v1/models/m/{which}:predict", rows(2.0))
            assert reply.json == {"predictions": [6.0]}
            (status,) = (await ask(application, f"/v1/models/m/{which}")).json["model_version_status"]
            assert status["version"] == "1"
            described = (await ask(application, f"/v1/models/m/{which}/metadata")).json
            assert described["model_spec"]["version"] == "1"
            signature = described["metadata"]["signature_def"]["signature_def"]["serving_default"]
            assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
        reply = await ask(application, "/v1/models/m:predict", b'{"inputs": 2.0}')
        assert reply.json == {"outputs": 4.0}
        statuses = (await ask(application, "/v1/models/m")).json["model_version_status"]
        assert [each["version"] for each in statuses] == ["3", "2", "1"]


async def test_versions_of_the_open_inference_protocol(tmp_path: Path) -> None:
    async with two_versions(tmp_path) as application:
        reply = (await ask(application, "/v2/models/m/versions/1/infer", floats(2.0))).json
        assert (reply["model_version"], reply["outputs"][0]["data"]) == ("1", [6.0])
        described = (await ask(application, "/v2/models/m/versions/1")).json
        assert (described["versions"], described["inputs"][0]["datatype"]) == (["1", "2"], "FP32")
        assert (await ask(application, "/v2/models/m")).json["inputs"][0]["datatype"] == "FP64"
        ready = [(await ask(application, f"/v2/models/m/versions/{n}/ready")).status for n in (1, 2, 3)]
        assert ready == [200, 200, 503]


async def test_the_access_log_has_the_version_that_answered(tmp_path: Path) -> None:
    logged: list[Any] = []
    async with two_versions(tmp_path, logged.append) as application:
        await ask(application, "/v1/models/m/labels/stable:predict", rows(2.0))
        await ask(application, "/v2/models/m/versions/1/infer", floats(2.0))
        await ask(application, "/v1/models/m:predict", b'{"inputs": 2.0}')
    assert [each["version"] for each in logged] == [1, 1, 2]


async def test_the_latest_version_is_described(tmp_path: Path) -> None:
    async with two_versions(tmp_path) as application:
        document = (await ask(application, "/openapi.json")).json
        text = json.dumps(document["paths"]["/v2/models/m/infer"])
        assert '"FP64"' in text
        assert '"FP32"' not in text


async def test_rows_of_a_number_without_dimensions_are_not_described(tmp_path: Path) -> None:
    async with two_versions(tmp_path) as application:
        document = (await ask(application, "/openapi.json")).json
        post = document["paths"]["/v1/models/m:predict"]["post"]
        schema = post["requestBody"]["content"]["application/json"]["schema"]
        assert sorted(schema["properties"]) == ["inputs", "signature_name"]


@pytest.mark.parametrize("path", ["/metrics", "/monitoring/prometheus/metrics"])
async def test_metrics_may_be_off(tmp_path: Path, path: str) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    manager = ModelManager([ModelSettings("m", tmp_path / "m")], poll_seconds=None)
    async with ServingApplication(manager, metrics_path=None) as application:
        assert (await ask(application, path)).status == 404


async def test_loads_are_counted_and_ends_are_not(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="metrics need prometheus-client")
    export_factor(tmp_path / "m" / "1", 3.0)
    async with fe.serving.app(tmp_path, poll_seconds=None) as application:
        await settled(application.manager)
        await application.manager.unload("m")
        text = (await ask(application, "/metrics")).body.decode()
        counts = [line for line in text.splitlines() if "load_attempt_count{" in line]
        assert [line.rpartition(" ")[2] for line in counts] == ["1.0"]


async def test_leaving_an_application_waits_for_its_requests(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    replies: list[Reply] = []
    application = fe.serving.app(tmp_path, poll_seconds=None)
    leave = trio.Event()

    async def serve() -> None:
        async with application:
            await leave.wait()

    async def asked() -> None:
        replies.append(await ask(application, "/v1/models/gate:predict", rows(2.0)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with trio.fail_after(60):
            while not application.manager.models["gate"].available:
                await trio.testing.wait_all_tasks_blocked()
        version = application.manager.models["gate"].available[0]
        nursery.start_soon(asked)
        await trio.testing.wait_all_tasks_blocked()
        leave.set()
        await trio.testing.wait_all_tasks_blocked()
        assert not application.manager.is_ready
        assert version.requests == 1
        await version.call("open", {"token": [0.0]})
    assert replies[0].json == {"predictions": [4.0]}
