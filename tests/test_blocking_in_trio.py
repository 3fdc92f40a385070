"""A blocking session in a task of trio holds up the other tasks, and says so."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator

import pytest
import trio

import flowengine as fe

GRAPH = fe.Graph()
GRAPH.constant(1.0, name="x")


@pytest.fixture
def session() -> Iterator[fe.blocking.Session]:
    with fe.blocking.Session(GRAPH) as opened:
        yield opened


async def test_the_first_step_warns_and_names_the_call_to_write(session: fe.blocking.Session) -> None:
    with pytest.warns(RuntimeWarning, match=r"no other task .*.*fe\.Session.*await session\.run") as caught:
        assert session.run("x:0") == 1
    assert caught[0].filename == __file__
    assert session.run("x:0") == 1


async def test_a_function_of_make_callable_warns(session: fe.blocking.Session) -> None:
    step = session.make_callable("x")
    with pytest.warns(RuntimeWarning, match="no other task"):
        assert step() == 1


async def test_a_thread_of_a_trio_program_may_block(session: fe.blocking.Session) -> None:
    assert await trio.to_thread.run_sync(session.run, "x:0") == 1


def test_scripts_and_notebooks_may_block(session: fe.blocking.Session) -> None:
    async def cell() -> None:
        assert session.run("x:0") == 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.run("x:0") == 1
        asyncio.run(cell())
