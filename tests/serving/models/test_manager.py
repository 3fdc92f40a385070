"""Versions of models come, answer and go, and what is wrong with one harms no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core.errors import (
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.ir.proto.example_pb2 import Example
from flowengine.ir.tensorproto import encode_tensor
from flowengine.resources.event_files import framed
from flowengine.serving.models import manager as managing
from flowengine.serving.models.manager import LoadingOptions, ModelManager
from flowengine.serving.models.settings import ModelSettings, RowBatching, VersionPolicy, models_in
from flowengine.serving.models.sources import load_version
from flowengine.serving.models.versions import ServedVersion, VersionState
from flowengine.serving.proto import PredictionLog
from tests.serving.exports import export_factor, export_gate


class Watched:
    """A manager, and the states that its versions have had."""

    def __init__(self, models: list[ModelSettings], **options: Any) -> None:
        self.states: list[tuple[str, int, str]] = []
        self._changed = trio.Event()
        self.manager = ModelManager(
            models, LoadingOptions(**options), poll_seconds=None, on_change=self._note
        )

    def _note(self, name: str, version: ServedVersion) -> None:
        self.states.append((name, version.number, version.state.name))
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, name: str, number: int, state: str) -> None:
        """Wait until a version has had a state."""
        with trio.fail_after(60):
            while (name, number, state) not in self.states:
                await self._changed.wait()

    async def look_until(self, name: str, number: int, state: str) -> None:
        await self.manager.look()
        await self.until(name, number, state)

    async def ask(
        self, name: str, *, number: int | None = None, label: str | None = None, x: float = 1.0
    ) -> float:
        with self.manager.request(name, number, label) as version:
            return float((await version.call("serving_default", {"x": np.array([x], np.float32)}))["y"][0])


@asynccontextmanager
async def watched(folder: Path, **options: Any) -> AsyncIterator[Watched]:
    settings = options.pop("settings", None) or models_in(folder)
    made = Watched(settings, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.manager.run)
        yield made
        nursery.cancel_scope.cancel()


async def test_the_latest_version_answers(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        export_factor(tmp_path / "m" / str(number), number)
    (tmp_path / "m" / "11.part").mkdir()
    async with watched(tmp_path) as made:
        await made.until("m", 10, "AVAILABLE")
        assert await made.ask("m") == 10.0
        with pytest.raises(NotFoundError, match=r"Servable not found for request: Specific\(m, 2\)"):
            await made.ask("m", number=2)
        with pytest.raises(NotFoundError, match=r"Servable not found for request: Latest\(other\)"):
            await made.ask("other")


async def test_a_new_version_is_loaded_beside_the_old_one(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        export_factor(tmp_path / "m" / "2", 2.0)
        await made.look_until("m", 1, "END")
        assert await made.ask("m") == 2.0
        # The new one answers before the old one ends.
        assert made.states.index(("m", 2, "AVAILABLE")) < made.states.index(("m", 1, "UNLOADING"))


async def test_a_version_ends_after_its_last_request(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        with made.manager.request("m") as old:
            export_factor(tmp_path / "m" / "2", 2.0)
            await made.look_until("m", 1, "UNLOADING")
            assert await made.ask("m") == 2.0
            assert (
                float((await old.call("serving_default", {"x": np.array([3.0], np.float32)}))["y"][0]) == 3.0
            )
            assert ("m", 1, "END") not in made.states
        await made.until("m", 1, "END")


async def test_policies_and_labels(tmp_path: Path) -> None:
    for number in (1, 2, 3, 4):
        export_factor(tmp_path / "m" / str(number), number)
    settings = [
        ModelSettings("all", tmp_path / "m", VersionPolicy(latest=None)),
        ModelSettings(
            "some", tmp_path / "m", VersionPolicy(latest=None, specific=(1, 3)), {"stable": 1, "lost": 9}
        ),
        ModelSettings("two", tmp_path / "m", VersionPolicy(latest=2)),
    ]
    async with watched(tmp_path, settings=settings) as made:
        wanted = {"all": (1, 2, 3, 4), "some": (1, 3), "two": (3, 4)}
        for name, number in [(name, number) for name, numbers in wanted.items() for number in numbers]:
            await made.until(name, number, "AVAILABLE")
        assert [each.number for each in made.manager.models["two"].available] == [3, 4]
        assert await made.ask("all", number=2) == 2.0
        assert await made.ask("some", label="stable") == 1.0
        assert await made.ask("some") == 3.0
        with pytest.raises(InvalidArgumentError, match="Unrecognized servable version label: canary"):
            await made.ask("some", label="canary")
        with pytest.raises(NotFoundError, match=r"Specific\(some, 9\)"):
            await made.ask("some", label="lost")


@pytest.mark.parametrize("fault", ["no graph", "no variables", "cut variables", "cut graph"])
async def test_a_broken_version_never_answers(tmp_path: Path, fault: str) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    export_factor(tmp_path / "ready", 2.0)
    async with watched(tmp_path / "m") as made:
        await made.until("m", 1, "AVAILABLE")
        new = tmp_path / "m" / "2"
        shutil.copytree(tmp_path / "ready", new)
        graph, data = new / "saved_model.pb", next((new / "variables").glob("*.data*"))
        if fault == "no graph":
            graph.unlink()
        elif fault == "no variables":
            shutil.rmtree(new / "variables")
        elif fault == "cut variables":
            data.write_bytes(data.read_bytes()[:-1])
        else:
            graph.write_bytes(graph.read_bytes()[: graph.stat().st_size // 2])
        await made.look_until("m", 2, "END")
        assert made.manager.models["m"].versions[2].error is not None
        assert await made.ask("m") == 1.0
        assert ("m", 2, "AVAILABLE") not in made.states
        # It is not tried again as it is, but once its files have changed.
        count = len(made.states)
        await made.manager.look()
        await trio.testing.wait_all_tasks_blocked()
        assert len(made.states) == count
        shutil.rmtree(new)
        shutil.copytree(tmp_path / "ready", new)
        (new / "note").write_text("whole")
        await made.look_until("m", 2, "AVAILABLE")
        assert await made.ask("m") == 2.0


async def test_files_that_change_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    load = load_version

    async def load_and_change(folder: Path, **options: Any) -> Any:
        model = await load(folder, **options)
        (folder / "late").write_text("still being copied")
        return model

    monkeypatch.setattr(managing, "load_version", load_and_change)
    async with watched(tmp_path / "m") as made:
        await made.until("m", 1, "END")
        assert "changed while they were read" in str(made.manager.models["m"].versions[1].error)
        monkeypatch.setattr(managing, "load_version", load)
        (tmp_path / "m" / "1" / "later").write_text("")
        await made.look_until("m", 1, "AVAILABLE")


async def test_a_folder_that_goes_leaves_what_answers(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        shutil.move(tmp_path / "m", tmp_path / "gone")
        await made.manager.look()
        assert await made.ask("m") == 1.0
        assert isinstance(made.manager.models["m"].error, UnavailableError)
        (tmp_path / "m").mkdir()  # it can be read, and has no version any more
        await made.look_until("m", 1, "END")
        with pytest.raises(NotFoundError):
            await made.ask("m")


async def test_a_bound_on_all_memory(tmp_path: Path) -> None:
    export_factor(tmp_path / "a" / "1", 1.0)
    export_factor(tmp_path / "b" / "1", 1.0)
    size = sum(each.stat().st_size for each in (tmp_path / "a").rglob("*") if each.is_file())
    async with watched(tmp_path, memory_bytes=2 * size) as made:
        with trio.fail_after(60):
            while sum(state in ("AVAILABLE", "END") for _, _, state in made.states) < 2:
                await made._changed.wait()
        states = {name: model.versions[1].state for name, model in made.manager.models.items()}
        assert sorted(each.name for each in states.values()) == ["AVAILABLE", "END"]
        failed = next(name for name, state in states.items() if state is VersionState.END)
        assert isinstance(made.manager.models[failed].versions[1].error, ResourceExhaustedError)
        assert not made.manager.is_ready
        # Room is made by the other's end.
        other = "a" if failed == "b" else "b"
        await made.manager.unload(other)
        await made.look_until(failed, 1, "AVAILABLE")


async def test_load_and_unload_on_demand(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 4.0)
    made = ModelManager(models_in(tmp_path), poll_seconds=None, explicit=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        with pytest.raises(NotFoundError), made.request("m"):
            pass
        await made.load("m")
        with made.request("m") as version:
            assert version.number == 1
        await made.unload("m")
        with pytest.raises(NotFoundError), made.request("m"):
            pass
        with pytest.raises(NotFoundError, match="Could not find any versions of model other"):
            await made.load("other")
        (tmp_path / "m" / "1" / "saved_model.pb").write_bytes(b"\xff")
        with pytest.raises(fe.errors.OpError):
            await made.load("m")
        nursery.cancel_scope.cancel()


async def test_draining_waits_for_requests_and_takes_none(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    async with watched(tmp_path) as made, trio.open_nursery() as nursery:
        await made.until("gate", 1, "AVAILABLE")
        answers: list[float] = []

        async def ask() -> None:
            answers.append(await made.ask("gate", x=2.0))

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        version = made.manager.models["gate"].available[0]
        nursery.start_soon(made.manager.drain, 60.0)
        await trio.testing.wait_all_tasks_blocked()
        assert not made.manager.is_ready
        with pytest.raises(UnavailableError, match="being shut down"):
            await made.ask("gate")
        await version.call("open", {"token": np.zeros(1, np.float32)})
    assert answers == [4.0]


async def test_batches_of_served_requests(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    settings = models_in(tmp_path, RowBatching(max_rows=8))
    async with watched(tmp_path, settings=settings) as made, trio.open_nursery() as nursery:
        await made.until("gate", 1, "AVAILABLE")
        answers: list[float] = []

        async def ask(x: float) -> None:
            answers.append(await made.ask("gate", x=x))

        for x in (1.0, 2.0, 3.0):
            nursery.start_soon(ask, x)
            await trio.testing.wait_all_tasks_blocked()
        version = made.manager.models["gate"].available[0]
        assert version.waiting_rows == 3
        # Two tokens are enough for three requests.
        await version.call("open", {"token": np.zeros(2, np.float32)})
        with trio.fail_after(60):
            while version.requests:
                await trio.testing.wait_all_tasks_blocked()
    assert sorted(answers) == [2.0, 4.0, 6.0]


async def test_graphs_without_a_saved_model(tmp_path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    factor = graph.variable(5.0, name="factor")
    y = fe.multiply(x, factor, name="y")
    signatures = {"serving_default": {"inputs": {"x": "x:0"}, "outputs": {"y": "y"}}}
    saver = fe.train.Saver()
    (tmp_path / "meta" / "1").mkdir(parents=True)
    (tmp_path / "frozen" / "1").mkdir(parents=True)
    async with fe.Session(graph) as session:
        await session.initialize()
        await saver.save(session, tmp_path / "meta" / "1" / "model.ckpt", write_meta_graph=True)
        frozen = await fe.freeze(graph, session, [y])
    (tmp_path / "frozen" / "1" / "graph.pb").write_bytes(frozen.to_graph_def().SerializeToString())
    for name in ("meta", "frozen"):
        (tmp_path / name / "1" / "signatures.json").write_text(json.dumps(signatures))
    async with watched(tmp_path) as made:
        for name in ("meta", "frozen"):
            await made.until(name, 1, "AVAILABLE")
            assert await made.ask(name, x=2.0) == 10.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no JSON"),
        ("[]", "an object of signatures"),
        ('{"s": {"inputs": {"x": "x:0"}}}', "needs outputs"),
        ('{"s": {"inputs": {"x": "nope:0"}, "outputs": {}}}', "nope"),
        ('{"s": {"inputs": {}, "outputs": {}, "more": 1}}', "has 'more'"),
    ],
)
async def test_signatures_that_cannot_be_read(tmp_path: Path, text: str, reason: str) -> None:
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    graph = fe.Graph()
    graph.placeholder("float32", [None], name="x")
    (folder / "graph.pb").write_bytes(graph.to_graph_def().SerializeToString())
    (folder / "signatures.json").write_text(text)
    async with watched(tmp_path) as made:
        await made.until("m", 1, "END")
        assert reason in str(made.manager.models["m"].versions[1].error)


def _warmup(folder: Path, *logs: PredictionLog) -> None:
    (folder / "assets.extra").mkdir()
    with (folder / "assets.extra" / "tf_serving_warmup_requests").open("wb") as file:
        for log in logs:
            file.write(framed(log.SerializeToString()))


def _predict_log(value: Any, name: str = "x") -> PredictionLog:
    log = PredictionLog()
    log.predict_log.request.inputs[name].ParseFromString(
        encode_tensor(np.array(value, np.float32), fe.dtypes.float32).SerializeToString()
    )
    return log


async def test_warm_up_requests_run_before_it_answers(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    _warmup(tmp_path / "m" / "1", _predict_log([1.0, 2.0]), _predict_log([3.0]))
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        assert await made.ask("m") == 1.0


@pytest.mark.parametrize("kind", ["input", "examples", "bytes"])
async def test_a_version_whose_warm_up_fails_does_not_answer(tmp_path: Path, kind: str) -> None:
    export_factor(tmp_path / "m" / "1", 1.0)
    log = _predict_log([1.0], "z")
    if kind == "examples":
        log = PredictionLog()
        log.classify_log.request.input.example_list.examples.append(Example())
    _warmup(tmp_path / "m" / "1", _predict_log([1.0]), log)
    if kind == "bytes":
        file = tmp_path / "m" / "1" / "assets.extra" / "tf_serving_warmup_requests"
        file.write_bytes(file.read_bytes()[:-3])
    async with watched(tmp_path) as made:
        await made.until("m", 1, "END")
        assert made.manager.models["m"].versions[1].error is not None
