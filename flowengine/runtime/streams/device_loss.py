"""The error for the loss of a device, and the variables that its successor begins without.

A device that is lost refuses every call. The step that comes to know of it ends with UnavailableError, and so
does each other step that has a part there; nobody waits for what was launched. Whoever may, puts a successor
in its place before the next step: a device of the same name, with an incarnation of its own and empty memory.
Where there can be none, each later step is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from flowengine.core.errors import UnavailableError
from flowengine.devices.device import Device, MortalDevice
from flowengine.ir.graph import Node
from flowengine.kernels.common.launched_chains import LaunchedChain
from flowengine.kernels.provider import program_of

#: So many variables are named.
_NAMED: Final = 10


def is_lost(device: Device) -> bool:
    """Whether an error has ended a device that another one can follow."""
    return isinstance(device, MortalDevice) and bool(device.lost)


def names_of(launched: Iterable[Node]) -> str:
    """Nodes that were launched, those among them that stand for several member by member."""
    names = []
    for node in launched:
        body = program_of(node.attrs)
        steps = [step.node for step in body.steps] if isinstance(body, LaunchedChain) else [node]
        names += [f"'{each.name}' ({each.op})" for each in steps]
    return ", ".join(names)


def loss_of(
    device: Device, launched: Iterable[Node], variables: Sequence[str], *, is_followed: bool
) -> UnavailableError:
    """The error of a step that had a part on a device which is lost.

    launched     what that step had launched there and not seen done
    variables    the names of those whose values are gone
    is_followed  whether the next step finds a successor
    """
    assert isinstance(device, MortalDevice)
    told = device.lost
    nodes = names_of(launched)
    if nodes:
        told += f"; the last nodes launched before it was noticed: {nodes}"
    if is_followed:
        told += ". The next step runs on a new incarnation of the device, with nothing in its memory"
    else:
        told += ". The process that runs the device has to be started anew"
    if variables:
        more = "" if len(variables) <= _NAMED else f" and {len(variables) - _NAMED} more"
        names = ", ".join(variables[:_NAMED])
        told += f": restore these variables, or run their initializers: {names}{more}"
    return UnavailableError(told)


__all__ = ["is_lost", "loss_of", "names_of"]
