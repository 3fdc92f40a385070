"""Runs that are interrupted and go on: to the same values, with what was asked for, and not for ever."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.checkpoint.files import run_path
from flowengine.train.recovery_notes import RecoveryNotes, from_plain, to_plain

STEPS = 12


def model() -> fe.Graph:
    """A weight that moves by what is fed, by a random node with seeds and by one without."""
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    w = g.ops.VariableV2(shape=[3], dtype="float32", name="w")
    seeded = g.ops.RandomStandardNormal(np.array([3], np.int32), dtype="float32", seed=3, seed2=5)
    start = g.ops.RandomUniform(np.array([3], np.int32), dtype="float32", seed=1, seed2=2)
    g.ops.Assign(w, start, name="init")
    g.ops.AssignAdd(w, g.ops.Add(x, seeded), name="train")
    return g


class Position:
    """An input that saves and restores its place."""

    def __init__(self) -> None:
        self.place = 0

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


class Trainer:
    """A run whose steps fail now and then."""

    def __init__(self, folder: Path, fails: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.folder = folder
        self.fails = fails
        self.random = np.random.default_rng(7)
        self.position = Position()
        self.calls = 0
        self.seen: list[int] = []

    async def step(self, session: fe.Session, number: int) -> Any:
        self.calls += 1
        self.seen.append(number)
        self.position.place += 1
        x = self.random.standard_normal(3).astype(np.float32) + self.position.place
        error = self.fails(self.calls)
        if error is not None and self.calls % 2:
            raise error
        await session.run((), {"x:0": x}, targets=["train"])
        if error is not None:
            raise error
        return await session.run("w:0")

    async def run(self, **options: Any) -> fe.train.RecoveredRun:
        options.setdefault("steps", STEPS)
        options.setdefault("save_steps", 4)
        options.setdefault("config", fe.Config(sync_checkpoints=False))
        return await fe.train.run_with_recovery(
            model(),
            self.step,
            directory=self.folder,
            state={"random": self.random, "position": self.position},
            **options,
        )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    result = trio.run(Trainer(tmp_path_factory.mktemp("undisturbed")).run)
    assert result.step == STEPS
    assert result.restarts == []
    return result.value


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments=st.sets(st.integers(1, 2 * STEPS), max_size=4), save_steps=st.integers(1, 5))
def test_an_interrupted_run_ends_as_one_that_was_not(
    undisturbed: Any, tmp_path_factory: pytest.TempPathFactory, moments: set[int], save_steps: int
) -> None:
    kinds = [fe.errors.AbortedError, fe.errors.UnavailableError]
    trainer = Trainer(
        tmp_path_factory.mktemp("run"), lambda call: kinds[call % 2]("lost") if call in moments else None
    )
    result = trio.run(lambda: trainer.run(save_steps=save_steps))
    np.testing.assert_array_equal(result.value, undisturbed)
    assert trainer.position.place == result.step == STEPS
    assert result.checkpoint == fe.train.latest_checkpoint(str(trainer.folder))
    for restart in result.restarts:
        assert restart.resumed == restart.step - restart.step % save_steps
        assert "lost" in str(restart.error)
    assert trainer.calls == STEPS + sum(each.step - each.resumed + 1 for each in result.restarts)


async def test_another_process_goes_on(undisturbed: Any, tmp_path: Path) -> None:
    first = Trainer(tmp_path, lambda call: ValueError("the process dies") if call == 7 else None)
    with pytest.raises(ValueError, match="dies"):
        await first.run()
    second = Trainer(tmp_path)
    second.random.standard_normal(100)
    result = await second.run()
    assert second.seen == list(range(4, STEPS))
    np.testing.assert_array_equal(result.value, undisturbed)
    third = await Trainer(tmp_path).run()
    assert (third.step, third.value, third.restarts) == (STEPS, None, [])
    assert third.checkpoint == str(tmp_path / f"model.ckpt-{STEPS}")


async def test_it_gives_up_where_there_is_no_progress(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[fe.train.Restart] = []
    trainer = Trainer(tmp_path, lambda call: fe.errors.UnavailableError("it burns") if call > 5 else None)
    with (
        caplog.at_level(logging.WARNING, "flowengine.train"),
        pytest.raises(fe.errors.AbortedError, match=r"step 4.*3 times without.*UnavailableError: it burns"),
    ):
        await trainer.run(max_restarts=2, save_steps=4, on_restart=told.append)
    assert [(each.step, each.resumed) for each in told] == [(5, 4), (4, 4)]
    assert "interrupted at step 5: it burns" in caplog.text


async def test_who_allows_no_restart_is_told_of_the_first_interruption(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, lambda call: fe.errors.UnavailableError("it burns") if call == 3 else None)
    with pytest.raises(fe.errors.AbortedError, match="it burns"):
        await trainer.run(max_restarts=0)


async def test_it_waits_so_long_and_not_longer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    lost_until = 30.0

    @asynccontextmanager
    async def around(session: fe.Session) -> AsyncIterator[None]:
        if 0 < trio.current_time() < lost_until:
            raise fe.errors.UnavailableError("nobody is there")
        yield

    async def step(session: fe.Session, number: int) -> None:
        await trio.sleep(1)
        await session.run((), {"x:0": np.zeros(3)}, targets=["train"])
        if number == 5 and trio.current_time() < 10:
            raise fe.errors.AbortedError("lost")

    async def run(**options: Any) -> fe.train.RecoveredRun:
        return await fe.train.run_with_recovery(
            model(), step, steps=8, save_seconds=2.5, around=around, **options
        )

    began = trio.current_time()
    assert began == 0
    result = await run(directory=tmp_path / "a", max_wait_seconds=60)
    (restart,) = result.restarts
    assert (restart.step, restart.resumed) == (5, 3)
    assert lost_until - 6 <= restart.seconds <= lost_until - 6 + 5
    assert restart.attempts > 5
    lost_until = 10_000.0
    began = trio.current_time()
    with pytest.raises(fe.errors.UnavailableError, match=r"could not begin for .* s, in .*nobody is there"):
        await run(directory=tmp_path / "b", max_wait_seconds=60)
    assert 50 <= trio.current_time() - began <= 60


async def test_the_end_of_the_input_and_other_errors(tmp_path: Path) -> None:
    def end(call: int) -> Exception | None:
        return fe.errors.OutOfRangeError("no more") if call == 9 else None

    result = await Trainer(tmp_path, end).run(steps=None)
    assert result.step == 8
    assert result.checkpoint == str(tmp_path / "model.ckpt-8")
    wrong = Trainer(tmp_path, lambda call: fe.errors.InvalidArgumentError("wrong"))
    with pytest.raises(fe.errors.InvalidArgumentError, match="wrong"):
        await wrong.run()
    assert wrong.calls == 1


async def test_a_lost_task_in_a_group_of_errors(tmp_path: Path, undisturbed: Any) -> None:
    def fails(call: int) -> Exception | None:
        lost = fe.errors.UnavailableError("lost")
        return ExceptionGroup("both", [lost, ExceptionGroup("inner", [lost])]) if call == 3 else None

    result = await Trainer(tmp_path, fails).run()
    np.testing.assert_array_equal(result.value, undisturbed)
    assert len(result.restarts) == 1
    mixed = Trainer(
        tmp_path, lambda call: ExceptionGroup("both", [fe.errors.AbortedError("x"), ValueError()])
    )
    with pytest.raises(ExceptionGroup):
        await mixed.run(steps=STEPS + 1)


async def test_checkpoints_of_another_program(tmp_path: Path) -> None:
    g = model()
    counter = g.ops.VariableV2(shape=[], dtype="int64", name="global_step")
    saver = fe.train.Saver()
    async with fe.Session(g) as session:
        await session.run((), targets=["init"])
        await session.run(g.ops.Assign(counter, np.int64(40)).name)
        await saver.save(session, tmp_path / "other.ckpt", global_step=3)
    seen: list[int] = []

    async def step(session: fe.Session, number: int) -> None:
        seen.append(number)

    cases: list[tuple[str | None, int]] = [("global_step", 40), (None, 3)]
    for variable, first in cases:
        seen.clear()
        folder = tmp_path / str(first)
        folder.mkdir()
        for name in os.listdir(tmp_path):
            if name == "checkpoint" or name.startswith("other"):
                (folder / name).write_bytes((tmp_path / name).read_bytes())
        result = await fe.train.run_with_recovery(
            g, step, directory=folder, steps=first + 2, global_step=variable
        )
        assert seen == [first, first + 1]
        assert result.checkpoint == str(folder / f"model.ckpt-{first + 2}")


async def test_notes_go_with_their_checkpoint(tmp_path: Path) -> None:
    saver = fe.train.Saver(max_to_keep=2)
    result = await Trainer(tmp_path).run(save_steps=1, saver=saver)
    assert result.checkpoint is not None
    left = {name for name in os.listdir(tmp_path) if name.endswith(".run")}
    assert left == {f"model.ckpt-{number}.run" for number in (STEPS - 1, STEPS)}
    notes = RecoveryNotes.read(result.checkpoint)
    assert notes is not None
    assert notes.step == STEPS
    assert sorted(notes.random) == ["RandomStandardNormal/3/5", "RandomUniform/1/2"]
    (tmp_path / os.path.basename(run_path(result.checkpoint))).write_text("{")
    with pytest.raises(fe.errors.DataLossError, match=r"model\.ckpt-12\.run cannot be read"):
        await Trainer(tmp_path).run()


async def test_what_was_half_written_goes(tmp_path: Path) -> None:
    left = [
        "model.ckpt-4.index.tempstate12",
        "model.ckpt-7.data-00000-of-00001.tempstate3",
        "checkpoint.tempstate5",
    ]
    left.append("model.ckpt-4.run.tempstate77")

    def leave(call: int) -> Exception | None:
        if call != 6:
            return None
        for name in left:
            (tmp_path / name).touch()
        return fe.errors.UnavailableError("lost")

    result = await Trainer(tmp_path, leave).run()
    assert len(result.restarts) == 1
    assert [name for name in os.listdir(tmp_path) if "tempstate" in name] == []


async def test_what_makes_no_sense(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"steps": -1}, "steps=-1"),
        ({"save_steps": 0}, "save_steps=0"),
        ({"save_seconds": 0.0}, "save_seconds=0.0"),
        ({"max_restarts": -1}, "max_restarts=-1"),
    ]
    for options, message in cases:
        with pytest.raises(fe.errors.InvalidArgumentError, match=message):
            await Trainer(tmp_path).run(**options)
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"'it' is a list: it must be a numpy"):
        await fe.train.run_with_recovery(
            model(), Trainer(tmp_path).step, directory=tmp_path, state={"it": [1]}
        )
    await Trainer(tmp_path).run(steps=1)
    with pytest.raises(fe.errors.InvalidArgumentError, match="holds no state 'new'"):
        await fe.train.run_with_recovery(
            model(), Trainer(tmp_path).step, directory=tmp_path, state={"new": Position()}
        )


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_PLAIN)
def test_state_comes_back(value: Any) -> None:
    assert from_plain(to_plain({"value": value}, "x")) == {"value": value}


@pytest.mark.parametrize("dtype", ["bool", ">i4", "bfloat16", "int4", "complex64", "<U3", "<M8[s]"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_arrays_come_back_as_they_were(dtype: str, shape: tuple[int, ...]) -> None:
    """Of their type and shape, an object's own to write into; beside them a dict may have their mark."""
    array = np.ones(shape, np.int64).astype(np.dtype(dtype))
    state = {"__array__": array, "other": [array.copy()]}
    found = from_plain(json.loads(json.dumps(to_plain(state, "x"))))
    assert found.keys() == state.keys()
    for back in (found["__array__"], *found["other"]):
        assert (back.dtype, back.shape, back.tolist()) == (array[()].dtype, shape, array.tolist())
        assert isinstance(back, np.ndarray) == bool(shape)
        if shape:
            back[...] = array


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_every_generator_comes_back(kind: Any) -> None:
    one, other = np.random.Generator(kind(1)), np.random.Generator(kind(2))
    one.standard_normal(17)
    one.integers(0, 10, 3, np.int32)
    other.bit_generator.state = from_plain(to_plain(one.bit_generator.state, "x"))
    assert one.integers(0, 1 << 40, 20).tolist() == other.integers(0, 1 << 40, 20).tolist()


def test_state_that_cannot_be_written() -> None:
    pairs = np.zeros(2, [("a", "i4"), ("b", "f4")])
    for value in (object(), {1: 2}, np.array([None]), {1}, pairs, {"__array__": 1}):
        with pytest.raises(fe.errors.InvalidArgumentError, match="the state 'x' holds"):
            to_plain(value, "x")
