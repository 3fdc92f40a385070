"""Large values into a box and out of it: equal, nobody's else, and gone when nobody needs them."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import DeadlineExceededError, InvalidArgumentError
from flowengine.sandbox import confine, startup
from flowengine.sandbox.process import BoxProcess

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)

_COUNT: Final = 500_000


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 200_000_000, "seconds": 30.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


def _bytes(graph: fe.Graph) -> fe.GraphBytes:
    return fe.GraphBytes(graph.to_graph_def().SerializeToString())


def _process(session: fe.Session) -> BoxProcess:
    found = session.elsewhere._process
    assert isinstance(found, BoxProcess)
    return found


def _used(session: fe.Session) -> int:
    """Return the bytes of shared memory that the process has and has not given back."""
    passage = _process(session).passage
    assert passage is not None
    return passage.used_bytes


def _open_files() -> set[str]:
    """Return the files that this process has open, as the system names them."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the folder's own is closed by then
            found.add(f"{each.name} {each.readlink()}")
    return found


@pytest.mark.parametrize("has_memory", [True, False])
async def test_values_of_every_kind_come_back(monkeypatch: pytest.MonkeyPatch, has_memory: bool) -> None:
    if not has_memory:

        def refused(size: int) -> int:
            raise OSError("no such call")

        monkeypatch.setattr(startup, "sealed_memory", refused)
    g = fe.Graph()
    dtypes = ["float32", "float64", "bool", "complex128", "bfloat16", "int8", "uint64", "qint8", "string"]
    for dtype in dtypes:
        g.ops.Identity(g.placeholder(dtype, None, name=dtype), name=f"same_{dtype}")
    random = np.random.default_rng(32)
    async with fe.Session(_bytes(g), config=_config()) as session:
        for dtype in dtypes:
            value: Any = random.integers(0, 2, (250, _COUNT // 500)).repeat(2, axis=1)
            if dtype == "string":
                value = value.astype("S1").astype(object)
            else:
                value = value.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype.removeprefix("q"))
            for each in (value, value.T, value[::3], value[:, :1]):
                found = await session.run(f"same_{dtype}:0", {f"{dtype}:0": each})
                assert found.shape == each.shape
                assert (found["qint8"] == each).all() if dtype == "qint8" else (found == each).all()
        passage = _process(session).passage
        assert (passage is not None) == has_memory


async def test_what_a_variable_was_given_stays() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [_COUNT], name="x")
    for number in range(3):
        v = g.ops.VarHandleOp(dtype="float32", shape=[_COUNT], shared_name=f"v{number}", name=f"v{number}")
        g.ops.AssignVariableOp(v, x, name=f"assign{number}")
        g.ops.ReadVariableOp(v, dtype="float32", name=f"value{number}")
    g.ops.Add(x, x, name="y")
    async with fe.Session(_bytes(g), config=_config()) as session:
        values = [np.full(_COUNT, number + 1, np.float32) for number in range(3)]
        for number, value in enumerate(values):
            await session.run(f"assign{number}", {"x:0": value})
        for _ in range(5):
            np.testing.assert_array_equal(await session.run("y:0", {"x:0": values[0] * 7}), values[0] * 14)
            for number, value in enumerate(values):
                np.testing.assert_array_equal(await session.run(f"value{number}:0"), value)


async def test_memory_is_used_again_however_steps_end() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Add(x, x, name="y")
    g.ops.CheckNumerics(x, message="odd", name="checked")
    async with fe.Session(_bytes(g), config=_config()) as session:
        value = np.ones(_COUNT, np.float32)
        for number in range(60):
            if number % 3:
                np.testing.assert_array_equal(await session.run("y:0", {"x:0": value}), value * 2)
            elif number % 2:
                with pytest.raises(InvalidArgumentError, match="odd"):
                    await session.run("checked:0", {"x:0": value * np.nan})
            else:
                with trio.move_on_after(0.001):
                    await session.run("y:0", {"x:0": value})
        assert await session.run("y:0", {"x:0": [1]}) == [2]
        assert _used(session) <= 3 * value.nbytes
        first = session.incarnation
        # Far more than there is room for at once.
        for _ in range(120):
            await session.run("y:0", {"x:0": value})
        assert await session.run("y:0", {"x:0": [1]}) == [2]
        assert _used(session) <= 3 * value.nbytes
        assert session.incarnation == first


async def test_steps_at_once_keep_their_values_apart() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Mul(x, 2.0, name="y")
    random = np.random.default_rng(7)
    async with fe.Session(_bytes(g), config=_config(max_steps=4)) as session:
        call = session.make_callable(["y", "x"], ["x"])

        async def one(number: int) -> None:
            value = np.full(int(random.integers(1, _COUNT)), number, np.float32)
            for _ in range(5):
                doubled, same = await call(value)
                np.testing.assert_array_equal(doubled, value * 2)
                np.testing.assert_array_equal(same, value)

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(one, number)


async def test_nothing_is_left_open() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Add(x, x, name="y")
    gc.collect()
    before = _open_files()
    for _ in range(2):
        async with fe.Session(_bytes(g), config=_config(memory_bytes=50_000_000)) as session:
            for _ in range(2):
                result = await session.run("y:0", {"x:0": np.ones(_COUNT)})
                assert (result == 2).all()
                assert any("memfd:flowengine" in each for each in _open_files())
                _process(session).kill()
                await _process(session).why_ended()
        gc.collect()
        assert not [each for each in _open_files() - before if "memfd:flowengine" in each]


async def test_a_step_of_large_values_that_is_late_gives_its_memory_back() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    queue = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    with g.control_dependencies([g.ops.Sum(x, 0)]):
        g.ops.QueueDequeueV2(queue, component_types=["float32"], name="never")
    g.ops.Add(x, x, name="y")
    async with fe.Session(_bytes(g), config=_config(seconds=0.5)) as session:
        value = np.ones(_COUNT, np.float32)
        await session.run("y:0", {"x:0": value})
        first = session.incarnation
        for _ in range(3):
            with pytest.raises(DeadlineExceededError, match=r"within 0\.5 s"):
                await session.run("never:0", {"x:0": value})
        for _ in range(2):
            await session.run("y:0", {"x:0": value})
        assert session.incarnation == first
        assert _used(session) <= value.nbytes
