"""Signatures: how their text is read, what a registry does, and that every op here is in order."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flowengine.core import dtypes as dt
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.ir.argdef import AttrDef
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ops.load import load_all, registry
from flowengine.ops.registry import define


def _attr(text: str) -> AttrDef:
    (attr,) = OpDef.build("Op", attrs=[text]).attrs
    return attr


@pytest.mark.parametrize(
    ("text", "kind", "default"),
    [
        ("a: int = -3", "int", -3),
        ("a: bool = true", "bool", True),
        ("a: bool = false", "bool", False),
        ('a: string = ""', "string", b""),
        ('a: string = "x, y"', "string", b"x, y"),
        ("a: type = half", "type", dt.float16),
        ("a: type = DT_INT64", "type", dt.int64),
        ("a: shape = [2, -1]", "shape", TensorShape([2, None])),
        ("a: shape = []", "shape", TensorShape([])),
        ("a: shape = unknown", "shape", TensorShape(None)),
        ("a: list(int) = []", "list(int)", ()),
        ("a: list(int) = [1, 1, 2]", "list(int)", (1, 1, 2)),
        ("a: list(shape) = [[1, 2], [3]]", "list(shape)", (TensorShape([1, 2]), TensorShape([3]))),
        ('a: list(string) = ["b", "c"]', "list(string)", (b"b", b"c")),
        ("a: list(float) = [0.5, inf]", "list(float)", (0.5, float("inf"))),
        ('a: func = "body"', "func", FuncAttr("body")),
    ],
)
def test_default_is_read_by_the_attribute_type(text: str, kind: str, default: object) -> None:
    attr = _attr(text)
    assert attr.type == kind
    assert attr.default == default


def test_float_default_has_the_precision_of_a_graph_def() -> None:
    # 0.1 as the nearest float32, so that an absent attribute equals one that was written and read.
    assert _attr("a: float = 0.1").default == 0.10000000149011612


def test_tensor_default_holds_its_elements() -> None:
    value = _attr("a: tensor = uint8[255, 0, 7]").default
    assert value.dtype is dt.uint8
    assert value.value().tolist() == [255, 0, 7]


def test_no_default_is_not_the_default_none() -> None:
    assert not _attr("a: int").has_default
    assert _attr("a: int = 0").has_default


def test_allowed_values_and_minimum() -> None:
    assert _attr("T: {float, half}").allowed == (dt.float32, dt.float16)
    assert _attr("p: {'SAME', 'VALID'} = \"SAME\"").allowed == (b"SAME", b"VALID")
    assert _attr("T: list({int32, int64}) >= 2").allowed == (dt.int32, dt.int64)
    assert _attr("n: int >= 1 = 4").minimum == 1
    assert _attr("n: list(int) >= 0 = []").minimum == 0


def test_groups_of_types() -> None:
    number = _attr("T: numbertype").allowed
    real = _attr("T: realnumbertype").allowed
    floats = _attr("T: floattype").allowed
    assert number is not None
    assert real is not None
    assert floats is not None
    assert set(floats) == {dt.float16, dt.bfloat16, dt.float32, dt.float64}
    assert set(floats) < set(real) < set(number)
    assert dt.complex64 in number
    assert dt.qint8 in number
    assert dt.qint16 not in number
    assert dt.bool_ not in number


def test_arguments_of_every_form() -> None:
    op = OpDef.build(
        "Op",
        inputs=["a: T", "b: float", "c: Ref(T)", "d: N * T", "e: Ts", "f: N * string", "g: N * Ref(T)"],
        attrs=["T: type", "N: int >= 1", "Ts: list(type)"],
    )
    attrs = {"T": dt.int32, "N": 2, "Ts": (dt.bool_, dt.half)}
    assert op.input_types(attrs) == (
        dt.int32,
        dt.float32,
        dt.int32.ref,
        *(dt.int32, dt.int32),
        *(dt.bool_, dt.half),
        *(dt.string, dt.string),
        *(dt.int32.ref, dt.int32.ref),
    )
    assert [a.name for a in op.inputs if a.is_list] == ["d", "e", "f", "g"]


def test_a_line_says_what_lists_of_text_say() -> None:
    line = OpDef.parse(
        "Op(a, b: T, c: N * Ref(T), d: Ts) -> e: T, f, g: int64",
        "T: indextype; N, M: int >= 1 = 2",
        "s: string = \"x; y, 'z'\"; stateful; Ts: list(type)",
    )
    lists = OpDef.build(
        "Op",
        inputs=["a: T", "b: T", "c: N * Ref(T)", "d: Ts"],
        outputs=["e: T", "f: int64", "g: int64"],
        attrs=[
            "T: {int32, int64}",
            "N: int >= 1 = 2",
            "M: int >= 1 = 2",
            "s: string = \"x; y, 'z'\"",
            "Ts: list(type)",
        ],
        is_stateful=True,
    )
    assert line == lists


def test_a_line_without_inputs_outputs_or_attributes() -> None:
    assert OpDef.parse("Op()") == OpDef.build("Op")
    assert OpDef.parse("Op() -> y: float") == OpDef.build("Op", outputs=["y: float"])
    assert OpDef.parse("Op(x: float)") == OpDef.build("Op", inputs=["x: float"])


@pytest.mark.parametrize("text", ["", "Op", "Op(", "(x: T)", "Op(x: T) ->", "Op -> y: float", "Op(x) y: T"])
def test_unreadable_signature_is_named(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot read the signature"):
        OpDef.parse(text)


@pytest.mark.parametrize(
    "text", ["", "a", "a:", "a: list(T", "a b: float", "1 * : T", "a, : T", "a: T,", "a: T b: T"]
)
def test_unreadable_argument_is_named(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot read the argument"):
        OpDef.build("Op", inputs=[text])


@pytest.mark.parametrize("text", ["a", "a: nothing", "a: list(nothing)", "a = 3"])
def test_unreadable_attribute_is_named(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="attribute"):
        OpDef.build("Op", attrs=[text])


def test_with_defaults_keeps_what_is_given() -> None:
    op = OpDef.build("Op", attrs=["a: int = 1", "b: int = 2", "c: int"])
    assert op.with_defaults({"b": 5, "_x": 6}) == {"a": 1, "b": 5, "_x": 6}


def test_a_name_can_be_registered_once() -> None:
    ops = OpRegistry()
    ops.register(OpDef.build("Op"))
    with pytest.raises(InvalidArgumentError, match="'Op' is already defined"):
        ops.register(OpDef.build("Op"))


def test_an_unknown_op_is_not_found_by_name() -> None:
    with pytest.raises(NotFoundError, match="Op type not registered 'Nothing'") as caught:
        registry()["Nothing"]
    assert caught.value.missing_op == "Nothing"


def test_a_child_registry_adds_to_and_shadows_its_parent() -> None:
    own = OpRegistry(parent=registry())
    mine = own.register(OpDef.build("Relu", outputs=["y: float"]))
    own.register(OpDef.build("MyOwn"))
    assert own["Relu"] is mine
    assert registry()["Relu"] is not mine
    assert "MyOwn" in own
    assert "MyOwn" not in registry()
    assert "MatMul" in own
    assert set(own) == {*registry(), "MyOwn"}


def test_loading_again_changes_nothing() -> None:
    before = {name: registry()[name] for name in registry()}
    load_all()
    assert list(registry()) == list(before)
    assert all(registry()[name] is definition for name, definition in before.items())


def test_an_op_loads_its_own_module(root: Path) -> None:
    code = (
        "import sys; from flowengine.ops.index import OPS; from flowengine.ops.load import registry\n"
        "def loaded(): return {m for m in OPS if f'flowengine.ops.{m}' in sys.modules}\n"
        "assert registry().get('NoSuchOp') is None and len(list(registry())) > 1000 and not loaded()\n"
        "assert 'MatMul' in registry() and loaded() == {'linalg.products'}, loaded()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_threads_that_ask_at_once_get_one_whole_definition(root: Path) -> None:
    code = (
        "import threading; from flowengine.ops.load import registry\n"
        "found = []; start = threading.Barrier(8)\n"
        "def ask():\n"
        "    start.wait(); found.append([registry()[name] for name in ('Conv2D', 'Pad', 'Roll', 'Svd')])\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert len(found) == 8\n"
        "assert all(mine is first for row in found for mine, first in zip(row, found[0], strict=True))\n"
        "assert all(definition.shape is not None for definition in found[0])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_ops_that_stand_together_differ_in_their_names_only() -> None:
    first, second = registry()["BesselI0"], registry()["BesselI1"]
    assert first.name == "BesselI0"
    assert replace(second, name="BesselI0") == first


def test_a_name_can_be_defined_once() -> None:
    registry()["Roll"]
    with pytest.raises(InvalidArgumentError, match="'Roll' is already defined"):
        define("Roll(x: float) -> y: float")


def test_an_op_added_to_the_standard_registry_is_not_one_of_its_own() -> None:
    with pytest.raises(InvalidArgumentError, match="'WriteSummary' is already defined"):
        registry().register(OpDef.build("WriteSummary"))


def test_every_op_is_consistent() -> None:
    """Arguments refer to attributes of the right type; defaults are allowed; names are not used twice."""
    known = registry()
    assert len(list(known)) > 1000
    for name in known:
        op = known[name]
        assert op.name == name
        attrs = {a.name: a for a in op.attrs}
        assert len(attrs) == len(op.attrs), name
        for args in (op.inputs, op.outputs):
            names = [a.name for a in args]
            assert len(set(names)) == len(names), name
            for arg in args:
                if arg.type_attr is not None:
                    assert attrs[arg.type_attr].type == "type", (name, arg)
                if arg.number_attr is not None:
                    assert attrs[arg.number_attr].type == "int", (name, arg)
                if arg.type_list_attr is not None:
                    assert attrs[arg.type_list_attr].type == "list(type)", (name, arg)
        for attr in op.attrs:
            if attr.has_default and attr.allowed is not None:
                values = attr.default if isinstance(attr.default, tuple) else (attr.default,)
                assert all(v in attr.allowed for v in values), (name, attr)


@pytest.mark.parametrize(
    "name",
    ["VariableV2", "RandomUniform", "FIFOQueueV2", "TensorArrayV3", "Assert", "Print", "ReadVariableOp"],
)
def test_what_has_state_says_so(name: str) -> None:
    assert registry()[name].is_stateful


@pytest.mark.parametrize("name", ["Add", "MatMul", "Switch", "Merge", "Enter", "Const", "Identity", "Assign"])
def test_what_has_no_state_says_so(name: str) -> None:
    assert not registry()[name].is_stateful


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ('""', "string", b""),
        ('"plain, with: signs"', "string", b"plain, with: signs"),
        (r'"a\n"', "string", b"a\n"),
        (r"'it\'s'", "string", b"it's"),
        ("[]", "shape", TensorShape([])),
        ("[2, -1]", "shape", TensorShape([2, None])),
        ("[ 3 ,]", "shape", TensorShape([3])),
        ("unknown", "shape", TensorShape(None)),
    ],
)
def test_defaults_are_what_python_means_by_them(text: str, kind: str, value: object) -> None:
    (attr,) = OpDef.parse("Mine(x: float)", f"a: {kind} = {text}").attrs
    assert attr.default == value
