"""A call that is opened means what the call means: a test for each of the rules in docs/passes.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.load import registry as kernels
from flowengine.passes.context import PassContext
from flowengine.passes.simplify import open_calls as opening
from flowengine.passes.simplify.open_calls import open_calls

OPENED, CALLED = fe.Config(open_calls=True), fe.Config(open_calls=False)
BOTH = pytest.mark.parametrize("config", [OPENED, CALLED], ids=["opened", "called"])


def opened(graph: fe.Graph, *fetches: str, feeds: tuple[str, ...] = ()) -> NodeGraph:
    """Return the graph after the pass that opens calls."""
    context = PassContext(
        feeds=tuple(OutputPort(name, 0) for name in feeds),
        fetches=tuple(OutputPort(name, 0) for name in fetches),
        kernels=kernels(),
        registry=graph.registry,
    )
    return open_calls(graph, context)


class Effects:
    """A graph with a variable that functions change, in a way that tells the order of the changes."""

    def __init__(self) -> None:
        self.graph = fe.Graph()
        self.variable = self.graph.variable(np.float32(1), name="v")

    def change(self, graph: fe.Graph, by: Any) -> fe.Operation:
        """v = 2 * v + by."""
        ops, handle = graph.ops, self.variable.handle
        read = ops.ReadVariableOp(handle, dtype="float32")
        return ops.AssignVariableOp(handle, ops.AddV2(ops.Mul(read, 2.0), by))

    def changing(self, by: float, **options: Any) -> fe.LibraryFunction:
        """A function that does so, and gives its input."""

        @fe.function(self.graph, ["float32"], **options)
        def changing(x: fe.Tensor) -> fe.Tensor:
            self.change(x.graph, by)
            return x

        return changing

    async def run(self, config: fe.Config, fetches: Any, feeds: Any = None, times: int = 3) -> Any:
        """(the last values, the variable) after some steps, of which the last are hot."""
        async with fe.Session(self.graph, config=config) as session:
            await session.run([], targets=[self.variable.initializer.name])
            values = None
            for _ in range(times):
                values = await session.run(fetches, feeds or {})
            return values, float(await session.run(self.variable.value()))


# ------------------------------------------------------------------ 1: the name, and what is fed


def both_branches(graph: fe.Graph, cond: Any, op: str = "StatelessIf") -> list[fe.Tensor]:
    """y = cond ? (x + 1, x) : (x - 1, x)."""

    def branch(sign: float) -> fe.LibraryFunction:
        def build(x: fe.Tensor) -> list[fe.Tensor]:
            return [x + sign, x]

        return fe.function(graph, ["float32"], name=f"branch{sign:.0f}".replace("-", "m"))(build)

    branches: dict[str, Any] = {"then_branch": branch(1.0).attr, "else_branch": branch(-1.0).attr}
    x = graph.placeholder("float32", [], name="x")
    found = graph.create_op(op, [cond, [x]], {"Tout": ["float32"] * 2, **branches}, "y").outputs
    return list(found)


def test_a_conditional_keeps_its_name_and_is_left_where_an_output_is_fed() -> None:
    graph = fe.Graph()
    both_branches(graph, graph.placeholder("bool", [], name="p"))
    graph.ops.Neg(graph.tensor("y:0"), name="z")
    node = opened(graph, "z")["y"]
    assert (node.op, [str(p.node) for p in node.inputs]) == (
        "IdentityN",
        ["y/called/result", "y/called/result_1"],
    )
    assert opened(graph, "z", "y", feeds=("y",))["y"].op == "StatelessIf"


@BOTH
@pytest.mark.parametrize(
    ("dtype", "value", "taken"),
    [
        ("bool", True, True),
        ("bool", False, False),
        ("int32", 5, True),
        ("float32", 0.0, False),
        ("string", b"", False),
        ("string", b"a", True),
        ("float32", [0.0], True),
        ("int32", np.zeros([0], np.int32), False),
        ("bool", [False], True),
        ("bool", np.zeros([0], np.bool_), False),
    ],
)
async def test_a_condition_may_be_of_any_type(config: fe.Config, dtype: str, value: Any, taken: bool) -> None:
    graph = fe.Graph()
    both_branches(graph, graph.placeholder(dtype, None, name="p"), "If")
    async with fe.Session(graph, config=config) as session:
        for _ in range(3):
            assert await session.run(["y:0", "y:1"], {"p:0": value, "x:0": 5.0}) == [6 if taken else 4, 5]


@BOTH
@pytest.mark.parametrize(
    ("count", "index", "which"),
    [(3, 0, 0), (3, 1, 1), (3, 2, 2), (3, 3, 2), (3, -1, 2), (1, 0, 0), (1, 1, 0), (1, -1, 0)],
)
@pytest.mark.parametrize("op", ["Case", "StatelessCase"])
async def test_a_choice_takes_the_last_branch_for_what_is_out_of_range(
    config: fe.Config, count: int, index: int, which: int, op: str
) -> None:
    graph = fe.Graph()

    def branch(number: int) -> Any:
        return fe.function(graph, ["float32"], name=f"branch{number}")(
            lambda x: x * 10.0 + float(number)
        ).attr

    i = graph.placeholder("int32", [], name="i")
    attrs = {"Tout": ["float32"], "branches": [branch(number) for number in range(count)]}
    graph.create_op(op, [i, [graph.constant(1.0)]], attrs, "y")
    assert (op in {node.op for node in opened(graph, "y", feeds=("i",))}) is False
    async with fe.Session(graph, config=config) as session:
        for _ in range(3):
            assert await session.run("y:0", {"i:0": index}) == 10 + which


@BOTH
@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 5, 1), (7, -3, -3), (3, 3, 1), (5, 1, 2), (-(2**31), 2**31 - 1, 2**30)]
)
async def test_a_counted_loop_goes_over_the_range(
    config: fe.Config, start: int, limit: int, delta: int
) -> None:
    effects = Effects()
    graph = effects.graph

    @fe.function(graph, ["int32", "float32", "resource"])
    def round_of(index: fe.Tensor, x: fe.Tensor, v: fe.Tensor) -> list[fe.Tensor]:
        ops = index.graph.ops
        ops.AssignAddVariableOp(v, fe.cast(index, "float32"))
        return [x * 0.5 + fe.cast(index, "float32"), v]

    given = [graph.placeholder("int32", [], name=name) for name in ("start", "limit", "delta")]
    inputs = [graph.constant(1.0), effects.variable.handle]
    graph.create_op("For", [*given, inputs], {"body": round_of.attr}, "y")
    feeds = {"start:0": start, "limit:0": limit, "delta:0": delta}
    (value, _), variable = await effects.run(config, ["y:0", "y:0"], feeds, times=1)
    expected = np.float32(1)
    for index in range(start, limit, delta):
        expected = expected * np.float32(0.5) + np.float32(index)
    assert value == expected
    assert variable == np.float32(1 + sum(range(start, limit, delta)))
    async with fe.Session(graph, config=config) as session:
        with pytest.raises(InvalidArgumentError, match="y"):
            await session.run("y:0", {**feeds, "delta:0": 0})


# ------------------------------------------------------------------ 2: a dead call runs nothing


@BOTH
@pytest.mark.parametrize("taken", [True, False])
async def test_a_dead_call_runs_nothing(config: fe.Config, taken: bool) -> None:
    """Also where only one of its inputs is dead, and what has an effect takes none of them or another."""
    effects = Effects()
    graph = effects.graph
    p = graph.placeholder("bool", [], name="p")

    @fe.function(graph, ["float32", "float32"])
    def one_of_two(dead: fe.Tensor, live: fe.Tensor) -> list[fe.Tensor]:
        checked = live.graph.ops.CheckNumerics(live, message="it ran")
        effects.change(live.graph, 3.0)
        return [dead, checked]

    false, true = graph.ops.Switch(graph.constant(7.0), p)
    live = graph.constant(np.float32(0) if taken else np.float32(np.nan))
    result = one_of_two(true, live, name="called")
    graph.ops.Merge([false, result[0]], name="merged")
    value, variable = await effects.run(config, "merged:0", {"p:0": taken}, times=4)
    assert value == 7
    assert variable == (16 + 3 * 15 if taken else 1)


@BOTH
@pytest.mark.parametrize("taken", [True, False])
async def test_a_dead_conditional_and_a_dead_loop_run_nothing(config: fe.Config, taken: bool) -> None:
    effects = Effects()
    graph = effects.graph
    p = graph.placeholder("bool", [], name="p")
    changing = effects.changing(3.0)
    false, true = graph.ops.Switch(graph.constant(7.0), p)
    handle = effects.variable.handle
    branches: dict[str, Any] = {"then_branch": changing.attr, "else_branch": changing.attr}
    chosen = graph.ops.If(graph.constant(True), [true, handle], Tout=["float32"], **branches)[0]

    @fe.function(graph, ["float32", "resource"])
    def goes(x: fe.Tensor, v: fe.Tensor) -> fe.Tensor:
        return x > 0.0

    @fe.function(graph, ["float32", "resource"])
    def round_of(x: fe.Tensor, v: fe.Tensor) -> list[fe.Tensor]:
        ops = x.graph.ops
        ops.AssignVariableOp(v, ops.Neg(ops.ReadVariableOp(v, dtype="float32")))
        return [x - 3.0, v]

    looped = graph.ops.While([chosen, handle], cond=goes.attr, body=round_of.attr, name="loop")[0]
    graph.ops.Merge([false, looped], name="merged")
    value, variable = await effects.run(config, "merged:0", {"p:0": taken}, times=1)
    assert (value, variable) == ((-2, -5) if taken else (7, 1))


# ------------------------------------------------------------------ 3: before and after


@BOTH
async def test_a_call_starts_when_all_inputs_are_there_and_ends_with_its_effects(config: fe.Config) -> None:
    """An input that the effect does not take is made after another effect; who waits sees both."""
    effects = Effects()
    graph = effects.graph
    before = effects.change(graph, graph.placeholder("float32", [], name="x"))
    with graph.control_dependencies([before]):
        late = graph.ops.Identity(graph.constant(5.0), name="late")
    call = effects.changing(1.0)(late, name="called")
    with graph.control_dependencies([call]):
        graph.ops.ReadVariableOp(effects.variable.handle, dtype="float32", name="seen")
    (value, seen), variable = await effects.run(config, ["called:0", "seen:0"], {"x:0": 10.0}, times=1)
    assert (value, seen, variable) == (5, 25, 25)


@BOTH
@pytest.mark.parametrize("taken", [True, False])
async def test_who_waits_for_a_conditional_waits_for_the_effects_of_its_branch(
    config: fe.Config, taken: bool
) -> None:
    effects = Effects()
    graph = effects.graph
    p = graph.placeholder("bool", [], name="p")
    branches: dict[str, Any] = {
        "then_branch": effects.changing(1.0).attr,
        "else_branch": effects.changing(2.0).attr,
    }
    inputs = [graph.constant(0.0), effects.variable.handle]
    graph.ops.If(p, inputs, Tout=["float32"], **branches, name="y")
    with graph.control_dependencies([graph.operation("y")]):
        graph.ops.ReadVariableOp(effects.variable.handle, dtype="float32", name="seen")
    seen, variable = await effects.run(config, "seen:0", {"p:0": taken}, times=1)
    assert seen == variable == (3 if taken else 4)


@BOTH
@pytest.mark.parametrize("shape", [None, [None]])
async def test_a_loop_goes_on_while_its_condition_has_elements(config: fe.Config, shape: Any) -> None:
    """And is true, where it is a scalar."""
    graph = fe.Graph()
    goes = fe.function(graph, [("bool", shape), "int32"], name="goes")(lambda more, n: more)
    round_of = fe.function(graph, [("bool", shape), "int32"], name="round")(lambda more, n: [more[1:], n + 1])
    more = graph.placeholder("bool", shape, name="more")
    attrs = {"cond": goes.attr, "body": round_of.attr}
    graph.create_op("StatelessWhile", [[more, graph.constant(0)]], attrs, "y")
    async with fe.Session(graph, config=config) as session:
        for count in (0, 1, 4, 3):
            assert await session.run("y:1", {"more:0": np.zeros([count], np.bool_)}) == count


@pytest.mark.parametrize("is_needed", [True, False])
async def test_a_call_stays_whose_end_would_not_wait_for_an_effect(is_needed: bool) -> None:
    """An effect in a branch of primitives of the body: the branch's end may wait for it, or nothing may."""
    effects = Effects()
    graph = effects.graph

    @fe.function(graph, ["bool"])
    def branching(p: fe.Tensor) -> fe.Tensor:
        ops = p.graph.ops
        false, true = ops.Switch(p, p)
        with p.graph.control_dependencies([ops.Identity(true)]):
            changed = effects.change(p.graph, ops.Cast(true, DstT="float32"))
        with p.graph.control_dependencies([changed] if is_needed else []):
            true = ops.Identity(true)
        result: fe.Tensor = ops.Merge([false, true])[0]
        return result

    branching(graph.placeholder("bool", [], name="p"), name="y")
    assert (opened(graph, "y", feeds=("p",))["y"].op == "IdentityN") is is_needed
    for config in (OPENED, CALLED):
        assert await effects.run(config, "y:0", {"p:0": True}, times=1) == (True, 3)
        assert await effects.run(config, "y:0", {"p:0": False}, times=1) == (False, 1)


# ------------------------------------------------------------------ 4, 5 and what stays


def squaring(graph: fe.Graph, effect: Callable[[fe.Graph], Any] | None = None) -> fe.Tensor:
    """A While that squares x until it is 10."""

    @fe.function(graph, ["float32"])
    def goes(x: fe.Tensor) -> fe.Tensor:
        return x < 10.0

    @fe.function(graph, ["float32"])
    def round_of(x: fe.Tensor) -> fe.Tensor:
        if effect is not None:
            effect(x.graph)
        with x.graph.device("/device:CPU:2"):
            return fe.square(x)

    x = graph.placeholder("float32", [], name="x")
    attrs = {"cond": goes.attr, "body": round_of.attr, "parallel_iterations": 7}
    result: fe.Tensor = graph.create_op("While", [[x]], attrs, "w").outputs[0]
    return result


def test_nodes_of_a_body_take_the_device_of_the_call() -> None:
    graph = fe.Graph()
    with graph.device("/device:CPU:1"):
        squaring(graph)
    devices = {node.name: node.device for node in opened(graph, "w", feeds=("x",)) if node.name != "x"}
    assert devices.pop("w/called/body/Square") == "/device:CPU:2"
    assert len(devices) > 8
    assert set(devices.values()) == {"/device:CPU:1"}


def test_a_remote_call_is_on_the_device_that_it_names() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def squared(x: fe.Tensor) -> fe.Tensor:
        return fe.square(x)

    x = graph.placeholder("float32", [], name="x")
    target = graph.constant(b"/device:CPU:1")
    graph.ops.RemoteCall(target, [x], Tout=["float32"], f=squared.attr, name="y")
    config = fe.Config(open_calls=True, device_count={"CPU": 2})
    assert opened(graph, "y", feeds=("x",))["y/called/Square"].device == "/device:CPU:1"
    with fe.blocking.Session(graph, config=config) as session:
        assert session.run("y:0", {"x:0": 3.0}) == 9


@pytest.mark.parametrize(("has_effect", "parallel"), [(True, 1), (False, 7)])
def test_the_frame_of_a_loop_is_named_by_its_call(has_effect: bool, parallel: int) -> None:
    graph = fe.Graph()

    def effect(body: fe.Graph) -> None:
        body.ops.Assert(True, [body.constant(1.0)])

    squaring(graph, effect if has_effect else None)
    (enter,) = (node for node in opened(graph, "w", feeds=("x",)) if node.op == "Enter")
    assert enter.attrs["frame_name"] == b"w/called"
    assert enter.attrs["parallel_iterations"] == parallel


@pytest.mark.parametrize(("name", "value"), [("NODES_MAX", 4), ("DEPTH_MAX", 0)])
async def test_a_call_that_would_make_the_graph_too_large_stays(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, name, value)
    graph = fe.Graph()
    squaring(graph)
    assert opened(graph, "w", feeds=("x",))["w"].op == "While"
    async with fe.Session(graph, config=OPENED) as session:
        assert await session.run("w:0", {"x:0": 2.0}) == 16


async def test_an_error_names_the_path_of_calls() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def inner(x: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = x.graph.ops.CheckNumerics(x, message="not finite", name="check")
        return result

    @fe.function(graph, ["float32"])
    def outer(x: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = inner(x, name="within")
        return result

    outer(graph.placeholder("float32", [], name="x"), name="y")
    async with fe.Session(graph, config=OPENED) as session:
        with pytest.raises(InvalidArgumentError, match=r"y/called/within/called/check.*not finite"):
            await session.run("y:0", {"x:0": np.inf})


async def test_the_code_of_a_call_is_placed_where_the_call_asks_to_be() -> None:
    """By its device, and by a rule that names the call."""
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def checked(x: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = x.graph.ops.CheckNumerics(x, message="not finite", name="check")
        return result

    x = graph.placeholder("float32", [], name="x")
    with graph.device("/device:CPU:1"):
        checked(x, name="y")
    checked(x, name="z")
    config = fe.Config(open_calls=True, device_count={"CPU": 3}, place={"z": "CPU:2"})
    async with fe.Session(graph, config=config) as session:
        for name, device in (("y", 1), ("z", 2)):
            with pytest.raises(InvalidArgumentError, match=rf"{name}/called/check' on .*CPU:{device}"):
                await session.run(f"{name}:0", {"x:0": np.inf})
