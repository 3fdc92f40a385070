"""All steps of one optimizer in one launch, whatever the sizes of their variables.

    ApplyAdam(v, ...), ApplyAdam(w, ...)  ->  _GatheredUpdates(v, w, ...), program = CardGatheredUpdates

Which updates may be one is as on the CPU (`kernels/numpy/claims/gather_updates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from flowengine.core.errors import OpError
from flowengine.devices.cuda_device import CudaDevice
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.cuda.overrides.updates import CardUpdates
from flowengine.kernels.cuda.serving import FLOATS, is_compiled_here
from flowengine.kernels.cuda.session_launcher import modules_of
from flowengine.kernels.numpy.claims.gather_updates import UpdateGroup, UpdateLimits, gathered
from flowengine.kernels.provider import ClaimContext, located
from flowengine.kernels.training.apply import dense_updates

_LIMITS: Final = UpdateLimits(members_min=2, elements_max=None, types=frozenset(FLOATS))


class CardGatheredUpdates:
    """One update for each of several variables, by the same numbers."""

    is_one_pass: ClassVar[bool] = False

    def __init__(
        self, nodes: Sequence[Node], updates: CardUpdates, functions: Sequence[Callable[..., Any]]
    ) -> None:
        """functions: what computes each node by itself, where all cannot be one."""
        self._nodes = tuple(nodes)
        self._updates = updates
        self._functions = tuple(functions)

    def __repr__(self) -> str:
        return f"{len(self._nodes)} {self._nodes[0].op}"

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset(node.name for node in self._nodes)

    def run(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> Any:
        """The variables, changed; first all of them are given, then for each slot that of each."""
        count = len(self._nodes)
        if not self._updates.run(variables, numbers, gradients):
            update = dense_updates()[self._nodes[0].op]
            for place, (node, function) in enumerate(zip(self._nodes, self._functions, strict=True)):
                try:
                    function(*variables[place::count], *update.inputs(numbers, gradients[place]))
                except OpError as error:
                    raise located(error, node) from None
        return tuple(variables[:count])


def gather_card_updates(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with steps of one optimizer as one; the same graph if there are none to gather."""
    device = context.kernels.hardware
    if not isinstance(device, CudaDevice) or not is_compiled_here():
        return graph
    launcher = modules_of(device).launcher("optimizers")

    def program(group: UpdateGroup) -> CardGatheredUpdates | None:
        functions = []
        for node in group.members:
            kernel = context.kernels.unbound(node)
            if kernel is None:
                return None
            functions.append(kernel.over(device.xp).bind(node))
        root = group.members[-1]
        return CardGatheredUpdates(group.members, CardUpdates(launcher, root.op, root.attrs), functions)

    return gathered(graph, context, _LIMITS, program)


__all__ = ["CardGatheredUpdates", "gather_card_updates"]
