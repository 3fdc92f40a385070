"""Each fault of a graph by itself, and all of them together."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.frames import assign_frames
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.graphdef import graph_from_def, read_into
from flowengine.ir.graphfile import parse_graph_def
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ir.traits import Constant
from flowengine.ir.validate import FAULTS_SHOWN, check_graph

REGISTRY = OpRegistry()
for name, inputs, outputs, attrs in [
    ("Source", [], ["y: T"], ["T: {float, int32} = float", "shape: shape = unknown"]),
    ("Unary", ["x: T"], ["y: T"], ["T: type"]),
    ("Add", ["x: T", "y: T"], ["z: T"], ["T: type"]),
    ("Many", ["xs: N * T"], ["y: T"], ["N: int >= 1", "T: type"]),
    ("Split", ["x: T"], ["ys: num * T"], ["num: int >= 1", "T: type"]),
    ("Mixed", ["xs: Ts"], [], ["Ts: list(type) >= 1", "mode: {'a', 'b'} = 'a'", "f: float = 1.0"]),
    ("Var", [], ["ref: Ref(T)"], ["T: type"]),
    ("Assign", ["ref: Ref(T)", "value: T"], ["out: Ref(T)"], ["T: type"]),
    ("Const", [], ["y: dtype"], ["value: tensor", "dtype: type"]),
    ("Enter", ["data: T"], ["output: T"], ["T: type", "frame_name: string"]),
    ("Exit", ["data: T"], ["output: T"], ["T: type"]),
    ("NextIteration", ["data: T"], ["output: T"], ["T: type"]),
    ("Merge", ["inputs: N * T"], ["output: T", "value_index: int32"], ["N: int >= 1", "T: type"]),
    ("Switch", ["data: T", "pred: bool"], ["f: T", "t: T"], ["T: type"]),
    ("NoOp", [], [], []),
]:
    traits = [Constant("value")] if name == "Const" else []
    REGISTRY.register(OpDef.build(name, inputs=inputs, outputs=outputs, attrs=attrs, traits=traits))

FLOAT = 'attr {key: "T" value {type: DT_FLOAT}}'


def node(name: str, op: str, *inputs: str, attrs: str = FLOAT) -> str:
    return f'node {{name: "{name}" op: "{op}" ' + "".join(f'input: "{i}" ' for i in inputs) + attrs + "}\n"


def attr(name: str, value: str) -> str:
    return f'attr {{key: "{name}" value {{{value}}}}}'


def enter(name: str, source: str, frame: str) -> str:
    return node(name, "Enter", source, attrs=FLOAT + attr("frame_name", f's: "{frame}"'))


def faults_of(text: str, *, strict: bool = False) -> tuple[str, ...]:
    graph_def = parse_graph_def(text)
    try:
        graph_from_def(graph_def, REGISTRY, strict=strict)
    except InvalidArgumentError as error:
        return error.faults
    return ()


SOURCE = node("s", "Source")
LOOP = (
    SOURCE
    + enter("enter", "s", "loop")
    + node("merge", "Merge", "enter", "next", attrs=FLOAT + attr("N", "i: 2"))
    + node("body", "Unary", "merge")
    + node("next", "NextIteration", "body")
    + node("exit", "Exit", "merge")
)

LEGAL = {
    "nothing": "",
    "a chain": SOURCE + node("u", "Unary", "s:0", "^s"),
    "a loop": LOOP + node("after", "Unary", "exit"),
    "nodes in any order": node("u", "Unary", "s") + SOURCE,
    "a reference read as a value": node("v", "Var") + node("u", "Unary", "v"),
    "assignment": node("v", "Var") + SOURCE + node("a", "Assign", "v", "s"),
    "defaults": node("s", "Source", attrs=""),
    "attributes of others": SOURCE.replace("attr", 'attr {key: "_x" value {i: 1}} attr', 1),
    "an opaque node": node("q", "Unheard", "s") + SOURCE + node("u", "Unary", "q:3"),
    "loop inside a loop": SOURCE
    + enter("e1", "s", "outer")
    + enter("e2", "e1", "inner")
    + node("x2", "Exit", "e2")
    + node("x1", "Exit", "x2"),
    "the same frame by two names of node": SOURCE
    + enter("a", "s", "f")
    + enter("b", "s", "f")
    + node("c", "Add", "a", "b"),
}

FAULTY = {
    "no such node": (node("u", "Unary", "gone"), "input 0 is 'gone:0', but no node has that name"),
    "no such control input": (SOURCE.replace("attr", 'input: "^gone" attr', 1), "control input '^gone'"),
    "an attribute of another definition": (
        SOURCE.replace("attr", 'attr {key: "new" value {}} attr', 1),
        "Source 's': attribute 'new' (None) is unknown to the op (it has T, shape)",
    ),
    "no such output": (SOURCE + node("u", "Unary", "s:1"), "but Source 's' has 1 outputs"),
    "two nodes of a name": (SOURCE + SOURCE, "another node has the same name"),
    "bad name": (node("a b", "Source"), "'a b' has a name that no node may have"),
    "empty name": (node("", "Source"), "has a name that no node may have"),
    "too few inputs": (SOURCE + node("a", "Add", "s"), "has 1 inputs, the op wants 2"),
    "too many inputs": (SOURCE + node("a", "Unary", "s", "s"), "has 2 inputs, the op wants 1"),
    "list of another length": (
        SOURCE + node("m", "Many", "s", attrs=FLOAT + attr("N", "i: 3")),
        "has 1 inputs, the op wants 3",
    ),
    "wrong type of input": (
        SOURCE + node("a", "Unary", "s", attrs=attr("T", "type: DT_INT32")),
        "input 0 ('s:0') is float32, the op wants int32",
    ),
    "value for a reference": (SOURCE + node("a", "Assign", "s", "s"), "is float32, the op wants float32_ref"),
    "no attribute": (SOURCE + node("u", "Unary", "s", attrs=""), "attribute 'T' (type) is missing"),
    "ill-typed attribute": (
        SOURCE + node("u", "Unary", "s", attrs=attr("T", "i: 1")),
        "attribute 'T' should be a type, it is a int",
    ),
    "attribute not set": (SOURCE + node("u", "Unary", "s", attrs=attr("T", "")), "it is not set"),
    "a bool is no int": (
        SOURCE + node("m", "Many", "s", attrs=FLOAT + attr("N", "b: true")),
        "attribute 'N' should be a int, it is a bool",
    ),
    "placeholder outside a function": (
        SOURCE + node("u", "Unary", "s", attrs=attr("T", 'placeholder: "T"')),
        "a placeholder for 'T', which stands only in a function",
    ),
    "type not allowed": (
        node("s", "Source", attrs=attr("T", "type: DT_STRING")),
        "attribute 'T' is string, the op allows float32, int32",
    ),
    "reference type": (
        SOURCE + node("u", "Unary", "s", attrs=attr("T", "type: DT_FLOAT_REF")),
        "must not be the reference type",
    ),
    "no type": (SOURCE + node("u", "Unary", "s", attrs=attr("T", "type: DT_INVALID")), "0 is not the number"),
    "string not allowed": (
        SOURCE + node("m", "Mixed", "s", attrs=attr("Ts", "list {type: DT_FLOAT}") + attr("mode", 's: "c"')),
        "attribute 'mode' is 'c', the op allows 'a', 'b'",
    ),
    "too small": (
        node("m", "Many", attrs=FLOAT + attr("N", "i: 0")),
        "attribute 'N' is 0, the op wants at least 1",
    ),
    "too short a list": (
        node("m", "Mixed", attrs=attr("Ts", "list {}")),
        "attribute 'Ts' has 0 elements, the op wants at least 1",
    ),
    "no list": (
        SOURCE + node("m", "Mixed", "s", attrs=attr("Ts", "type: DT_FLOAT")),
        "attribute 'Ts' should be a list(type), it is a type",
    ),
    "list of other things": (
        SOURCE + node("m", "Mixed", "s", attrs=attr("Ts", "list {i: 1}")),
        "attribute 'Ts' should be a list(type), it is a int",
    ),
    "damaged constant": (
        node(
            "c",
            "Const",
            attrs=attr("dtype", "type: DT_FLOAT")
            + attr("value", 'tensor {dtype: DT_FLOAT tensor_shape {dim {size: 3}} tensor_content: "ab"}'),
        ),
        "takes 12 bytes, its tensor_content has 2",
    ),
    "constant of another type": (
        node(
            "c",
            "Const",
            attrs=attr("dtype", "type: DT_FLOAT") + attr("value", "tensor {dtype: DT_INT32 tensor_shape {}}"),
        ),
        "attribute 'value' is int32, attribute 'dtype' float32",
    ),
    "shape that overflows": (
        node("s", "Source", attrs=attr("shape", "shape {dim {size: -9}}")),
        "attribute 'shape': shape [-9] has the dimension -9",
    ),
    "a trillion outputs": (
        SOURCE + node("x", "Split", "s", attrs=FLOAT + attr("num", "i: 1000000000000")),
        "ask for more than 65536",
    ),
    "a cycle": (
        node("a", "Unary", "c") + node("b", "Unary", "a") + node("c", "Unary", "b"),
        "a cycle that is not a loop (no NextIteration leads back to a Merge): 'a' -> 'b' -> 'c' -> 'a'",
    ),
    "a node that feeds itself": (node("a", "Unary", "a"), "a cycle that is not a loop"),
    "a cycle of control edges": (
        node("a", "NoOp", "^b", attrs="") + node("b", "NoOp", "^a", attrs=""),
        "'a' -> 'b' -> 'a'",
    ),
    "control input before a data input": (
        SOURCE + node("u", "Unary", "^s", "s"),
        "the data input 's' comes after a control input",
    ),
}


@pytest.mark.parametrize("text", LEGAL.values(), ids=LEGAL)
def test_legal(text: str) -> None:
    assert faults_of(text) == ()


@pytest.mark.parametrize(("text", "words"), FAULTY.values(), ids=FAULTY)
def test_each_fault(text: str, words: str) -> None:
    faults = faults_of(text)
    assert any(words in fault for fault in faults), faults


@pytest.mark.parametrize(
    "name",
    [n for n in FAULTY if n not in {"too few inputs", "control input before a data input", "empty name"}],
)
def test_one_fault_is_one_fault(name: str) -> None:
    assert len(faults_of(FAULTY[name][0])) == 1, faults_of(FAULTY[name][0])


def test_all_faults_at_once_and_where_they_are() -> None:
    text = ""
    for index, (faulty, _) in enumerate(FAULTY.values()):
        graph = parse_graph_def(faulty)
        for each in graph.node:
            if each.name and " " not in each.name:
                each.name = f"g{index}/{each.name}"
            inputs = [f"^g{index}/{i[1:]}" if i.startswith("^") else f"g{index}/{i}" for i in each.input]
            del each.input[:]
            each.input.extend(inputs)
        text += str(graph)
    assert len(faults_of(text)) >= len(FAULTY)


def test_a_message_stays_short() -> None:
    text = "".join(node(f"u{i}", "Unary", "gone") for i in range(1000))
    with pytest.raises(InvalidArgumentError, match="1000 faults") as caught:
        graph_from_def(parse_graph_def(text), REGISTRY)
    assert len(str(caught.value)) < 5000
    assert "and 990 more" in str(caught.value)
    assert all(fault in str(caught.value) for fault in caught.value.faults[:FAULTS_SHOWN])
    assert len(caught.value.faults) == 1000


def test_unknown_ops_are_faults_only_when_strict() -> None:
    text = node("q", "Unheard")
    assert faults_of(text) == ()
    assert faults_of(text, strict=True) == ("Unheard 'q': Op type not registered 'Unheard'",)


TWO_FRAMES = {
    "a loop that nothing enters": (
        SOURCE
        + node("m", "Merge", "s", "n", attrs=FLOAT + attr("N", "i: 2"))
        + node("n", "NextIteration", "m"),
        "NextIteration 'n' leads back to 'm' in the root frame",
    ),
    "data from two loops": (
        SOURCE + enter("a", "s", "f") + enter("b", "s", "g") + node("c", "Add", "a", "b"),
        "inputs from two frames",
    ),
    "control edge into a loop": (
        LOOP + SOURCE.replace('"s"', '"t"') + node("u", "Unary", "merge", "^t"),
        "'merge' delivers into frame 'loop', 't' into the root frame; pass the value through Enter or Exit",
    ),
    "control edge out of a loop": (LOOP + node("u", "Unary", "s", "^body"), "inputs from two frames"),
    "control edges from two loops": (
        SOURCE + enter("a", "s", "f") + enter("b", "s", "g") + node("n", "NoOp", "^a", "^b", attrs=""),
        "inputs from two frames",
    ),
}


@pytest.mark.parametrize(("text", "words"), TWO_FRAMES.values(), ids=TWO_FRAMES)
def test_inputs_from_two_frames_are_left_to_the_step_that_meets_them(text: str, words: str) -> None:
    assert faults_of(text) == ()
    assert words in faults_of(text, strict=True)[0]
    graph = graph_from_def(parse_graph_def(text), REGISTRY)
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        check_graph(graph)
    with pytest.raises(InvalidArgumentError, match=r"inputs from two frames|'n' is not inside a loop"):
        assign_frames(graph)


def test_a_back_edge_into_another_loop() -> None:
    text = LOOP + enter("e", "s", "other") + node("m", "Merge", "e", "n", attrs=FLOAT + attr("N", "i: 2"))
    text += node("n", "NextIteration", "merge") + enter("f", "s", "loop")
    assert faults_of(text) == ()
    assert "its back edge comes from 'n' in frame 'loop'" in faults_of(text, strict=True)[0]


def test_inputs_behind_one_that_comes_around_are_looked_at_too() -> None:
    """The back edge comes first: where it comes from is not known yet when the node is reached."""
    text = LOOP + enter("e", "s", "other") + enter("f", "s", "more")
    text += node("m", "Merge", "n", "e", "f", attrs=FLOAT + attr("N", "i: 3")) + node(
        "n", "NextIteration", "m"
    )
    (fault,) = (each for each in faults_of(text, strict=True) if "inputs from two frames" in each)
    assert "'e' delivers into frame 'other', 'f' into frame 'more'" in fault


def test_an_exit_outside_any_loop() -> None:
    assert "not inside a loop" in faults_of(SOURCE + node("x", "Exit", "s"), strict=True)[0]


def test_loops_nest_only_so_deep() -> None:
    text = SOURCE.replace('"s"', '"e0"') + "".join(enter(f"e{i + 1}", f"e{i}", f"f{i}") for i in range(102))
    assert any("nested loops" in fault for fault in faults_of(text))


def test_a_graph_with_a_fault_leaves_the_target_untouched() -> None:
    graph = read_into(NodeGraph(), parse_graph_def(SOURCE), REGISTRY)
    version = graph.version
    with pytest.raises(InvalidArgumentError):
        read_into(graph, parse_graph_def(node("u", "Unary", "s") + node("w", "Unary", "gone")), REGISTRY)
    assert (graph.version, list(graph.nodes)) == (version, ["s"])
    read_into(graph, parse_graph_def(node("u", "Unary", "s")), REGISTRY)
    assert list(graph.nodes) == ["s", "u"]
    with pytest.raises(InvalidArgumentError, match="same name"):
        read_into(graph, parse_graph_def(SOURCE), REGISTRY)


def test_what_is_fed_need_not_be_there() -> None:
    graph = graph_from_def(parse_graph_def(SOURCE + node("u", "Unary", "s")), REGISTRY)
    without = NodeGraph([graph["u"]])
    with pytest.raises(InvalidArgumentError, match="no node has that name"):
        check_graph(without)
    check_graph(without, supplied=[OutputPort("s", 0)])


def test_a_pass_that_breaks_a_node_is_found_out() -> None:
    graph = graph_from_def(parse_graph_def(SOURCE + node("u", "Unary", "s")), REGISTRY)
    broken: list[Node] = [replace(graph["s"], attrs={}), graph["u"]]
    with pytest.raises(InvalidArgumentError, match="is missing"):
        check_graph(NodeGraph(broken))


@pytest.mark.parametrize("producers", ["n n", "n n o"])
def test_a_loop_that_nothing_enters(producers: str) -> None:
    inputs = producers.split()
    text = node("m", "Merge", *inputs, attrs=FLOAT + attr("N", f"i: {len(inputs)}"))
    text += node("n", "NextIteration", "m") + node("o", "NextIteration", "m")
    (fault,) = [each for each in faults_of(text) if "nothing enters" in each]
    assert f"Merge 'm' is the head of a loop that nothing enters: all its {len(inputs)} inputs" in fault


@pytest.mark.parametrize("producers", ["e f n", "e n f", "n e e", "e f n n"])
def test_a_loop_that_several_inputs_enter(producers: str) -> None:
    """TensorFlow ends the process where it is to import such a graph."""
    inputs = producers.split()
    text = node("s", "Source") + enter("e", "s", "loop") + enter("f", "s", "loop")
    text += node("m", "Merge", *inputs, attrs=FLOAT + attr("N", f"i: {len(inputs)}"))
    text += node("n", "NextIteration", "m")
    (fault,) = faults_of(text)
    assert "Merge 'm' is the head of a loop that 2 inputs enter ('e:0', '" in fault
    assert "merge them before its Enter" in fault


def test_a_loop_with_a_back_edge_for_each_branch_is_legal() -> None:
    """TensorFlow 2.21 runs it, as 1.15 does not."""
    text = node("s", "Source") + enter("e", "s", "loop")
    text += node("m", "Merge", "e", "n", "o", attrs=FLOAT + attr("N", "i: 3"))
    text += node("n", "NextIteration", "m") + node("o", "NextIteration", "m")
    assert faults_of(text) == ()
