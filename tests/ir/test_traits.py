"""Traits: what a definition may say of its op, what its signature says anyhow, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir import make, names, traits
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.opdef import OpDef
from flowengine.ir.opdefproto import op_def_from_proto, op_def_to_proto
from flowengine.ir.trait_checks.outward import CallsPython, TouchesFiles
from flowengine.ir.traits import (
    Broadcasts,
    Checks,
    Constant,
    Droppable,
    Elementwise,
    ExternalValue,
    HandleOf,
    HandsOn,
    Impure,
    Method,
    Names,
    Normalises,
    Orders,
    Product,
    Reads,
    Trait,
    Uses,
    ValueOf,
    When,
    Writes,
)
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry


def kinds(start: type[Trait] = Trait) -> Iterator[type[Trait]]:
    for kind in start.__subclasses__():
        yield from kinds(kind)
        if not kind.__subclasses__():
            yield kind


def node_of(op_def: OpDef, **attrs: object) -> Node:
    return Node("x", op_def.name, attrs=attrs, op_def=op_def)


# What is said


def test_a_trait_knows_the_places_of_the_inputs_that_it_names() -> None:
    op = OpDef.parse("Mine(n: int32, a, b: T) -> y: T", "T: type", Product("a", "b"))
    found = node_of(op).trait(Product)
    assert found == Product("a", "b")
    assert found is not None
    assert found.places == (1, 2)


def test_a_users_op_is_opaque_unless_it_says_more() -> None:
    node = node_of(OpDef.parse("Mine(x: float) -> y: float"))
    assert not [kind for kind in kinds() if node.has(kind) or node.trait(kind) is not None]
    unknown = Node("x", "NobodyKnows")
    assert not [kind for kind in kinds() if unknown.has(kind) or unknown.trait(kind) is not None]


def test_a_definition_is_one_value_however_it_is_written() -> None:
    """By its signature, by lists of text, and as a proto."""
    parsed = OpDef.parse(
        "Made(a: T, b: Ref(int32), n: N * T) -> c: T, ds: Ts",
        "T: type",
        "N: int >= 1",
        "Ts: list(type)",
        "takes_uninitialized",
    )
    built = OpDef.build(
        "Made",
        inputs=["a: T", "b: Ref(int32)", "n: N * T"],
        outputs=["c: T", "ds: Ts"],
        attrs=["T: type", "N: int >= 1", "Ts: list(type)", "takes_uninitialized"],
    )
    assert parsed.allows_uninitialized_input
    assert built == parsed
    assert hash(built) == hash(parsed)
    assert op_def_from_proto(op_def_to_proto(built)) == built


def test_a_trait_may_depend_on_an_attribute() -> None:
    op = OpDef.parse("Mine(x: float) -> y: float", "mode: string = 'a'", When("mode", b"a", Elementwise()))
    assert node_of(op, mode=b"a").trait(Elementwise) == Elementwise()
    assert node_of(op, mode=b"b").trait(Elementwise) is None
    # `has` is for what an op is in any case.
    assert not node_of(op, mode=b"a").has(Elementwise)


def test_a_value_is_compared_with_its_type() -> None:
    op = OpDef.parse("Mine(x: float) -> y: float", "n: int", When("n", 1, Elementwise()))
    assert node_of(op, n=True).trait(Elementwise) is None


def test_the_two_forms_of_batch_normalisation_say_the_same() -> None:
    fused = registry()["FusedBatchNormV3"].trait(Normalises, {"is_training": False})
    assert fused is not None
    assert fused.places == (0, 3, 4, 2, 1)
    assert registry()["FusedBatchNormV3"].trait(Normalises, {"is_training": True}) is None
    plain = registry()["BatchNormWithGlobalNormalization"]
    scaled = plain.trait(Normalises, {"scale_after_normalization": True})
    assert scaled is not None
    assert scaled.places == (0, 1, 2, 3, 4)
    unscaled = plain.trait(Normalises, {"scale_after_normalization": False})
    assert unscaled is not None
    assert unscaled.places == (0, 1, 2, 3)


# What the signature says


@pytest.mark.parametrize(
    ("signature", "duty"),
    [
        ("Mine(ref: Ref(T), x: T) -> y: Ref(T)", Writes("ref")),
        ("Mine(var, slot: resource, x: T)", Writes("var", "slot")),
        ("Mine(handle: string, x: T) -> y: T", Names("handle")),
        # References to strings were handles of queues and readers, before there were resources.
        ("Mine(handle: Ref(string)) -> x: T", None),
        ("Mine(x: T) -> y: Ref(T)", None),
    ],
)
def test_duties_come_from_the_signature(signature: str, duty: Trait | None) -> None:
    op = OpDef.parse(signature, "stateful; T: type")
    assert list(op.traits.values()) == ([] if duty is None else [duty])


def test_a_reference_is_written_unless_the_op_says_otherwise() -> None:
    def told(*said: Trait) -> list[Trait]:
        op = OpDef.parse("Mine(a, b: resource)", "stateful", *said)
        return [trait for trait in op.traits.values() if type(trait) is Writes]

    assert told() == [Writes("a", "b")]
    assert told(Reads("a")) == [Writes("b")]
    assert told(Uses("b"), Reads("a")) == []


def test_a_definition_from_elsewhere_has_its_duties_too() -> None:
    from flowengine.ir.opdefproto import op_def_from_proto
    from flowengine.ir.proto import OpDef as Proto

    proto = Proto(name="f")
    proto.input_arg.add(name="v", type=dtypes.resource.number)
    assert op_def_from_proto(proto).traits == {Writes: Writes("v")}


# What is refused


@pytest.mark.parametrize(
    ("signature", "said", "why"),
    [
        ("Mine(x: T) -> y: T", HandsOn("z", "y"), "there is no input 'z'"),
        ("Mine(x: T) -> y: T", HandsOn("x", "z"), "there is no output 'z'"),
        ("Mine(x: T) -> y: T", Constant("value"), "there is no attribute 'value'"),
        ("Mine(xs: N * T) -> y: T", HandsOn("xs", "y"), "'xs' is a list"),
        ("Mine(xs: N * T, x: T) -> y: T", HandsOn("x", "y"), "'x' comes behind a list"),
        ("Mine(x: T) -> y: T", Reads("x"), "'x' is no reference"),
        ("Mine(x: T) -> y: T", Uses("x"), "'x' is no reference"),
        ("Mine(x: T) -> y: T", Writes("x"), "'x' is no reference"),
        ("Mine(x: resource) -> y: T", Elementwise(), "'x' refers to something"),
        ("Mine(x: Ref(T)) -> y: T", Elementwise(), "'x' refers to something"),
        ("Mine(x: variant) -> y: T", Droppable(), "'x' refers to something"),
        ("Mine(x: T) -> y: T", When("mode", b"a", Elementwise()), "there is no attribute 'mode'"),
    ],
)
def test_a_trait_that_is_not_true_is_refused(signature: str, said: Trait, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        OpDef.parse(signature, "T: type; N: int", said)


@pytest.mark.parametrize("said", [Elementwise(), HandsOn("x", "y"), Droppable(), Constant("T"), Orders()])
def test_what_keeps_state_is_no_function_of_its_inputs(said: Trait) -> None:
    with pytest.raises(InvalidArgumentError, match="it is stateful"):
        OpDef.parse("Mine(x: T) -> y: T", "stateful; T: type", said)


@pytest.mark.parametrize("duty", [ExternalValue(), Impure()])
def test_what_is_a_duty_is_no_function_of_its_inputs(duty: Trait) -> None:
    with pytest.raises(InvalidArgumentError, match="it is"):
        OpDef.parse("Mine(x: T) -> y: T", "T: type", Elementwise(), duty)


def test_what_names_an_object_is_no_function_of_its_inputs() -> None:
    with pytest.raises(InvalidArgumentError, match="Names"):
        OpDef.parse("Mine(handle: string) -> y: string", "", Elementwise())


def test_one_input_is_not_both_written_and_read() -> None:
    with pytest.raises(InvalidArgumentError, match="both writes and does not write"):
        OpDef.parse("Mine(v: resource)", "stateful", Reads("v"), Writes("v"))


def test_nothing_is_said_twice() -> None:
    with pytest.raises(InvalidArgumentError, match="it is said twice"):
        OpDef.parse("Mine(x: T) -> y: T", "T: type", Elementwise(), Elementwise())


def test_a_kernel_that_waits_is_refused_for_a_function_of_its_inputs() -> None:
    kernels = KernelRegistry()
    with pytest.raises(InvalidArgumentError, match=r"Tanh.*waits"):

        @kernels.kernel("Tanh")
        async def tanh(x: object) -> object:
            return x

    assert not kernels.has("Tanh")


# The ops of this package


def test_what_is_a_function_of_its_inputs_has_kernels_that_neither_wait_nor_look_around() -> None:
    kernels = kernel_registry()
    for name in registry():
        op = registry()[name]
        said = [*op.traits.values(), *(when.trait for when in op.conditional)]
        if any(trait.IS_OF_VALUES for trait in said):
            assert not [k for k in kernels.candidates(name) if k.is_async or k.takes_context], name


def test_duties_that_no_signature_shows_are_few() -> None:
    declared = {
        name: sorted(
            type(trait).__name__
            for trait in registry()[name].declared
            # What reaches out of its graph is held against its kernels: tests/kernels/test_file_access.py.
            if trait.IS_DUTY and not isinstance(trait, TouchesFiles | CallsPython)
        )
        for name in registry()
    }
    assert {name: said for name, said in declared.items() if said} == {
        "Assert": ["Checks"],
        "CheckNumerics": ["Checks"],
        "CheckNumericsV2": ["Checks"],
        "DebugGradientIdentity": ["Impure"],
        "DebugGradientRefIdentity": ["Impure"],
        "EnsureShape": ["Checks"],
        "ImmutableConst": ["Impure"],
        "MatchingFiles": ["Impure"],
        "Placeholder": ["ExternalValue"],
        "PlaceholderV2": ["ExternalValue"],
        "PlaceholderWithDefault": ["ExternalValue"],
        "Print": ["Impure"],
        "ReadFile": ["Impure"],
        # Their models may be in files, as ReadFile's contents are.
        **{
            op: ["Impure"]
            for op in (
                *("SentencepieceDecode", "SentencepieceEncodeDense", "SentencepieceEncodeSparse"),
                *("SentencepieceGetPieceSize", "SentencepieceGetPieceType", "SentencepieceIdToPiece"),
                "SentencepiecePieceToId",
            )
        },
        "_Arg": ["ExternalValue"],
    }


def test_every_class_of_traits_is_defined_in_words_and_said_of_some_op() -> None:
    from flowengine.ops import internal

    said: set[type[Trait]] = {Names}
    for op in [*map(registry().__getitem__, registry()), *vars(internal).values()]:
        if isinstance(op, OpDef):
            said.update(op.traits)
            said.update(type(when.trait) for when in op.conditional)
    for kind in kinds():
        assert kind.__doc__
        assert kind is When or kind in said, kind
        assert {*kind.INPUTS, *kind.OUTPUTS, *kind.ATTRS} <= set(kind.FIELDS)


def test_permissions_are_what_is_left_without_duties() -> None:
    op = OpDef.parse("Mine(a, b: resource)", "stateful", Reads("a"))
    assert traits.permissions(op.traits) == [Reads("a")]


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("Identity", HandsOn),
        ("StopGradient", HandsOn),
        ("RefIdentity", HandsOn),
        ("LoopCond", HandsOn),
        ("Const", Constant),
        ("NoOp", Orders),
        ("EnsureShape", Checks),
        ("ReadVariableOp", ValueOf),
        ("AddV2", Broadcasts),
        ("StackV2", HandleOf),
        ("StackPushV2", Method),
    ],
)
def test_some_that_everything_relies_on(op: str, kind: type[Trait]) -> None:
    assert kind in registry()[op].traits


def test_names_are_of_ops_that_there_are() -> None:
    # Of TensorFlow's newer versions, whose graphs call functions by it; and those that only plans hold.
    undefined = {names.REGION, names.FETCH}
    told = {key: value for key, value in vars(names).items() if key.isupper()}
    assert len(told) > 20
    for value in told.values():
        for op in value if isinstance(value, frozenset) else [value]:
            assert (op in registry()) != (op in undefined), op
    control = {"Enter", "Exit", "NextIteration", "Merge", "Switch"}
    assert {op.removeprefix("Ref") for op in names.CONTROL_FLOW_OPS} == control
    assert all(registry()[op].inputs[0].is_ref for op in names.REFERENCE_CARRIERS)


# Making nodes


def test_nodes_are_made_with_what_follows_from_their_definition() -> None:
    bias = make.node(
        registry(), "BiasAdd", "y", inputs=[OutputPort("x", 0), OutputPort("b", 0)], T=dtypes.float32
    )
    assert bias.attrs["data_format"] == b"NHWC"
    assert bias.output_types == (dtypes.float32,)
    handed = make.identity(registry(), "i", OutputPort("y", 0), dtypes.float32, controls=["a"])
    assert (handed.op, handed.control_inputs, handed.has(HandsOn)) == ("Identity", ("a",), True)
    waits = make.no_op(registry(), bias, ["a", "b"])
    assert (waits.name, waits.inputs, waits.control_inputs, waits.output_types) == ("y", (), ("a", "b"), ())
    assert waits.has(Orders)
