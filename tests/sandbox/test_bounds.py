"""Bounds that end a step in a sandbox before the process: on feeds, fetches and memory of kernels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import OpError, ResourceExhaustedError
from flowengine.runtime.planning.values import FetchSpec
from flowengine.sandbox import confine
from flowengine.sandbox.process_usage import ProcessUsage

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)

_MEMORY: Final = 100_000_000
#: Elements of 44 MB.
_COUNT: Final = 11_000_000

_OPS: Final = """
import mmap
from flowengine import OpDef
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry
import numpy as np

registry().register(OpDef.parse("Scratch(pieces: int64, size: int64) -> sum: int64"))


@kernel("Scratch")
def scratch(pieces, size):
    held = [np.ones(int(size), np.uint8) for _ in range(int(pieces))]
    return np.int64(sum(int(each.sum()) for each in held))


try:
    mmap.mmap(-1, 4096, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
except OSError:
    raise AssertionError("this module was imported after the process had locked itself in") from None
"""


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": _MEMORY, "seconds": 30.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


def _bytes(graph: fe.Graph) -> fe.GraphBytes:
    return fe.GraphBytes(graph.to_graph_def().SerializeToString())


async def _inside(session: fe.Session, fetches: Any, value: Any) -> Any:
    """The values of a step, or its error; the process stays the same."""
    first = session.incarnation
    try:
        found = await session.run(fetches, {"x:0": value})
    except OpError as error:
        found = error
    assert not (isinstance(found, OpError) and "ended" in found.message)
    assert session.incarnation == first
    return found


async def test_what_is_fed_counts_and_what_fits_is_run() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    y = g.ops.Add(x, 1.0, name="y")
    g.ops.Cumsum(g.ops.Cumsum(y, 0), 0, name="z")
    g.ops.Add(x, 2.0, name="other")
    value = np.ones(_COUNT, np.float32)
    async with fe.Session(_bytes(g), config=_config()) as session:
        assert await session.run("x:0", {"x:0": [1]}) == [1]
        for _ in range(4):
            assert (await _inside(session, "y:0", value) == 2).all()
            error = await _inside(session, "z:0", value)
            assert isinstance(error, ResourceExhaustedError)
            assert "'what was fed' holds 44,000,000" in error.message
            assert isinstance(await _inside(session, ["y:0", "other:0"], value), ResourceExhaustedError)
        # More than there may be at all.
        wide = np.ones(2 * _COUNT + 4_000_000, np.float32)
        assert isinstance(await _inside(session, "y:0", wide), ResourceExhaustedError)
        assert (await _inside(session, "y:0", value) == 2).all()


async def test_errors_keep_no_memory() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.CheckNumerics(x, message="odd", name="checked")
    value = np.full(_COUNT, np.nan, np.float32)
    async with fe.Session(_bytes(g), config=_config()) as session:
        assert await session.run("x:0", {"x:0": [1]}) == [1]
        for _ in range(6):
            assert "odd" in str(await _inside(session, "checked:0", value))


async def test_what_a_variable_is_given_later_is_not_seen_in_what_was_fetched() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    v = g.ops.VarHandleOp(dtype="float32", shape=None, name="v")
    g.ops.AssignVariableOp(v, g.ops.Fill([_COUNT], g.ops.Sum(x, 0)), name="assign")
    g.ops.ReadVariableOp(v, dtype="float32", name="value")
    async with fe.Session(_bytes(g), config=_config()) as session:
        await session.run("assign", {"x:0": [1, 2]})
        before = await _inside(session, "value:0", [1])
        for expected in (3, 7):
            await session.run("assign", {"x:0": [expected]})
            value = await _inside(session, "value:0", [1])
            assert value.shape == (_COUNT,)
            assert (value == expected).all()
        assert (before == 3).all()


async def test_a_small_bound_is_none_for_what_a_process_begins_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at: list[tuple[bool, bool]] = []
    allow, settle = ProcessUsage.allow, ProcessUsage.settle
    settled: set[ProcessUsage] = set()

    def allowed(self: ProcessUsage, room: int, least: int = 0) -> None:
        at.append((self in settled, room > 0))
        allow(self, room, least)

    def settling(self: ProcessUsage, memory_bytes: int) -> None:
        settle(self, memory_bytes)
        settled.add(self)

    monkeypatch.setattr(ProcessUsage, "allow", allowed)
    monkeypatch.setattr(ProcessUsage, "settle", settling)
    g = fe.Graph()
    g.constant(1.0, name="one")
    async with fe.Session(_bytes(g), config=_config(memory_bytes=1_000_000)) as session:
        assert await session.run("one:0") == 1
    # Nothing is refused to a process while it gets ready, however little its graph may take.
    assert at
    assert at[0] == (True, True)
    assert all(is_settled for is_settled, _ in at)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with an op whose kernel takes memory for itself."""
    (tmp_path / "scratching.py").write_text(_OPS)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return "scratching"


async def test_memory_of_kernels_is_refused_to_them_before_the_process_ends(scratch: str) -> None:
    ops = fe.OpRegistry()
    ops.register(fe.OpDef.parse("Scratch(pieces: int64, size: int64) -> sum: int64"))
    ops.register(fe.OpDef.parse("Placeholder() -> output: dtype", "dtype: type; shape: shape = unknown"))
    g = fe.Graph(registry=ops)
    pieces, size = (g.ops.Placeholder(dtype="int64", name=each) for each in ("pieces", "size"))
    getattr(g.ops, "Scratch")(pieces, size, name="taken")  # noqa: B009 (no stub knows it)
    async with fe.Session(_bytes(g), config=_config(imports=(scratch,))) as session:

        async def taken(pieces: int, size: int) -> Any:
            return await session.run("taken:0", {"pieces:0": pieces, "size:0": size})

        assert await taken(1, 50_000_000) == 50_000_000
        first = session.incarnation
        for _ in range(3):
            with pytest.raises(ResourceExhaustedError, match="Scratch 'taken'"):
                await taken(1, 400_000_000)
            with pytest.raises(ResourceExhaustedError, match="Scratch 'taken'"):
                await taken(12, 30_000_000)
            assert await taken(2, 20_000_000) == 40_000_000
        assert session.incarnation == first


async def test_large_results_of_kept_memory_are_handed_out_without_a_copy() -> None:
    from flowengine.core.buffers import LARGE, MemoryLease, empty

    fetch = FetchSpec("x:0", fe.dtypes.float32)
    values: list[Any] = [empty((LARGE,), np.float32)]
    assert isinstance(values[0].base, MemoryLease)
    where = values[0].ctypes.data
    found = fetch.convert(values, 0)
    assert found.ctypes.data == where
    values[0] = found[1:]
    del found
    part = values[0]
    # A part keeps the whole alive, and somebody else has it.
    assert fetch.convert(values, 0).ctypes.data != part.ctypes.data
    lease = part.base.base
    values[0] = part.base
    del part
    assert fetch.convert(values, 0).ctypes.data != where
    del lease
