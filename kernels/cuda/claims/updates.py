"""All steps of one optimizer in one launch, whatever the sizes of their variables.

    ApplyAdam(v, ...), ApplyAdam(w, ...)  ->  _GatheredUpdates(v, w, ...), program = CardGatheredUpdates

Which updates may be one is as on the CPU (`kernels/numpy/claims/gather_updates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from flowengine.devices.cuda_device import CudaDevice
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.cuda.overrides.updates import CardUpdates
from flowengine.kernels.cuda.serving import FLOATS, is_compiled_here
from flowengine.kernels.cuda.session_launcher import modules_of
from flowengine.kernels.numpy.claims.gather_updates import UpdateGroup, UpdateLimits, gathered
from flowengine.kernels.provider import ClaimContext
from flowengine.kernels.training.apply import dense_updates
from flowengine.kernels.training.gathered_updates import UpdatesAtOnce

_LIMITS: Final = UpdateLimits(members_min=2, elements_max=None, types=frozenset(FLOATS))


class CardGatheredUpdates(UpdatesAtOnce):
    """Updates that are one launch."""

    def __init__(
        self, nodes: Sequence[Node], functions: Sequence[Callable[..., Any]], updates: CardUpdates
    ) -> None:
        """functions: what computes each node by itself, where all cannot be one."""
        super().__init__(nodes, functions, dense_updates()[nodes[0].op])
        self._updates = updates

    def together(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> bool:
        return self._updates.run(variables, numbers, gradients)


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
        return CardGatheredUpdates(group.members, functions, CardUpdates(launcher, root.op, root.attrs))

    return gathered(graph, context, _LIMITS, program)


__all__ = ["CardGatheredUpdates", "gather_card_updates"]
