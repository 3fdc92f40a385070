"""Reading and writing loses nothing."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.graphdef import graph_from_def, graph_to_def
from flowengine.ir.graphfile import parse_graph_def
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ir.proto import AttrValue, GraphDef
from flowengine.ops.load import registry

REGISTRY = OpRegistry()
for name, inputs, outputs, attrs in [
    ("Const", [], ["output: dtype"], ["value: tensor", "dtype: type"]),
    ("Placeholder", [], ["output: dtype"], ["dtype: type", "shape: shape = unknown"]),
    (
        "Sum",
        ["x: T", "axes: int32"],
        ["y: T"],
        ["keep_dims: bool = false", "T: type", "Tidx: type = DT_INT32"],
    ),
    ("Unary", ["x: T"], ["y: T"], ["T: type = DT_FLOAT"]),
    ("NoOp", [], [], []),
]:
    REGISTRY.register(OpDef.build(name, inputs=inputs, outputs=outputs, attrs=attrs))

#: Every corner of the GraphDef family at once.
EVERYTHING = """
node { name: "x" op: "Placeholder" device: "/device:GPU:3"
       attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "_note" value { s: "\\377\\000" } }
       attr { key: "_list" value { list { i: 1 i: 2 } } }
       experimental_debug_info { original_node_names: "was" }
       experimental_type { type_id: TFT_TENSOR args { type_id: TFT_FLOAT } } }
node { name: "axes" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 name: "n" } }
                                             int_val: 0 } } } }
node { name: "y" op: "Sum" input: "x:0" input: "axes" input: "^x"
       attr { key: "T" value { type: DT_FLOAT } } attr { key: "_added_later" value { b: true } } }
node { name: "strange" op: "NobodyKnows" input: "y:0" input: "nowhere_else:0" input: "^axes"
       attr { key: "f" value { func { name: "g" attr { key: "T" value { placeholder: "U" } } } } }
       attr { key: "unset" value { } } attr { key: "bad" value { type: 99 } } }
node { name: "nowhere_else" op: "NobodyKnows" }
node { name: "call" op: "g" input: "x" attr { key: "U" value { type: DT_FLOAT } } }
library {
  function {
    signature { name: "g" input_arg { name: "a" type_attr: "U" } output_arg { name: "b" type_attr: "U" }
                attr { name: "U" type: "type" } is_stateful: true control_output: "done" }
    attr { key: "_implements" value { s: "z" } }
    arg_attr { key: 0 value { attr { key: "_user" value { s: "a" } } } }
    node_def { name: "i" op: "Unary" input: "a" attr { key: "T" value { placeholder: "U" } } }
    ret { key: "b" value: "i:y:0" } control_ret { key: "done" value: "i" }
  }
  gradient { function_name: "g" gradient_func: "gg" }
  registered_gradients { gradient_func: "h" registered_op_type: "Op" }
}
versions { producer: 26 min_consumer: 12 bad_consumers: 13 }
version: 9
debug_info { files: "f.py" }
"""


def identical(graph: NodeGraph, original: GraphDef) -> None:
    assert graph_to_def(graph).SerializeToString(deterministic=True) == original.SerializeToString(
        deterministic=True
    )


def test_everything_comes_back() -> None:
    original = parse_graph_def(EVERYTHING)
    graph = graph_from_def(parse_graph_def(original.SerializeToString()), REGISTRY)
    assert (graph.producer, graph.min_consumer) == (26, 12)
    identical(graph, original)
    # Through a pass that changes nothing, a snapshot, and a second time.
    identical(graph.rewritten(graph), original)
    identical(graph.snapshot(), original)
    identical(graph_from_def(graph_to_def(graph), REGISTRY), original)


def test_fields_of_later_versions_come_back() -> None:
    # Field 1000 of a node (a string) and of the graph (a number).
    node = b"\x0a\x01a\x12\x04NoOp\xc2\x3e\x03xyz"
    data = b"\x0a" + bytes([len(node)]) + node + b"\x22\x02\x08\x05" + b"\xc0\x3e\x07"
    graph = graph_from_def(parse_graph_def(data), REGISTRY)
    assert graph_to_def(graph).SerializeToString() == data


def test_defaults_are_there_but_not_written() -> None:
    graph = graph_from_def(parse_graph_def(EVERYTHING), REGISTRY)
    assert graph["y"].attrs["keep_dims"] is False
    assert graph["y"].attrs["Tidx"] is dtypes.int32
    assert graph["y"].output_types == (dtypes.float32,)
    assert graph["x"].attrs["shape"].rank is None
    assert "keep_dims" not in next(n for n in graph_to_def(graph).node if n.name == "y").attr


def test_a_function_used_as_an_op_has_its_signature() -> None:
    call = graph_from_def(parse_graph_def(EVERYTHING), REGISTRY, strict=False)["call"]
    assert call.op_def is not None
    assert call.output_types == (dtypes.float32,)
    assert call.is_stateful
    wrong = EVERYTHING.replace('attr { key: "U" value { type: DT_FLOAT } }', "")
    with pytest.raises(InvalidArgumentError, match="'U'"):
        graph_from_def(parse_graph_def(wrong), REGISTRY)


def test_a_changed_node_keeps_what_was_not_changed() -> None:
    graph = graph_from_def(parse_graph_def(EVERYTHING), REGISTRY)
    y = graph["y"]
    changed = replace(
        y,
        name="y2",
        device="/cpu:0",
        inputs=(OutputPort("x", 0), OutputPort("strange", 2)),
        control_inputs=("axes",),
        attrs={k: v for k, v in y.attrs.items() if k != "_added_later"} | {"keep_dims": True, "_new": 1.5},
    )
    written = next(n for n in graph_to_def(graph.rewritten([changed])).node)
    assert written == text_format.Parse(
        'name: "y2" op: "Sum" input: "x" input: "strange:2" input: "^axes" device: "/cpu:0" '
        'attr { key: "T" value { type: DT_FLOAT } } attr { key: "keep_dims" value { b: true } } '
        'attr { key: "_new" value { f: 1.5 } }',
        type(written)(),
    )


def test_a_graph_made_here_is_written_in_full() -> None:
    const = REGISTRY["Const"]
    value = TensorAttr.of(np.array([1, 2], np.float32), dtypes.float32)
    graph = NodeGraph(
        [
            Node(
                "c",
                "Const",
                attrs={"value": value, "dtype": dtypes.float32},
                op_def=const,
                output_types=(dtypes.float32,),
            )
        ],
        producer=134,
    )
    written = graph_to_def(graph)
    assert written.versions.producer == 134
    assert not written.HasField("library")
    back = graph_from_def(parse_graph_def(written.SerializeToString()), REGISTRY, strict=True)
    np.testing.assert_array_equal(back["c"].attrs["value"].value(), np.array([1, 2], np.float32))


def test_a_graph_of_the_first_version() -> None:
    text = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'
    graph = graph_from_def(parse_graph_def(text), REGISTRY)
    assert graph.producer == 0
    assert not graph_to_def(graph).HasField("versions")


def test_ops_as_the_first_versions_wrote_them() -> None:
    """Attributes that were added to the ops since are missing."""
    text = """
    node { name: "v" op: "Variable" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { dim { size: 2 } } } } }
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "i" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
           attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} } } } }
    node { name: "div" op: "Div" input: "v" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "gather" op: "Gather" input: "v" input: "i"
           attr { key: "Tindices" value { type: DT_INT32 } }
           attr { key: "Tparams" value { type: DT_FLOAT } } }
    node { name: "sum" op: "Sum" input: "div" input: "i" attr { key: "T" value { type: DT_FLOAT } } }
    """
    graph = graph_from_def(parse_graph_def(text), registry(), strict=True)
    assert graph["v"].attrs["container"] == b""
    assert graph["v"].output_types == (dtypes.float32.ref,)
    assert graph["gather"].attrs["validate_indices"] is True
    assert graph["sum"].attrs["Tidx"] is dtypes.int32
    identical(graph, parse_graph_def(text))


def test_order_is_kept() -> None:
    names = [f"n{i}" for i in (5, 3, 9, 1)]
    text = "".join(f'node {{ name: "{name}" op: "NoOp" }}' for name in names)
    graph = graph_from_def(parse_graph_def(text), REGISTRY)
    assert list(graph.nodes) == names
    assert [n.name for n in graph_to_def(graph).node] == names


def test_a_message_given_is_not_kept() -> None:
    mine = GraphDef()
    mine.node.add(name="a", op="NoOp")
    graph = graph_from_def(parse_graph_def(mine), REGISTRY)
    mine.node[0].name = "b"
    assert graph_to_def(graph).node[0].name == "a"


def test_the_collector_is_left_as_it_was() -> None:
    data = parse_graph_def('node { name: "a" op: "NoOp" }')
    bad = parse_graph_def('node { name: "a" op: "NoOp" input: "gone" }')
    assert gc.isenabled()
    graph_from_def(data, REGISTRY)
    assert gc.isenabled()
    with pytest.raises(InvalidArgumentError):
        graph_from_def(bad, REGISTRY)
    assert gc.isenabled()
    gc.disable()
    try:
        graph_from_def(data, REGISTRY)
        assert not gc.isenabled()
    finally:
        gc.enable()


# Any GraphDef that has no fault

words = st.text(max_size=6)
attr_values = st.one_of(
    st.builds(lambda v: AttrValue(s=v), st.binary(max_size=6)),
    st.builds(lambda v: AttrValue(i=v), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda v: AttrValue(f=v), st.floats(width=32)),
    st.builds(lambda v: AttrValue(b=v), st.booleans()),
    st.builds(
        lambda v: AttrValue(list=AttrValue.ListValue(s=v)), st.lists(st.binary(max_size=3), max_size=3)
    ),
    st.builds(lambda v: AttrValue(list=AttrValue.ListValue(f=v)), st.lists(st.floats(width=32), max_size=3)),
    st.builds(lambda v: AttrValue(placeholder=v), words),
    st.just(AttrValue()),
)


@st.composite
def graph_defs(draw: st.DrawFn) -> GraphDef:
    result = GraphDef()
    count = draw(st.integers(0, 6))
    for index in range(count):
        node = result.node.add(name=f"n{index}", op=draw(st.sampled_from(["NoOp", "Opaque", "Other"])))
        node.device = draw(words)
        before = draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []
        if node.op != "NoOp":
            sources = [i for i in before if result.node[i].op != "NoOp"]
            node.input.extend(draw(st.sampled_from([f"n{i}", f"n{i}:0", f"n{i}:4"])) for i in sources)
        node.input.extend(f"^n{i}" for i in before)
        for key, value in draw(st.dictionaries(words, attr_values, max_size=3)).items():
            # An op that is known has no attributes of others but notes.
            node.attr[f"_{key}" if node.op == "NoOp" else key].CopyFrom(value)
    if draw(st.booleans()):
        result.versions.producer = draw(st.integers(0, 2000))
        result.versions.min_consumer = draw(st.integers(0, 20))
    if draw(st.booleans()):
        result.library.function.add().signature.name = draw(words)
    return result


@given(graph_defs())
def test_load_save_load(original: GraphDef) -> None:
    graph = graph_from_def(parse_graph_def(original.SerializeToString()), REGISTRY)
    identical(graph, original)
    again = graph_from_def(graph_to_def(graph), REGISTRY)
    assert list(again.nodes) == list(graph.nodes)
    for ours, theirs in zip(again, graph, strict=True):
        assert (ours.op, ours.inputs, ours.control_inputs, ours.device) == (
            theirs.op,
            theirs.inputs,
            theirs.control_inputs,
            theirs.device,
        )


@given(st.lists(st.dictionaries(words, attr_values, max_size=3), min_size=2, max_size=2))
def test_attributes_that_change_are_written_as_they_are_now(both: list[dict[str, AttrValue]]) -> None:
    """Nothing of what was read before is left: no key, no field, no element of a list."""
    nodes = []
    for attrs in both:
        data = GraphDef()
        node = data.node.add(name="n", op="Opaque")
        for key, value in attrs.items():
            node.attr[key].CopyFrom(value)
        nodes.append((graph_from_def(data, REGISTRY, strict=False)["n"], node))
    (first, _), (second, expected) = nodes
    written = graph_to_def(NodeGraph([replace(first, attrs=dict(second.attrs))])).node[0]
    assert written.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@pytest.mark.parametrize("value", ["int32", "int64"])
def test_an_attribute_that_tensorflow_1_lacks_is_written_where_it_is_not_its_default(value: str) -> None:
    graph = Graph()
    graph.ops.TopKV2(graph.placeholder("float32", [5], name="x"), 2, index_type=value, name="top")
    written = graph.to_graph_def()
    (proto,) = [node for node in written.node if node.name == "top"]
    assert ("index_type" in proto.attr) == (value == "int64")
    assert graph_from_def(written, registry())["top"].attrs["index_type"].name == value
