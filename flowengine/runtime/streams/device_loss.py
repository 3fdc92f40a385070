"""The error for the loss of a device, and the variables that its successor begins without.

A lost device refuses every call. The step that notices the loss ends with UnavailableError, and so does each
other step with a part there; nobody waits for launched work. If possible, a successor replaces it before the
next step: a device of the same name, with an incarnation of its own and empty memory. Otherwise each later
step is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from flowengine.core.errors import UnavailableError
from flowengine.devices.device import Device, MortalDevice
from flowengine.ir.graph import Node
from flowengine.kernels.common.launched_chains import LaunchedChain
from flowengine.kernels.provider import program_of

#: The number of variables that an error names.
_NAMED: Final = 10


def names_of(launched: Iterable[Node]) -> str:
    """Return launched nodes, with the members of those that stand for several."""
    names = []
    for node in launched:
        body = program_of(node.attrs)
        steps = [step.node for step in body.steps] if isinstance(body, LaunchedChain) else [node]
        names += [f"'{each.name}' ({each.op})" for each in steps]
    return ", ".join(names)


def loss_of(
    device: Device, launched: Iterable[Node], variables: Sequence[str], *, is_followed: bool
) -> UnavailableError:
    """Return the error of a step that had a part on a lost device.

    launched     the step's work there that was launched and not seen done
    variables    the names of those whose values are lost
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


__all__ = ["loss_of", "names_of"]
