"""OpDef: an op's signature in TensorFlow's terms, and the registry of them.

    MAT_MUL = OpDef.parse(
        "MatMul(a, b: T) -> product: T",
        "transpose_a, transpose_b: bool = false; T: {float, double, int32}",
        shape=mat_mul_shape,
    )

`optext` says what the text may be; `OpDef.build` takes it in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.ir.argdef import ArgDef, AttrDef
from flowengine.ir.attrs import AttrValue
from flowengine.ir.optext import read_arguments, read_attributes, split_signature
from flowengine.ir.trait_checks.settling import settled
from flowengine.ir.traits import Trait, Traits, When

T = TypeVar("T", bound=Trait)


class HandleSource(Protocol):
    """A node that creates a resource: its op and attributes."""

    @property
    def op(self) -> str: ...

    @property
    def attrs(self) -> Mapping[str, AttrValue]: ...


class ShapeContext(Protocol):
    """The questions that a shape function may ask of the node whose output shapes it infers."""

    #: The node's attributes, defaults applied.
    attrs: Mapping[str, AttrValue]
    #: The number of inputs, lists flattened.
    num_inputs: int
    #: The number of outputs, lists flattened.
    num_outputs: int
    #: The type of each output.
    output_types: Sequence[DType]
    #: The version of the program that wrote the graph (GraphDef.versions.producer).
    producer: int

    def input(self, index: int) -> TensorShape:
        """The shape of an input, as far as it is known."""

    def input_value(self, index: int) -> Any | None:
        """The value of an input that is constant (see `core.arrays`), else None."""

    def input_as_shape(self, index: int) -> TensorShape:
        """The shape that an integer vector input spells, known as far as the vector is."""

    def handle_shape(self, index: int) -> TensorShape:
        """The shape of the variable that a resource input names, as far as it is known."""

    def handle_source(self, index: int) -> HandleSource | None:
        """Return the source of the resource or reference at an input, if the graph leads to it."""


#: What a shape function returns: one shape for each output.
Shapes: TypeAlias = Sequence[TensorShape]
ShapeFunction = Callable[[ShapeContext], Shapes]


@dataclass(frozen=True, slots=True)
class OpDef:
    """One op's signature. `attrs` include the attributes that only give types or counts.

    inputs, outputs   the arguments in order, as `ArgDef`
    is_stateful   whether it has effects, or another result for the same inputs
    is_commutative, is_aggregate, allows_uninitialized_input   the flags of TensorFlow's OpDef
    shape         the function that infers the shapes of its outputs
    declared      the traits that its definition lists
    traits        these by class, with the duties that the signature shows; see `ir.traits`
    conditional   traits that it has only for one value of an attribute

    Raises InvalidArgumentError for a text that cannot be read, and traits that contradict it.

    >>> from flowengine.ir.traits import Elementwise
    >>> swish = fe.OpDef.parse("Swish(x: T) -> y: T", "T: {float, double} = float", Elementwise())
    >>> swish.name, [each.name for each in swish.inputs], swish.attr("T").type
    ('Swish', ['x'], 'type')
    >>> attrs = swish.with_defaults({})
    >>> swish.input_types(attrs), swish.trait(Elementwise, attrs)
    ((flowengine.float32,), Elementwise())
    """

    name: str
    inputs: tuple[ArgDef, ...] = ()
    outputs: tuple[ArgDef, ...] = ()
    attrs: tuple[AttrDef, ...] = ()
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    allows_uninitialized_input: bool = False
    shape: ShapeFunction | None = None
    declared: tuple[Trait, ...] = ()
    traits: Traits = field(init=False, compare=False, repr=False)
    conditional: tuple[When, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        traits, conditional = settled(
            self.name,
            self.declared,
            self.inputs,
            self.outputs,
            (attr.name for attr in self.attrs),
            self.is_stateful,
        )
        object.__setattr__(self, "traits", traits)
        object.__setattr__(self, "conditional", conditional)

    @classmethod
    def parse(cls, signature: str, *declarations: str | Trait, shape: ShapeFunction | None = None) -> OpDef:
        """Make an OpDef from its signature, which is one line.

        declarations   its attributes, one or several in each text, and its traits
        shape          the function that infers the shapes of its outputs

        Raises InvalidArgumentError for text that cannot be read, or a trait that contradicts it.
        """
        name, inputs, outputs = split_signature(signature)
        attr_defs, flags = _read_all([text for text in declarations if isinstance(text, str)])
        types = {a.name: a.type for a in attr_defs}
        return cls(
            name,
            read_arguments(inputs, types) if inputs.strip() else (),
            read_arguments(outputs, types) if outputs else (),
            attr_defs,
            shape=shape,
            declared=tuple([trait for trait in declarations if isinstance(trait, Trait)]),
            **flags,
        )

    @classmethod
    def build(
        cls,
        name: str,
        *,
        inputs: Iterable[str] = (),
        outputs: Iterable[str] = (),
        attrs: Iterable[str] = (),
        is_stateful: bool = False,
        is_commutative: bool = False,
        is_aggregate: bool = False,
        allows_uninitialized_input: bool = False,
        shape: ShapeFunction | None = None,
        traits: Iterable[Trait] = (),
    ) -> OpDef:
        """Make an OpDef from a name and lists of text, each of which has one or several parts.

        Arguments are those of `flowengine.OpDef`. Raises InvalidArgumentError for text that cannot be read,
        or a trait that contradicts it.

        >>> add = fe.OpDef.build("MyAdd", inputs=["a, b: T"], outputs=["sum: T"], attrs=["T: {float, int32}"])
        >>> [each.name for each in (*add.inputs, *add.outputs)]
        ['a', 'b', 'sum']
        """
        attr_defs, flags = _read_all(attrs)
        types = {a.name: a.type for a in attr_defs}
        return cls(
            name,
            tuple([arg for text in inputs for arg in read_arguments(text, types)]),
            tuple([arg for text in outputs for arg in read_arguments(text, types)]),
            attr_defs,
            is_stateful or "is_stateful" in flags,
            is_commutative or "is_commutative" in flags,
            is_aggregate or "is_aggregate" in flags,
            allows_uninitialized_input or "allows_uninitialized_input" in flags,
            shape,
            tuple(traits),
        )

    def trait(self, kind: type[T], attrs: Mapping[str, AttrValue]) -> T | None:
        """Return the trait of class `kind` that a node with these attributes has, or None."""
        found = self.traits.get(kind)
        if found is None:
            for when in self.conditional:
                if type(when.trait) is kind and when.holds(attrs):
                    found = when.trait
        return found if isinstance(found, kind) else None

    def attr(self, name: str) -> AttrDef | None:
        return next((a for a in self.attrs if a.name == name), None)

    def with_defaults(self, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
        """Return the attributes with every missing one that has a default filled in."""
        result = {a.name: a.default for a in self.attrs if a.has_default}
        result.update(attrs)
        return result

    def input_types(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        """Return the type of each input, lists flattened; attrs must be complete."""
        return tuple(t for arg in self.inputs for t in arg.types(attrs))

    def output_types(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        return tuple(t for arg in self.outputs for t in arg.types(attrs))


def _read_all(texts: Iterable[str]) -> tuple[tuple[AttrDef, ...], dict[str, bool]]:
    """Return the attributes of several texts, and {field of OpDef: True} for the flags among them."""
    declared: tuple[AttrDef, ...] = ()
    flags: dict[str, bool] = {}
    for text in texts:
        attrs, words = read_attributes(text)
        declared += attrs
        flags |= words
    return declared, flags


class OpRegistry:
    """The ops that a graph may use, by name. Programs and tests may make registries of their own.

    parent   a registry for the ops that this one does not have

    Raises InvalidArgumentError for a name that is taken, NotFoundError for one that is unknown.

    >>> from flowengine.ops.load import registry
    >>> ops = fe.OpRegistry(parent=registry())
    >>> swish = ops.register(fe.OpDef.parse("Swish(x: T) -> y: T", "T: {float, double}"))
    >>> ops.get("Swish") is swish, ops.find("Swosh"), "MatMul" in ops
    (True, None, True)
    """

    def __init__(self, parent: OpRegistry | None = None) -> None:
        self._defs: dict[str, OpDef] = {}
        self._parent = parent

    def register(self, definition: OpDef) -> OpDef:
        """Add a definition; InvalidArgumentError if the name is taken."""
        if definition.name in self._defs:
            raise InvalidArgumentError(f"op '{definition.name}' is already defined in this registry")
        self._defs[definition.name] = definition
        return definition

    def get(self, name: str) -> OpDef | None:
        found = self._defs.get(name)
        return self._parent.get(name) if found is None and self._parent is not None else found

    def find(self, name: str) -> OpDef | None:
        """As `get`, but for an unknown op it looks into the plugins, too."""
        found = self.get(name)
        return self._offered(name) if found is None else found

    def _offered(self, name: str) -> OpDef | None:
        return None if self._parent is None else self._parent._offered(name)

    def __getitem__(self, name: str) -> OpDef:
        """Return the definition; NotFoundError, with `missing_op` set, if there is none."""
        found = self.find(name)
        if found is None:
            error = NotFoundError(f"Op type not registered '{name}'")
            error.missing_op = name
            raise error
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        names = set(self._defs)
        if self._parent is not None:
            names |= set(self._parent)
        return iter(sorted(names))
