"""The reference interpreter, against what can be worked out on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.resources.container import ResourceManager
from flowengine.testing.control import conditional, while_loop
from flowengine.testing.reference import evaluate


@pytest.fixture
def g() -> fe.Graph:
    return fe.Graph()


def test_a_chain_longer_than_pythons_stack(g: fe.Graph) -> None:
    x = g.placeholder("float32", [], name="x")
    for _ in range(5000):
        x = g.ops.Add(x, x) if _ == 0 else g.ops.Neg(x)
    assert evaluate(g, [x.name], {"x:0": 1.5}) == [-3.0]


def test_a_loop_of_many_iterations(g: fe.Graph) -> None:
    n = g.placeholder("int32", [], name="n")
    zero = g.constant(0)
    i, total = while_loop(
        g,
        lambda i, t, n: g.ops.Less(i, n),
        lambda i, t, n: [g.ops.Add(i, 1), g.ops.Add(t, i)],
        [zero, zero],
        invariants=[n],
    )
    assert evaluate(g, [i.name, total.name], {"n:0": 2000}) == [2000, 1999000]
    assert evaluate(g, [i.name, total.name], {"n:0": 0}) == [0, 0]


def test_nested_loops_count_triangular_numbers(g: fe.Graph) -> None:
    ops = g.ops
    n = g.placeholder("int32", [], name="n")

    def outer(i: Any, total: Any, n: Any) -> list[Any]:
        def inner(j: Any, t: Any, _: Any) -> list[Any]:
            return [ops.Add(j, 1), ops.Add(t, 1)]

        start = ops.Sub(i, i)
        _, total = while_loop(
            g, lambda j, t, i: ops.LessEqual(j, i), inner, [start, total], invariants=[i], name="inner"
        )
        return [ops.Add(i, 1), total]

    zero = g.constant(0)
    _, total = while_loop(g, lambda i, t, n: ops.Less(i, n), outer, [zero, zero], invariants=[n])
    assert evaluate(g, [total.name], {"n:0": 7}) == [28]


def test_only_the_taken_branch_has_effects_and_dead_values_cannot_be_fetched(g: fe.Graph) -> None:
    ops = g.ops
    p = g.placeholder("bool", [], name="p")
    v = ops.VariableV2(dtype="int32", shape=[], name="v")
    ops.Assign(v, 0, name="init")
    ops.Identity(v, name="read")

    def count(x: Any) -> list[Any]:
        with g.control_dependencies(
            [ops.AssignAdd(ops.VariableV2(dtype="int32", shape=[], shared_name="v"), 1)]
        ):
            return [ops.Neg(x)]

    (y,) = conditional(g, p, count, lambda x: [ops.Identity(x, name="other")], [g.constant(5)])
    resources = ResourceManager()

    def step(*args: Any, **keywords: Any) -> Any:
        return evaluate(g, *args, resources=resources, **keywords)

    step([], targets=["init"])
    assert step([y.name], {"p:0": True}) == [-5]
    assert step([y.name], {"p:0": False}) == [5]
    assert step(["read:0"]) == [1]
    with pytest.raises(fe.errors.InvalidArgumentError, match="DEAD"):
        step(["cond/other:0"], {"p:0": True})


def test_a_target_runs_in_every_iteration(g: fe.Graph) -> None:
    """A node in a loop that has only an effect runs, though no fetch asks for its value."""
    ops = g.ops
    v = ops.VariableV2(dtype="int32", shape=[], name="v")

    def body(i: Any) -> list[Any]:
        effect = ops.AssignAdd(ops.VariableV2(dtype="int32", shape=[], shared_name="v"), i)
        with g.control_dependencies([effect]):
            return [ops.Add(i, 1)]

    (end,) = while_loop(g, lambda i: ops.Less(i, 5), body, [g.constant(0)], parallel_iterations=1)
    ops.Assign(v, 100, name="init")
    ops.Identity(v, name="read")
    resources = ResourceManager()
    evaluate(g, [], targets=["init"], resources=resources)
    evaluate(g, [], targets=[end.node_name], resources=resources)
    assert evaluate(g, ["read:0"], resources=resources) == [110]


def test_feeding_an_inner_tensor_leaves_out_what_led_to_it(g: fe.Graph) -> None:
    ops = g.ops
    x = g.placeholder("float32", [], name="x")
    ops.Mul(ops.Neg(x, name="y"), 2.0, name="z")
    assert evaluate(g, ["z:0", "y:0"], {"y:0": np.float32(4)}) == [8.0, 4.0]
    with pytest.raises(fe.errors.InvalidArgumentError, match="placeholder"):
        evaluate(g, ["z:0"])


def test_inside_a_loop_nothing_can_be_fed_or_fetched(g: fe.Graph) -> None:
    while_loop(g, lambda i: g.ops.Less(i, 3), lambda i: [g.ops.Add(i, 1, name="next")], [g.constant(0)])
    with pytest.raises(fe.errors.InvalidArgumentError, match="fetched"):
        evaluate(g, ["while/next:0"])
    with pytest.raises(fe.errors.InvalidArgumentError, match="fed"):
        evaluate(g, ["while/Exit:0"], {"while/next:0": 1})


def test_an_empty_queue_is_an_error_and_not_a_wait(g: fe.Graph) -> None:
    queue = g.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]])
    (element,) = g.ops.QueueDequeueV2(queue, component_types=["int32"])
    with pytest.raises(fe.errors.FailedPreconditionError, match="wait"):
        evaluate(g, [element.name])


def test_an_error_says_where(g: fe.Graph) -> None:
    x = g.placeholder("int32", [None], name="x")
    g.ops.FloorDiv(x, 0, name="bad")
    with pytest.raises(fe.errors.InvalidArgumentError) as caught:
        evaluate(g, ["bad:0"], {"x:0": [1, 2]})
    assert (caught.value.node_name, caught.value.op_type) == ("bad", "FloorDiv")


def test_kernels_of_ones_own_are_used(g: fe.Graph) -> None:
    g.ops.Neg(g.placeholder("float32", [], name="x"), name="y")
    kernels = fe.KernelRegistry(parent=load_all())
    kernels.kernel("Neg")(lambda x: x / 2)
    assert evaluate(g, ["y:0"], {"x:0": 3.0}, kernels=kernels) == [1.5]
    assert evaluate(g, ["y:0"], {"x:0": 3.0}) == [-3.0]
