"""Loops of the compiled tier: which become Python's, and that they give what the interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.testing.control import conditional, while_loop
from tests.runtime.loops.written import Frame, both, loops_written


def there_and_back(g: fe.Graph) -> Any:
    """x = tanh(x), n times, each x pushed; then a product of what is popped."""
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    x = g.placeholder("float32", None, name="x")
    stack = ops.StackV2(g.constant(-1), elem_type="float32")
    there = Frame(g, "there", [g.constant(0), x], [n, stack, g.constant(1)])
    count, value = there.go_on(ops.Less(there.merges[0], there.constants[0]))
    more = ops.Add(count, there.constants[2])
    with g.control_dependencies([more]):
        push = ops.StackPushV2(there.constants[1], value)
    there.come_back(0, more, [push])
    there.come_back(1, ops.Tanh(value), [])
    counted, last = (ops.Exit(switch.output_false) for switch in there.switches)
    back = Frame(g, "back", [counted, last], [g.constant(1), stack])
    count, product = back.go_on(ops.GreaterEqual(back.merges[0], back.constants[0]))
    less = ops.Sub(count, back.constants[0])
    with g.control_dependencies([less]):
        popped = ops.StackPopV2(back.constants[1], elem_type="float32")
    with g.control_dependencies([popped]):
        trigger = ops.ControlTrigger()
    back.come_back(0, less, [trigger])
    back.come_back(1, ops.Mul(product, popped), [])
    with g.control_dependencies([back.switches[1].output_true.op]):
        late = ops.NoOp()
    with g.control_dependencies([late]):
        out = ops.Identity(back.switches[1].output_false)
    return ops.Exit(out, name="out")


async def test_the_loops_of_a_gradient_become_python() -> None:
    """Counters that wait for what is pushed and popped, and a value that leaves late."""
    g = fe.Graph()
    there_and_back(g)
    assert loops_written(g, ["out:0"], ["n:0", "x:0"]) == 2
    x = np.array([0.5, -2.0], np.float32)
    for n in (0, 1, 5):
        (got,) = await both(g, ["out:0"], {"n:0": np.int32(n), "x:0": x})
        value: Any = x
        product: Any = np.float32(1)
        for _ in range(n):
            value, product = np.tanh(value), product * value
        assert np.allclose(got, value * product)


async def test_a_push_in_a_branch_is_popped_in_that_branch() -> None:
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    stack = ops.StackV2(g.constant(-1), elem_type="int32")
    taken = ops.StackV2(g.constant(-1), elem_type="bool")
    there = Frame(g, "there", [g.constant(0)], [n, stack, taken, g.constant(1), g.constant(3)])
    (count,) = there.go_on(ops.Less(there.merges[0], there.constants[0]))
    _, handle, notes, one, three = there.constants
    pred = ops.Equal(ops.FloorMod(count, three), ops.Sub(one, one))
    noted = ops.StackPushV2(notes, pred)
    pushed = ops.StackPushV2(ops.Switch(handle, pred).output_true, ops.Switch(count, pred).output_true)
    with g.control_dependencies([pushed]):
        trigger = ops.ControlTrigger()
    there.come_back(0, ops.Add(count, one), [noted, trigger])
    counted = ops.Exit(there.switches[0].output_false)
    back = Frame(g, "back", [counted, g.constant(0)], [g.constant(1), stack, taken])
    count, total = back.go_on(ops.GreaterEqual(back.merges[0], back.constants[0]))
    one, handle, notes = back.constants
    less = ops.Sub(count, one)
    with g.control_dependencies([less]):
        pred = ops.StackPopV2(notes, elem_type="bool")
    popped = ops.StackPopV2(ops.Switch(handle, pred).output_true, elem_type="int32")
    off, on = ops.Switch(total, pred)
    merged = ops.Merge([off, ops.Add(on, popped)])
    with g.control_dependencies([popped]):
        trigger = ops.ControlTrigger()
    back.come_back(0, less, [trigger])
    back.come_back(1, ops.Add(merged.output, merged.value_index), [])
    ops.Exit(back.switches[1].output_false, name="out")
    assert loops_written(g, ["out:0"], ["n:0"]) == 2
    assert await both(g, ["out:0"], {"n:0": np.int32(8)}) == [0 + 3 + 6 + 3]


async def test_nested_loops_with_a_conditional_a_tensor_array_and_constants() -> None:
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    x = g.placeholder("float32", [2], name="x")
    array, flow = ops.TensorArrayV3(n, dtype="float32", clear_after_read=False)

    def inner(j: Any, a: Any, i: Any, x: Any) -> list[Any]:
        odd = ops.Equal(ops.FloorMod(ops.Add(i, j), 2), 1)
        (a,) = conditional(
            g,
            odd,
            lambda a, x: [ops.Add(a, x)],
            lambda a, x: [ops.Mul(a, x)],
            [a, x],
        )
        return [ops.Add(j, 1), a]

    def outer(i: Any, a: Any, flow: Any, n: Any, x: Any, array: Any) -> list[Any]:
        _, a = while_loop(
            g,
            lambda j, a, i, x: ops.LessEqual(j, i),
            inner,
            [g.constant(0), a],
            invariants=[i, x],
            name="inner",
        )
        return [ops.Add(i, 1), a, ops.TensorArrayWriteV3(array, i, a, flow)]

    _, _, flow = while_loop(
        g,
        lambda i, a, flow, n, x, array: ops.Less(i, n),
        outer,
        [g.constant(0), x, flow],
        invariants=[n, x, array],
        name="outer",
    )
    read = ops.TensorArrayGatherV3(array, ops.Range(0, n, 1), flow, dtype="float32", element_shape=None)
    ops.Identity(read, name="out")
    assert loops_written(g, ["out:0"], ["n:0", "x:0"]) == 2
    x_value = np.array([0.5, 1.5], np.float32)
    (got,) = await both(g, ["out:0"], {"n:0": np.int32(4), "x:0": x_value})
    value, rows = x_value, []
    for i in range(4):
        for j in range(i + 1):
            value = value + x_value if (i + j) % 2 else value * x_value
        rows.append(value)
    assert np.array_equal(got, rows)


@pytest.mark.parametrize("fault", ["pop", "push", "read", "write", "divide"])
async def test_errors_in_compiled_loops_are_told_as_interpreted(fault: str) -> None:
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [2], name="x")
    stack = ops.StackV2(g.constant(2), elem_type="float32", stack_name="kept")
    array, flow = ops.TensorArrayV3(g.constant(3), dtype="float32", tensor_array_name="row")

    def body(i: Any, flow: Any, x: Any, stack: Any, array: Any) -> list[Any]:
        three = g.constant(3)
        if fault == "pop":
            flow = ops.Sum(ops.StackPopV2(stack, elem_type="float32"), [0])
        elif fault == "push":
            flow = ops.Add(flow, ops.Sum(ops.StackPushV2(stack, x), [0]))
        elif fault == "read":
            flow = ops.Add(flow, ops.TensorArrayReadV3(array, ops.Add(i, three), flow, dtype="float32"))
        elif fault == "write":
            flow = ops.TensorArrayWriteV3(array, ops.Mul(i, 2), x, flow)
        else:
            i = ops.Add(i, ops.FloorDiv(three, ops.Sub(three, ops.Add(i, 1))))
        return [ops.Add(i, 1), flow]

    while_loop(
        g,
        lambda i, *_: ops.Less(i, 10),
        body,
        [g.constant(0), flow],
        invariants=[x, stack, array],
    )
    told = []
    for compiled in (True, False):
        async with fe.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await session.run("while/Exit_1:0", {"x:0": np.ones(2)})
            told.append(str(caught.value))
    assert loops_written(g, ["while/Exit_1:0"], ["x:0"]) == 1
    assert told[0] == told[1]
    assert "iteration" in told[0]
