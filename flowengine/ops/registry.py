"""The registry of this package's ops, and the function with which each module adds to it.

    define("Square", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged_shape)

A signature stands beside its shape function. `load.registry()` is what others ask: it imports every
module once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flowengine.ir.opdef import OpDef, OpRegistry, ShapeFunction
from flowengine.ir.traits import Trait
from flowengine.ops.provisional_traits import PROVISIONAL

#: Filled by `load.load_all()`.
REGISTRY: Final = OpRegistry()


def define(
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
    """Add an op; the forms of the strings are those of `ir.opdef`."""
    return REGISTRY.register(
        OpDef.build(
            name,
            inputs=inputs,
            outputs=outputs,
            attrs=attrs,
            is_stateful=is_stateful,
            is_commutative=is_commutative,
            is_aggregate=is_aggregate,
            allows_uninitialized_input=allows_uninitialized_input,
            shape=shape,
            traits=(*traits, *PROVISIONAL.get(name, ())),
        )
    )
