"""Traits: what an op is, said once, in its definition, and asked by everything that treats ops alike.

    define("Identity", ..., traits=[HandsOn("input", "output")])
    node.trait(HandsOn)        # HandsOn(input='input', output='output'), with its place among the inputs
    node.has(Constant)         # False

There are two kinds. A *permission* allows something: an op without it is treated with more care and costs
time, never a wrong value. A *duty* forbids something: without it values would be wrong. So duties come from
the signature wherever that shows them (`Ref(T)`, a resource, a string called `handle`), and a permission that
contradicts the signature is refused when the op is registered. A user's op that has no traits is opaque.

Arguments are the names of the op's inputs, outputs and attributes. `settled` checks them once and notes their
places, so that to ask is to look into a dictionary by the class of the trait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, TypeAlias, TypeVar

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.argdef import ArgDef
from flowengine.ir.attrs import AttrValue


@dataclass(frozen=True)
class Trait:
    """One thing that an op is.

    places   of the inputs that it names, in the order in which it names them; filled in by `settled`
    """

    #: Whether its absence would be wrong, not only slow.
    IS_DUTY: ClassVar[bool] = False
    #: Whether an op that has it does nothing but compute outputs from inputs and attributes.
    IS_OF_VALUES: ClassVar[bool] = False
    #: The fields that name inputs, outputs and attributes.
    INPUTS: ClassVar[tuple[str, ...]] = ()
    OUTPUTS: ClassVar[tuple[str, ...]] = ()
    ATTRS: ClassVar[tuple[str, ...]] = ()

    places: tuple[int, ...] = field(default=(), init=False, compare=False, repr=False)

    def named(self, fields: Sequence[str]) -> Iterator[str]:
        """The names that some of its fields hold; an empty one names nothing."""
        for name in fields:
            value = getattr(self, name)
            yield from (value,) if isinstance(value, str) and value else value or ()


T = TypeVar("T", bound=Trait)

# What a node gives


@dataclass(frozen=True)
class HandsOn(Trait):
    """The output is the input as it is, as late and as dead, and the node does nothing else."""

    IS_OF_VALUES = True
    INPUTS = ("input",)
    OUTPUTS = ("output",)

    input: str
    output: str


@dataclass(frozen=True)
class Constant(Trait):
    """The output is the value of an attribute, the same in every step."""

    IS_OF_VALUES = True
    ATTRS = ("value",)

    value: str


@dataclass(frozen=True)
class Orders(Trait):
    """It takes, gives and does nothing: it is there to be waited for, and dead when that is."""

    IS_OF_VALUES = True


@dataclass(frozen=True)
class GivesVariable(Trait):
    """The output is the variable of its name: the same object in every step, until that is removed."""

    ATTRS = ("dtype",)

    dtype: str


@dataclass(frozen=True)
class ValueOf(Trait):
    """The output is the value that the variable of an input has when the node runs."""

    INPUTS = ("reference",)

    reference: str


# What it computes


@dataclass(frozen=True)
class Elementwise(Trait):
    """Inputs and output have one shape, and an element depends on nothing but those at its place."""

    IS_OF_VALUES = True


@dataclass(frozen=True)
class Broadcasts(Trait):
    """An element depends on one of each input: `y` may be a number or a vector along the last axis of `x`.

    is_mutual   whether the same holds with `x` and `y` exchanged
    """

    IS_OF_VALUES = True
    INPUTS = ("x", "y")

    x: str
    y: str
    is_mutual: bool = True


@dataclass(frozen=True)
class Multiplies(Trait):
    """It is the product of two inputs, element by element, broadcast to one shape."""

    IS_OF_VALUES = True
    INPUTS = ("x", "y")

    x: str
    y: str


@dataclass(frozen=True)
class Product(Trait):
    """It is made of sums of products of two inputs: a library spends its time there, on every core."""

    IS_OF_VALUES = True
    INPUTS = ("a", "b")

    a: str
    b: str


@dataclass(frozen=True)
class Convolves(Trait):
    """Each channel of the output is linear in its own part of `filter`.

    channel_axes   how many of the filter's last axes count the channels of the output
    """

    IS_OF_VALUES = True
    INPUTS = ("input", "filter")

    input: str
    filter: str
    channel_axes: int = 1


@dataclass(frozen=True)
class Normalises(Trait):
    """The first output is scale * (features - mean) / sqrt(variance + epsilon) + offset, for each channel.

    scale     empty where there is none
    epsilon   an attribute
    """

    IS_OF_VALUES = True
    INPUTS = ("features", "mean", "variance", "offset", "scale")
    ATTRS = ("epsilon",)

    features: str
    mean: str
    variance: str
    offset: str
    scale: str
    epsilon: str


@dataclass(frozen=True)
class Droppable(Trait):
    """Where nobody takes its value it need not run: what it would find wrong, others find as well.

    So it is with gradients, which come in pairs, and with what gradients are made of.
    """

    IS_OF_VALUES = True


@dataclass(frozen=True)
class EveryCore(Trait):
    """Its kernel computes on every core by itself, as a `Product` does: two do not run beside each other."""


@dataclass(frozen=True)
class NetworkLayer(Trait):
    """It is a layer of networks, or lies between two: they follow one another, and large ones may run as one.

    is_large   whether it usually takes so long that others are gathered around it
    """

    is_large: bool = False


# What it does beside


@dataclass(frozen=True, init=False)
class _OfInputs(Trait):
    """A trait of some inputs."""

    INPUTS = ("names",)

    names: tuple[str, ...] = ()

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "places", ())


@dataclass(frozen=True, init=False)
class Writes(_OfInputs):
    """It may change the variables that these inputs refer to. Whoever says nothing of a reference does."""

    IS_DUTY = True


@dataclass(frozen=True, init=False)
class Reads(_OfInputs):
    """It leaves the variables that these inputs refer to as they are."""


@dataclass(frozen=True, init=False)
class Uses(_OfInputs):
    """These inputs refer to no variable: to a queue, a table, a reader, a stack, an iterator."""


@dataclass(frozen=True, init=False)
class Names(_OfInputs):
    """These inputs are plain strings that name an object, as references and resources do."""

    IS_DUTY = True


@dataclass(frozen=True)
class Fed(Trait):
    """It stands for a value from outside: what is fed, or an argument of a function.

    is_exact   whether an empty shape always means a number; in graphs of producers before 24 it could
               mean that nothing is known
    """

    IS_DUTY = True

    is_exact: bool = False


@dataclass(frozen=True)
class Checks(Trait):
    """It is there to end the step if its input is not as it should be."""

    IS_DUTY = True


@dataclass(frozen=True)
class Impure(Trait):
    """It depends on, or does, more than its definition says: it reads files, or is there to be seen."""

    IS_DUTY = True


@dataclass(frozen=True)
class Bookkeeping(Trait):
    """It sets, saves or reports state; steps are not made of it."""


@dataclass(frozen=True)
class OfOneStep(Trait):
    """What it keeps ends with the step, and may be elsewhere in the next."""


@dataclass(frozen=True)
class SharedAs(Trait):
    """It finds its resource by name among those of one family, which several ops share."""

    family: str


@dataclass(frozen=True)
class HandleOf(Trait):
    """The output is the handle of an object whose elements are of one type: that of an attribute, or that
    of the object that an input names.

    family   "stack" or "array"
    """

    INPUTS = ("like",)
    ATTRS = ("dtype",)

    family: str
    dtype: str = ""
    like: str = ""


@dataclass(frozen=True)
class Method(Trait):
    """It is a call of a method of the object that its first input names, if that `HandleOf` the type wanted.

    family   of the object
    dtype    the attribute that says which type is wanted
    call     the expression, with `{0}`, `{1}` ... for the inputs
    index    the input that must be a number, written as its value
    """

    INPUTS = ("index",)
    ATTRS = ("dtype",)

    family: str
    dtype: str
    call: str
    index: str = ""


@dataclass(frozen=True)
class When(Trait):
    """A trait that an op has where an attribute has a value."""

    attr: str
    value: AttrValue
    trait: Trait

    def holds(self, attrs: Mapping[str, AttrValue]) -> bool:
        found = attrs.get(self.attr)
        return type(found) is type(self.value) and found == self.value


#: {class: the trait}.
Traits: TypeAlias = Mapping[type[Trait], Trait]
NONE: Final[Traits] = {}

_HANDLES: Final = frozenset({dtypes.resource, dtypes.variant})


def settled(
    op: str,
    declared: Iterable[Trait],
    inputs: Sequence[ArgDef],
    outputs: Sequence[ArgDef],
    attrs: Iterable[str],
    is_stateful: bool,
) -> tuple[Traits, tuple[When, ...]]:
    """(what an op is in any case, what it is where an attribute says so), with the duties of its signature.

    Raises InvalidArgumentError for a trait that names what the op does not have, or that contradicts it.
    """
    found: dict[type[Trait], Trait] = {}
    conditional: list[When] = []
    if declared:
        shape = _Signature(op, inputs, outputs, frozenset(attrs), is_stateful)
        for trait in declared:
            if isinstance(trait, When):
                if trait.attr not in shape.attrs:
                    raise shape.refuse(trait, f"there is no attribute '{trait.attr}'")
                conditional.append(replace(trait, trait=shape.placed(trait.trait)))
                continue
            if type(trait) in found:
                raise shape.refuse(trait, "it is said twice")
            found[type(trait)] = shape.placed(trait)
    _add_duties(op, found, inputs)
    if not found:
        return NONE, tuple(conditional)
    told = [trait for trait in found.values() if trait.IS_OF_VALUES]
    told += [when.trait for when in conditional if when.trait.IS_OF_VALUES]
    against = next((trait for trait in found.values() if trait.IS_DUTY), None)
    if told and against is not None and type(against) is not Checks:
        raise InvalidArgumentError(f"op '{op}' cannot be {told[0]}: it is {against}")
    return found, tuple(conditional)


def _add_duties(op: str, found: dict[type[Trait], Trait], inputs: Sequence[ArgDef]) -> None:
    """What the signature says that an op must be taken for."""
    written: list[str] = []
    named: list[str] = []
    for arg in inputs:
        if arg.type is dtypes.string:
            # Handles of old were references to strings, or plain ones.
            if arg.name == "handle" and not arg.is_ref:
                named.append(arg.name)
        elif arg.is_ref or arg.type is dtypes.resource:
            written.append(arg.name)
    if written:
        excused = {name for kind in (Reads, Uses) for name in _names(found.get(kind))}
        hands_on = found.get(HandsOn)
        if isinstance(hands_on, HandsOn):
            excused.add(hands_on.input)
        declared = _names(found.get(Writes))
        contradicted = excused.intersection(declared)
        if contradicted:
            raise InvalidArgumentError(f"op '{op}' both writes and does not write {sorted(contradicted)}")
        left = tuple(name for name in written if name not in excused)
        if left:
            found[Writes] = Writes(*left)
    if named:
        found[Names] = Names(*named)


def _names(trait: Trait | None) -> tuple[str, ...]:
    return trait.names if isinstance(trait, _OfInputs) else ()


@dataclass(frozen=True)
class _Signature:
    """What traits are checked against."""

    op: str
    inputs: Sequence[ArgDef]
    outputs: Sequence[ArgDef]
    attrs: frozenset[str]
    is_stateful: bool

    def placed(self, trait: Trait) -> Trait:
        """The trait with the places of the inputs that it names; it must be true to the signature."""
        if trait.IS_OF_VALUES:
            self._check_values(trait)
        places = tuple(self._place(trait, name) for name in trait.named(trait.INPUTS))
        for name in trait.named(trait.OUTPUTS):
            if name not in [arg.name for arg in self.outputs]:
                raise self.refuse(trait, f"there is no output '{name}'")
        for name in trait.named(trait.ATTRS):
            if name not in self.attrs:
                raise self.refuse(trait, f"there is no attribute '{name}'")
        made = trait if isinstance(trait, _OfInputs) else replace(trait)
        object.__setattr__(made, "places", places)
        return made

    def _place(self, trait: Trait, name: str) -> int:
        for place, arg in enumerate(self.inputs):
            if arg.name == name:
                if isinstance(trait, Writes | Reads | Uses):
                    if not arg.is_ref and arg.type is not dtypes.resource:
                        raise self.refuse(trait, f"'{name}' is no reference")
                elif arg.is_list:
                    raise self.refuse(trait, f"'{name}' is a list")
                return place
            if arg.is_list and not isinstance(trait, _OfInputs):
                raise self.refuse(trait, f"'{name}' comes behind a list")
        raise self.refuse(trait, f"there is no input '{name}'")

    def _check_values(self, trait: Trait) -> None:
        """Refuse to call an op a function of its inputs that keeps or changes something."""
        if self.is_stateful:
            raise self.refuse(trait, "it is stateful")
        for arg in (*self.inputs, *self.outputs):
            if arg.type in _HANDLES or (arg.is_ref and not isinstance(trait, HandsOn)):
                raise self.refuse(trait, f"'{arg.name}' refers to something")

    def refuse(self, trait: Trait, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"op '{self.op}' cannot be {trait}: {why}")


def permissions(traits: Traits) -> list[Trait]:
    """Those of an op's traits whose absence costs no more than time."""
    return [trait for trait in traits.values() if not trait.IS_DUTY]
