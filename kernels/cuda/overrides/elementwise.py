"""Elementwise nodes by themselves: chains of one step, so that a node has the bits that it has in a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.cuda.chains import CardChain, takes_as_step, unlike
from flowengine.kernels.cuda.functions import ELEMENTWISE
from flowengine.kernels.cuda.serving import serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher, modules_of

#: Those that another file here has kernels of.
_ELSEWHERE: Final = frozenset({"BiasAdd", "BiasAddV1"})


class _OnlyStep(NamedTuple):
    """The one step of a chain."""

    node: Node
    sources: tuple[int, ...]


@serves(*sorted(ELEMENTWISE - _ELSEWHERE), family="", types={})
def elementwise_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    if not takes_as_step(node):
        return otherwise
    is_list = node.op == "AddN"

    def error(inputs: Sequence[Any]) -> OpError:
        try:
            otherwise(tuple(inputs)) if is_list else otherwise(*inputs)
        except OpError as raised:
            return raised
        except ValueError as raised:
            return unlike(inputs, str(raised))
        return unlike(inputs, "its kernel over CuPy's arrays takes them")

    sources = tuple(range(len(node.inputs)))
    chain = CardChain(modules_of(launcher.device), [_OnlyStep(node, sources)], error)
    return chain.run if is_list else lambda *inputs: chain.run(inputs)


__all__ = ["elementwise_kernel"]
