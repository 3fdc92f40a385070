"""Duties, and permissions that are true: an op's traits held against its signature.

A duty is derived here wherever the signature shows it, so that nobody has to remember it: an input that is a
reference may be written, a string called `handle` names an object. A trait that names what the op does not
have, or that contradicts the signature, is refused when the op is registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.argdef import ArgDef
from flowengine.ir.traits import (
    NONE,
    Checks,
    HandsOn,
    Names,
    OfInputs,
    Reads,
    Trait,
    Traits,
    Uses,
    When,
    Writes,
)

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
        shape = _TraitSignature(op, inputs, outputs, frozenset(attrs), is_stateful)
        for trait in declared:
            if isinstance(trait, When):
                if trait.attr not in shape.attrs:
                    raise shape.refuse(trait, f"there is no attribute '{trait.attr}'")
                conditional.append(When(trait.attr, trait.value, shape.placed(trait.trait)))
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
    """Add the traits `Writes` and `Names` that an op's signature demands."""
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
    return trait.names if isinstance(trait, OfInputs) else ()


@dataclass(frozen=True)
class _TraitSignature:
    """The signature that traits are checked against."""

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
        return trait.at(places)

    def _place(self, trait: Trait, name: str) -> int:
        for place, arg in enumerate(self.inputs):
            if arg.name == name:
                if isinstance(trait, Writes | Reads | Uses):
                    if not arg.is_ref and arg.type is not dtypes.resource:
                        raise self.refuse(trait, f"'{name}' is no reference")
                elif arg.is_list:
                    raise self.refuse(trait, f"'{name}' is a list")
                return place
            if arg.is_list and not isinstance(trait, OfInputs):
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
