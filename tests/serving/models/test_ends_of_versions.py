"""Versions give back what they held when they end: requests, memory, and their place in the status."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import FailedPreconditionError, OpError, UnavailableError
from flowengine.serving.models import manager as managing
from flowengine.serving.models.settings import models_in
from tests.serving.exports import export_factor, export_gate
from tests.serving.models.test_manager import watched


async def test_a_version_that_is_unloaded_while_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)

    async def load_forever(folder: Path, **options: Any) -> Any:
        await trio.sleep_forever()

    monkeypatch.setattr(managing, "load_version", load_forever)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "LOADING")
        await made.manager.unload("m")
        with trio.fail_after(10):
            await made.until("m", 1, "END")
        assert isinstance(made.manager.models["m"].versions[1].error, FailedPreconditionError)


async def test_requests_that_fail_end_too(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    async with watched(tmp_path) as made:
        await made.until("gate", 1, "AVAILABLE")
        with pytest.raises(OpError), made.manager.request("gate") as version:
            await version.call("read", {"file": np.array(b"/nowhere", object)})
        assert (made.manager.requests, version.requests) == (0, 0)
        with trio.fail_after(10):
            await made.manager.unload("gate")


async def test_a_version_that_failed_takes_no_memory(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    (tmp_path / "m" / "1" / "saved_model.pb").write_bytes(b"\xff")
    async with watched(tmp_path, memory_bytes=1 << 30) as made:
        await made.until("m", 1, "END")
        assert made.manager.models["m"].versions[1].estimated_bytes == 0


async def test_loading_waits_for_the_end_of_the_same_version(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path) as made, trio.open_nursery() as nursery:
        await made.until("m", 1, "AVAILABLE")
        with made.manager.request("m"):
            await made.manager.unload("m", waits=False)
            nursery.start_soon(made.manager.load, "m")
            await trio.testing.wait_all_tasks_blocked()
            assert made.states[-1] == ("m", 1, "UNLOADING")
        with trio.fail_after(60):
            while not made.manager.models["m"].available:
                await trio.testing.wait_all_tasks_blocked()


async def test_an_idle_server_that_drains_takes_no_requests(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        await made.manager.drain(60.0)
        assert not made.manager.is_ready
        with pytest.raises(UnavailableError):
            await made.ask("m")


async def test_the_status_has_the_last_ended_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managing, "_ENDED_MAX", 2)
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path / "m", settings=models_in(tmp_path)) as made:
        await made.until("m", 1, "AVAILABLE")
        for number in range(2, 6):
            shutil.copytree(tmp_path / "m" / "1", tmp_path / "m" / str(number))
            await made.look_until("m", number - 1, "END")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(made.manager.models["m"].versions) == [3, 4, 5]
