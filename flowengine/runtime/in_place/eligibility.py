"""Plans that may run in place: their steps neither wait for another task nor wake one.

Such a step computes from its inputs, reads and writes variables, fills TensorArrays and stacks, draws random
numbers and raises errors. It uses no queue, table, iterator, file or function of the program, and
communicates with no other partition. Each op declares this by its traits and its kernels.
"""

from __future__ import annotations

from typing import Final

from flowengine.core.dtypes import resource, variant
from flowengine.ir.graph import Node
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ir.trait_checks.outward import CallsPython, ReadsFiles, WritesFiles
from flowengine.ir.traits import (
    Checks,
    GivesVariable,
    HandsOn,
    Impure,
    Names,
    OfOneStep,
    Reads,
    SharedAs,
    Uses,
    Writes,
)
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime.planning.items import Kind
from flowengine.runtime.planning.plan import Plan

#: The kinds of nodes that run in place. Calls have bodies of their own, blocks belong to partitions.
_KINDS: Final = frozenset(range(Kind.ASYNC)) | {Kind.TRIGGER, Kind.CONSTANT, Kind.REGION}
#: Nodes with one of these may wait for others, wake them, or take time that no plan knows.
_NEVER: Final = (CallsPython, Impure, Names, ReadsFiles, SharedAs, WritesFiles)
_HANDLES: Final = frozenset({resource, variant})


def never_waits(plan: Plan, kernels: KernelRegistry) -> bool:
    """Return whether steps of a plan can neither wait for another task nor wake one, for any feeds.

    They compute from their inputs, read and write variables, draw random numbers, and raise errors.
    """
    return all(item.kind in _KINDS and _never_waits(item.node, kernels) for item in plan.items)


def _never_waits(node: Node, kernels: KernelRegistry) -> bool:
    op_def = node.op_def
    if op_def is None or any(node.has(kind) for kind in _NEVER):
        return False
    # A TensorArray or a stack is the step's own: nobody else waits for it.
    if node.has(Uses) and not node.has(OfOneStep):
        return False
    if node.op in CONTROL_FLOW_OPS:
        return True
    found = kernels.candidates(node.op)
    if any(kernel.is_async or kernel.is_foreign for kernel in found):
        return False
    is_of_variables = any(node.has(kind) for kind in (GivesVariable, Reads, Writes))
    if is_of_variables or node.has(OfOneStep) or node.has(HandsOn) or node.has(Checks):
        return True
    if any(arg.is_ref or arg.type in _HANDLES for arg in (*op_def.inputs, *op_def.outputs)):
        return False
    draws = "seed" in node.attrs and "seed2" in node.attrs
    return draws or not (op_def.is_stateful or any(kernel.takes_context for kernel in found))


__all__ = ["never_waits"]
