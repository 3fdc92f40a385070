"""Guards, observers and steppers see values in the memory of a device as arrays of NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import errors
from tests.devices.on_gpu import GPU, opened
from tests.runtime.claims_of_cold_plans import claim_at_once


def chain() -> fe.Graph:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [4], name="x")
        total = g.ops.AddN([g.ops.Abs(x, name="abs"), x], name="total")
        g.ops.Neg(g.ops.Log(total, name="log"), name="y")
    return g


@pytest.mark.parametrize("is_claim", [False, True])
async def test_the_guard_names_a_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_claim: bool
) -> None:
    """A chain that is one launch runs its members again, on the device."""
    if is_claim:
        claim_at_once(monkeypatch, by_device=True)
    file = tmp_path / "found.npz"
    seen: list[str] = []
    async with opened(chain(), 5) as (session, _):
        feeds: dict[str, Any] = {"x:0": [1.0, 2.0, 3.0, 4.0]}
        plain = await session.run("y:0", feeds)
        observing = fe.RunOptions(observe=lambda node, tag, outputs: seen.append(node))
        await session.run("y:0", feeds, options=observing)
        assert ("log" in seen) is not is_claim
        options = fe.RunOptions(guard=True, guard_file=str(file))
        np.testing.assert_array_equal(await session.run("y:0", feeds, options=options), plain)
        with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has") as caught:
            await session.run("y:0", {"x:0": [1.0, -2.0, 3.0, 4.0]}, options=options)
    assert caught.value.node_name == "log"
    assert "input 0: float32 [4] from 0 to 8, mean 4" in str(caught.value)
    with np.load(file) as kept:
        assert kept["input_0"].tolist() == [2.0, 0.0, 6.0, 8.0]


async def test_a_variable_that_an_update_spoils() -> None:
    g = fe.Graph()
    with g.device(GPU):
        v = g.ops.VariableV2(shape=[2], dtype="float32", name="v")
        g.ops.Assign(v, np.full(2, 3e38, np.float32), name="init")
        g.ops.AssignAdd(v, g.placeholder("float32", [2], name="x"), name="update")
    async with opened(g, 5) as (session, _):
        await session.run([], targets=["init"])
        with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has 0 NaN and 2") as caught:
            await session.run(
                [], {"x:0": [3e38, 3e38]}, targets=["update"], options=fe.RunOptions(guard=True)
            )
    assert caught.value.node_name == "update"
    assert "input 0: float32 [2] from 3e+38 to 3e+38" in str(caught.value)


async def test_an_observer_and_a_stepper_see_arrays() -> None:
    seen: dict[str, Any] = {}
    async with opened(chain(), 5) as (session, _):
        feeds: dict[str, Any] = {"x:0": [1.0, 2.0, 3.0, 4.0]}
        observing = fe.RunOptions(observe=lambda node, tag, outputs: seen.update({node: outputs[0]}))
        await session.run("y:0", feeds, options=observing)
        async with fe.debug.Stepper(session, "y:0", feeds) as stepper:
            node = await stepper.go_on("log")
            assert node is not None
            assert node.inputs[0].tolist() == [2.0, 4.0, 6.0, 8.0]
            await stepper.step()
            assert stepper.ran is not None
            np.testing.assert_allclose(stepper.ran.outputs[0], np.log([2.0, 4.0, 6.0, 8.0]), rtol=1e-6)
    assert type(seen["total"]) is np.ndarray
    assert seen["total"].tolist() == [2.0, 4.0, 6.0, 8.0]
