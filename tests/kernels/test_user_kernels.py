"""Kernels of users: what they are given cannot be written to, and what they give is what the op promises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry

TIERS = pytest.mark.parametrize("compiled", [False, True])


def run(
    signature: str,
    attrs: str,
    function: Callable[..., Any],
    fetches: int,
    *feeds: Any,
    compiled: bool = False,
    given: dict[str, Any] | None = None,
    **kernel: Any,
) -> Any:
    """Return the outputs of a node of a custom op, with this function as its kernel."""
    ops = fe.OpRegistry(parent=registry())
    definition = ops.register(fe.OpDef.parse(signature, attrs))
    kernels = fe.KernelRegistry(parent=load_all())
    kernels.kernel(definition.name, **kernel)(function)
    graph = fe.Graph(registry=ops)
    fed = [graph.placeholder("float32", None, name=f"x{i}") for i in range(len(feeds))]
    graph.create_op(definition.name, fed, given or {}, "own")
    wanted = [f"own:{slot}" for slot in range(fetches)]

    async def main() -> Any:
        async with fe.Session(graph, kernels=kernels) as session:
            given_to = {f"x{i}:0": value for i, value in enumerate(feeds)}
            for _ in range(39 if compiled else 0):
                await session.run(wanted or ["own"], given_to)
            return await session.run(wanted or ["own"], given_to)

    return trio.run(main)


WRONG: list[tuple[Any, str]] = [
    (None, "it is None where float32 is due"),
    ((np.float32(1),), "it is a tuple of 1 where float32 is due"),
    ([np.float32(1)], "it is a list of 1 where float32 is due"),
    ("text", "it is a str where float32 is due"),
    (b"text", "it is string[] where float32 is due"),
    (1.5, "it is a float where float32 is due"),
    (np.float64(1), "it is float64[] where float32 is due"),
    (np.zeros((2, 3)), "it is float64[2,3] where float32 is due"),
    (np.zeros(2, ">f4"), "where float32 is due"),
    (np.ma.masked_array([1.0, 2.0], [True, False], np.float32), "it is a MaskedArray"),
    (np.array([np.float32(1)], object), "where float32 is due"),
    (np.zeros(2, [("a", "f4")]), "where float32 is due"),
]


@TIERS
@pytest.mark.parametrize(("value", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_no_tensor_of_the_dtype_names_node_op_and_kernel(
    value: Any, message: str, compiled: bool
) -> None:
    calls = 0

    def mine(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return value if calls > 30 or not compiled else x

    with pytest.raises(fe.errors.InvalidArgumentError) as caught:
        run("Mine(x: float) -> y: float", "", mine, 1, np.zeros((2, 2), np.float32), compiled=compiled)
    for part in (message, "Mine 'own'", "mine of op Mine, output 0 ('y')"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "it is a str where string is due"),
        (np.array(["a"]), "where string is due"),
        (np.array([b"a"]), "where string is due"),
        (np.array([b"a", "b"], object), "an element is a str where string is due"),
        (np.array([b"a", None], object), "an element is None where string is due"),
    ],
)
def test_texts_are_bytes(value: Any, message: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match=message):
        run("Mine(x: float) -> y: string", "", lambda x: value, 1, np.float32(1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.float32(1), r"gave float32\[\] for the 2 outputs of op Mine"),
        ((np.float32(1),), "gave 1 values for the 2 outputs of op Mine"),
        (None, "gave None for the 2 outputs of op Mine"),
        ((np.float32(1), np.float32(2)), r"output 1 \('z'\): it is float32\[\] where int32 is due"),
        ((np.float32(1),) * 3, "gave 3 values for the 2 outputs"),
    ],
)
def test_each_output_is_there_and_looked_at(value: Any, message: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match=message):
        run("Mine(x: float) -> y: float, z: int32", "", lambda x: value, 2, np.float32(1))


def test_an_op_without_outputs_gives_none() -> None:
    run("Mine(x: float)", "stateful", lambda x: None, 0, np.float32(1))
    with pytest.raises(fe.errors.InvalidArgumentError, match="the op has no outputs, return None"):
        run("Mine(x: float)", "stateful", lambda x: x, 0, np.float32(1))


def test_a_kernel_that_waits_is_looked_at_too() -> None:
    async def mine(x: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return [x]

    with pytest.raises(fe.errors.InvalidArgumentError, match="it is a list of 1 where float32 is due"):
        run("Mine(x: float) -> y: float", "stateful", mine, 1, np.float32(1))
    with pytest.raises(fe.errors.InvalidArgumentError, match="it is None where float32 is due"):
        run("Mine(x: float) -> y: float", "stateful", mine, 1, np.float32(1), nowait=lambda x: None)


@TIERS
def test_a_feed_cannot_be_written_to(compiled: bool) -> None:
    fed = np.ones(3, np.float32)

    def mine(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(fe.errors.InvalidArgumentError, match="read-only"):
        run("Mine(x: float) -> y: float", "", mine, 1, fed, compiled=compiled)
    assert fed.tolist() == [1, 1, 1]
    assert fed.flags.writeable


@TIERS
def test_what_is_right_passes(compiled: bool) -> None:
    fed = np.ones(3, np.float32)
    (doubled,) = run("Mine(x: float) -> y: float", "", lambda x: x * 2, 1, fed, compiled=compiled)
    assert doubled.tolist() == [2, 2, 2]
    (same,) = run("Mine(x: float) -> y: float", "", lambda x: x, 1, fed, compiled=compiled)
    assert same.tolist() == [1, 1, 1]
    assert same.flags.writeable
    assert not np.shares_memory(same, fed)
    both = run(
        "Mine(x: float) -> y: string, z: double",
        "",
        lambda x: (b"a", np.float64(2)),
        2,
        fed,
        compiled=compiled,
    )
    assert both == [b"a", 2.0]


def test_an_attribute_that_the_op_lacks_is_named() -> None:
    def mine(x: Any, *, factor: float) -> Any:
        return x * factor

    message = r"mine asks for the attribute 'factor', which op Mine does not have \(its attributes: scale\)"
    with pytest.raises(fe.errors.InvalidArgumentError, match=message):
        run("Mine(x: float) -> y: float", "scale: float = 2.0", mine, 1, np.float32(1))


@pytest.mark.parametrize("function", [lambda: None, lambda x, y: x, lambda x, y, z: x])
def test_a_kernel_takes_as_many_inputs_as_the_op_has(function: Any) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"inputs, op Mine has 1 \(x\)"):
        run("Mine(x: float) -> y: float", "", function, 1, np.float32(1))


def test_a_ufunc_says_what_it_gives_before_anything_runs() -> None:
    (root,) = run("Mine(x: float) -> y: float", "", np.sqrt, 1, np.float32(4))
    assert root == 2
    with pytest.raises(fe.errors.InvalidArgumentError, match="sqrt of op Mine gives float32 for inputs of"):
        run("Mine(x: float) -> y: double", "", np.sqrt, 1, np.float32(4))
    with pytest.raises(
        fe.errors.InvalidArgumentError, match="is a ufunc of 2 inputs and 1 outputs, op Mine has 1"
    ):
        run("Mine(x: float) -> y: float", "", np.add, 1, np.float32(4))
    with pytest.raises(fe.errors.InvalidArgumentError, match="it is a float where float32 is due"):
        run("Mine(x: float) -> y: float", "", lambda x: math.sqrt(x), 1, np.float32(4))


def test_a_kernel_for_an_op_that_is_not_defined_is_refused_when_a_session_opens() -> None:
    kernels = fe.KernelRegistry(parent=load_all())

    @kernels.kernel("MadMul")
    def mine(a: Any, b: Any) -> Any:
        return a

    with pytest.raises(fe.errors.InvalidArgumentError, match="mine is for op 'MadMul', which is not defined"):
        fe.Session(fe.Graph(), kernels=kernels)


@pytest.mark.parametrize("checked", [False, True])
@TIERS
def test_checked_sessions_hold_kernels_to_their_shape_functions(checked: bool, compiled: bool) -> None:
    ops = fe.OpRegistry(parent=registry())

    def same(c: Any) -> Any:
        return [c.input(0), c.input(0)]

    ops.register(fe.OpDef.parse("Twice(x: float) -> y, z: float", shape=same))
    kernels = fe.KernelRegistry(parent=load_all())

    @kernels.kernel("Twice")
    def twice(x: Any) -> Any:
        return x, x[:1]

    graph = fe.Graph(registry=ops)
    x = graph.placeholder("float32", None, name="x")
    graph.create_op("Twice", [x], {}, "own")

    async def main() -> None:
        config = fe.Config(checked=checked, compile_hot_plans=compiled)
        async with fe.Session(graph, kernels=kernels, config=config) as session:
            for _ in range(12):
                assert (await session.run("own:1", {x: np.ones(1, np.float32)})).shape == (1,)
            if not checked:
                assert (await session.run("own:1", {x: np.ones(3, np.float32)})).shape == (1,)
                return
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await session.run("own:1", {x: np.ones(3, np.float32)})
            assert "output 1 ('z'): it has shape [1] where the op's shape function says [3]" in str(
                caught.value
            )
            assert "twice" in str(caught.value)

    trio.run(main)


def test_checked_sessions_look_at_ufuncs_and_refused_inputs() -> None:
    ops = fe.OpRegistry(parent=registry())

    def vector(c: Any) -> Any:
        if c.input(0).rank not in (None, 1):
            raise fe.errors.InvalidArgumentError("only vectors")
        return [fe.TensorShape([2])]

    ops.register(fe.OpDef.parse("Root(x: float) -> y: float", shape=vector))
    kernels = fe.KernelRegistry(parent=load_all())
    kernels.kernel("Root")(np.sqrt)
    graph = fe.Graph(registry=ops)
    x = graph.placeholder("float32", None, name="x")
    graph.create_op("Root", [x], {}, "own")
    with fe.blocking.Session(graph, kernels=kernels, config=fe.Config(checked=True)) as session:
        assert session.run("own:0", {x: [4.0, 9.0]}).tolist() == [2, 3]
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"has shape \[3\] where .* says \[2\]"):
            session.run("own:0", {x: [4.0, 9.0, 16.0]})
        with pytest.raises(fe.errors.InvalidArgumentError, match="of op Root refuses: only vectors"):
            session.run("own:0", {x: [[4.0]]})
