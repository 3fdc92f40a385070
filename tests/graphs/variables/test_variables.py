"""Variables: their nodes and names, what they say when something does not fit, and what their methods do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.graphs.variables.saved_slice import SavedSlice
from flowengine.graphs.variables.variable import from_proto
from flowengine.ir.proto import VariableDef


def run(graph: fe.Graph, *fetches: Any, after: Any = ()) -> Any:
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[v.initializer for v in graph.collection("variables")])
        for each in after:
            session.run(each)
        return session.run(list(fetches))


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_has_the_nodes_that_tensorflow_gives_it(use_resource: bool) -> None:
    graph = fe.Graph()
    v = graph.variable([1.0, 2.0], name="v", use_resource=use_resource)
    names = [op.name for op in graph.operations()]
    if use_resource:
        assert names == [
            "v/initial_value",
            "v",
            "v/IsInitialized/VarIsInitializedOp",
            "v/Assign",
            "v/Read/ReadVariableOp",
        ]
    else:
        assert names == ["v/initial_value", "v", "v/Assign", "v/read"]
    assert (v.name, v.op.name, v.dtype.name, v.shape.as_tuple()) == ("v:0", "v", "float32", (2,))
    assert v.initializer.name == "v/Assign"
    assert v.initial_value is not None
    assert v.initial_value.name == "v/initial_value:0"
    assert graph.collection("variables") == [v] == graph.collection("trainable_variables")


@pytest.mark.parametrize("use_resource", [True, False])
def test_changes_give_the_value_afterwards(use_resource: bool) -> None:
    graph = fe.Graph()
    v = graph.variable([1.0, 2.0, 3.0], use_resource=use_resource)
    rows = graph.variable(np.zeros([3, 2], np.float32), use_resource=use_resource)
    assert run(graph, v.value())[0].tolist() == [1, 2, 3]
    assert run(graph, v.assign_add([1.0, 1.0, 1.0]))[0].tolist() == [2, 3, 4]
    assert run(graph, v.assign_sub([1.0, 1.0, 1.0]))[0].tolist() == [0, 1, 2]
    assert run(graph, v.assign([7.0, 8.0, 9.0]))[0].tolist() == [7, 8, 9]
    assert run(graph, v.scatter_mul([0, 2], [2.0, 3.0]))[0].tolist() == [2, 2, 9]
    assert run(graph, rows.scatter_add([1, 1], [[1.0, 2.0], [3.0, 4.0]]))[0].tolist() == [
        [0, 0],
        [4, 6],
        [0, 0],
    ]
    assert run(graph, v.scatter_nd_update([[1]], [5.0]))[0].tolist() == [1, 5, 3]
    assert run(graph, v.initialized())[0]


def test_scatters_of_each_kind_are_what_numpy_makes() -> None:
    graph = fe.Graph()
    for use_resource in (True, False):
        v = graph.variable([4.0, 6.0], use_resource=use_resource)
        for kind, wanted in [
            ("update", [2, 6]),
            ("add", [6, 6]),
            ("sub", [2, 6]),
            ("mul", [8, 6]),
            ("div", [2, 6]),
            ("min", [2, 6]),
            ("max", [4, 6]),
        ]:
            assert run(graph, getattr(v, f"scatter_{kind}")([0], [2.0]))[0].tolist() == wanted
        assert run(graph, v.scatter_nd_add([[0]], [2.0]))[0].tolist() == [6, 6]
        assert run(graph, v.scatter_nd_sub([[0]], [2.0]))[0].tolist() == [2, 6]


def test_reading_after_a_change() -> None:
    graph = fe.Graph()
    v = graph.variable(1.0)
    with graph.control_dependencies([v.assign_op(5.0)]):
        later = v.read()
    assert run(graph, later)[0] == 5


def test_a_variable_made_in_a_scope_of_control_is_outside_of_it() -> None:
    graph = fe.Graph()
    first = graph.no_op() if hasattr(graph, "no_op") else graph.group(name="first")
    with graph.control_dependencies([first]), graph.name_scope("a"), graph.device("/cpu:0"):
        v = graph.variable(fe.initializers.zeros(), shape=[2], dtype="int32", name="v")
    assert v.name == "a/v:0"
    assert all(not op.control_inputs for op in graph.operations())
    assert v.device == "/device:CPU:0"
    assert v.initial_value is not None
    assert v.initial_value.op.node.attrs["_class"] == (b"loc:@a/v",)
    assert v.initial_value.name.startswith("a/v/Initializer/")


def test_an_initial_value_may_be_a_tensor_or_another_variable() -> None:
    graph = fe.Graph()
    a = graph.variable([1, 2], name="a")
    b = graph.variable(graph.ops.Add(a.value(), [1, 1]), name="b", trainable=False)
    with fe.blocking.Session(graph) as session:
        session.run(a.initializer)
        session.run(b.initializer)
        assert session.run(b.value()).tolist() == [2, 3]
    assert graph.collection("trainable_variables") == [a]


def test_what_does_not_fit_is_told() -> None:
    graph, other = fe.Graph(), fe.Graph()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"initial": None}, "needs an initial value"),
        ({"initial": fe.initializers.zeros()}, "give shape="),
        ({"initial": [1.0], "shape": [2]}, "is declared with shape [2]"),
        ({"initial": other.constant(1.0)}, "belongs to another graph"),
        ({"initial": graph.constant(1.0), "dtype": "int32"}, "is int32; its initial value"),
        ({"initial": graph.placeholder("float32")}, "validate_shape=False"),
    ]
    for arguments, text in cases:
        with pytest.raises(fe.errors.InvalidArgumentError) as caught:
            graph.variable(**arguments)
        assert text in str(caught.value)
    v = graph.variable([1.0, 2.0])
    with pytest.raises(fe.errors.InvalidArgumentError, match="is of shape"):
        v.assign([1.0, 2.0, 3.0])


def test_a_variable_of_any_shape() -> None:
    graph = fe.Graph()
    for use_resource in (True, False):
        v = graph.variable([1.0], validate_shape=False, use_resource=use_resource)
        assert run(graph, v.assign([1.0, 2.0]))[0].tolist() == [1, 2]


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_def_tells_all_of_it(use_resource: bool) -> None:
    graph = fe.Graph()
    v = graph.variable([1.0, 2.0], name="v", use_resource=use_resource)
    v.save_slice = SavedSlice("w", (4,), (2,), (2,))
    found: VariableDef = v.to_proto()
    assert found.is_resource is use_resource
    assert found.snapshot_name == ("v/Read/ReadVariableOp:0" if use_resource else "v/read:0")
    again = from_proto(graph, found.SerializeToString())
    assert again.to_proto() == found
    assert (again.handle, again.dtype, again.shape, again.save_slice) == (
        v.handle,
        v.dtype,
        v.shape,
        v.save_slice,
    )
    assert v.save_slice.spec == "4 2,2"


def test_caching() -> None:
    graph = fe.Graph()
    v = graph.variable([1.0], caching_device="/cpu:0")
    assert v.value() == v.value()
    assert v.value().op.type == "Identity"
    assert run(graph, v.value())[0] == [1]


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_stands_for_a_tensor(use_resource: bool) -> None:
    graph = fe.Graph()
    v = graph.variable([[1.0, 2.0]], use_resource=use_resource)
    x = graph.constant([[3.0], [4.0]])
    found = run(graph, v + 1.0, 2.0 * v, v @ x, v[0, 1:], -v, graph.ops.MatMul(v, x), fe.reduce_sum(v))
    assert [np.ravel(each).tolist() for each in found] == [[2, 3], [2, 4], [11], [2], [-1, -2], [11], [3]]
    (gradient,) = fe.gradients(fe.reduce_sum(v * v), v.handle)
    assert run(graph, gradient)[0].tolist() == [[2, 4]]


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_is_fetched_as_its_value(use_resource: bool) -> None:
    graph = fe.Graph()
    v = graph.variable([1.0, 2.0], use_resource=use_resource)
    parts = graph.variable([1.0, 2.0, 3.0], partitioner=fe.partitioners.fixed_size(2))
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.run({"v": v, "parts": parts})
        version = graph.version
        found = session.run({"v": v, "parts": parts})
        assert graph.version == version
    assert (found["v"].tolist(), found["parts"].tolist()) == ([1, 2], [1, 2, 3])


@pytest.mark.parametrize("use_resource", [True, False])
def test_what_needs_the_variable_is_on_its_device(use_resource: bool) -> None:
    graph = fe.Graph()
    with graph.device("/job:ps/task:0"):
        v = graph.variable([1.0, 2.0], use_resource=use_resource)
    with graph.device("/job:worker/task:1"):
        x = graph.constant([3.0, 4.0])
        with graph.colocate_with(x):
            used = [v + x, v.read(), v.initialized(), v.assign(x), v.assign_add(x), v.assign_sub(x)]
            used += [v.scatter_add([0], [1.0]), v.initialized_value()]
    assert [each.device for each in (used[0].op, x.op)] == ["/job:worker/task:1"] * 2
    assert {each.op.device for each in used[1:]} == {"/job:ps/task:0"}
    for op in graph.operations():
        if op.inputs and v.handle in op.inputs:
            assert op.device == "/job:ps/task:0", op


@pytest.mark.parametrize("use_resource", [True, False])
def test_of_a_variables_rows_no_others_are_read(use_resource: bool) -> None:
    graph = fe.Graph()
    start = np.arange(12, dtype=np.float32).reshape(4, 3)
    v = graph.variable(start, name="v", use_resource=use_resource)
    rows = fe.gather(v, [[3, 1]])
    assert rows.op.inputs[0].name == v.handle.name
    (slices,) = fe.gradients(fe.reduce_sum(rows * 2.0), [v])
    columns = fe.gather(v, [2], axis=1)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        np.testing.assert_array_equal(session.run(rows), start[[[3, 1]]])
        np.testing.assert_array_equal(session.run(columns), start[:, 2:])
        found = session.run(slices)
    assert (found.indices.tolist(), found.values.tolist()) == ([3, 1], [[2.0] * 3] * 2)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_variable_in_parts_is_changed_and_differentiated_as_a_whole_one(
    axis: int, use_resource: bool
) -> None:
    graph = fe.Graph()
    start = np.arange(15, dtype=np.float32).reshape(5, 3)
    counts = [2, 1] if axis == 0 else [1, 3]
    with graph.variable_scope("", partitioner=lambda shape, dtype: counts, use_resource=use_resource):
        w = graph.get_variable("w", initializer=start)
    assert isinstance(w, fe.PartitionedVariable)
    (gradient,) = fe.gradients(fe.reduce_sum(fe.square(w.value())), [w])
    (of_some,) = fe.gradients(fe.reduce_sum(w.parts[0].value()), [w])
    (of_none,) = fe.gradients(graph.constant(1.0), [w])
    assert of_none is None
    added = w.assign_add(np.ones((5, 3), np.float32))
    less, other = w.assign_sub(start), w.assign(start * 3)
    with pytest.raises(fe.errors.InvalidArgumentError, match="of shape"):
        w.assign(start[:4])
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[w.initializer])
        np.testing.assert_array_equal(session.run(gradient), 2 * start)
        assert session.run(of_some).sum() == w.parts[0].shape.num_elements()
        np.testing.assert_array_equal(session.run(added), start + 1)
        np.testing.assert_array_equal(session.run(less), np.ones((5, 3)))
        np.testing.assert_array_equal(session.run(other), start * 3)
        np.testing.assert_array_equal(session.run(w), start * 3)
