"""Conditionals, loops, arrays and maps, built by the graph's methods, beside what Python does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.shapes import TensorShape


def run(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


@dataclass
class State:
    position: Any
    speed: Any


class Pair(NamedTuple):
    left: Any
    right: Any


# -- conditionals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False])
def test_cond_takes_one_branch(flag: bool) -> None:
    graph = fe.Graph()
    pred, x = graph.placeholder("bool", []), graph.placeholder("float32", [2])
    found = graph.cond(
        pred,
        lambda: {"sum": fe.reduce_sum(x) + 1, "rest": (x * 2, Pair(1.0, x[0])), "none": None},
        lambda: {"sum": 0, "rest": (-x, Pair(x[1], 2.0)), "none": None},
    )
    assert found.pop("none") is None
    got = run(graph, found, {pred: flag, x: [3, 5]})
    assert isinstance(got["rest"][1], Pair)
    if flag:
        expected: Any = {"sum": 9, "rest": ([6, 10], (1, 3))}
    else:
        expected = {"sum": 0, "rest": ([-3, -5], (5, 2))}
    assert got["sum"] == expected["sum"]
    np.testing.assert_array_equal(got["rest"][0], expected["rest"][0])
    assert tuple(got["rest"][1]) == expected["rest"][1]


def test_the_nodes_are_those_that_tensorflow_writes() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    graph.cond(x > 0, lambda: x + 1, lambda: x - 1)
    graph.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,))
    kinds = {name: graph[name].op for name in graph.nodes if name.startswith(("cond", "while"))}
    assert (
        kinds.items()
        >= {
            "cond/Switch": "Switch",
            "cond/switch_t": "Identity",
            "cond/switch_f": "Identity",
            "cond/pred_id": "Identity",
            "cond/Merge": "Merge",
            "while/Enter": "Enter",
            "while/Merge": "Merge",
            "while/LoopCond": "LoopCond",
            "while/Switch": "Switch",
            "while/Identity": "Identity",
            "while/NextIteration": "NextIteration",
            "while/Exit": "Exit",
        }.items()
    )
    assert graph["while/Enter"].attrs["frame_name"] == b"while/while_context"
    # What has no input waits for its branch or iteration.
    assert graph["cond/add/y"].control_inputs == ("cond/switch_t",)
    assert graph["while/Less/y"].control_inputs == ("while/Merge",)
    assert graph["while/add/y"].control_inputs == ("while/Identity",)


def test_only_the_branch_taken_has_effects() -> None:
    graph = fe.Graph()
    pred = graph.placeholder("bool", [])
    count = graph.variable(0, name="count")
    done = graph.cond(pred, lambda: count.assign_add(5), lambda: graph.constant(0))
    with fe.blocking.Session(graph) as session:
        session.initialize()
        assert [session.run(done, {pred: flag}) for flag in (True, False, True)] == [5, 0, 10]


def test_operations_in_both_branches_give_an_operation() -> None:
    graph = fe.Graph()
    pred = graph.placeholder("bool", [])
    one, two = graph.variable(0), graph.variable(0)
    done = graph.cond(pred, lambda: one.assign(1).op, lambda: two.assign(2).op)
    assert isinstance(done, fe.Operation)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.run(done, {pred: False})
        assert session.run([one.value(), two.value()]) == [0, 2]


def test_a_variable_made_in_a_branch_stands_outside() -> None:
    graph = fe.Graph()
    pred = graph.placeholder("bool", [])
    found = graph.cond(pred, lambda: graph.variable(3.0).value(), lambda: 0.0)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        assert session.run(found, {pred: True}) == 3.0


def test_control_dependencies_around_hold_the_branches() -> None:
    graph = fe.Graph()
    x, y = graph.placeholder("float32", []), graph.placeholder("bool", [])
    with graph.control_dependencies([graph.assert_that(x > 0, message="too small")]):
        found = graph.cond(y, lambda: graph.constant(1.0), lambda: x)
    assert run(graph, found, {x: 1, y: True}) == 1
    with pytest.raises(fe.errors.InvalidArgumentError, match="too small"):
        run(graph, found, {x: -1, y: True})


@pytest.mark.parametrize("flag", [False, True])
def test_a_constant_that_waits_for_a_node_outside_is_of_its_branch(flag: bool) -> None:
    graph = fe.Graph()
    pred = graph.placeholder("bool", [], name="pred")
    outside = graph.constant(0.0, name="outside")

    def side(value: float) -> Callable[[], fe.Tensor]:
        def build() -> fe.Tensor:
            with graph.control_dependencies([outside]):
                return graph.constant(value)

        return build

    chosen = graph.cond(pred, side(1.0), side(2.0))
    assert run(graph, chosen, {pred: flag}) == (1.0 if flag else 2.0)


@pytest.mark.parametrize("value", [-1, 0, 1, 2, 3, 7])
def test_switch_case_and_case(value: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("int32", [])
    branches = [lambda k=k: x * 0 + 10 * k for k in range(4)]
    plain = graph.switch_case(x, branches)
    numbered = graph.switch_case(x, {0: branches[0], 2: branches[2]}, default=lambda: graph.constant(-1))
    by_test = graph.case([(x > 2, lambda: x * 100), (x > 0, lambda: -x)], default=lambda: graph.constant(5))
    expected = [
        10 * (value if 0 <= value < 4 else 3),
        {0: 0, 2: 20}.get(value, -1),
        value * 100 if value > 2 else -value if value > 0 else 5,
    ]
    assert run(graph, [plain, numbered, by_test], {x: value}) == expected


def test_case_without_default_needs_one_that_holds() -> None:
    graph = fe.Graph()
    x = graph.placeholder("int32", [])
    found = graph.case([(x > 2, lambda: x * 2), (x > 0, lambda: x * 3)])
    once = graph.case([(x > 2, lambda: x), (x > 0, lambda: -x)], lambda: x * 0, exclusive=True)
    assert run(graph, [found, once], {x: 1}) == [3, -1]
    with pytest.raises(fe.errors.InvalidArgumentError, match="none of the conditions"):
        run(graph, found, {x: 0})
    with pytest.raises(fe.errors.InvalidArgumentError, match="more than one"):
        run(graph, once, {x: 3})


def test_branches_that_are_not_alike_are_told() -> None:
    graph = fe.Graph()
    pred, x = graph.placeholder("bool", []), graph.constant(1.0)
    with pytest.raises(TypeError, match="not alike"):
        graph.cond(pred, lambda: [x], lambda: x)
    with pytest.raises(TypeError, match=r"float32.*int32"):
        graph.cond(pred, lambda: x, lambda: graph.constant(1))
    with pytest.raises(TypeError, match="returns None"):
        graph.cond(pred, lambda: x, lambda: None)
    with pytest.raises(TypeError, match="pred is True, not a tensor"):
        graph.cond(True, lambda: x, lambda: x)
    kept: list[Any] = []

    def keeps() -> Any:
        kept.append(x + 1)
        return x

    with pytest.raises(ValueError, match=r"inside of 'cond_\d/cond_text'"):
        graph.cond(pred, keeps, lambda: kept[0])


# -- loops ---------------------------------------------------------------------------------------------


def test_a_loop_of_structures() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [])
    start = OrderedDict(state=State(0.0, x), count=0, pair=Pair(x, [x, x]))
    found = graph.while_loop(
        lambda v: v["count"] < 3,
        lambda v: OrderedDict(
            state=State(v["state"].position + v["state"].speed, v["state"].speed * 2),
            count=v["count"] + 1,
            pair=Pair(v["pair"].right[0], [v["pair"].left, x]),
        ),
        start,
    )
    assert list(found) == ["state", "count", "pair"]
    state = found["state"]
    assert isinstance(state, State)
    got = run(graph, [state.position, state.speed, found["count"], found["pair"]], {x: 3})
    assert got[:3] == [3 + 6 + 12, 24, 3]
    assert got[3] == Pair(3, [3, 3])


@pytest.mark.parametrize("limit", [0, 2, 9])
def test_loops_end_at_their_maximum(limit: int) -> None:
    graph = fe.Graph()
    most = graph.placeholder("int32", [])
    fixed = graph.while_loop(lambda i: i < 5, lambda i: i + 1, [0], maximum_iterations=limit)
    fed = graph.while_loop(lambda i: i < 5, lambda i: (i + 1,), (0,), maximum_iterations=most)
    assert run(graph, [fixed, fed], {most: limit}) == [[min(limit, 5)], (min(limit, 5),)]


def test_nested_loops_and_conditionals_reach_out() -> None:
    graph = fe.Graph()
    x, n = graph.placeholder("int32", []), graph.placeholder("int32", [])

    def outer(i: Any, total: Any) -> Any:
        def inner(j: Any, acc: Any) -> Any:
            step = graph.cond((i + j) % 2 > 0, lambda: x * j, lambda: -i)
            return j + 1, acc + step

        _, inside = graph.while_loop(lambda j, acc: j < i, inner, (0, 0))
        return i + 1, total + inside

    _, found = graph.while_loop(lambda i, t: i < n, outer, (0, 0))
    expected = sum(7 * j if (i + j) % 2 else -i for i in range(5) for j in range(i))
    assert run(graph, found, {x: 7, n: 5}) == expected


def test_shapes_that_change_are_declared() -> None:
    graph = fe.Graph()
    x = graph.constant([1.0])

    def grow(i: Any, v: Any) -> Any:
        return i + 1, fe.concat([v, v], 0)

    with pytest.raises(ValueError, match="shape_invariants"):
        graph.while_loop(lambda i, v: i < 3, grow, (0, x))
    with pytest.raises(ValueError, match="does not fit shape_invariants"):
        graph.while_loop(lambda i, v: i < 3, grow, (0, x), ([], [2]))
    seen: list[Any] = []

    def noted(i: Any, v: Any) -> Any:
        seen.append(v.shape)
        return grow(i, v)

    _, found = graph.while_loop(lambda i, v: i < 3, noted, (0, x), ([], [None]))
    assert seen == [TensorShape([None])]
    assert found.shape == TensorShape([None])
    np.testing.assert_array_equal(run(graph, found), np.ones(8))


def test_loop_errors() -> None:
    graph = fe.Graph()
    with pytest.raises(ValueError, match="never ends"):
        graph.while_loop(lambda: True, lambda: (), ())
    with pytest.raises(TypeError, match="one bool"):
        graph.while_loop(lambda i: graph.constant([True]), lambda i: (i,), (0,))
    with pytest.raises(TypeError, match="must be int32"):
        graph.while_loop(lambda i: i < 3, lambda i: (graph.constant(1.0),), (0,))
    with pytest.raises(ValueError, match="not alike"):
        graph.while_loop(lambda i, j: i < 3, lambda i, j: (i, i, j), (0, 0))
    with pytest.raises(ValueError, match="at least 1"):
        graph.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,), parallel_iterations=0)


def test_gradients_go_through_loops_and_conditionals() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [])

    def body(i: Any, y: Any) -> Any:
        return i + 1, graph.cond(y > 2, lambda: y * x, lambda: y * y)

    _, y = graph.while_loop(lambda i, y: i < 3, body, (0, x))
    (slope,) = fe.gradients(y, x)
    # 1.5 -> 2.25 -> 3.375 -> 5.0625: x squared, then twice times x.
    assert run(graph, [y, slope], {x: 1.5}) == pytest.approx([1.5**4, 4 * 1.5**3])


def test_gradients_can_be_taken_in_an_iteration() -> None:
    graph = fe.Graph()
    start = graph.placeholder("float64", [])

    def descend(i: Any, x: Any) -> Any:
        slope: Any = fe.gradients((x - 3.0) ** 2, x)[0]
        return i + 1, x - 0.25 * slope

    _, found = graph.while_loop(lambda i, x: i < 40, descend, (0, start))
    assert run(graph, found, {start: 10.0}) == pytest.approx(3.0)


def test_a_variable_is_read_and_written_in_a_loop() -> None:
    graph = fe.Graph()
    total = graph.variable(1.0, name="total")

    def body(i: Any) -> Any:
        with graph.control_dependencies([total.assign_add(fe.cast(i, "float32"))]):
            return (graph.ops.AddV2(i, 1),)

    (end,) = graph.while_loop(lambda i: i < 4, body, (0,), parallel_iterations=1)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        assert session.run(end) == 4
        assert session.run(total.value()) == 7.0


# -- arrays, maps, folds and scans ---------------------------------------------------------------------


def test_an_array_is_a_variable_of_a_loop() -> None:
    graph = fe.Graph()
    n = graph.placeholder("int32", [])
    array = graph.tensor_array("float32", n, element_shape=[2], clear_after_read=False)

    def body(i: Any, a: Any) -> Any:
        value = fe.cast(i, "float32")
        return i + 1, a.write(i, [value, -value])

    _, written = graph.while_loop(lambda i, a: i < n, body, (0, array))
    assert written.stack().shape == TensorShape([None, 2])
    got = run(graph, [written.stack(), written.read(1), written.size(), written.concat()], {n: 3})
    np.testing.assert_array_equal(got[0], [[0, 0], [1, -1], [2, -2]])
    np.testing.assert_array_equal(got[1], [1, -1])
    assert got[2] == 3
    np.testing.assert_array_equal(got[3], [0, 0, 1, -1, 2, -2])


def test_what_an_array_holds_is_of_one_shape() -> None:
    graph = fe.Graph()
    array = graph.tensor_array("float32", 3).write(0, [1.0, 2.0])
    with pytest.raises(ValueError, match="of one shape"):
        array.write(1, [1.0])
    with pytest.raises(ValueError, match="needs size="):
        graph.tensor_array("float32")
    parts = graph.tensor_array("int32", dynamic_size=True, infer_shape=False).split([1, 2, 3], [1, 2])
    np.testing.assert_array_equal(run(graph, parts.read(1)), [2, 3])


def test_map_takes_and_gives_structures() -> None:
    graph = fe.Graph()
    x, y = np.arange(6.0).reshape(3, 2), np.array([1, 2, 3], np.int32)
    rows = graph.placeholder("float64", [None, 2])
    made = graph.map(
        lambda e: {"sum": fe.reduce_sum(e["x"]), "flag": e["y"] > 1}, {"x": rows, "y": graph.constant(y)}
    )
    got = run(graph, made, {rows: x})
    np.testing.assert_array_equal(got["sum"], x.sum(1))
    np.testing.assert_array_equal(got["flag"], y > 1)
    squares = graph.map(lambda v: v * v, graph.constant(x), "float64")
    assert squares.shape == TensorShape([3, 2])
    (slope,) = fe.gradients(graph.map(lambda v: v * v * v, rows), rows)
    np.testing.assert_allclose(run(graph, slope, {rows: x}), 3 * x**2)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", [None, 100])
def test_fold_and_scan_go_both_ways(reverse: bool, initial: int | None) -> None:
    graph = fe.Graph()
    x = np.array([3, 5, 2, 7], np.int32)

    def step(so_far: Any, row: Any) -> Any:
        return so_far * 2 - row

    folded = graph.fold(step, x_ := graph.constant(x), initial, reverse=reverse)
    scanned = graph.scan(step, x_, initial, reverse=reverse)
    order = x[::-1] if reverse else x
    seen = [order[0]] if initial is None else []
    so_far = order[0] if initial is None else initial
    for row in order[1:] if initial is None else order:
        so_far = step(so_far, row)
        seen.append(so_far)
    got = run(graph, [folded, scanned])
    assert got[0] == so_far
    np.testing.assert_array_equal(got[1], seen[::-1] if reverse else seen)


def test_rows_are_needed() -> None:
    graph = fe.Graph()
    with pytest.raises(ValueError, match="is a scalar"):
        graph.map(lambda v: v, graph.constant(1.0))
    with pytest.raises(ValueError, match="elems is empty"):
        graph.map(lambda v: v, [])


def test_assertions_show_their_data() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None])
    with graph.control_dependencies([graph.assert_that(x > 0, [x], message="not positive:")]):
        y = fe.identity(x)
    np.testing.assert_array_equal(run(graph, y, {x: [1, 2]}), [1, 2])
    with pytest.raises(fe.errors.InvalidArgumentError, match="not positive"):
        run(graph, y, {x: [1, -2]})
