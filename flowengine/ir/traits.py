"""Traits: what an op is, said once, in its definition, and asked by everything that treats ops alike.

    define("Identity", ..., traits=[HandsOn("input", "output")])
    node.trait(HandsOn)        # HandsOn(input='input', output='output'), with its place among the inputs
    node.has(Constant)         # False

There are two kinds. A *permission* allows something: an op without it is treated with more care and costs
time, never a wrong value. A *duty* forbids something: without it values would be wrong. So duties come from
the signature wherever that shows them (`Ref(T)`, a resource, a string called `handle`), and a permission that
contradicts the signature is refused when the op is registered. A user's op that has no traits is opaque.

Arguments are the names of the op's inputs, outputs and attributes. `duties.settling` checks them once and
notes their places, so that to ask is to look into a dictionary by the class of the trait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar, dataclass_transform

from flowengine.ir.attrs import AttrValue


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Trait:
    """One thing that an op is.

    Its fields are what the class annotates, with defaults as in a dataclass. There are thirty classes, and to
    have `dataclass` write their methods takes a twentieth of the time that the command line takes to start.

    places   of the inputs that it names, in the order in which it names them; filled in by `duties.settling`
    """

    #: Whether its absence would be wrong, not only slow.
    IS_DUTY: ClassVar[bool] = False
    #: Whether an op that has it does nothing but compute outputs from inputs and attributes.
    IS_OF_VALUES: ClassVar[bool] = False
    #: The fields that name inputs, outputs and attributes.
    INPUTS: ClassVar[tuple[str, ...]] = ()
    OUTPUTS: ClassVar[tuple[str, ...]] = ()
    ATTRS: ClassVar[tuple[str, ...]] = ()
    #: All fields, in the order in which they are given.
    FIELDS: ClassVar[tuple[str, ...]] = ()

    places: tuple[int, ...] = field(default=(), init=False)

    def __init_subclass__(cls, *, init: bool = True) -> None:
        """`init` tells type checkers whether the class has no `__init__` of its own."""
        cls.FIELDS += tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        given = {**dict(zip(self.FIELDS, values, strict=False)), **named}
        missing = [name for name in self.FIELDS if name not in given and not hasattr(type(self), name)]
        unknown = [name for name in given if name not in self.FIELDS]
        if missing or unknown or len(values) + len(named) > len(given):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self.FIELDS)}: {values}, {named}")
        self.__dict__.update(given, places=())

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a trait does not change: {name}")

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.FIELDS])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name}={value!r}" for name, value in zip(self.FIELDS, self._values(), strict=True)
        )
        return f"{type(self).__name__}({values})"

    def at(self, places: tuple[int, ...]) -> Self:
        """The same with the places of the inputs that it names."""
        made = copy(self)
        made.__dict__["places"] = places
        return made

    def named(self, fields: Sequence[str]) -> Iterator[str]:
        """The names that some of its fields hold; an empty one names nothing."""
        for name in fields:
            value = getattr(self, name)
            yield from (value,) if isinstance(value, str) and value else value or ()


T = TypeVar("T", bound=Trait)

# What a node gives


class HandsOn(Trait):
    """The output is the input as it is, as late and as dead, and the node does nothing else."""

    IS_OF_VALUES = True
    INPUTS = ("input",)
    OUTPUTS = ("output",)

    input: str
    output: str


class HandsOnEach(Trait):
    """Each output is the input in the same place as it is, and the node does nothing else."""

    IS_OF_VALUES = True


class Constant(Trait):
    """The output is the value of an attribute, the same in every step."""

    IS_OF_VALUES = True
    ATTRS = ("value",)

    value: str


class Orders(Trait):
    """It takes, gives and does nothing: it is there to be waited for, and dead when that is."""

    IS_OF_VALUES = True


class GivesVariable(Trait):
    """The output is the variable of its name: the same object in every step, until that is removed."""

    ATTRS = ("dtype",)

    dtype: str


class ValueOf(Trait):
    """The output is the value that the variable of an input has when the node runs."""

    INPUTS = ("reference",)

    reference: str


# What it computes


class Elementwise(Trait):
    """Inputs and output have one shape, and an element depends on nothing but those at its place."""

    IS_OF_VALUES = True


class Broadcasts(Trait):
    """An element depends on one of each input: `y` may be a number or a vector along the last axis of `x`.

    is_mutual   whether the same holds with `x` and `y` exchanged
    """

    IS_OF_VALUES = True
    INPUTS = ("x", "y")

    x: str
    y: str
    is_mutual: bool = True


class Multiplies(Trait):
    """It is the product of two inputs, element by element, broadcast to one shape."""

    IS_OF_VALUES = True
    INPUTS = ("x", "y")

    x: str
    y: str


class Product(Trait):
    """It is made of sums of products of two inputs: a library spends its time there, on every core."""

    IS_OF_VALUES = True
    INPUTS = ("a", "b")

    a: str
    b: str


class Convolves(Trait):
    """Each channel of the output is linear in its own part of `filter`.

    channel_axes   how many of the filter's last axes count the channels of the output
    """

    IS_OF_VALUES = True
    INPUTS = ("input", "filter")

    input: str
    filter: str
    channel_axes: int = 1


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


class Droppable(Trait):
    """A mark of an op that need not run if its value is unused: others find the same errors.

    So it is with gradients, which come in pairs, and with what gradients are made of.
    """

    IS_OF_VALUES = True


class EveryCore(Trait):
    """Its kernel computes on every core by itself, as a `Product` does: two do not run beside each other."""


class NetworkLayer(Trait):
    """It is a layer of networks, or lies between two: they follow one another, and large ones may run as one.

    is_large   whether it usually takes so long that others are gathered around it
    """

    is_large: bool = False


class NotDifferentiable(Trait):
    """Its outputs have no derivative by its inputs: they are whole numbers, strings, chance, or from outside.

    A gradient that comes to it ends there, and its inputs get none.
    """


# What it does beside


class OfInputs(Trait, init=False):
    """A trait of some inputs."""

    INPUTS = ("names",)

    names: tuple[str, ...] = ()

    def __init__(self, *names: str) -> None:
        super().__init__(names)


class Writes(OfInputs, init=False):
    """It may change the variables that these inputs refer to. Whoever says nothing of a reference does."""

    IS_DUTY = True


class Reads(OfInputs, init=False):
    """It leaves the variables that these inputs refer to as they are."""


class Uses(OfInputs, init=False):
    """These inputs refer to no variable: to a queue, a table, a reader, a stack, an iterator."""


class Starts(OfInputs, init=False):
    """It fills the objects that these inputs refer to, which nothing can use before: tables, iterators."""


class Names(OfInputs, init=False):
    """These inputs are plain strings that name an object, as references and resources do."""

    IS_DUTY = True


class ExternalValue(Trait):
    """It stands for a value from outside: what is fed, or an argument of a function.

    is_exact   whether an empty shape always means a number; in graphs of producers before 24 it could
               mean that nothing is known
    """

    IS_DUTY = True

    is_exact: bool = False


class Checks(Trait):
    """It is there to end the step if its input is not as it should be."""

    IS_DUTY = True


class Impure(Trait):
    """It depends on, or does, more than its definition says: it reads files, or is there to be seen."""

    IS_DUTY = True


class Bookkeeping(Trait):
    """It sets, saves or reports state; steps are not made of it."""


class OfOneStep(Trait):
    """A mark of an op whose state ends with the step, and may be elsewhere in the next."""


class SharedAs(Trait):
    """It finds its resource by name among those of one family, which several ops share."""

    family: str


class HandleOf(Trait):
    """The output is the handle of an object whose elements are of one type: that of an attribute, or that
    of the object that an input names.

    family   "stack", "array" or "variable"
    """

    INPUTS = ("like",)
    ATTRS = ("dtype",)

    family: str
    dtype: str = ""
    like: str = ""


class Newer(Trait):
    """Some attributes are unknown to TensorFlow 1.15: they are not written where they have their defaults.

    names   of the attributes
    """

    names: tuple[str, ...]


class LaterAttrs(Trait):
    """A later definition of the op has attributes that this one lacks: nodes may have them with these values.

    values   pairs of an attribute's name and the values with which a node means the same without it, or which
             the op's kernel reads where a node has them
    """

    values: tuple[tuple[str, tuple[Any, ...]], ...]


class Method(Trait):
    """It is a call of a method of the object that its first input names, if that `HandleOf` the type wanted.

    family   of the object
    dtype    the attribute that says which type is wanted
    call     the expression, with `{0}`, `{1}` ... for the inputs and `{dtype}` for the type
    index    the input that must be a number, written as its value
    """

    INPUTS = ("index",)
    ATTRS = ("dtype",)

    family: str
    dtype: str
    call: str
    index: str = ""


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


def permissions(traits: Traits) -> list[Trait]:
    """Those of an op's traits whose absence costs no more than time."""
    return [trait for trait in traits.values() if not trait.IS_DUTY]
