"""Models that are listed, loaded and unloaded by clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.serving.application import ServingApplication
from tests.serving.clients import ask, served
from tests.serving.exports import export_factor, export_gate
from tests.serving.v2.test_open_inference import floats


@asynccontextmanager
async def controlled(folder: Path) -> AsyncIterator[ServingApplication]:
    """Return a context in which clients load and unload the models of a folder."""
    async with fe.serving.app(folder, poll_seconds=None, explicit=True) as application:
        yield application


async def post(application: ServingApplication, path: str, **document: Any) -> Any:
    return await ask(application, f"/v2/repository/{path}", json.dumps(document).encode())


async def test_the_index_of_a_server_that_looks_for_models(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with served(tmp_path) as application:
        ready = {"name": "m", "version": "1", "state": "READY", "reason": ""}
        assert (await ask(application, "/v2/repository/index", b"")).json == [ready]
        (tmp_path / "m" / "2").mkdir()
        await application.manager.load("m")
        failed = {
            "name": "m",
            "version": "2",
            "state": "UNAVAILABLE",
            "reason": "the version could not be loaded (NotFoundError)",
        }
        assert (await post(application, "index")).json == [ready, failed]
        assert (await post(application, "index", ready=True)).json == [ready]


async def test_a_model_is_loaded_and_unloaded(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with controlled(tmp_path) as application:
        assert (await ask(application, "/v2/health/ready")).status == 200
        assert (await ask(application, "/v2/models/m/ready")).status == 503
        reply = await ask(application, "/v2/models/m/infer", floats(1.0))
        assert (reply.status, reply.error) == (
            404,
            "Request for unknown model: 'm' has no available versions",
        )
        assert (await post(application, "index")).json == [
            {"name": "m", "state": "UNAVAILABLE", "reason": ""}
        ]
        for _ in range(2):
            assert (await post(application, "models/m/load")).status == 200
            assert (await ask(application, "/v2/models/m/ready")).status == 200
            reply = await ask(application, "/v2/models/m/infer", floats(2.0))
            assert reply.json["outputs"][0]["data"] == [6.0]
            assert (await post(application, "models/m/load")).status == 200  # again, which changes nothing
            reply = await post(application, "models/m/unload", parameters={"unload_dependents": True})
            assert reply.status == 200
            assert (await ask(application, "/v2/models/m/ready")).status == 503
        (entry,) = (await post(application, "index")).json
        assert (entry["version"], entry["state"]) in {("1", "UNLOADING"), ("1", "UNAVAILABLE")}


async def test_a_model_that_came_after_the_start(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with controlled(tmp_path) as application:
        reply = await post(application, "models/later/load")
        assert reply.status == 404
        assert reply.error == "failed to load 'later': Request for unknown model: 'later' is not found"
        export_factor(tmp_path / "later" / "1", 5.0)
        assert (await post(application, "models/later/load")).status == 200
        reply = await ask(application, "/v2/models/later/infer", floats(2.0))
        assert reply.json["outputs"][0]["data"] == [10.0]


async def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    (tmp_path / "m" / "1" / "saved_model.pb").write_bytes(b"nothing")
    async with controlled(tmp_path) as application:
        reply = await post(application, "models/m/load")
        assert reply.status == 400
        assert reply.error.startswith("failed to load 'm': the version could not be loaded (")
        assert str(tmp_path) not in reply.error


@pytest.mark.parametrize("name", ["..", "..%2f..%2fetc", "m%2f1", "%2e%2e%2fm", ".hidden", "m%00"])
async def test_only_models_of_the_folder_are_loaded(tmp_path: Path, name: str) -> None:
    export_factor(tmp_path / "models" / "m" / "1", 3.0)
    export_factor(tmp_path / "m" / "1", 3.0)
    async with controlled(tmp_path / "models") as application:
        for action in ("load", "unload"):
            reply = await post(application, f"models/{name}/{action}")
            assert reply.status in (400, 404)
        assert list(application.manager.models) == ["m"]


async def test_clients_that_load_at_once_load_once(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    states: list[str] = []
    async with controlled(tmp_path) as application:
        count = application.manager.on_change

        def note(name: str, version: Any) -> None:
            count(name, version)
            states.append(version.state.name)

        application.manager.on_change = note
        statuses: list[int] = []

        async def load() -> None:
            statuses.append((await post(application, "models/m/load")).status)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(load)
        assert statuses == [200] * 5
        assert states == ["LOADING", "AVAILABLE"]


async def test_a_client_that_hangs_up_does_not_end_the_loading(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    async with controlled(tmp_path) as application, trio.open_nursery() as nursery:
        gone = trio.Event()

        async def load() -> None:
            await ask(application, "/v2/repository/models/m/load", b"", gone=gone)

        nursery.start_soon(load)
        with trio.fail_after(60):
            while not application.manager.models["m"].versions:
                await trio.testing.wait_all_tasks_blocked()
            gone.set()
            while not application.manager.models["m"].available:
                await trio.testing.wait_all_tasks_blocked()
        reply = await ask(application, "/v2/models/m/infer", floats(2.0))
        assert reply.json["outputs"][0]["data"] == [6.0]


async def test_unloading_waits_for_no_request_and_ends_none(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    async with controlled(tmp_path) as application, trio.open_nursery() as nursery:
        assert (await post(application, "models/gate/load")).status == 200
        version = application.manager.models["gate"].available[0]
        replies: list[Any] = []

        async def asked() -> None:
            replies.append(await ask(application, "/v2/models/gate/infer", floats(2.0)))

        nursery.start_soon(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert (await post(application, "models/gate/unload")).status == 200
        (entry,) = (await post(application, "index")).json
        assert entry["state"] == "UNLOADING"
        await version.call("open", {"token": [0.0]})
        with trio.fail_after(60):
            while not replies:
                await trio.testing.wait_all_tasks_blocked()
        assert replies[0].json["outputs"][0]["data"] == [4.0]
