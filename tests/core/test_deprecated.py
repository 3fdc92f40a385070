"""Old spellings of public names still work, and say the new ones at the caller's line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import flowengine as fe
from flowengine.core.public_names.deprecated import renamed_arguments


def graph() -> fe.Graph:
    made = fe.Graph()
    made.variable(2.0, name="v")
    return made


async def test_the_old_names_of_a_sessions_methods() -> None:
    async with fe.Session(graph()) as session:
        with pytest.warns(DeprecationWarning, match=r"session\.uninitialised is now session\.uninit") as told:
            assert len(await session.uninitialised()) == 1
        with pytest.warns(DeprecationWarning, match=r"session\.initialise is now session\.initialize"):
            await session.initialise()
        assert await session.run("v") == 2.0
    assert told[0].filename == __file__


def test_the_old_names_of_a_facades_methods() -> None:
    with fe.blocking.Session(graph()) as session:
        with pytest.warns(DeprecationWarning, match=r"session\.initialize") as told:
            session.initialise()
        assert told[0].filename == __file__
        assert session.run("v") == 2.0

    async def main() -> None:
        for opened in (fe.asyncio.Session(graph()), fe.anyio.Session(graph())):
            async with opened as session:
                with pytest.warns(DeprecationWarning, match=r"session\.initialize"):
                    await session.initialise()
                assert await session.run("v") == 2.0

    asyncio.run(main())


async def test_the_old_argument_of_a_training_loop() -> None:
    made = graph()
    step: Any = made.operation("v")
    async with fe.Session(made) as session:
        await session.initialize()
        with pytest.warns(DeprecationWarning, match=r"argument 'initialise' of loop is now 'init") as told:
            old = fe.train.loop(session, step, steps=1, quiet=True, initialise=False)  # type: ignore[call-arg]
        assert told[0].filename == __file__
        assert (await old).steps == 1
        with pytest.raises(TypeError, match="both 'initialize' and its old name 'initialise'"):
            await fe.train.loop(session, step, initialize=True, initialise=False)  # type: ignore[call-arg]


def test_the_old_argument_of_a_blocking_loop() -> None:
    made = graph()
    with fe.blocking.Session(made) as session:
        session.initialize()
        with pytest.warns(DeprecationWarning, match="argument 'initialise' of loop") as told:
            fe.blocking.loop(session, made.operation("v"), steps=1, quiet=True, initialise=False)  # type: ignore[call-arg]
    assert told[0].filename == __file__


def test_the_old_names_of_a_saved_model(tmp_path: Path) -> None:
    made = graph()
    made.group(name="start")
    with fe.blocking.Session(made) as session:
        session.initialize()
        with pytest.warns(DeprecationWarning, match="argument 'initialising' of save is now 'initializing'"):
            session.call(
                fe.saved_model.save,
                tmp_path / "export",
                signatures={"s": ({}, {"y": "v:0"})},
                initialising="start",
            )
    with (
        fe.blocking.load_saved_model(tmp_path / "export") as model,
        pytest.warns(DeprecationWarning, match=r"SavedGraph\.initializing"),
    ):
        assert model.saved.initialising == model.saved.initializing == "start"


def test_other_arguments_stay() -> None:
    @renamed_arguments(old="new")
    def function(first: int, *, new: int = 0) -> tuple[int, int]:
        return first, new

    assert function(1, new=2) == (1, 2)
    assert function(1) == (1, 0)
