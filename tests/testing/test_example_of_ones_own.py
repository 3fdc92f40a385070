"""A test suite as a user writes one, for an op of one's own: alone, in drawn graphs, in each kind of session.

The page "Testing your own" shows it in parts. It is checked by `mypy --strict` with the other tests, and by
pyright, strictly, where there is one.
"""

# pyright: strict

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from flowengine.resources.container import ResourceManager
from flowengine.testing import check_kernel, evaluate, strategies
from flowengine.testing.strategies import DrawnOp, GraphCase

OPS = fe.OpRegistry(parent=registry())
OPS.register(
    fe.OpDef.parse(
        "Halve(x: T) -> y: T", "T: {float, double}; times: int = 1", shape=lambda context: [context.input(0)]
    )
)
KERNELS = fe.KernelRegistry(parent=load_all())


@KERNELS.kernel("Halve")
def halve(x: npt.NDArray[np.float64], *, times: int) -> npt.NDArray[np.float64]:
    return x / x.dtype.type(2**times)


@given(st.lists(st.floats(-1e6, 1e6), max_size=5), st.integers(0, 3))
def test_the_kernel_alone(values: list[float], times: int) -> None:
    x = np.array(values, np.float64)
    check_kernel("Halve", x, times=times, expected=x / 2**times, ops=OPS, kernels=KERNELS)


DRAWN = strategies.graphs(ops=[DrawnOp("Halve", {"times": st.integers(0, 3)}), "AddN"], registry=OPS)


@settings(max_examples=20)
@given(DRAWN)
def test_drawn_graphs_in_every_session(case: GraphCase) -> None:
    resources = ResourceManager()
    for name in case.setup:
        evaluate(case.graph, [], targets=[name], resources=resources, kernels=KERNELS)
    wanted = [
        evaluate(case.graph, fetches, feeds, case.targets, resources=resources, kernels=KERNELS)
        for fetches, feeds in case.runs
    ]

    async def on_trio() -> None:
        async with fe.Session(case.graph, kernels=KERNELS) as session:
            for name in case.setup:
                await session.run([], targets=[name])
            for (fetches, feeds), want in zip(case.runs, wanted, strict=True):
                got = await session.run(list(fetches), feeds, targets=case.targets)
                same(got, want)

    async def on_asyncio() -> None:
        async with fe.asyncio.Session(case.graph, kernels=KERNELS) as session:
            for name in case.setup:
                await session.run([], targets=[name])
            for (fetches, feeds), want in zip(case.runs, wanted, strict=True):
                got = await session.run(list(fetches), feeds, targets=case.targets)
                same(got, want)

    trio.run(on_trio)
    asyncio.run(on_asyncio())
    with fe.blocking.Session(case.graph, kernels=KERNELS) as session:
        for name in case.setup:
            session.run([], targets=[name])
        for (fetches, feeds), want in zip(case.runs, wanted, strict=True):
            same(session.run(list(fetches), feeds, targets=case.targets), want)


def same(got: list[npt.NDArray[np.generic]], want: list[npt.NDArray[np.generic]]) -> None:
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


PYRIGHT = shutil.which("pyright")


@pytest.mark.skipif(PYRIGHT is None, reason="there is no pyright on the path")
def test_pyright_is_content() -> None:
    command = [str(PYRIGHT), "--pythonpath", sys.executable, str(Path(__file__).resolve())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
