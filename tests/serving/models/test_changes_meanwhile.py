"""Files, settings and requests of clients that change while a model is read, loaded or ended."""

from __future__ import annotations

import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import NotFoundError
from flowengine.serving.models import manager as managing
from flowengine.serving.models.manager import ModelManager
from flowengine.serving.models.settings import ModelSettings, VersionPolicy, models_in
from flowengine.serving.models.sources import load_version
from flowengine.serving.models.versions import ServedVersion, fingerprint
from tests.serving.exports import export_factor
from tests.serving.models.test_manager import watched


@asynccontextmanager
async def rereading(
    reread: Callable[[], Sequence[ModelSettings]], *, explicit: bool = False
) -> AsyncIterator[ModelManager]:
    """Return a context in which a manager runs that reads its settings anew at each look."""
    manager = ModelManager(reread(), poll_seconds=None, reread=reread, explicit=explicit)
    async with trio.open_nursery() as nursery:
        await nursery.start(manager.run)
        yield manager
        nursery.cancel_scope.cancel()


async def settled(manager: ModelManager) -> None:
    """Look, and wait until nothing is being loaded or ended."""
    await manager.look()
    with trio.fail_after(60):
        while any(
            each.state.name not in ("AVAILABLE", "END")
            for model in manager.models.values()
            for each in model.versions.values()
        ):
            await trio.testing.wait_all_tasks_blocked()


async def answer(manager: ModelManager, name: str, label: str | None = None) -> float:
    with manager.request(name, label=label) as version:
        inputs = {"x": np.array([1.0], np.float32)}
        return float((await version.call("serving_default", inputs))["y"][0])


async def test_files_that_stay_after_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    load = load_version

    async def load_and_change(folder: Path, **options: Any) -> Any:
        model = await load(folder, **options)
        (folder / "late").write_text("the last file of a copy")
        return model

    monkeypatch.setattr(managing, "load_version", load_and_change)
    async with watched(tmp_path / "m") as made:
        await made.until("m", 1, "END")
        monkeypatch.setattr(managing, "load_version", load)
        await made.look_until("m", 1, "AVAILABLE")


async def test_a_model_that_is_listed_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_factor(tmp_path / name / "1", 2.0)
    async with rereading(lambda: models_in(tmp_path)) as manager:
        await settled(manager)
        shutil.move(tmp_path / "b", tmp_path / ".b")
        await settled(manager)
        with pytest.raises(NotFoundError):
            await answer(manager, "b")
        assert manager.is_ready
        shutil.move(tmp_path / ".b", tmp_path / "b")
        await settled(manager)
        assert await answer(manager, "b") == 2.0


async def test_a_model_that_is_unloaded_while_its_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_factor(tmp_path / "m" / "1", 2.0)
    present, reading, go_on = managing._present, trio.Event(), threading.Event()

    def slowly(folder: Path) -> Any:
        found = present(folder)
        trio.from_thread.run_sync(reading.set)
        assert go_on.wait(60)
        return found

    async with rereading(lambda: models_in(tmp_path), explicit=True) as manager:
        await manager.load("m")
        monkeypatch.setattr(managing, "_present", slowly)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manager.look)
            await reading.wait()
            await manager.unload("m")
            go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [each.state.name for each in manager.models["m"].versions.values()] == ["END"]


async def test_a_label_follows_the_settings(tmp_path: Path) -> None:
    for number in (1, 2):
        export_factor(tmp_path / "m" / str(number), number)
    settings = ModelSettings("m", tmp_path / "m", VersionPolicy(latest=None), {"stable": 1})
    async with rereading(lambda: [settings]) as manager:
        await settled(manager)
        assert await answer(manager, "m", "stable") == 1.0
        settings = replace(settings, labels={"stable": 2})
        await manager.look()
        assert await answer(manager, "m", "stable") == 2.0


async def test_a_new_model_waits_until_a_client_loads_it(tmp_path: Path) -> None:
    export_factor(tmp_path / "a" / "1", 2.0)
    async with rereading(lambda: models_in(tmp_path), explicit=True) as manager:
        export_factor(tmp_path / "b" / "1", 3.0)
        await settled(manager)
        await settled(manager)
        assert manager.is_ready
        assert not manager.models["b"].versions
        await manager.load("b")
        assert await answer(manager, "b") == 3.0
        # A model that a client has unloaded stays unloaded.
        await manager.unload("b")
        await settled(manager)
        assert not manager.models["b"].available
        assert manager.is_ready


async def test_the_error_of_a_folder_ends_with_it(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 2.0)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        shutil.move(tmp_path / "m", tmp_path / "gone")
        await made.manager.look()
        assert made.manager.models["m"].error is not None
        shutil.move(tmp_path / "gone", tmp_path / "m")
        await made.manager.look()
        assert made.manager.models["m"].error is None


def test_a_fingerprint_is_of_times_and_of_all_folders(tmp_path: Path) -> None:
    file = tmp_path / "variables" / "data"
    file.parent.mkdir()
    file.write_bytes(b"one")
    first = fingerprint(tmp_path)
    file.touch()
    file.write_bytes(b"two")
    second = fingerprint(tmp_path)
    file.write_bytes(b"longer")
    assert len({first, second, fingerprint(tmp_path)}) == 3


async def test_a_version_that_is_unloaded_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path) as made, trio.open_nursery() as nursery:
        await made.until("m", 1, "AVAILABLE")
        export_factor(tmp_path / "m" / "2", 2.0)

        class Unloaded(ServedVersion):
            """A version that a client unloads as soon as it is listed."""

            def __init__(self, number: int, folder: Path) -> None:
                super().__init__(number, folder)
                nursery.start_soon(made.manager.unload, "m")

        monkeypatch.setattr(managing, "ServedVersion", Unloaded)
        await settled(made.manager)
        await trio.testing.wait_all_tasks_blocked()
        await settled(made.manager)
        assert {each.state.name for each in made.manager.models["m"].versions.values()} == {"END"}
        assert ("m", 2, "AVAILABLE") not in made.states
