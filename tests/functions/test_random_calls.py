"""Random programs of calls: the same values and effects in every form and way of running them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import numpy as np
import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key
from tests.effort import IS_NIGHTLY
from tests.functions.programs import PROGRAMS, Add, Block, Call, While, Writer, evaluated


def few(count: int) -> int:
    """Return how many of a test's examples to play: a quarter, or five times as many at night."""
    return count * 5 if IS_NIGHTLY else max(count // 4, 2)


FEEDS = (np.float32(0.25), np.float32(3.0), np.float32(-2.0), np.float32(0.25), np.float32(3.0))


def expected(program: Block) -> list[list[np.float32]]:
    """After each step: its value, and those of the variables."""
    variables = [np.float32(1), np.float32(2)]
    return [[evaluated(program, x, variables), *variables] for x in FEEDS]


async def played(session: Any, writer: Writer) -> list[list[Any]]:
    """As `expected`, of a session of the writer's graph."""
    await session.run([], targets=[variable.initializer.name for variable in writer.variables])
    found = []
    for x in FEEDS:
        with trio.fail_after(60):
            value = await session.run("y:0", {"x:0": x})
            found.append([value, *await session.run([variable.value() for variable in writer.variables])])
    return found


@asynccontextmanager
async def three_tasks() -> AsyncIterator[str]:
    """The target of a cluster of three tasks in this program."""
    jobs = [f"127.0.0.1:{port}" for port in free_ports(3)]
    spec = fe.ClusterSpec.of({"worker": jobs})
    async with (
        fe.Server(spec, "worker", 0) as master,
        fe.Server(spec, "worker", 1),
        fe.Server(spec, "worker", 2),
    ):
        yield master.target


FORMS = pytest.mark.parametrize(
    ("is_functional", "is_opened"),
    [(True, True), (True, False), (False, True)],
    ids=["opened", "called", "primitive"],
)


@FORMS
@settings(max_examples=few(25))
@given(program=PROGRAMS, compiled=st.booleans())
async def test_on_one_device(program: Block, compiled: bool, is_functional: bool, is_opened: bool) -> None:
    writer = Writer(is_functional)
    writer.write(program)
    config = fe.Config(open_calls=is_opened, compile_hot_plans=compiled)
    async with fe.Session(writer.graph, config=config) as session:
        assert await played(session, writer) == expected(program)


#: A call in a loop is given variables that it leaves alone, and what it does is on another device.
ELSEWHERE: Final = Block((While(0, Block((Call(Block((Add(0, 0),))),))),))


@FORMS
@settings(max_examples=few(15))
@example(program=ELSEWHERE)
@given(program=PROGRAMS)
async def test_on_three_devices(program: Block, is_functional: bool, is_opened: bool) -> None:
    devices = [f"/device:CPU:{number}" for number in range(3)]
    writer = Writer(is_functional, devices, devices[:1] * 2)
    writer.write(program)
    config = fe.Config(open_calls=is_opened, device_count={"CPU": 3})
    async with fe.Session(writer.graph, config=config) as session:
        assert await played(session, writer) == expected(program)


@FORMS
@settings(max_examples=few(5))
@given(program=PROGRAMS)
async def test_on_three_tasks(program: Block, is_functional: bool, is_opened: bool) -> None:
    tasks = [f"/job:worker/task:{number}" for number in range(3)]
    writer = Writer(is_functional, tasks, tasks[1:2] * 2)
    writer.write(program)
    config = fe.Config(open_calls=is_opened)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
        async with three_tasks() as target, fe.Session(writer.graph, target=target, config=config) as session:
            assert await played(session, writer) == expected(program)
