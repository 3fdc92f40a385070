"""The items of a plan that an offloaded run may run, and their use of variables.

Found once for a plan, when it first has a product that is worth a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowengine.core.dtypes import resource
from flowengine.ir.graph import OutputPort
from flowengine.kernels.numpy.sequences import Sequence
from flowengine.ops.internal import FUSED_SEQUENCE
from flowengine.passes.blocks.program import Program
from flowengine.runtime.planning.items import Item, Kind, StaticFrame
from flowengine.runtime.planning.signatures import takes_variables

#: The uses of a variable at an input. READS: the executor follows the reference. READS_INSIDE: the code of a
#: region does. TAKES: the kernel gets the variable itself, and may write it.
READS, READS_INSIDE, TAKES = range(3)
#: Kinds that only the event loop's thread can run: they wait, affect other steps, or run other plans.
_STAYING: Final = frozenset({Kind.ASYNC, Kind.CALL, Kind.SEND, Kind.RECEIVE})
#: Products that take less, all together, are not worth it: two changes of the owner take 0.12 to 0.22 ms.
_WORTH_MICROSECONDS: Final = 1000.0


class OffloadedItems:
    """The items of a plan, by the way in which an offloaded run may run them.

    free        those that any thread may run which has the executor and their variables
    variables   {item: (input, its use of the variable there)} of those with variables among their inputs
    at_root     the same without those in loops
    products    those of `free` that use every core by themselves
    sequences   {item: its program} of those that can be suspended
    """

    __slots__ = ("at_root", "free", "products", "sequences", "variables")

    def __init__(self, items: list[Item], root: StaticFrame) -> None:
        free = [item for item in items if not _stays(item)]
        self.free: frozenset[Item] = frozenset(free)
        self.variables: dict[Item, tuple[tuple[int, int], ...]] = {
            item: uses for item in free if (uses := tuple(_uses(item)))
        }
        self.at_root = tuple(each for each in self.variables.items() if each[0].frame is root)
        self.products = tuple(item for item in free if item.is_product)
        self.sequences: dict[Item, Sequence] = {
            item: item.node.attrs["program"] for item in free if item.node.op == FUSED_SEQUENCE.name
        }

    def are_worth_it(self) -> bool:
        """Return whether the products took long enough, when they were last measured."""
        return sum(item.times.microseconds for item in self.products) > _WORTH_MICROSECONDS


def _stays(item: Item) -> bool:
    if item.kind in _STAYING or item.takes_context:
        return True
    if item.kind == Kind.REGION:
        return item.region.is_generator or item.keeps_thread
    op_def = item.node.op_def
    # A kernel keeps its state in a variable, which is protected, or else belongs to the event loop.
    return op_def is not None and op_def.is_stateful and not item.mutates


def _uses(item: Item) -> Iterator[tuple[int, int]]:
    for slot in item.dereference:
        yield slot, READS
    if not item.mutates:
        return
    if item.kind == Kind.REGION:
        program: Program = item.node.attrs["program"]
        taken = _taken(program)
        for slot, (port, dtype) in enumerate(zip(program.inputs, item.node.attrs["Tin"], strict=True)):
            if dtype.is_ref or dtype.base is resource:
                yield slot, TAKES if port in taken else READS_INSIDE
        return
    for slot, is_taken in enumerate(takes_variables(item.node)):
        if is_taken and slot not in item.dereference:
            yield slot, TAKES


def _taken(program: Program) -> frozenset[OutputPort]:
    """Return the inputs of a region that a member takes as references or handles, or that leave it again."""
    found = {program.origin(port) for port in program.outputs}
    for unit in program.units:
        node = unit.node
        if node is not None and node.op_def is not None and not program.is_silent(unit):
            wanted = takes_variables(node)
            found.update(
                program.origin(port) for port, is_taken in zip(node.inputs, wanted, strict=True) if is_taken
            )
    return frozenset(found)


__all__ = ["READS", "READS_INSIDE", "TAKES", "OffloadedItems"]
