"""Stacks, mutexes, and values that stay with a session."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import HandleOf, Method, NotDifferentiable, OfOneStep, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import like_input, ranked, scalars, two_strings

# Stacks of values that live as long as their step.

#: The handle is of an object that ends with the step.
IN_STEP: Final = (Uses("handle"), OfOneStep())

#: The attribute of a pop in which its maker says what the shape of every element is.
ELEMENT_SHAPE: Final = "_element_shape"


def popped(c: ShapeContext) -> Shapes:
    """Return the element shape that the node's maker declared, else an unknown shape."""
    said = c.attrs.get(ELEMENT_SHAPE)
    return [said if isinstance(said, TensorShape) else UNKNOWN_SHAPE]


define(
    "Stack() -> handle: Ref(string)",
    "stateful; elem_type: type; stack_name: string = ''",
    OfOneStep(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "StackV2(max_size: int32) -> handle: resource",
    "stateful; elem_type: type; stack_name: string = ''",
    OfOneStep(),
    HandleOf("stack", dtype="elem_type"),
    shape=scalars,
)
define(
    "StackPush(handle: Ref(string), elem: T) -> output: T",
    "T: type; swap_memory: bool = false",
    NotDifferentiable(),
    shape=like_input(1),
)
define(
    "StackPushV2(handle: resource, elem: T) -> output: T",
    "stateful; T: type; swap_memory: bool = false",
    *IN_STEP,
    Method("stack", "T", "{0}.push({1})"),
    shape=like_input(1),
)
define("StackClose(handle: Ref(string))", NotDifferentiable())
define("StackCloseV2(handle: resource)", "stateful", *IN_STEP)
define("StackPop(handle: Ref(string)) -> elem: elem_type", "elem_type: type", NotDifferentiable())
define(
    "StackPopV2(handle: resource) -> elem: elem_type",
    "stateful; elem_type: type",
    *IN_STEP,
    Method("stack", "elem_type", "{0}.pop()"),
    shape=popped,
)


# Mutexes and their locks.

define("MutexAcquire(mutex: resource)", "stateful", Uses("mutex"), NotDifferentiable())
define("MutexRelease(mutex: resource)", "stateful", Uses("mutex"), NotDifferentiable())
define(
    "MutexV2() -> resource: resource",
    "stateful; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MutexLock(mutex: resource) -> mutex_lock: variant",
    "stateful",
    Uses("mutex"),
    NotDifferentiable(),
    shape=scalars,
)
define("ConsumeMutexLock(mutex_lock: variant)", "stateful", NotDifferentiable())


# Values that stay with the session under a handle.

define(
    "GetSessionHandle(value: T) -> handle: string", "stateful; T: type", NotDifferentiable(), shape=scalars
)
define(
    "GetSessionHandleV2(value: T) -> handle: resource",
    "stateful; T: type",
    NotDifferentiable(),
    shape=scalars,
)
define("DeleteSessionTensor(handle: string)", "stateful", NotDifferentiable())


@define("GetSessionTensor(handle: string) -> value: dtype", "stateful; dtype: type", NotDifferentiable())
def session_tensor(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [UNKNOWN_SHAPE]
