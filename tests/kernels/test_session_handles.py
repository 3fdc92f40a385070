"""Values that stay with a session under a handle."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe


@pytest.fixture
def graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", None, name="x")
    g.ops.GetSessionHandle(g.ops.Mul(x, x), name="keep")
    handle = g.placeholder("string", [], name="handle")
    g.ops.Neg(g.ops.GetSessionTensor(handle, dtype="float32"), name="use")
    g.ops.GetSessionTensor(handle, dtype="int32", name="wrong")
    g.ops.DeleteSessionTensor(handle, name="delete")
    return g


async def test_a_later_step_uses_what_an_earlier_one_kept(graph: fe.Graph) -> None:
    async with fe.Session(graph) as session:
        x = np.array([1, 2], np.float32)
        first = await session.run("keep:0", {"x:0": x})
        x[:] = 9
        second = await session.run("keep:0", {"x:0": np.float32(3)})
        assert first != second
        assert (await session.run("use:0", {"handle:0": first})).tolist() == [-1, -4]
        assert await session.run("use:0", {"handle:0": second}) == -9
        await session.run([], {"handle:0": first}, targets=["delete"])
        assert await session.run("use:0", {"handle:0": second}) == -9
        for fetches, targets in (("use:0", ()), ([], ["delete"])):
            with pytest.raises(fe.errors.NotFoundError, match="keep;"):
                await session.run(fetches, {"handle:0": first}, targets=targets)


@pytest.mark.parametrize("op", ["GetSessionHandle", "GetSessionHandleV2"])
async def test_what_is_kept_is_not_the_feed(op: str) -> None:
    """The caller may write to the fed array afterwards."""
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    kept = getattr(g.ops, op)(x, name="keep")
    name = g.placeholder("string", [], name="handle")
    g.ops.GetSessionTensor(name, dtype="float32", name="use")
    async with fe.Session(g) as session:
        fed = np.array([1, 2], np.float32)
        handle = await session.run(kept, {x: fed})
        fed[:] = 9
        found = await session.run("use:0", {name: getattr(handle, "name", handle)})
        assert found.tolist() == [1, 2]


async def test_a_handle_of_another_type_or_session_is_refused(graph: fe.Graph) -> None:
    async with fe.Session(graph) as session, fe.Session(graph) as other:
        handle = await session.run("keep:0", {"x:0": 2.0})
        with pytest.raises(fe.errors.InvalidArgumentError, match="is float32, not int32"):
            await session.run("wrong:0", {"handle:0": handle})
        with pytest.raises(fe.errors.NotFoundError, match="another session"):
            await other.run("use:0", {"handle:0": handle})


async def test_the_second_form_hands_out_a_resource() -> None:
    g = fe.Graph()
    handle = g.ops.GetSessionHandleV2(g.constant(np.arange(3, dtype=np.int32)), name="keep")
    g.ops.Identity(handle, name="same")
    async with fe.Session(g) as session:
        held = await session.run("same:0")
        assert held.value.tolist() == [0, 1, 2]
        assert held.name.startswith("keep;")
