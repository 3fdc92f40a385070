"""Properties of an op of one's own, in every façade and on the shell.

pytest test_softclip.py
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import softclip
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.testing import check_kernel, evaluate
from flowengine.testing.strategies import GraphCase, arrays, graphs

settings.register_profile("any machine", deadline=None, max_examples=30)  # a slow one is no fault of the op
settings.load_profile("any machine")

HERE = Path(__file__).resolve().parent
LIMIT = np.float32(2)

graph = fe.Graph()
fed = graph.placeholder("float32", name="x")
graph.ops["SoftClip"](fed, LIMIT, name="y")
grown = graph.ops.AddV2(graph.ops.Mul(graph.ops.Abs(fed), 1 / LIMIT), np.float32(1))
graph.ops.RealDiv(fed, grown, name="by_hand")

some_arrays = arrays(fe.dtypes.float32, finite=True)


@pytest.fixture(scope="module")
def clip() -> Iterator[Callable[[Any], Any]]:
    with fe.blocking.Session(graph) as session:
        yield session.make_callable("y", feeds=["x"])


def in_trio(x: Any) -> Any:
    async def step() -> Any:
        async with fe.Session(graph) as session:
            return await session.run("y:0", {"x": x})

    return trio.run(step)


def in_asyncio(x: Any) -> Any:
    async def step() -> Any:
        async with fe.asyncio.Session(graph) as session:
            return await session.run("y:0", {"x": x})

    return asyncio.run(step())


def in_anyio(x: Any) -> Any:
    async def step() -> Any:
        async with fe.anyio.Session(graph) as session:
            return await session.run("y:0", {"x": x})

    return asyncio.run(step())


def in_script(x: Any) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run("y:0", {"x": x})


def on_the_shell(x: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "graph.pb").write_bytes(graph.to_graph_def().SerializeToString())
        np.save(Path(folder, "x.npy"), x)
        command = "run graph.pb --import softclip --feed x=x.npy --fetch y --output y.npy"
        subprocess.run(
            [sys.executable, "-m", "flowengine", *command.split()],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
            check=True,
            capture_output=True,
        )
        return np.load(Path(folder, "y.npy"))


@given(x=some_arrays)
def test_the_kernel_keeps_what_every_kernel_promises(x: Any) -> None:
    check_kernel("SoftClip", x, LIMIT, expected=np.asarray(softclip.soft_clip(x, LIMIT)))


@given(x=some_arrays)
def test_no_value_is_beyond_the_limit(clip: Callable[[Any], Any], x: Any) -> None:
    assert (np.abs(clip(x)) <= LIMIT).all()


@given(x=some_arrays)
def test_it_is_odd(clip: Callable[[Any], Any], x: Any) -> None:
    np.testing.assert_array_equal(clip(-x), -clip(x))


@given(x=some_arrays)
def test_the_op_is_what_other_ops_make_of_it(x: Any) -> None:
    mine, theirs = evaluate(graph, ["y:0", "by_hand:0"], {"x:0": x})
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@given(case=graphs(ops=["SoftClip", "Mul", "Sub"], variables=False))
def test_it_is_itself_in_random_graphs(case: GraphCase) -> None:
    with fe.blocking.Session(case.graph) as session:
        for fetches, feeds in case.runs:
            values = session.run(list(fetches), dict(feeds))
            for value, expected in zip(values, evaluate(case.graph, fetches, feeds), strict=True):
                np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("run", [in_trio, in_asyncio, in_anyio, in_script])
@given(x=some_arrays)
@settings(max_examples=10)
def test_every_facade_gives_the_reference_s_values(run: Callable[[Any], Any], x: Any) -> None:
    (expected,) = evaluate(graph, ["y:0"], {"x:0": x})
    np.testing.assert_array_equal(run(x), expected)


@given(x=some_arrays)
@settings(max_examples=2)
def test_so_does_the_shell(clip: Callable[[Any], Any], x: Any) -> None:
    np.testing.assert_array_equal(on_the_shell(x), clip(x))


@given(st.floats(-1e6, 1e6, width=32), st.floats(0.125, 1e6, width=32))
def test_a_larger_limit_clips_less(x: float, limit: float) -> None:
    limits = np.array([limit, 2 * limit], np.float32)
    (both,) = check_kernel("SoftClip", np.full(2, x, np.float32), limits)
    assert abs(both[0]) <= abs(both[1])
